"""A whole space compared with what its files were: as the seals of its releases and its last writer noted them."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from slowwave.schemas.errors import StoreError, StoreMissing, StoreUnreadable
from slowwave.schemas.tables import RELEASES, TABLES
from slowwave.store.integrity.manifests import has_table, list_manifests
from slowwave.store.integrity.seals import (
    Damage,
    check_ledger_whole,
    find_damage,
    find_last_known,
    get_tag_path,
    list_pinned_files,
    list_sealed,
    list_tagged,
    read_tag,
)
from slowwave.store.integrity.sums import find_altered, read_sums
from slowwave.store.releases import Release, is_dropped, read_ledger
from slowwave.store.trouble import READ_TROUBLE

NEWEST = "newest"
"""What damage is called that lies in the tables as the next night goes on with them."""
REPAIR_FILE = "repair.json"
"""What a repair has still to do, in the space's folder, until it is done."""


class Checked(NamedTuple):
    """What `check_store` found."""

    damage: list[Damage]
    sealed: int
    """Releases with a seal."""
    unsealed: int
    """Kept releases without one: made before there were seals, and not checked."""


def check_store(folder: Path, *, read: bool = True) -> Checked:
    """Compare a space with what its files were; without `read` sizes alone.

    Raises:
        StoreMissing: there is no such store or space.
    """
    if not any(folder.glob("*.lance")):
        raise StoreMissing(folder)
    sealed, damage = list_sealed(folder), list(find_newest_damage(folder, read=read))
    releases: dict[int, Release] = {}
    try:
        releases = {release.number: release for release in read_ledger(folder)}
    except StoreError as trouble:  # all else can be compared without it
        if not any(one.where.startswith(f"{RELEASES.name}.lance/") for one in damage):
            damage.append(Damage(NEWEST, RELEASES.name, getattr(trouble, "why", "the table is gone")))
    if (lost := find_last_known(folder)) > max([0, *releases, *sealed]):
        damage.append(Damage(f"r{lost}", RELEASES.name, "its row is lost"))
    kept = [one for one in releases.values() if not is_dropped(folder, one)]
    damage += [broken for one in kept for broken in find_broken_tags(folder, one)]
    known = {one.where for one in damage}
    found = find_damage(folder, {number: vars(one) for number, one in releases.items()}, read=read)
    damage += [one for one in found if one.where not in known]
    unsealed = {one.number for one in kept}.intersection(list_tagged(folder)).difference(sealed)
    return Checked(damage, len(sealed), len(unsealed))


def check_newest_whole(folder: Path) -> None:
    """Check what a night goes on with, and what its clean-up reads, before Lance does: it may end the process.

    What is altered in files that older releases alone pin stops no night.

    Raises:
        StoreUnreadable: a file is not what it was when the last writer let go, or a repair is not done.
    """
    if (folder / REPAIR_FILE).exists():
        raise StoreUnreadable(folder, "a repair of it is not done yet: `slowwave repair` goes on with it")
    if not has_table(folder, RELEASES.name):
        check_ledger_whole(folder, 0, find_last_known(folder))
    for damage in find_newest_damage(folder):
        raise StoreUnreadable(folder, f"{damage.where}: {damage.what}: `slowwave repair` mends what can be")


def find_newest_damage(folder: Path, *, read: bool = True) -> Iterator[Damage]:
    """Yield what is not as the last writer noted it, of the newest version of each table, and of any manifest."""
    try:
        known, altered = read_sums(folder), find_altered(folder, read=read)
    except StoreUnreadable as broken:
        yield Damage(NEWEST, "sums.json", broken.why)
        return
    for table in TABLES:
        mine = {name: what for name, what in altered.items() if name.startswith(f"{table}.lance/")}
        if not any(name.endswith(".manifest") for name in mine):
            with suppress(*READ_TROUBLE):  # what a killed run wrote last: the next takes it back
                newest = _list_newest_files(folder, table)
                mine = {name: what for name, what in mine.items() if name in newest}
                mine |= {name: "is gone" for name in newest if name in known and not (folder / name).is_file()}
        yield from (Damage(NEWEST, name, what) for name, what in mine.items())


def _list_newest_files(folder: Path, table: str) -> list[str]:
    newest = max(list_manifests(folder / f"{table}.lance"), default=0)
    return list_pinned_files(folder, {table: newest}) if newest else []


def find_broken_tags(folder: Path, release: Release) -> Iterator[Damage]:
    """Yield the tags of a release by which its versions are kept, where one does not name its version."""
    for table, version in release.versions.items():
        path = get_tag_path(folder, table, release.name)
        if path.exists() and read_tag(path) != version:
            yield Damage(release.name, path.relative_to(folder).as_posix(), f"does not name version {version}")
