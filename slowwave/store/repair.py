"""Compare a space with its manifests, and repair damaged tables.

A table that can't be computed from others keeps the fragments whose files are intact. A table with derived rows is
emptied, and the steps of a night compute it again (`flows/parts/repair.py`). Lost rows of the ledger of releases are
restored from the releases' manifests.
"""

import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import lance
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.errors import (
    READ_TROUBLE,
    SchemaMismatch,
    StoreError,
    StoreUnreadable,
)
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
from slowwave.store.place import find_place, report_missing
from slowwave.store.private import replace_file
from slowwave.store.publishing import read_releases
from slowwave.store.releases import Release, is_dropped, make_ledger_rows, read_ledger
from slowwave.store.store import Store, create_table

KEPT = (MESSAGES, SESSIONS, COMPLETIONS, MERGES, EXCLUSIONS, FORGOTTEN, RUNS, RELEASES)
"""Tables whose intact fragments are kept: read, paid for or decided. The rows of all other tables are derived."""


class Checked(NamedTuple):
    """The result of `check_store`."""

    damage: list[Damage]
    releases: int
    """Releases with a manifest."""
    unchecked: int
    """Kept releases without a manifest: a writer was killed before it wrote one."""


class Salvaged(NamedTuple):
    """The result of repairing a damaged table."""

    kept: int
    lost: int | None
    """Number of lost rows; None if the earlier number of rows is unknown."""


def check_store(folder: Path, *, read: bool = True) -> Checked:
    """Compare a space's files with its manifests; without `read`, only their sizes.

    Raises:
        StoreMissing: the store or the space does not exist.
        SchemaMismatch: another version of slowwave wrote it.
    """
    place = find_place(folder.parent)
    place.pull(folder.name)
    if not any(folder.glob("*.lance")):
        raise report_missing(folder)
    numbers = list_release_manifests(folder)
    damage = [*find_newest_damage(folder, read=read)]
    try:
        releases = {release.number: release for release in read_ledger(folder)}
    except SchemaMismatch:
        raise
    except StoreError as trouble:  # the rest can be compared without the ledger
        releases = {}
        if not any(part.where.startswith(f"{RELEASES.name}.lance/") for part in damage):
            damage.append(
                Damage(
                    NEWEST, RELEASES.name, getattr(trouble, "why", "the table is gone")
                )
            )
    places = {part.where for part in damage}
    damage += [
        part
        for part in find_release_damage(folder, releases, read=read)
        if part.where not in places
    ]
    pinned = [
        release for release in releases.values() if not is_dropped(folder, release)
    ]
    damage += [
        broken for release in pinned for broken in _find_broken_tags(folder, release)
    ]
    tagged = {
        release.number
        for release in pinned
        if _get_tag(folder, MESSAGES.name, release.name).exists()
    }
    return Checked(
        [*damage, *place.find_damage(folder.name)],
        len(numbers),
        len(tagged.difference(numbers)),
    )


def find_release_damage(
    folder: Path, releases: dict[int, Release], *, read: bool = True
) -> list[Damage]:
    """Return differences from the releases' manifests: in the manifests, in files, and in rows of the ledger."""
    damage = list[Damage]()
    manifests = dict[int, Manifest]()
    with suppress(StoreUnreadable):  # `find_newest_damage` reports it
        altered = find_altered(folder, f"{FOLDER}/", read=read)
        damage += [
            Damage(Path(name).stem, name, what) for name, what in altered.items()
        ]
    for number in list_release_manifests(folder):
        try:
            if manifest := read_release_manifest(folder, number):
                manifests[number] = manifest
        except StoreUnreadable as broken:
            damage.append(Damage(f"r{number}", f"{FOLDER}/r{number}.json", broken.why))
    return [
        *damage,
        *_compare_rows(manifests, releases),
        *_compare_files(folder, manifests, read=read),
    ]


