"""A reader's view: every table at the version its release pins. Opening one writes nothing and takes no lock."""

from pathlib import Path

import lancedb
import pyarrow as pa
from lancedb.expr import Expr
from lancedb.table import LanceTable

from schemas.errors import StoreMissing
from schemas.runs import RELEASES
from schemas.table import Table
from slowwave.store.releases import Release, parse_releases, pick_release
from slowwave.store.trouble import reading


class Snapshot:
    """The tables of one space as one release has them."""

    def __init__(self, root: Path, space: str = "default", release: str | None = None) -> None:
        """Open the live release, or the one of that id or name.

        Raises:
            StoreMissing: there is no such store or space.
            StoreUnreadable: what is there is broken.
            NoRelease: nothing is released yet, or not under that name.
        """
        self.dir = root / space
        if not (self.dir / f"{RELEASES.name}.lance").is_dir():
            raise StoreMissing(self.dir)
        self._db = lancedb.connect(self.dir)
        self._tables: dict[str, LanceTable] = {}
        with reading(self.dir):
            rows = self._open(RELEASES).to_arrow()
        self.release: Release = pick_release(parse_releases(rows), release, self.dir)

    def _open(self, table: Table) -> LanceTable:
        opened = self._db.open_table(table.name)
        if not isinstance(opened, LanceTable):
            raise TypeError(f"expected a local LanceDB table, got {type(opened).__name__}")
        return opened

    def table(self, table: Table) -> LanceTable:
        """The LanceDB table, checked out at the pinned version; opened once and kept."""
        if table.name not in self._tables:
            opened = self._open(table)
            opened.checkout(self.release.versions[table.name])
            self._tables[table.name] = opened
        return self._tables[table.name]

    def read(self, table: Table, columns: list[str] | None = None, where: Expr | None = None) -> pa.Table:
        """Rows of a table in Arrow, in no order that may be relied on."""
        query = self.table(table).search()
        if where is not None:
            query = query.where(where)
        found: pa.Table = query.select(columns or table.schema.names).to_arrow()
        return found.cast(pa.schema([table.schema.field(name) for name in found.schema.names]))
