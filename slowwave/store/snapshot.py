"""A reader's view: every table at the version its release pins. Opening one writes nothing and takes no lock."""

from pathlib import Path
from typing import TYPE_CHECKING, Self

import lance
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.tables import Table
from slowwave.store.integrity.seals import check_files_there
from slowwave.store.other_versions import check_tables_exist, find_missing_columns, load_releases
from slowwave.store.releases import Release, draft_newest, pick_release
from slowwave.store.stand_ins import make_stand_in
from slowwave.store.trouble import translate_read_errors

if TYPE_CHECKING:  # a reader's view needs no writer
    from slowwave.store.store import Store

CANDIDATE = "candidate"
"""What the newest tables are called that no release names: what a gate held back."""


class Snapshot:
    """The tables of one space as one release has them."""

    def __init__(self, root: Path, space: str = "default", release: str | None = None) -> None:
        """Open the live release, or the one of that id or name.

        Raises:
            StoreMissing: there is no such store or space.
            StoreUnreadable: what is there is broken.
            SchemaMismatch, NewerStore: another version of slowwave released what this one can't use.
            NoRelease: nothing is released yet, or not under that name.
        """
        self.dir = root / space
        self.release: Release = pick_release(load_releases(self.dir), release, self.dir)
        self._tables: dict[str, lance.LanceDataset] = {}

    @classmethod
    def of_newest(cls, store: "Store") -> Self:
        """Return the newest version of every table, released or not, as the release that they would be."""
        newest = cls.__new__(cls)
        known = load_releases(store.dir)
        newest.dir, newest._tables = store.dir, {}
        newest.release = draft_newest(store, known, CANDIDATE, known[-1].encoder if known else None)
        return newest

    def open_dataset(self, table: Table) -> lance.LanceDataset:
        """Return a table at the pinned version; opened once and kept.

        What is younger than the release stands empty: a table without rows, a column of nulls.

        Raises:
            StoreUnreadable: it is broken or gone.
            SchemaMismatch, NewerStore: another version of slowwave wrote what this one can't use.
        """
        if table.name not in self._tables:
            with translate_read_errors(self.dir):
                self._tables[table.name] = self._open_pinned(table)
        return self._tables[table.name]

    def _open_pinned(self, table: Table) -> lance.LanceDataset:
        check_tables_exist(self.dir, [self.release], [table])
        if table.name not in self.release.versions:
            return make_stand_in(self, table, None)
        check_files_there(self.dir, self.release.number, table.name)
        found = lance.dataset(str(self.dir / f"{table.name}.lance"), version=self.release.versions[table.name])
        return make_stand_in(self, table, found) if find_missing_columns(table, found.schema) else found

    def read(self, table: Table, columns: list[str] | None = None, where: pc.Expression | None = None) -> pa.Table:
        """Return rows of a table in Arrow, in no order that may be relied on.

        Raises:
            StoreUnreadable: the table is broken or gone.
        """
        with translate_read_errors(self.dir):
            found = self.open_dataset(table).to_table(columns=columns or table.schema.names, filter=where)
        return found.cast(pa.schema([table.schema.field(name) for name in found.schema.names]))