def _compare_rows(
    manifests: Mapping[int, Manifest], releases: Mapping[int, Release]
) -> Iterator[Damage]:
    """Yield the rows of the ledger that are lost, or are not as the manifest of their release says."""
    for number, manifest in manifests.items():
        if number not in releases:
            what = "its row is lost: `slowwave check --repair` puts it back"
        elif orjson.loads(orjson.dumps(vars(releases[number]))) != manifest.row:
            what = "its row is not the one of its manifest"
        else:
            continue
        yield Damage(f"r{number}", RELEASES.name, what)


def _compare_files(
    folder: Path, manifests: Mapping[int, Manifest], *, read: bool
) -> Iterator[Damage]:
    """Yield the changed files of each release. Releases share most of their files, so each file is looked at once."""
    files = Files()
    for manifest in manifests.values():
        files |= manifest.files
    changed = describe_changes(folder, files, read=read)
    for number, manifest in manifests.items():
        for name in manifest.files:
            if name in changed:
                yield Damage(f"r{number}", name, changed[name])


def find_broken_tables(folder: Path, damage: list[Damage]) -> list[str]:
    """Return the tables whose newest version, or its version file, is damaged, according to `check_store`.

    Damaged indexes don't count: a night builds them again.
    """
    broken = {
        _name_table(part.where)
        for part in damage
        if part.release == NEWEST and INDEXES not in part.where
    }
    with suppress(StoreError):
        broken |= {
            name
            for last in read_ledger(folder)[-1:]
            for name in last.versions
            if not has_table(folder, name)
        }
    return [name for name in TABLES if name in broken]


def find_broken_indexes(damage: list[Damage]) -> list[str]:
    """Return the tables with a damaged index, in the newest version or in a release."""
    return sorted({_name_table(part.where) for part in damage if INDEXES in part.where})


def salvage(
    folder: Path, damage: list[Damage]
) -> tuple[dict[str, Salvaged], list[str]]:
    """Repair each damaged table and the ledger of releases; return the result of each table, and notes.

    The caller holds the writer's lock. Files of older releases alone are left as they are: see `drop_unreadable`.
    """
    notes = _delete_altered_manifests(folder, damage) + _drop_lost_indexes(
        folder, damage
    )
    broken = find_broken_tables(folder, damage)
    bad = {folder / name for name in find_altered(folder)}
    dim = _find_dim(folder, broken)
    done = {
        name: _salvage_table(folder=folder, table=TABLES[name], bad=bad, dim=dim)
        for name in broken
    }
    _forget_files(folder, broken)
    return done, notes + _restore_ledger_rows(folder)


def _delete_altered_manifests(folder: Path, damage: list[Damage]) -> list[str]:
    """Delete manifests that were altered, or differ from their release's row; return a note for each."""
    altered_rows = {
        part.release for part in damage if part.what.startswith("its row is not")
    }
    manifests = {
        part.where
        for part in damage
        if part.where == MANIFEST_FILE or part.where.startswith(f"{FOLDER}/")
    }
    notes = []
    for name in sorted(
        manifests | {f"{FOLDER}/{release}.json" for release in altered_rows}
    ):
        (folder / name).unlink(missing_ok=True)
        notes.append(
            f"{name} was altered and is rebuilt: files that no other manifest names were not compared"
        )
    return notes


def _forget_files(folder: Path, tables: Collection[str]) -> None:
    """Remove the files of these tables and the releases' manifests from the manifest of the space."""
    manifest = read_manifest(folder)
    removed = tuple(
        f"{name}/" for name in (FOLDER, *(f"{name}.lance" for name in tables))
    )
    files = {
        name: facts
        for name, facts in manifest.files.items()
        if not name.startswith(removed)
    }
    replace_file(
        folder / MANIFEST_FILE,
        orjson.dumps({"versions": manifest.versions, "files": files}),
    )


def _restore_ledger_rows(folder: Path) -> list[str]:
    """Add the row of each release that has a manifest but no row to the ledger; return a note for each."""
    numbers = (
        {release.number for release in read_ledger(folder)}
        if has_table(folder, RELEASES.name)
        else set()
    )
    rows = []
    for number in list_release_manifests(folder):
        manifest = None if number in numbers else read_release_manifest(folder, number)
        if manifest and manifest.row:
            rows.append(
                manifest.row
                | {"created_at": datetime.fromisoformat(manifest.row["created_at"])}
            )
    if rows:
        restore_last_whole(folder, RELEASES, 1)
        lance.write_dataset(
            make_ledger_rows(rows),
            str(folder / f"{RELEASES.name}.lance"),
            mode="append",
        )
    return [
        f"r{row['number']}: its row in the ledger was put back from its manifest"
        for row in rows
    ]


