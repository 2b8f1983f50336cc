"""Versioned Lance tables of one space: open, read, append, merge.

This module checks what Lance does not: keys are unique and not null before a merge (Lance inserts duplicate new keys of
one batch twice, and drops rows with null keys). Merges don't use indexes, since a B-tree on the key would bring the
duplicates back.
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

from slowwave.schemas.errors import BadRows, StoreMissing, translate_read_errors, translate_write_errors
from slowwave.schemas.tables import PASSAGES, RELEASES, TABLES, VECTOR, VECTOR_DIM, Table
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

if TYPE_CHECKING:  # it takes a second to import, and only writers need it
    from lancedb.db import DBConnection
    from lancedb.table import LanceTable

    Write = Callable[[LanceTable, pa.Table], object]

IDS_AT_ONCE = 2_000
"""Most keys in one filter: planning a longer list takes longer than a second scan."""


class Store:
    """The tables of one space, at their newest version. Writers hold `writer_lock`.

    Methods that read raise `StoreUnreadable` for a broken table. Methods that write raise `StoreUnwritable`, also if
    the disk is full or read-only.
    """

    def __init__(self, root: Path, space: str) -> None:
        self.root, self.space = root, space
        self.dir = root / space
        self._opened: dict[str, tuple[tuple[str, int, int], lance.LanceDataset]] = {}

    @cached_property
    def _db(self) -> "DBConnection":
        from lancedb import connect

        return connect(self.dir)

    @classmethod
    def open(cls, root: Path, space: str = "default", *, create: bool = False) -> "Store":
        """Open a space's tables; with `create`, make the missing ones.

        Raises:
            StoreMissing: the space does not exist, and create is False.
            StoreUnreadable: a table is broken, or a table that a release names is missing.
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
            for table in there:  # all tables, before any is changed
                check_columns(table, store.open_dataset(table).schema)
        if create:
            with translate_write_errors(directory):
                for table in TABLES.values():
                    if table in there:
                        restore_last_whole(directory, table, made[-1].versions.get(table.name, 0) if made else 0)
                    else:
                        schema = table.build_disk_schema(store.dim)
                        store._db.create_table(table.name, schema=schema, exist_ok=True)
        return store

    @property
    def dim(self) -> int:
        """Dimensions of the store's vectors; before the first table exists, the default."""
        if not has_table(self.dir, PASSAGES.name):
            return VECTOR_DIM
        return int(self.open_dataset(PASSAGES).schema.field("vector").type.list_size)

    def change_dim(self, dim: int) -> bool:
        """Change the dimension of the vector columns; return False, and change nothing, if the store has vectors.

        Passages are changed last, since `dim` reads them: if a run dies before, the next one repeats the change.
        """
        tables = sorted((table for table in TABLES.values() if table.vector), key=lambda table: table == PASSAGES)
        if any(self.open_dataset(table).count_rows(f"{table.vector} IS NOT NULL") for table in tables):
            return False
        with translate_write_errors(self.dir):
            for table in tables:
                rows = self.open_dataset(table).to_table().select(table.schema.names).cast(table.schema)
                fit = rows.cast(table.build_disk_schema(dim))
                self._db.create_table(table.name, fit, mode="overwrite", on_bad_vectors="null")
                check_not_torn(self.dir, table)
        return True

    def open_dataset(self, table: Table) -> lance.LanceDataset:
        """Return a table at its newest version, for reads that this class does not offer."""
        path = self.dir / f"{table.name}.lance"
        newest = identify_newest_version(path)
        version, dataset = self._opened.get(table.name, (None, None))
        if dataset is None or newest is None or version != newest:
            dataset = lance.dataset(str(path))
            if newest is not None:
                self._opened[table.name] = (newest, dataset)
        return dataset

    def open_table(self, table: Table) -> "LanceTable":
        """Return the LanceDB table at its newest version, for writes that this class does not offer."""
        return cast("LanceTable", self._db.open_table(table.name))

    def read(self, table: Table, columns: list[str] | None = None, where: pc.Expression | None = None) -> pa.Table:
        """Return rows of a table as Arrow, in an undefined order."""
        rows = self.read_as_stored(table, columns or table.schema.names, where)
        return rows.cast(pa.schema([table.schema.field(name) for name in rows.schema.names]))

    def read_as_stored(self, table: Table, columns: list[str], where: pc.Expression | None = None) -> pa.Table:
        """Return rows like `read`, with vectors in the disk's format, which takes half the bytes."""
        with translate_read_errors(self.dir):
            return self.open_dataset(table).to_table(columns=columns, filter=where)

    def read_ids(
        self,
        table: Table,
        ids: Iterable[str],
        columns: list[str] | None = None,
        by: str | None = None,
        where: pc.Expression | None = None,
    ) -> pa.Table:
        """Return the rows whose key (or column `by`) is among the ids, and that pass `where`."""
        chunks = list(_split_chunks(ids))
        if not chunks:
            return table.make_empty_table().select(columns or table.schema.names)
        conditions = (pc.field(by or table.key).isin(chunk) for chunk in chunks)
        return pa.concat_tables([self.read(table, columns, w if where is None else w & where) for w in conditions])

    def count(self, table: Table, where: pc.Expression | None = None) -> int:
        """Return the number of rows of a table that pass `where`."""
        with translate_read_errors(self.dir):
            return int(self.open_dataset(table).count_rows(where))

    def append(self, table: Table, rows: pa.Table) -> int:
        """Add rows with new keys, which is not checked against the stored ones; return their number.

        Raises:
            BadRows: a key is null or repeated.
        """
        return self._write(table, rows, lambda opened, fit: opened.add(fit, on_bad_vectors="null"))

    def merge(self, table: Table, rows: pa.Table) -> int:
        """Insert rows with new keys and replace rows with stored keys; return the number of rows written.

        Raises:
            BadRows: a key is null or repeated.
        """

        def merge(opened: "LanceTable", fit: pa.Table) -> None:
            builder = opened.merge_insert(table.key).when_matched_update_all().when_not_matched_insert_all()
            builder.use_index(False).execute(fit, on_bad_vectors="null")

        return self._write(table, rows, merge)

    def update(self, table: Table, rows: pa.Table) -> int:
        """Set columns of stored rows, by their key; return the number of rows. With many rows, other columns are
        neither read nor written.

        Raises:
            BadRows: a key is null or repeated.
        """
        others = [name for name in table.schema.names if name not in rows.column_names]
        is_fit = pc.count_distinct(rows[table.key], mode="only_valid").as_py() == rows.num_rows  # else `_write` raises
        if is_fit and 10 * rows.num_rows < self.count(table):  # few rows: a column would be rewritten for a whole file
            stored = self.read_ids(table, rows[table.key].to_pylist(), [table.key, *others])
            rows = rows.take(pc.index_in(stored[table.key], rows[table.key].combine_chunks()))
            columns = [*rows.columns, *stored.columns[1:]]
            return self.merge(table, pa.table(columns, [*rows.column_names, *others]))

        def merge(_: "LanceTable", fit: pa.Table) -> None:
            builder = self.open_dataset(table).merge_insert(table.key).when_matched_update_all().use_index(False)
            builder.write_mode("rewrite_columns").execute(fit)

        return self._write(table, rows, merge, others)

    def merge_changed(self, table: Table, rows: pa.Table) -> int:
        """Merge like `merge`, without rows equal to the stored ones; if no row is left, make no version."""
        stored = {row[table.key]: row for row in self.read_ids(table, rows.column(table.key).to_pylist()).to_pylist()}
        fresh = [row for row in rows.to_pylist() if stored.get(row[table.key]) != row]
        return self.merge(table, pa.Table.from_pylist(fresh, schema=table.schema))

    def delete_ids(self, table: Table, ids: Iterable[str]) -> None:
        """Delete rows by key. A night never deletes rows of the vault."""
        if not (chunks := list(_split_chunks(ids))):
            return
        from lancedb.expr import col

        with translate_write_errors(self.dir):
            for chunk in chunks:
                self.open_table(table).delete(col(table.key).isin(chunk))
            check_not_torn(self.dir, table)

    def read_versions(self, tables: Iterable[Table]) -> dict[str, int]:
        """Return the newest version of each table."""
        with translate_read_errors(self.dir):
            return {t.name: int(self.open_dataset(t).version) for t in tables}

    def restore_versions(self, versions: Mapping[str, int]) -> None:
        """Restore tables to these versions; a table already at its version is left as it is."""
        with translate_write_errors(self.dir):
            for name, version in versions.items():
                if int((table := self.open_table(TABLES[name])).version) != version:
                    table.restore(version)

    def _write(self, table: Table, rows: pa.Table, write: "Write", but: Sequence[str] = ()) -> int:
        """Check rows, write them without the columns `but`, and return their number; without rows, make no version.

        Raises:
            BadRows: a key is null or repeated.
        """
        if rows.num_rows:
            keys = rows.column(table.key)
            if keys.null_count:
                raise BadRows(table.name, f"{keys.null_count} rows have no {table.key}")
            schema = table.build_disk_schema(self.dim) if VECTOR in table.schema.types else table.schema
            schema = pa.schema([field for field in schema if field.name not in but])
            fit = rows.select(schema.names).cast(schema)
            if repeated := rows.num_rows - pc.count_distinct(keys).as_py():
                raise BadRows(table.name, f"{repeated} of {rows.num_rows} rows repeat a {table.key}")
            release_memory()
            with translate_write_errors(self.dir):
                write(self.open_table(table), fit)
                check_not_torn(self.dir, table)
        return int(rows.num_rows)


def release_memory() -> None:
    """Return unused memory of Arrow and the C library to the system: they can keep as much as a merge needs."""
    pa.default_memory_pool().release_unused()
    with suppress(AttributeError, TypeError):  # another C library than GNU's
        ctypes.CDLL(None).malloc_trim(0)


def _split_chunks(ids: Iterable[str]) -> Iterator[list[str]]:
    once = list(dict.fromkeys(ids))
    return (once[start : start + IDS_AT_ONCE] for start in range(0, len(once), IDS_AT_ONCE))
