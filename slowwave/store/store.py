"""Versioned Lance tables of one space: open, read, append, merge.

What Lance does not promise is checked here: keys are unique and not null before a merge (duplicate new keys in one
batch are both inserted, null keys vanish), and indexes are left out of merges, since a B-tree on the key
brings the duplicates back.
"""

import ctypes
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.errors import (
    BadRows,
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
from slowwave.store.place import find_place, report_missing
from slowwave.store.private import close_to_others, make_private_folder
from slowwave.store.releases import check_columns, check_tables_exist, load_releases

Write = Callable[[lance.LanceDataset, pa.Table], object]

IDS_AT_ONCE = 2_000
"""Keys in one filter: longer lists cost more to plan than a second scan."""
LARGE = 1 << 20
"""Bytes of rows from which on a write is given free memory."""


class Store:
    """The tables of one space, at their newest version. Writers must hold `writer_lock`.

    Methods that read raise `StoreUnreadable` if a table is broken. Methods that write raise `StoreUnwritable` if a
    table is broken, the disk is full, or a right is missing.
    """

    def __init__(self, root: Path, space: str) -> None:
        self.root = root
        self.space = space
        self.dir = root / space
        self._opened: dict[str, tuple[tuple[str, int, int], lance.LanceDataset]] = {}

    @classmethod
    def open(
        cls,
        root: Path,
        space: str = "default",
        *,
        create: bool = False,
    ) -> "Store":
        """Open a space's tables.

        With `create`, make the missing tables, restore the last complete version of the others, and remove other users'
        permissions.

        Raises:
            StoreMissing: the store or space does not exist, and `create` is off.
            StoreUnreadable: a table is broken, or missing although a release names it.
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
                raise report_missing(directory)
        check_tables_exist(directory, made)
        if create:
            make_private_folder(directory)
            close_to_others(directory)
        store = cls(root, space)
        there = [table for table in TABLES.values() if has_table(directory, table.name)]
        with translate_read_errors(directory):
            for table in there:  # all are checked before anything is changed
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
                        create_table(directory, table, schema.empty_table())
        return store

    @property
    def dim(self) -> int:
        """Dimensions of the store's vectors, or of those it was made for if it has none yet."""
        if not has_table(self.dir, PASSAGES.name):
            return VECTOR_DIM
        return int(self.open_dataset(PASSAGES).schema.field("vector").type.list_size)

    def change_dim(self, dim: int) -> None:
        """Change the dimension of the vector columns. All vectors are set to null in the newest tables.

        Earlier releases keep their vectors. Each step makes its vectors again, since the encoder is another one.
        Passages are changed last, and `dim` reads them. So if the run is killed before, the next run does all of it
        again.
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
                create_table(self.dir, table, fit, mode="overwrite")
                check_not_torn(self.open_dataset(table))

    def open_dataset(self, table: Table) -> lance.LanceDataset:
        """Return the Lance dataset of a table at its newest version. An open dataset of this version is reused."""
        path = self.dir / f"{table.name}.lance"
        newest = identify_newest_version(path)
        version, dataset = self._opened.get(table.name, (None, None))
        if dataset is None or newest is None or version != newest:
            dataset = lance.dataset(str(path))
            if newest is not None:
                self._opened[table.name] = (newest, dataset)
        return dataset

    def read(
        self,
        table: Table,
        columns: list[str] | None = None,
        where: pc.Expression | None = None,
    ) -> pa.Table:
        """Return rows of a table as Arrow, in an undefined order."""
        rows = self.read_as_stored(table, columns or table.schema.names, where)
        return rows.cast(
            pa.schema([table.schema.field(name) for name in rows.schema.names])
        )

    def read_as_stored(
        self,
        table: Table,
        columns: list[str],
        where: pc.Expression | None = None,
    ) -> pa.Table:
        """Return rows like `read`, with vectors in half precision as on disk."""
        with translate_read_errors(self.dir):
            dataset = self.open_dataset(table)
            if not dataset.get_fragments():
                # Lance plans a scan of a table without files too, for a millisecond.
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
        """Return the rows whose key (or column `by`) is among the ids and that pass `where`, in an undefined order."""
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
        """Return the number of rows of a table, or of those that pass `where`."""
        with translate_read_errors(self.dir):
            return int(self.open_dataset(table).count_rows(where))

    def append(self, table: Table, rows: pa.Table) -> int:
        """Add rows that are known to be new; return how many.

        Raises:
            BadRows: a key is null or occurs twice.
        """
        return self._write(table, rows, lance.LanceDataset.insert)

    def merge(self, table: Table, rows: pa.Table) -> int:
        """Insert rows with new keys, and replace the rows with known keys; return how many were written.

        Raises:
            BadRows: a key is null or occurs twice.
        """

        def merge(dataset: lance.LanceDataset, fit: pa.Table) -> None:
            if _has_only_new_keys(dataset, table, fit):
                # Adding the rows takes half as long.
                dataset.insert(fit)
                return
            builder = (
                dataset.merge_insert(table.key)
                .when_matched_update_all()
                .when_not_matched_insert_all()
            )
            builder.use_index(False).execute(fit)

        return self._write(table, rows, merge)

    def update(self, table: Table, rows: pa.Table) -> int:
        """Set the given columns of stored rows with the same keys; return how many rows were given.

        If many rows are changed, the other columns are neither read nor written.

        Raises:
            BadRows: a key is null or occurs twice.
        """
        others = [name for name in table.schema.names if name not in rows.column_names]
        # other rows are refused by `_write`
        is_fit = (
            pc.count_distinct(rows[table.key], mode="only_valid").as_py()
            == rows.num_rows
        )
        if is_fit and 10 * rows.num_rows < self.count(table):
            # Few rows are written with all columns, since Lance rewrites a single column for a whole file.
            stored = self.read_ids(
                table, rows[table.key].to_pylist(), [table.key, *others]
            )
            rows = rows.take(
                pc.index_in(stored[table.key], rows[table.key].combine_chunks())
            )
            columns = [*rows.columns, *stored.columns[1:]]
            return self.merge(table, pa.table(columns, [*rows.column_names, *others]))

        def merge(dataset: lance.LanceDataset, fit: pa.Table) -> None:
            builder = (
                dataset.merge_insert(table.key)
                .when_matched_update_all()
                .use_index(False)
            )
            builder.write_mode("rewrite_columns").execute(fit)

        return self._write(table=table, rows=rows, write=merge, but=others)

    def merge_changed(self, table: Table, rows: pa.Table) -> int:
        """Merge like `merge`, without the rows that are stored already. If none is left, no version is made."""
        stored = {
            row[table.key]: row
            for row in self.read_ids(
                table, rows.column(table.key).to_pylist()
            ).to_pylist()
        }
        fresh = [row for row in rows.to_pylist() if stored.get(row[table.key]) != row]
        write = self.merge if stored else self.append
        return write(table, pa.Table.from_pylist(fresh, schema=table.schema))

    def delete_ids(self, table: Table, ids: Iterable[str]) -> None:
        """Delete the rows with these keys. Without keys, no version is made."""
        if not (chunks := list(_split_chunks(ids))):
            return
        with translate_write_errors(self.dir):
            for chunk in chunks:
                self.open_dataset(table).delete(pc.field(table.key).isin(chunk))
            check_not_torn(self.open_dataset(table))

    def read_versions(self, tables: Iterable[Table]) -> dict[str, int]:
        """Return the newest version of each table, by its name."""
        with translate_read_errors(self.dir):
            return {t.name: int(self.open_dataset(t).version) for t in tables}

    def restore_versions(self, versions: Mapping[str, int]) -> None:
        """Restore the tables to these versions, each as a new version. Tables that have not changed are left alone."""
        with translate_write_errors(self.dir):
            for name, version in versions.items():
                if self.open_dataset(TABLES[name]).version != version:
                    path = str(self.dir / f"{name}.lance")
                    lance.dataset(path, version=version).restore()  # type: ignore[no-untyped-call]

    def _write(
        self,
        table: Table,
        rows: pa.Table,
        write: Write,
        but: Sequence[str] = (),
    ) -> int:
        """Check rows, cast them to the stored schema without the columns `but`, write them, and return how many.

        Without rows, no version is made.

        Raises:
            BadRows: a key is null or occurs twice.
        """
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
            if fit.nbytes > LARGE:
                release_memory()
            with translate_write_errors(self.dir):
                write(self.open_dataset(table), _clear_bad_vectors(table, fit))
                check_not_torn(self.open_dataset(table))
        return int(rows.num_rows)


def create_table(
    folder: Path, table: Table, rows: pa.Table, mode: str = "create"
) -> None:
    """Make a table of a space with these rows, or with `mode="overwrite"` its next version."""
    path = str(folder / f"{table.name}.lance")
    lance.write_dataset(_clear_bad_vectors(table, rows), path, mode=mode)


def _has_only_new_keys(
    dataset: lance.LanceDataset, table: Table, rows: pa.Table
) -> bool:
    """Return True if no row's key is stored. A large table is not asked: that costs as much as a merge."""
    if not dataset.get_fragments():
        return True
    if max(rows.num_rows, dataset.count_rows()) > IDS_AT_ONCE:
        return False
    keys = rows[table.key].to_pylist()
    return not dataset.count_rows(pc.field(table.key).isin(keys))


def _clear_bad_vectors(table: Table, rows: pa.Table) -> pa.Table:
    """Set vectors to null that contain NaN, since no distance to them is a number."""
    if table.vector not in rows.column_names:
        return rows
    at = rows.column_names.index(table.vector)
    vectors = rows.column(at).combine_chunks()
    is_bad = np.isnan(vectors.flatten().to_numpy(zero_copy_only=False))
    if not is_bad.any():
        return rows
    bad = pc.unique(pc.list_parent_indices(vectors).filter(pa.array(is_bad)))
    is_fit = pc.invert(pc.is_in(pa.array(range(len(rows))), bad))
    cleared = pc.if_else(is_fit, vectors, pa.scalar(None, vectors.type))
    return rows.set_column(at, rows.field(at), cleared)


def release_memory() -> None:
    """Return unused memory to the system. Arrow and the C library keep about as much as Lance needs for a merge."""
    pa.default_memory_pool().release_unused()
    with suppress(AttributeError, TypeError):  # no GNU C library
        ctypes.CDLL(None).malloc_trim(0)


def _split_chunks(ids: Iterable[str]) -> Iterator[list[str]]:
    once = list(dict.fromkeys(ids))
    return (
        once[start : start + IDS_AT_ONCE] for start in range(0, len(once), IDS_AT_ONCE)
    )
