"""Versioned Lance tables of one space: open, read, append, merge.

What Lance does not promise is checked here: keys are unique and not null before a merge (duplicate new keys in one
batch are both inserted, null keys vanish), and indexes are left out of merges, since a B-tree on the key
brings the duplicates back.
"""

import ctypes
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, cast

import lance
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.errors import (
    BadRows,
    StoreMissing,
    translate_read_errors,
    translate_write_errors,
)
from slowwave.schemas.tables import (
    PASSAGES,
    RELEASES,
    TABLES,
    VECTOR,
    VECTOR_DIM,
    Table,
)
from slowwave.store.manifest import (
    check_ledger_whole,
    check_not_torn,
    find_last_known,
    has_table,
    identify_newest_version,
    restore_last_whole,
)
from slowwave.store.place import find_place
from slowwave.store.private import close_to_others, make_private_folder
from slowwave.store.releases import check_columns, check_tables_exist, load_releases

if TYPE_CHECKING:  # it takes a second to import, and only who writes needs it
    from lancedb.db import DBConnection
    from lancedb.table import LanceTable

    Write = Callable[[LanceTable, pa.Table], object]

IDS_AT_ONCE = 2_000
"""Keys in one filter: longer lists cost more to plan than a second scan."""


class Store:
    """The tables of one space, at their newest version. Writers hold `writer_lock`.

    What reads raises `StoreUnreadable` for a table that is broken; what writes raises `StoreUnwritable`, also where
    there is no room or no right.
    """

    def __init__(self, root: Path, space: str) -> None:
        self.root = root
        self.space = space
        self.dir = root / space
        self._opened: dict[str, tuple[tuple[str, int, int], lance.LanceDataset]] = {}

    @cached_property
    def _db(self) -> "DBConnection":
        from lancedb import connect

        return connect(self.dir)

    @classmethod
    def open(
        cls, root: Path, space: str = "default", *, create: bool = False
    ) -> "Store":
        """Open a space's tables; with `create`, make those that are not there.

        Raises:
            StoreMissing: there is none, and create is False.
            StoreUnreadable: a table is broken, or gone though a release names it.
            SchemaMismatch: another version of slowwave wrote a table.
        """
        directory = root / space
        find_place(root).pull(space)
        if has_table(directory, RELEASES.name):
            made = load_releases(directory)
        else:
            check_ledger_whole(directory, 0, find_last_known(directory))
            made = []
            if not create:
                raise StoreMissing(directory)
        check_tables_exist(directory, made)
        if create:
            make_private_folder(directory)
            close_to_others(directory)
        store = cls(root, space)
        there = [table for table in TABLES.values() if has_table(directory, table.name)]
        with translate_read_errors(directory):
            for table in there:  # all, before anything is changed
                check_columns(table, store.open_dataset(table).schema)
        if create:
            with translate_write_errors(directory):
                for table in TABLES.values():
                    if table in there:
                        restore_last_whole(
                            directory,
                            table,
                            made[-1].versions.get(table.name, 0) if made else 0,
                        )
                    else:
                        schema = table.build_disk_schema(store.dim)
                        store._db.create_table(table.name, schema=schema, exist_ok=True)
        return store

    @property
    def dim(self) -> int:
        """Dimensions of the store's vectors, or those that it was made for while it has none."""
        if not has_table(self.dir, PASSAGES.name):
            return VECTOR_DIM
        return int(self.open_dataset(PASSAGES).schema.field("vector").type.list_size)

    def change_dim(self, dim: int) -> None:
        """Make room for vectors of another dimension. Those that are there are dropped, and kept by the releases that
        have them: each step makes its own again, since it sees another encoder.

        Passages are the last: a run that dies before finds the store as it was, and does it again.
        """
        tables = sorted(
            (table for table in TABLES.values() if table.vector),
            key=lambda table: table == PASSAGES,
        )
        with translate_write_errors(self.dir):
            for table in tables:
                kept = [name for name in table.schema.names if name != table.vector]
                rows = self.open_dataset(table).to_table(kept)
                at = table.schema.get_field_index(str(table.vector))
                rows = rows.add_column(
                    at,
                    table.schema.field(at),
                    pa.nulls(len(rows), table.schema.field(at).type),
                )
                fit = rows.cast(table.schema).cast(table.build_disk_schema(dim))
                self._db.create_table(
                    table.name, fit, mode="overwrite", on_bad_vectors="null"
                )
                check_not_torn(self.dir, table)

    def open_dataset(self, table: Table) -> lance.LanceDataset:
        """Return a table at its newest version, for reading what this class does not."""
        path = self.dir / f"{table.name}.lance"
        newest = identify_newest_version(path)
        version, dataset = self._opened.get(table.name, (None, None))
        if dataset is None or newest is None or version != newest:
            dataset = lance.dataset(str(path))
            if newest is not None:
                self._opened[table.name] = (newest, dataset)
        return dataset

    def open_table(self, table: Table) -> "LanceTable":
        """Return the LanceDB table at its newest version, for writing what this class does not."""
        return cast("LanceTable", self._db.open_table(table.name))

    def read(
        self,
        table: Table,
        columns: list[str] | None = None,
        where: pc.Expression | None = None,
    ) -> pa.Table:
        """Return rows of a table in Arrow, in no order that may be relied on."""
        rows = self.read_as_stored(table, columns or table.schema.names, where)
        return rows.cast(
            pa.schema([table.schema.field(name) for name in rows.schema.names])
        )

    def read_as_stored(
        self, table: Table, columns: list[str], where: pc.Expression | None = None
    ) -> pa.Table:
        """Return rows like `read`, with vectors as they are on disk: in half the bytes."""
        with translate_read_errors(self.dir):
            dataset = self.open_dataset(table)
            if not dataset.get_fragments():
                # Of a table without files Lance plans a scan too, for a millisecond.
                return pa.schema(map(dataset.schema.field, columns)).empty_table()
            return dataset.to_table(columns=columns, filter=where)

    def read_ids(
        self,
        table: Table,
        ids: Iterable[str],
        columns: list[str] | None = None,
        by: str | None = None,
        where: pc.Expression | None = None,
    ) -> pa.Table:
        """Return rows whose key (or column `by`) is among the ids, and that fit `where`."""
        chunks = list(_split_chunks(ids))
        if not chunks:
            return table.make_empty_table().select(columns or table.schema.names)
        conditions = (pc.field(by or table.key).isin(chunk) for chunk in chunks)
        return pa.concat_tables(
            [
                self.read(table, columns, w if where is None else w & where)
                for w in conditions
            ]
        )

    def count(self, table: Table, where: pc.Expression | None = None) -> int:
        """Return rows of a table."""
        with translate_read_errors(self.dir):
            return int(self.open_dataset(table).count_rows(where))

    def append(self, table: Table, rows: pa.Table) -> int:
        """Add rows that are known to be new; returns how many.

        Raises:
            BadRows: a null or repeated key among them.
        """
        return self._write(
            table, rows, lambda opened, fit: opened.add(fit, on_bad_vectors="null")
        )

    def merge(self, table: Table, rows: pa.Table) -> int:
        """Insert the new keys and replace the rows of known ones; returns how many were written.

        Raises:
            BadRows: a null or repeated key among them.
        """

        def merge(opened: "LanceTable", fit: pa.Table) -> None:
            builder = (
                opened.merge_insert(table.key)
                .when_matched_update_all()
                .when_not_matched_insert_all()
            )
            builder.use_index(False).execute(fit, on_bad_vectors="null")

        return self._write(table, rows, merge)

    def update(self, table: Table, rows: pa.Table) -> int:
        """Set columns of stored rows, by their key; returns how many. Others of many rows are neither read nor written.

        Raises:
            BadRows: a null or repeated key among them.
        """
        others = [name for name in table.schema.names if name not in rows.column_names]
        # Else it is refused.
        is_fit = (
            pc.count_distinct(rows[table.key], mode="only_valid").as_py()
            == rows.num_rows
        )
        if is_fit and 10 * rows.num_rows < self.count(table):
            # Few are written whole: a column is, for a whole file.
            stored = self.read_ids(
                table, rows[table.key].to_pylist(), [table.key, *others]
            )
            rows = rows.take(
                pc.index_in(stored[table.key], rows[table.key].combine_chunks())
            )
            columns = [*rows.columns, *stored.columns[1:]]
            return self.merge(table, pa.table(columns, [*rows.column_names, *others]))

        def merge(_: "LanceTable", fit: pa.Table) -> None:
            builder = (
                self.open_dataset(table)
                .merge_insert(table.key)
                .when_matched_update_all()
                .use_index(False)
            )
            builder.write_mode("rewrite_columns").execute(fit)

        return self._write(table, rows, merge, others)

    def merge_changed(self, table: Table, rows: pa.Table) -> int:
        """Merge like `merge`, but rows equal to what is stored are left out; with none left, no version is made."""
        stored = {
            row[table.key]: row
            for row in self.read_ids(
                table, rows.column(table.key).to_pylist()
            ).to_pylist()
        }
        fresh = [row for row in rows.to_pylist() if stored.get(row[table.key]) != row]
        return self.merge(table, pa.Table.from_pylist(fresh, schema=table.schema))

    def delete_ids(self, table: Table, ids: Iterable[str]) -> None:
        """Remove rows by key. The vault has no such call on its way through the night."""
        if not (chunks := list(_split_chunks(ids))):
            return
        from lancedb.expr import col

        with translate_write_errors(self.dir):
            for chunk in chunks:
                self.open_table(table).delete(col(table.key).isin(chunk))
            check_not_torn(self.dir, table)

    def read_versions(self, tables: Iterable[Table]) -> dict[str, int]:
        """Return newest version of each table."""
        with translate_read_errors(self.dir):
            return {t.name: int(self.open_dataset(t).version) for t in tables}

    def restore_versions(self, versions: Mapping[str, int]) -> None:
        """Make the tables again what they were at these versions; one that has not changed is left alone."""
        with translate_write_errors(self.dir):
            for name, version in versions.items():
                if int((table := self.open_table(TABLES[name])).version) != version:
                    table.restore(version)

    def _write(
        self, table: Table, rows: pa.Table, write: "Write", but: Sequence[str] = ()
    ) -> int:
        """Write rows that may be stored, without some columns, and return how many; of none no version is made."""
        if rows.num_rows:
            # Keys are there, and unique.
            keys = rows.column(table.key)
            if keys.null_count:
                raise BadRows(table.name, f"{keys.null_count} rows have no {table.key}")
            schema = (
                table.build_disk_schema(self.dim)
                if VECTOR in table.schema.types
                else table.schema
            )
            schema = pa.schema([field for field in schema if field.name not in but])
            fit = rows.select(schema.names).cast(schema)
            if repeated := rows.num_rows - pc.count_distinct(keys).as_py():
                raise BadRows(
                    table.name,
                    f"{repeated} of {rows.num_rows} rows repeat a {table.key}",
                )
            release_memory()
            with translate_write_errors(self.dir):
                write(self.open_table(table), fit)
                check_not_torn(self.dir, table)
        return int(rows.num_rows)


def release_memory() -> None:
    """Give back what is no longer used: Arrow and the C library keep it, as much again as Lance takes for a merge."""
    pa.default_memory_pool().release_unused()
    with suppress(AttributeError, TypeError):  # no GNU C library
        ctypes.CDLL(None).malloc_trim(0)


def _split_chunks(ids: Iterable[str]) -> Iterator[list[str]]:
    once = list(dict.fromkeys(ids))
    return (
        once[start : start + IDS_AT_ONCE] for start in range(0, len(once), IDS_AT_ONCE)
    )
