"""A reader's view: every table at the version its release pins. Opening one writes nothing and takes no lock."""

from pathlib import Path
from typing import Self

import lance
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.tables import Table
from slowwave.store.manifest import check_release_files
from slowwave.store.releases import Release, check_columns, check_tables_exist, load_releases, pick_release
from slowwave.store.trouble import translate_read_errors

CANDIDATE = "candidate"
"""What the newest tables are called that no release names: what a gate held back."""


def open_pinned(folder: Path, release: Release, table: Table) -> lance.LanceDataset:
    """Return a table at the version that a release pins, once its files are seen to be what they were.

    Raises:
        StoreUnreadable: it is gone, or one of its files is not.
        SchemaMismatch: another version of slowwave wrote it.
    """
    check_tables_exist(folder, [release], [table])
    check_release_files(folder, release.number, table.name)
    dataset = lance.dataset(str(folder / f"{table.name}.lance"), version=release.versions[table.name])
    check_columns(table, dataset.schema)
    return dataset


class Snapshot:
    """The tables of one space as one release has them."""

    def __init__(self, root: Path, space: str = "default", release: str | None = None) -> None:
        """Open the live release, or the one of that id or name.

        Raises:
            StoreMissing: there is no such store or space.
            StoreUnreadable: what is there is broken.
            SchemaMismatch: another version of slowwave wrote it.
            NoRelease: nothing is released yet, or not under that name.
        """
        self.dir = root / space
        self.release: Release = pick_release(load_releases(self.dir), release, self.dir)
        self._tables: dict[str, lance.LanceDataset] = {}

    @classmethod
    def of_release(cls, folder: Path, release: Release) -> Self:
        """Return a space's tables at the versions of a release, also of one that is not written yet."""
        snapshot = cls.__new__(cls)
        snapshot.dir, snapshot.release, snapshot._tables = folder, release, {}
        return snapshot

    def open_dataset(self, table: Table) -> lance.LanceDataset:
        """Return a table at the pinned version; opened once and kept.

        Raises:
            StoreUnreadable: it is broken or gone.
            SchemaMismatch: another version of slowwave wrote it.
        """
        if table.name not in self._tables:
            with translate_read_errors(self.dir):
                self._tables[table.name] = open_pinned(self.dir, self.release, table)
        return self._tables[table.name]

    def read(self, table: Table, columns: list[str] | None = None, where: pc.Expression | None = None) -> pa.Table:
        """Return rows of a table in Arrow, in no order that may be relied on.

        Raises:
            StoreUnreadable: the table is broken or gone.
        """
        with translate_read_errors(self.dir):
            rows = self.open_dataset(table).to_table(columns=columns or table.schema.names, filter=where)
        return rows.cast(pa.schema([table.schema.field(name) for name in rows.schema.names]))