def _salvage_table(
    folder: Path,
    table: Table,
    bad: set[Path],
    dim: int,
) -> Salvaged:
    """Write the intact rows of a table as its newest version, after deleting altered version files of Lance.

    Args:
        folder: the space.
        table: the table.
        bad: files that differ from the manifest.
        dim: dimensions of the store's vectors.
    """
    path = folder / f"{table.name}.lance"
    last = _find_last_version(folder, table)
    cut = {fragment for fragment in bad if fragment.parent == path / "_versions"}
    for fragment in cut:
        fragment.unlink(missing_ok=True)
    rows = table.build_disk_schema(dim).empty_table()
    total = 0
    present = list_versions(path)
    if not present:
        shutil.rmtree(path, ignore_errors=True)
    elif table in KEPT:
        rows, total = _read_intact(path=path, table=table, rows=rows, bad=bad)
    create_table(
        folder=folder, table=table, rows=rows, mode="overwrite" if present else "create"
    )
    # a version that a release names must not be used for other rows
    while (dataset := lance.dataset(str(path))).version <= last:
        dataset.restore()  # type: ignore[no-untyped-call]
    for version, manifest in list_versions(path).items():
        if version not in present and version < dataset.version:
            manifest.unlink()
    is_known = present and not cut and table in KEPT
    return Salvaged(rows.num_rows, max(total - rows.num_rows, 0) if is_known else None)


def _find_last_version(folder: Path, table: Table) -> int:
    """Return the highest version of a table in the manifests, the ledger of releases, and on the disk."""
    manifests = [
        read_release_manifest(folder, number)
        for number in list_release_manifests(folder)
    ]
    known = [
        read_manifest(folder).versions,
        *(manifest.versions for manifest in manifests if manifest),
    ]
    with suppress(StoreError):
        known += [release.versions for release in read_ledger(folder)]
    on_disk = list_versions(folder / f"{table.name}.lance")
    return max([0, *on_disk, *(versions.get(table.name, 0) for versions in known)])


def _read_intact(
    path: Path,
    table: Table,
    rows: pa.Table,
    bad: set[Path],
) -> tuple[pa.Table, int]:
    """Return the rows of each fragment with intact files, and the number of rows of the newest version.

    Messages are never deleted or changed, so for them older versions are read too.
    """
    versions = sorted(list_versions(path), reverse=True)
    newest = [
        fragment.metadata
        for fragment in lance.dataset(str(path), version=versions[0]).get_fragments()
    ]
    for version in versions if table == MESSAGES else versions[:1]:
        with suppress(*READ_TROUBLE):
            dataset = lance.dataset(str(path), version=version)
            for fragment in dataset.get_fragments():
                files = list_fragment_files(path, fragment)
                if bad.isdisjoint(files) and all(file.is_file() for file in files):
                    part = dataset.scanner(fragments=[fragment]).to_table()
                    new = pc.invert(
                        pc.is_in(part[table.key], rows[table.key].combine_chunks())
                    )
                    rows = pa.concat_tables(
                        [
                            rows,
                            part.filter(new)
                            .select(rows.schema.names)
                            .cast(rows.schema),
                        ]
                    )
    return rows, sum(each.physical_rows - (each.num_deletions or 0) for each in newest)


def mend_releases(store: Store) -> None:
    """Repair the tags that pin the versions of kept releases, and write lost manifests of releases again."""
    releases = [
        release
        for release in read_releases(store)
        if not is_dropped(store.dir, release)
    ]
    for release in releases:
        for broken in _find_broken_tags(store.dir, release):
            (store.dir / broken.where).unlink()
            name = _name_table(broken.where)
            with suppress(*READ_TROUBLE):
                # A version that no longer exists can't be tagged.
                store.open_dataset(TABLES[name]).tags.create(
                    release.name, release.versions[name]
                )
        is_kept = _get_tag(store.dir, MESSAGES.name, release.name).exists()
        if is_kept and not get_release_manifest(store.dir, release.number).exists():
            with suppress(*READ_TROUBLE):
                write_release_manifest(store.dir, vars(release))
    settle_release_manifests(store.dir, {release.number for release in releases})


