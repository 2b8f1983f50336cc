"""A whole space compared with its manifests, and what is left of damaged tables put in their place.

Of a table that nothing else can give, the fragments are kept whose files are what they were; one whose rows are derived
is emptied, and the night's steps compute them again (`flows/parts/repair.py`). Lost rows of the ledger of releases come
back from the manifests of these.
"""

import shutil
from collections.abc import Collection
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import lance
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.errors import READ_TROUBLE, StoreError, StoreMissing, StoreUnreadable
from slowwave.schemas.tables import (
    COMPLETIONS,
    EXCLUSIONS,
    FORGOTTEN,
    MERGES,
    MESSAGES,
    RELEASES,
    RUNS,
    SESSIONS,
    TABLES,
    VECTOR_DIM,
    Table,
)
from slowwave.store.manifest import (
    FOLDER,
    INDEXES,
    MANIFEST_FILE,
    NEWEST,
    Damage,
    Files,
    Manifest,
    describe_changes,
    find_altered,
    find_newest_damage,
    get_release_manifest,
    has_table,
    list_fragment_files,
    list_release_manifests,
    list_versions,
    read_manifest,
    read_release_manifest,
    read_tag,
    restore_last_whole,
    settle_release_manifests,
    write_release_manifest,
)
from slowwave.store.place import find_place
from slowwave.store.private import replace_file
from slowwave.store.publishing import read_releases
from slowwave.store.releases import Release, is_dropped, make_ledger_rows, read_ledger
from slowwave.store.store import Store

KEPT = (MESSAGES, SESSIONS, COMPLETIONS, MERGES, EXCLUSIONS, FORGOTTEN, RUNS, RELEASES)
"""Tables of which the intact fragments stay: read, paid for or decided; the rows of all others are derived."""


class Checked(NamedTuple):
    """The result of `check_store`."""

    damage: list[Damage]
    releases: int
    """Releases with a manifest."""
    unchecked: int
    """Kept releases without one: a writer was killed before it could be written."""


class Salvaged(NamedTuple):
    """The result of repairing a damaged table."""

    kept: int
    lost: int | None
    """Rows; None where nothing tells how many there were."""


def check_store(folder: Path, *, read: bool = True) -> Checked:
    """Compare a space with what its files were; without `read` sizes alone.

    Raises:
        StoreMissing: there is no such store or space.
    """
    place = find_place(folder.parent)
    place.pull(folder.name)
    if not any(folder.glob("*.lance")):
        raise StoreMissing(folder)
    numbers, damage = list_release_manifests(folder), [*find_newest_damage(folder, read=read)]
    try:
        releases = {release.number: release for release in read_ledger(folder)}
    except StoreError as trouble:  # all else can be compared without it
        releases = {}
        if not any(part.where.startswith(f"{RELEASES.name}.lance/") for part in damage):
            damage.append(Damage(NEWEST, RELEASES.name, getattr(trouble, "why", "the table is gone")))
    places = {part.where for part in damage}
    damage += [part for part in find_release_damage(folder, releases, read=read) if part.where not in places]
    pinned = [release for release in releases.values() if not is_dropped(folder, release)]
    damage += [broken for release in pinned for broken in _find_broken_tags(folder, release)]
    tagged = {release.number for release in pinned if _get_tag(folder, MESSAGES.name, release.name).exists()}
    return Checked([*damage, *place.find_damage(folder.name)], len(numbers), len(tagged.difference(numbers)))


def find_release_damage(folder: Path, releases: dict[int, Release], *, read: bool = True) -> list[Damage]:
    """Return differences from the releases' manifests: in the manifests, in files, and in rows of the ledger."""
    damage, manifests, files = list[Damage](), dict[int, Manifest](), Files()
    with suppress(StoreUnreadable):  # which is told of the newest tables
        altered = find_altered(folder, f"{FOLDER}/", read=read)
        damage += [Damage(Path(name).stem, name, what) for name, what in altered.items()]
    for number in list_release_manifests(folder):
        try:
            if manifest := read_release_manifest(folder, number):
                manifests[number] = manifest
        except StoreUnreadable as broken:
            damage.append(Damage(f"r{number}", f"{FOLDER}/r{number}.json", broken.why))
    for number, manifest in manifests.items():
        files |= manifest.files
        if number not in releases:
            damage.append(
                Damage(f"r{number}", RELEASES.name, "its row is lost: `slowwave check --repair` puts it back")
            )
        elif orjson.loads(orjson.dumps(vars(releases[number]))) != manifest.row:
            damage.append(Damage(f"r{number}", RELEASES.name, "its row is not the one of its manifest"))
    changed = describe_changes(folder, files, read=read)  # releases share most of their files
    named = ((f"r{number}", name) for number, manifest in manifests.items() for name in manifest.files)
    return damage + [Damage(release, name, changed[name]) for release, name in named if name in changed]


