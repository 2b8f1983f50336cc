"""Releases: one row that pins a version of every table, written last.

Lance has no transactions over several tables. A night writes all tables, syncs them, and then adds one row to
`releases`. Readers open the versions that the row with the highest number names, so an unfinished night is invisible. A
`Snapshot` is a reader's view of a release: opening it writes nothing and takes no lock.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any, Self

import lance
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.errors import (
    NoRelease,
    ReleaseDropped,
    SchemaMismatch,
    StoreUnreadable,
    translate_read_errors,
)
from slowwave.schemas.ids import SHORT_ID
from slowwave.schemas.tables import RELEASES, TABLES, Table
from slowwave.store.manifest import (
    check_ledger_whole,
    check_release_files,
    find_altered,
    find_last_known,
    find_last_whole,
    has_table,
    list_release_manifests,
    list_versions,
)
from slowwave.store.place import find_place, report_missing


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
    writer: str | None = None

    @property
    def name(self) -> str:
        """The short name, such as `r3`."""
        return f"r{self.number}"


def list_spaces(root: Path) -> list[str]:
    """Return the spaces of a store, those with the oldest last change of their releases first."""
    find_place(root).pull()
    folders = [folder for folder in root.glob("*/") if has_table(folder, RELEASES.name)]
    last = {
        folder.name: (folder / f"{RELEASES.name}.lance" / "_versions")
        .stat()
        .st_mtime_ns
        for folder in folders
    }
    return sorted(last, key=lambda name: (last[name], name))


def load_releases(folder: Path) -> list[Release]:
    """Return the releases of a space, oldest first.

    Raises:
        StoreMissing: the store or space does not exist.
        StoreUnreadable: the ledger is broken.
        SchemaMismatch: another version of slowwave wrote it.
    """
    find_place(folder.parent).pull(folder.name)
    last = find_last_known(folder)
    if not has_table(folder, RELEASES.name):
        check_ledger_whole(folder, 0, last)
    releases = read_ledger(folder)
    check_ledger_whole(folder, releases[-1].number if releases else 0, last)
    return releases


def read_ledger(folder: Path) -> list[Release]:
    """Return the rows of the ledger of releases as they are, oldest first.

    Raises:
        StoreMissing, StoreUnreadable, SchemaMismatch: as `load_releases`.
    """
    if not has_table(folder, RELEASES.name):
        raise report_missing(folder)
    for name, what in find_altered(folder, f"{RELEASES.name}.lance/").items():
        raise StoreUnreadable(
            folder, f"{name}: {what}: `slowwave check --repair` repairs what it can"
        )
    with translate_read_errors(folder):
        path = folder / f"{RELEASES.name}.lance"
        rows = (
            lance.dataset(str(path))
            if (whole := find_last_whole(path)) is None
            else whole
        )
        check_columns(RELEASES, rows.schema)
        releases = parse_releases(rows.to_table())
    for name in {name for release in releases for name in release.versions}:
        if name not in TABLES:
            raise SchemaMismatch(name, [], [])
    return releases


def check_columns(table: Table, schema: pa.Schema) -> None:
    """Check that a stored table has the columns of this version; vectors may be of any length.

    Raises:
        SchemaMismatch: the columns differ.
    """
    missing = [field.name for field in table.schema if field.name not in schema.names]
    unknown = [name for name in schema.names if name not in table.schema.names]
    pairs = [
        (field, schema.field(field.name))
        for field in table.build_disk_schema()
        if field.name in schema.names
    ]
    wrong = [
        f"{field.name} as {there.type}"
        for field, there in pairs
        if there.type != field.type and not pa.types.is_fixed_size_list(there.type)
    ]
    if missing or wrong or unknown:
        raise SchemaMismatch(table.name, missing, [*wrong, *unknown])


def check_tables_exist(
    folder: Path,
    releases: Iterable[Release],
    tables: Iterable[Table] = TABLES.values(),
) -> None:
    """Check that the tables of releases exist.

    Raises:
        StoreUnreadable: a table is missing.
    """
    named = {name: release.name for release in releases for name in release.versions}
    for table in tables:
        if table.name in named and not has_table(folder, table.name):
            why = f"table {table.name!r}, which release {named[table.name]} names, is gone"
            raise StoreUnreadable(
                folder,
                f"{why}: `slowwave check --repair`, or put it back from a backup",
            )


def parse_releases(rows: pa.Table) -> list[Release]:
    """Return rows of the releases table as objects, oldest first."""
    names = [field.name for field in fields(Release)]
    records = [{name: row[name] for name in names} for row in rows.to_pylist()]
    parsed = [
        Release(
            **{**row, "versions": dict(row["versions"]), "counts": dict(row["counts"])}
        )
        for row in records
    ]
    return sorted(parsed, key=lambda release: release.number)


def pick_release(
    releases: list[Release],
    name: str | None,
    path: Path,
) -> Release:
    """Return the live release, or the one of that name (`r3`), of that id or its first characters, or of that run.

    Raises:
        NoRelease: no release has this name.
        ReleaseDropped: the release is no longer kept.
    """
    for release in reversed(releases):
        short = name if name and len(name) >= SHORT_ID else None
        names = (release.name, str(release.number), release.release_id, release.run_id)
        if (
            name is None
            or name in names
            or (short and release.release_id.startswith(short))
        ):
            if release is not releases[-1] and is_dropped(path, release):
                raise ReleaseDropped(path, release.name)
            return release
    kept = [release.name for release in releases if not is_dropped(path, release)]
    raise NoRelease(path, name, kept)


def is_dropped(folder: Path, release: Release) -> bool:
    """Return True if a release is no longer kept: its manifest and a version that it pins were deleted."""
    if release.number in list_release_manifests(folder):
        return False
    return any(
        version not in list_versions(folder / f"{name}.lance")
        for name, version in release.versions.items()
    )


def make_ledger_rows(releases: list[dict[str, Any]]) -> pa.Table:
    """Convert releases (the result of `vars`) to rows of the releases table."""
    rows = [
        {
            **release,
            "versions": [*release["versions"].items()],
            "counts": [*release["counts"].items()],
        }
        for release in releases
    ]
    return pa.Table.from_pylist(rows, schema=RELEASES.schema)


CANDIDATE = "candidate"
"""The name of the newest, unreleased tables, which a gate held back."""


def open_pinned(
    folder: Path,
    release: Release,
    table: Table,
) -> lance.LanceDataset:
    """Check a table's files, and open the version that a release pins.

    Raises:
        StoreUnreadable: the table is missing, or a file differs from the manifest.
        SchemaMismatch: another version of slowwave wrote it.
    """
    check_tables_exist(folder, [release], [table])
    check_release_files(folder, release.number, table.name)
    dataset = lance.dataset(
        str(folder / f"{table.name}.lance"), version=release.versions[table.name]
    )
    check_columns(table, dataset.schema)
    return dataset


class Snapshot:
    """The tables of a space at the versions of a release."""

    def __init__(
        self,
        root: Path,
        space: str = "default",
        release: str | None = None,
    ) -> None:
        """Open the live release, or the one of that id or name.

        Raises:
            StoreMissing: the store or space does not exist.
            StoreUnreadable: the ledger of releases is broken.
            SchemaMismatch: another version of slowwave wrote it.
            NoRelease: nothing is released yet, or no release has this name.
        """
        self.dir = root / space
        self.release: Release = pick_release(load_releases(self.dir), release, self.dir)
        self._tables: dict[str, lance.LanceDataset] = {}

    @classmethod
    def of_release(
        cls,
        folder: Path,
        release: Release,
    ) -> Self:
        """Return a space's tables at the versions of a release, which need not be written yet."""
        snapshot = cls.__new__(cls)
        snapshot.dir = folder
        snapshot.release = release
        snapshot._tables = {}
        return snapshot

    def open_dataset(self, table: Table) -> lance.LanceDataset:
        """Open a table at the pinned version; it is opened once and kept.

        Raises:
            StoreUnreadable: it is broken or missing.
            SchemaMismatch: another version of slowwave wrote it.
        """
        if table.name not in self._tables:
            with translate_read_errors(self.dir):
                self._tables[table.name] = open_pinned(self.dir, self.release, table)
        return self._tables[table.name]

    def read(
        self,
        table: Table,
        columns: list[str] | None = None,
        where: pc.Expression | None = None,
    ) -> pa.Table:
        """Return rows of a table as Arrow, in an undefined order.

        Raises:
            StoreUnreadable: the table is broken or missing.
        """
        with translate_read_errors(self.dir):
            rows = self.open_dataset(table).to_table(
                columns=columns or table.schema.names, filter=where
            )
        return rows.cast(
            pa.schema([table.schema.field(name) for name in rows.schema.names])
        )