def drop_unreadable(store: Store) -> list[str]:
    """Drop the releases with damaged files, except the live one; return their names.

    Their rows stay in the ledger. Their unreadable versions are deleted, which marks the releases as dropped.
    """
    *older, live = read_releases(store)
    damage = find_release_damage(
        store.dir, {entry.number: entry for entry in (*older, live)}
    )
    broken = {
        (entry.release, _name_table(entry.where))
        for entry in damage
        if ".lance/" in entry.where
    }
    gone = [
        entry for entry in older if entry.name in {release for release, _ in broken}
    ]
    for entry in gone:
        get_release_manifest(store.dir, entry.number).unlink(missing_ok=True)
        for name, version in entry.versions.items():
            _get_tag(store.dir, name, entry.name).unlink(missing_ok=True)
            is_bad = (entry.name, name) in broken and version != live.versions.get(name)
            if is_bad and (
                manifest := list_versions(store.dir / f"{name}.lance").get(version)
            ):
                manifest.unlink()
    return [entry.name for entry in gone]


def _name_index_folder(where: str) -> str:
    """Return the folder of one part of an index, such as "topics.lance/_indices/UUID"."""
    return "/".join(Path(where).parts[:3])


def _drop_lost_indexes(folder: Path, damage: list[Damage]) -> list[str]:
    """Delete broken indexes, and remove their files from the releases' manifests; return a note for each.

    Lance's versions still name them: a reader sees that they are missing, and a night builds the newest ones again.
    """
    lost = {_name_index_folder(part.where) for part in damage if INDEXES in part.where}
    notes = [f"{name}: its index is rebuilt" for name in find_broken_indexes(damage)]
    for place in lost:
        shutil.rmtree(folder / place, ignore_errors=True)
    for number in list_release_manifests(folder):
        manifest = read_release_manifest(folder, number)
        if manifest and (
            gone := {
                name for name in manifest.files if _name_index_folder(name) in lost
            }
        ):
            files = {
                name: facts
                for name, facts in manifest.files.items()
                if name not in gone
            }
            content = orjson.dumps(
                {"row": manifest.row, "files": files}, option=orjson.OPT_INDENT_2
            )
            replace_file(get_release_manifest(folder, number), content)
            tables = ", ".join(sorted({_name_table(name) for name in gone}))
            notes.append(
                f"r{number} has lost an index of {tables}, and answers without it"
            )
    return notes


def _find_dim(folder: Path, broken: Collection[str]) -> int:
    """Return the dimensions of the store's vectors, according to an intact table."""
    for table in TABLES.values():
        if table.vector and table.name not in broken and has_table(folder, table.name):
            return int(
                lance.dataset(str(folder / f"{table.name}.lance"))
                .schema.field(table.vector)
                .type.list_size
            )
    return VECTOR_DIM


def _find_broken_tags(folder: Path, release: Release) -> list[Damage]:
    """Return the tags of a release that don't name the version they should pin."""
    tags = {
        _get_tag(folder, table, release.name): version
        for table, version in release.versions.items()
    }
    broken = {
        tag: version
        for tag, version in tags.items()
        if tag.exists() and read_tag(tag) != version
    }
    return [
        Damage(
            release.name,
            tag.relative_to(folder).as_posix(),
            f"does not name version {version}",
        )
        for tag, version in broken.items()
    ]


def _get_tag(folder: Path, table: str, release: str) -> Path:
    """Return the path of the Lance tag with which a release pins its version of a table."""
    return folder / f"{table}.lance" / "_refs" / "tags" / f"{release}.json"


def _name_table(where: str) -> str:
    return Path(where).parts[0].removesuffix(".lance")