def find_broken_tables(folder: Path, damage: list[Damage]) -> list[str]:
    """Return the tables whose newest version, or the name of it, is not whole, by what `check_store` found.

    An index is no part of it: a night builds a broken one anew.
    """
    broken = {_name_table(part.where) for part in damage if part.release == NEWEST and INDEXES not in part.where}
    with suppress(StoreError):
        broken |= {name for last in read_ledger(folder)[-1:] for name in last.versions if not has_table(folder, name)}
    return [name for name in TABLES if name in broken]


def find_broken_indexes(damage: list[Damage]) -> list[str]:
    """Return the tables of which an index is damaged, in the newest version or in a release."""
    return sorted({_name_table(part.where) for part in damage if INDEXES in part.where})


def salvage(folder: Path, damage: list[Damage]) -> tuple[dict[str, Salvaged], list[str]]:
    """Put what is left of each damaged table in its place, and the ledger of releases back; say what was done.

    The writer's lock is held. What older releases alone pin stays as it is: `drop_unreadable` takes these.
    """
    notes, altered_rows = list[str](), {part.release for part in damage if part.what.startswith("its row is not")}
    manifests = {part.where for part in damage if part.where == MANIFEST_FILE or part.where.startswith(f"{FOLDER}/")}
    for name in sorted(manifests | {f"{FOLDER}/{release}.json" for release in altered_rows}):
        (folder / name).unlink(missing_ok=True)
        notes.append(f"{name} was altered and is made anew: files that no other manifest names were not compared")
    notes += _drop_lost_indexes(folder, damage)
    # the rows that can still be read of each broken table
    broken = find_broken_tables(folder, damage)
    bad, dim = {folder / name for name in find_altered(folder)}, _find_dim(folder, broken)
    done = {name: _salvage_table(folder, TABLES[name], bad, dim) for name in broken}
    # the manifest is of what is there now
    noted = read_manifest(folder)
    made = tuple(f"{name}/" for name in (FOLDER, *(f"{name}.lance" for name in broken)))
    files = {name: facts for name, facts in noted.files.items() if not name.startswith(made)}
    replace_file(folder / MANIFEST_FILE, orjson.dumps({"versions": noted.versions, "files": files}))
    # releases that have a manifest and no row
    numbers = {release.number for release in read_ledger(folder)} if has_table(folder, RELEASES.name) else set()
    lost = [number for number in list_release_manifests(folder) if number not in numbers]
    if rows := [
        manifest.row | {"created_at": datetime.fromisoformat(manifest.row["created_at"])}
        for number in lost
        if (manifest := read_release_manifest(folder, number)) and manifest.row
    ]:
        restore_last_whole(folder, RELEASES, 1)
        lance.write_dataset(make_ledger_rows(rows), str(folder / f"{RELEASES.name}.lance"), mode="append")
    return done, notes + [f"r{row['number']}: its row in the ledger was put back from its manifest" for row in rows]


def _salvage_table(folder: Path, table: Table, bad: set[Path], dim: int) -> Salvaged:
    """Write what is left of a table as its newest version; manifests of Lance's that were altered are removed first."""
    from lancedb import connect

    path = folder / f"{table.name}.lance"
    # The highest version that the last writer, a release or the disk knows of the table.
    manifests = [read_release_manifest(folder, number) for number in list_release_manifests(folder)]
    noted = [read_manifest(folder).versions, *(manifest.versions for manifest in manifests if manifest)]
    with suppress(StoreError):
        noted += [release.versions for release in read_ledger(folder)]
    last = max([0, *list_versions(path), *(versions.get(table.name, 0) for versions in noted)])
    cut = {fragment for fragment in bad if fragment.parent == path / "_versions"}
    for fragment in cut:
        fragment.unlink(missing_ok=True)
    rows, total = table.build_disk_schema(dim).empty_table(), 0
    if not (there := list_versions(path)):
        shutil.rmtree(path, ignore_errors=True)
    elif table in KEPT:
        rows, total = _read_intact(path, table, rows, bad)
    connect(folder).create_table(table.name, rows, mode="overwrite" if there else "create", on_bad_vectors="null")
    while (dataset := lance.dataset(str(path))).version <= last:  # what releases name is nothing else
        dataset.restore()  # type: ignore[no-untyped-call]
    for version, manifest in list_versions(path).items():
        if version not in there and version < dataset.version:
            manifest.unlink()
    return Salvaged(rows.num_rows, None if cut or not there or table not in KEPT else max(total - rows.num_rows, 0))


