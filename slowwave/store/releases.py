"""Releases: one row that pins a version of every table, written last.

There is no transaction over several tables. A night writes them all, syncs them, and then adds one row to `releases`;
readers open the versions that the highest-numbered row names, so a half-done night is invisible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa

from slowwave.schemas.errors import (
    NoRelease,
    ReleaseDropped,
    SchemaMismatch,
    StoreMissing,
    StoreUnreadable,
    UsageError,
)
from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import FILES, MESSAGES, QUARANTINE, RELEASED, RELEASES, SESSIONS, TABLES, Table
from slowwave.store.bucket.working_copy import refresh, refresh_spaces
from slowwave.store.manifest import (
    check_files_unaltered,
    check_ledger_whole,
    check_release_files,
    compute_table_digest,
    find_last_known,
    find_last_whole,
    has_table,
    list_release_manifests,
    list_versions,
    mark_synced,
    settle_release_manifests,
    sync_changes,
    write_release_manifest,
)
from slowwave.store.trouble import READ_TROUBLE, translate_read_errors, translate_write_errors

if TYPE_CHECKING:  # readers import this, and lancedb takes a second to import
    from slowwave.store.store import Store


UNREAD = (FILES, QUARANTINE)
"""Pinned tables that no reader queries: a change in these alone makes no release."""


@dataclass(frozen=True)
class Release:
    """One released state of the store."""

    release_id: str
    number: int
    created_at: datetime
    run_id: str | None
    versions: dict[str, int]
    counts: dict[str, int]
    encoder: str | None
    restores: str | None
    calibration: str | None = None

    @property
    def name(self) -> str:
        """What a person calls it: `r3`."""
        return f"r{self.number}"


def read_releases(store: Store) -> list[Release]:
    """Return all releases, oldest first."""
    return parse_releases(store.read(RELEASES))


def list_spaces(root: Path) -> list[str]:
    """Return the spaces of a store: those without a release, then those whose last is oldest."""
    refresh_spaces(root)
    found = [folder for folder in root.glob("*/") if has_table(folder, RELEASES.name)]
    last = {folder.name: (folder / f"{RELEASES.name}.lance" / "_versions").stat().st_mtime_ns for folder in found}
    return sorted(last, key=lambda name: (last[name], name))


def load_releases(folder: Path) -> list[Release]:
    """Return the releases of a space, oldest first.

    Raises:
        StoreMissing: there is no such store or space.
        StoreUnreadable: what is there is broken.
        SchemaMismatch: another version of slowwave wrote it.
    """
    refresh(folder)
    known = find_last_known(folder)
    if not has_table(folder, RELEASES.name):
        check_ledger_whole(folder, 0, known)
    found = read_ledger(folder)
    check_ledger_whole(folder, found[-1].number if found else 0, known)
    return found


def read_ledger(folder: Path) -> list[Release]:
    """Return the rows of the ledger of releases as they are, oldest first.

    Raises:
        StoreMissing, StoreUnreadable, SchemaMismatch: as `load_releases`.
    """
    if not has_table(folder, RELEASES.name):
        raise StoreMissing(folder)
    check_files_unaltered(folder, RELEASES.name)
    with translate_read_errors(folder):
        path = folder / f"{RELEASES.name}.lance"
        rows = lance.dataset(str(path)) if (whole := find_last_whole(path)) is None else whole
        check_columns(RELEASES, rows.schema)
        return parse_releases(rows.to_table())


def check_columns(table: Table, found: pa.Schema) -> None:
    """Check that a stored table has the columns of this version; vectors may be of any length.

    Raises:
        SchemaMismatch: it has others.
    """
    missing = [field.name for field in table.schema if field.name not in found.names]
    unknown = [name for name in found.names if name not in table.schema.names]
    pairs = [(field, found.field(field.name)) for field in table.build_disk_schema() if field.name in found.names]
    wrong = [f"{field.name} as {there.type}" for field, there in pairs if not _has_type(there.type, field.type)]
    if missing or wrong or unknown:
        raise SchemaMismatch(table.name, missing, [*wrong, *unknown])


def _has_type(found: pa.DataType, expected: pa.DataType) -> bool:
    if pa.types.is_fixed_size_list(expected) and pa.types.is_fixed_size_list(found):
        return bool(found.value_type == expected.value_type)
    return bool(found == expected)


def check_tables_exist(folder: Path, releases: Iterable[Release], tables: Iterable[Table] = TABLES.values()) -> None:
    """Check that the tables which releases name are there.

    Raises:
        StoreUnreadable: one is gone.
    """
    named = {name: release.name for release in releases for name in release.versions}
    for table in tables:
        if table.name in named and not has_table(folder, table.name):
            raise StoreUnreadable(folder, _explain_missing_table(table.name, named[table.name]))


def _explain_missing_table(name: str, release: str) -> str:
    """Return what is gone, and how to go on."""
    tables = " ".join(f"--table {one.name}" for one in (MESSAGES, SESSIONS) if one.name != name)
    save = f"save the rest by `slowwave export OUT {tables}` and `slowwave run OUT --store NEW`"
    anew = "begin a new store with `slowwave run --store NEW`"
    return (
        f"table {name!r}, which release {release} names, is gone: `slowwave check --repair`, put {name}.lance back "
        f"from a backup, or {anew if name == MESSAGES.name else save}"
    )


def parse_releases(rows: pa.Table) -> list[Release]:
    """Return rows of the releases table as objects, oldest first."""
    names = [field.name for field in fields(Release)]
    known = [{name: row[name] for name in names} for row in rows.to_pylist()]
    parsed = [Release(**{**row, "versions": dict(row["versions"]), "counts": dict(row["counts"])}) for row in known]
    return sorted(parsed, key=lambda release: release.number)


def pick_release(found: list[Release], name: str | None, path: Path) -> Release:
    """Return the live release, or the one of that id or name (`r3`).

    Raises:
        NoRelease: there is none, or not under that name.
        ReleaseDropped: it is no longer kept.
    """
    for release in reversed(found):
        if name is None or name in (release.release_id, release.name, str(release.number)):
            if release is not found[-1] and is_dropped(path, release):
                raise ReleaseDropped(path, release.name)
            return release
    raise NoRelease(path, name)


def is_dropped(folder: Path, release: Release) -> bool:
    """Return whether a release is no longer kept: its manifest was dropped, and a version that it pins is gone."""
    if release.number in list_release_manifests(folder):
        return False
    return any(version not in list_versions(folder / f"{name}.lance") for name, version in release.versions.items())


def publish(
    store: Store, run_id: str, encoder: str | None, calibrate: Callable[[Release], str | None] | None = None
) -> Release | None:
    """Pin every table's newest version and make that live; None when nothing changed since the last publication.

    A roll-back is no publication: after one, an unchanged night leaves it in force. `calibrate` is called with the
    release to be, only when there will be one, and gives what its row keeps in `calibration`; what it raises ends it.
    """
    known = read_releases(store)
    published = [r for r in known if r.restores is None]
    if published and not any(_has_changes(store, table, published[-1]) for table in RELEASED if table not in UNREAD):
        return None
    draft = draft_newest(store, known, run_id, encoder)
    if not published and not any(draft.counts.values()):
        return None  # a first run that found nothing to read
    return _add_release(store, known, replace(draft, calibration=calibrate(draft)) if calibrate else draft)


def draft_newest(store: Store, known: list[Release], run_id: str, encoder: str | None) -> Release:
    """Return the release that the newest version of every table would be, after those known; nothing is written."""
    versions, counts = store.read_versions(RELEASED), {table.name: store.count(table) for table in RELEASED}
    return _draft_release(store, known, run_id, versions, counts, encoder)


def _has_changes(store: Store, table: Table, published: Release) -> bool:
    """Return whether a table has other rows or indexes than a release; the same rows in other files are no change.

    Rows are compared last, since that reads the whole table: a night with news has a table with more of them.
    """
    path, then = str(store.dir / f"{table.name}.lance"), published.versions[table.name]
    if store.open_dataset(table).version == then:
        return False
    try:
        old, new = lance.dataset(path, version=then), lance.dataset(path)
        if _list_indexes(old) != _list_indexes(new) or old.count_rows() != new.count_rows():
            return True
        if _list_files(old) == _list_files(new):
            return False
        check_release_files(store.dir, published.number, table.name)
        return compute_table_digest(table, old.to_table()) != compute_table_digest(table, new.to_table())
    except (*READ_TROUBLE, StoreUnreadable):  # cleaned up since, or damaged: the release can't be read as it was
        return True


def _list_indexes(dataset: lance.LanceDataset) -> list[str]:
    return sorted(index.name for index in dataset.describe_indices())


def _list_files(dataset: lance.LanceDataset) -> list[object]:
    """Return what tells the files of a version: what was taken back is as it was."""
    return [fragment.metadata.to_json() for fragment in dataset.get_fragments()]


def roll_back(store: Store, name: str, run_id: str) -> Release:
    """Make an earlier release live again, as a new release; the tables keep their newer versions.

    Raises:
        NoRelease, ReleaseDropped: there is none of that name, or no longer.
        UsageError: it is live.
    """
    known = read_releases(store)
    old = pick_release(known, name, store.dir)
    if old.release_id in (known[-1].release_id, known[-1].restores):
        raise UsageError(f"{name} is live already: nothing was done")
    draft = _draft_release(store, known, run_id, old.versions, old.counts, old.encoder)
    return _add_release(store, known, replace(draft, restores=old.release_id, calibration=old.calibration))


def _draft_release(
    store: Store,
    known: list[Release],
    run_id: str,
    versions: dict[str, int],
    counts: dict[str, int],
    encoder: str | None,
) -> Release:
    number = known[-1].number + 1 if known else 1
    release_id = compute_content_id(store.space, str(number), *(f"{k}={v}" for k, v in sorted(versions.items())))
    return Release(release_id, number, datetime.now(UTC), run_id, versions, counts, encoder, None)


def _add_release(store: Store, known: list[Release], release: Release) -> Release:
    with translate_write_errors(store.dir):
        _pin_versions(store, release)
        numbers = {one.number for one in known}
        settle_release_manifests(store.dir, numbers)
        mark_synced(store.dir)
        write_release_manifest(store.dir, vars(release))
        store.append(RELEASES, make_ledger_rows([vars(release)]))
        sync_changes(store.dir)
        settle_release_manifests(
            store.dir, {*numbers, release.number}
        )  # never on the disk before the row: that would be a lost row
    return release


def make_ledger_rows(releases: list[dict[str, Any]]) -> pa.Table:
    """Return releases, as `vars` gives them, as rows of the releases table."""
    rows = [{**one, "versions": [*one["versions"].items()], "counts": [*one["counts"].items()]} for one in releases]
    return pa.Table.from_pylist(rows, schema=RELEASES.schema)


def _pin_versions(store: Store, release: Release) -> None:
    """Tag each pinned version, so that no clean-up takes it while the release is kept."""
    for table in RELEASED:
        tags = store.open_table(table).tags
        if release.name in tags.list():  # a run that died between tag and row
            tags.update(release.name, release.versions[table.name])
        else:
            tags.create(release.name, release.versions[table.name])
