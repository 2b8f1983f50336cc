"""The tables of one release, each opened once at its pinned version, and what is kept of them in memory."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import RLock
from typing import Any, Generic, Self, TypeVar

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.recall.release.columns import Ints, Mask, build_matrix
from slowwave.schemas.errors import StoreUnreadable
from slowwave.schemas.tables import TABLES, Table
from slowwave.store.manifest import find_altered_files
from slowwave.store.releases import Release, load_releases, pick_release
from slowwave.store.snapshot import open_pinned
from slowwave.store.trouble import READ_TROUBLE

FLAT_ROWS = 100_000
"""Up to here a table's vectors are held in memory and compared one by one: exact, and faster than an index."""

Floats = npt.NDArray[np.float32]

Row = dict[str, Any]

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


class LRUCache(Generic[K, T]):
    """The last `size` values made, by key; shared by threads."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._values: OrderedDict[K, T] = OrderedDict()
        self._lock = RLock()

    def get(self, key: K) -> T | None:
        """Return the value of a key; None when it is not there."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: K, value: T) -> None:
        """Keep a value; the one longest unused makes room."""
        with self._lock:
            self._values[key] = value
            if len(self._values) > self.size:
                self._values.popitem(last=False)


class shared_property(Generic[T]):  # noqa: N801 - used as `property` is
    """A property made by the first who asks, under its owner's `lock`, and then a plain attribute."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self.make, self.name, self.__doc__ = make, make.__name__, make.__doc__

    def __get__(self, owner: Any, _: type) -> T:
        with owner.lock:
            if self.name not in owner.__dict__:
                owner.__dict__[self.name] = self.make(owner)
        found: T = owner.__dict__[self.name]
        return found


class OpenTable:
    """One table at its pinned version."""

    def __init__(self, folder: Path, release: Release, table: Table) -> None:
        self.dir, self.release, self.table, self.lock = folder, release, table, RLock()

    @shared_property
    def dataset(self) -> lance.LanceDataset:
        """The Lance dataset at that version."""
        return open_pinned(self.dir, self.release, self.table)

    @shared_property
    def rows(self) -> int:
        """How many there are."""
        return int(self.dataset.count_rows())

    @shared_property
    def indexed(self) -> frozenset[str]:
        """The columns that have an index of full text; none where a file of an index is broken."""
        found = [index.field_names[0] for index in self.dataset.describe_indices() if index.index_type == "Inverted"]
        return frozenset(found if found and self.broken_index is None else ())

    @shared_property
    def broken_index(self) -> str | None:
        """A file of an index that is not as it was, and how."""
        altered = find_altered_files(self.dir, self.release.number, self.table.name, indexes=True)
        return next((f"{name}: {what}" for name, what in altered.items()), None)

    @shared_property
    def keys(self) -> pa.ChunkedArray:
        """The key of every row, by offset."""
        return self.dataset.to_table(columns=[self.table.key])[self.table.key]

    @shared_property
    def vectors(self) -> tuple[Floats, Mask]:
        """All vectors by offset, shape (rows, dim), and which rows have one."""
        column = self.dataset.to_table(columns=["vector"])["vector"]
        known = column.is_valid().to_numpy()
        matrix = np.zeros((len(column), column.type.list_size), dtype=np.float32)
        matrix[known] = build_matrix(column)
        return matrix, known


class Tables:
    """The tables of one space as one release has them, for reading by many threads."""

    def __init__(self, folder: Path, release: Release) -> None:
        self.dir, self.release, self.lock = folder, release, RLock()
        self._open = {name: OpenTable(folder, release, table) for name, table in TABLES.items()}

    @classmethod
    def open(cls, root: Path, space: str, release: str | None = None) -> Self:
        """Return the live release of a space, or the one of that id or name.

        Raises:
            StoreMissing: there is no such store or space.
            StoreUnreadable: what is there is broken.
            SchemaMismatch: another version of slowwave wrote it.
            NoRelease: nothing is released yet, or not under that name.
        """
        folder = root / space
        view = cls(folder, pick_release(load_releases(folder), release, folder))
        for name in view.release.versions:
            with suppress(*READ_TROUBLE, StoreUnreadable):  # told to whoever needs the table
                view.open_dataset(TABLES[name])
        return view

    def open_dataset(self, table: Table) -> lance.LanceDataset:
        """Return the Lance dataset at the pinned version.

        Raises:
            StoreUnreadable: it is gone.
            SchemaMismatch: another version of slowwave wrote it.
        """
        return self._open[table.name].dataset

    def count(self, table: Table) -> int:
        """Return rows of a table."""
        return self._open[table.name].rows

    def has_full_text(self, table: Table, column: str | None = None) -> bool:
        """Return whether a column, by default the table's text, has an index of full text."""
        return (column or table.full_text) in self._open[table.name].indexed

    def find_broken_index(self, table: Table) -> str | None:
        """Return a file of the table's indexes that is not as it was, and how; None where all are."""
        return self._open[table.name].broken_index

    def read(self, table: Table, columns: Sequence[str], where: pc.Expression | None = None) -> pa.Table:
        """Return columns of the rows that pass, in no order that may be relied on."""
        return self.open_dataset(table).to_table(columns=list(columns), filter=where)

    def read_by_id(self, table: Table, ids: Sequence[str], columns: Sequence[str]) -> dict[str, Row]:
        """Return rows by key; ids that the table does not hold are left out. Scans the key column once."""
        offsets = self.find_offsets(table, ids)
        if not len(offsets):
            return {}
        rows = self.take(table, offsets, [table.key, *(name for name in columns if name != table.key)])
        return {str(row[table.key]): row for row in rows.to_pylist()}

    def find_offsets(self, table: Table, ids: Sequence[str]) -> Ints:
        """Return where rows stand, ascending, by key; ids that the table does not hold are left out."""
        if not ids or not self.count(table):
            return np.zeros(0, dtype=np.int64)
        keys = self.read_keys(table)
        return np.flatnonzero(pc.is_in(keys, value_set=pa.array(set(ids), keys.type)).to_numpy())

    def read_keys(self, table: Table) -> pa.ChunkedArray:
        """Return the key of every row, by offset."""
        return self._open[table.name].keys

    def take(self, table: Table, offsets: Ints, columns: Sequence[str]) -> pa.Table:
        """Return rows at these offsets, in their order."""
        return self.open_dataset(table).take(offsets, columns=list(columns))

    def load_vectors(self, table: Table) -> tuple[Floats, Mask] | None:
        """Return all vectors by offset, shape (rows, dim), and which rows have one.

        None where the table is too large.
        """
        return None if self.count(table) > FLAT_ROWS else self._open[table.name].vectors