def _read_intact(path: Path, table: Table, rows: pa.Table, bad: set[Path]) -> tuple[pa.Table, int]:
    """Return the rows of each fragment whose files are whole, and how many the newest version has in all.

    Messages are only ever added to: of them an older version has what it had.
    """
    versions = sorted(list_versions(path), reverse=True)
    newest = [fragment.metadata for fragment in lance.dataset(str(path), version=versions[0]).get_fragments()]
    for version in versions if table == MESSAGES else versions[:1]:
        with suppress(*READ_TROUBLE):
            dataset = lance.dataset(str(path), version=version)
            for fragment in dataset.get_fragments():
                files = list_fragment_files(path, fragment)
                if bad.isdisjoint(files) and all(file.is_file() for file in files):
                    part = dataset.scanner(fragments=[fragment]).to_table()
                    new = pc.invert(pc.is_in(part[table.key], rows[table.key].combine_chunks()))
                    rows = pa.concat_tables([rows, part.filter(new).select(rows.schema.names).cast(rows.schema)])
    return rows, sum(each.physical_rows - (each.num_deletions or 0) for each in newest)


def mend_releases(store: Store) -> None:
    """Make the tags of kept releases name their versions, by which they are kept, and lost manifests anew."""
    releases = [release for release in read_releases(store) if not is_dropped(store.dir, release)]
    for release in releases:
        for broken in _find_broken_tags(store.dir, release):
            (store.dir / broken.where).unlink()
            name = _name_table(broken.where)
            with suppress(*READ_TROUBLE):  # a version that is gone has no tag
                store.open_table(TABLES[name]).tags.create(release.name, release.versions[name])
        is_kept = _get_tag(store.dir, MESSAGES.name, release.name).exists()
        if is_kept and not get_release_manifest(store.dir, release.number).exists():
            with suppress(*READ_TROUBLE):
                write_release_manifest(store.dir, vars(release))
    settle_release_manifests(store.dir, {release.number for release in releases})


def drop_unreadable(store: Store) -> list[str]:
    """Keep no longer the releases whose files are not what they were, but for the live one; returns their names.

    Their rows stay in the ledger. The versions that can't be read go, by which they are known for dropped.
    """
    *older, live = read_releases(store)
    damage = find_release_damage(store.dir, {entry.number: entry for entry in (*older, live)})
    broken = {(entry.release, _name_table(entry.where)) for entry in damage if ".lance/" in entry.where}
    gone = [entry for entry in older if entry.name in {release for release, _ in broken}]
    for entry in gone:
        get_release_manifest(store.dir, entry.number).unlink(missing_ok=True)
        for name, version in entry.versions.items():
            _get_tag(store.dir, name, entry.name).unlink(missing_ok=True)
            is_bad = (entry.name, name) in broken and version != live.versions.get(name)
            if is_bad and (manifest := list_versions(store.dir / f"{name}.lance").get(version)):
                manifest.unlink()
    return [entry.name for entry in gone]


def _name_index_folder(where: str) -> str:
    """Return the folder of one part of an index: "topics.lance/_indices/UUID"."""
    return "/".join(Path(where).parts[:3])


def _drop_lost_indexes(folder: Path, damage: list[Damage]) -> list[str]:
    """Remove what is left of broken indexes, and their files from the releases' manifests; return a note for each.

    Lance still names them in its versions, so a reader sees that they are gone, and a night builds the newest anew.
    """
    lost = {_name_index_folder(part.where) for part in damage if INDEXES in part.where}
    notes = [f"{name}: its index is built anew" for name in find_broken_indexes(damage)]
    for place in lost:
        shutil.rmtree(folder / place, ignore_errors=True)
    for number in list_release_manifests(folder):
        manifest = read_release_manifest(folder, number)
        if manifest and (gone := {name for name in manifest.files if _name_index_folder(name) in lost}):
            files = {name: facts for name, facts in manifest.files.items() if name not in gone}
            content = orjson.dumps({"row": manifest.row, "files": files}, option=orjson.OPT_INDENT_2)
            replace_file(get_release_manifest(folder, number), content)
            tables = ", ".join(sorted({_name_table(name) for name in gone}))
            notes.append(f"r{number} has lost an index of {tables}, and answers without it")
    return notes


def _find_dim(folder: Path, broken: Collection[str]) -> int:
    """Return the dimensions of the store's vectors, by a table that is whole."""
    for table in TABLES.values():
        if table.vector and table.name not in broken and has_table(folder, table.name):
            return int(lance.dataset(str(folder / f"{table.name}.lance")).schema.field(table.vector).type.list_size)
    return VECTOR_DIM


def _find_broken_tags(folder: Path, release: Release) -> list[Damage]:
    """Return the tags of a release by which its versions are kept, where one does not name its version."""
    tags = {_get_tag(folder, table, release.name): version for table, version in release.versions.items()}
    broken = {tag: version for tag, version in tags.items() if tag.exists() and read_tag(tag) != version}
    return [
        Damage(release.name, tag.relative_to(folder).as_posix(), f"does not name version {version}")
        for tag, version in broken.items()
    ]


def _get_tag(folder: Path, table: str, release: str) -> Path:
    """Return the path of the Lance tag by which a release pins its version of a table."""
    return folder / f"{table}.lance" / "_refs" / "tags" / f"{release}.json"


def _name_table(where: str) -> str:
    return Path(where).parts[0].removesuffix(".lance")
