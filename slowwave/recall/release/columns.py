"""Columns as arrays: strings as numbers, times as microseconds, and where a row or a value stands.

What all arrays of a release share; it knows no store.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

NO_TIME = np.iinfo(np.int64).min
"""The moment of what has no time."""


def encode_column(column: pa.ChunkedArray) -> tuple[Ints, tuple[str, ...]]:
    """Return numbers in place of a column's equal strings, -1 for null, and the strings."""
    encoded = column.combine_chunks().dictionary_encode()
    codes = pc.fill_null(encoded.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
    return codes, tuple(encoded.dictionary.to_pylist())


def convert_timestamps(column: pa.ChunkedArray) -> Ints:
    """Return microseconds since 1970, UTC; NO_TIME for null."""
    moments: Ints = pc.fill_null(column.cast(pa.int64()), NO_TIME).to_numpy()
    return moments


def build_matrix(vectors: pa.ChunkedArray) -> npt.NDArray[np.float32]:
    """Return the vectors of a column, those that are null left out, shape (rows, dim)."""
    column = vectors.combine_chunks().drop_null()
    return np.asarray(column.flatten(), dtype=np.float32).reshape(len(column), column.type.list_size)


def find_code(values: tuple[str, ...], value: str) -> int:
    """Return where a value stands among those of a column; -2, the number of no row, for one that is not there."""
    return values.index(value) if value in values else -2


@dataclass(frozen=True, kw_only=True)
class RowIndex:
    """Arrays over all rows of a table, each row at its *place*: where it stands, and what conditions are about."""

    offsets: Ints
    """Of each row in its table."""
    row_ids: npt.NDArray[np.uint64]
    workspace: Ints
    workspaces: tuple[str, ...]
    moment: Ints
    """Microseconds since 1970, UTC; NO_TIME where unknown."""
    speaker: Ints
    """Place in `speakers`; -1 where nobody is named."""
    speakers: tuple[str, ...]

    @cached_property
    def _by_row(self) -> Ints:
        """Places in order of row id."""
        return np.argsort(self.row_ids)

    def locate(self, row_ids: npt.NDArray[np.uint64]) -> Ints:
        """Return the places of rows."""
        places: Ints = self._by_row[np.searchsorted(self.row_ids, row_ids, sorter=self._by_row)]
        return places

    def mask_within(self, places: Sequence[str], since: datetime | None, until: datetime | None) -> Mask:
        """Return which rows are of one of some workspaces (none: of any), and were said in a stretch of time."""
        mask: Mask = np.ones(len(self.moment), dtype=bool)
        if places:
            mask &= np.isin(self.workspace, [find_code(self.workspaces, place) for place in places])
        if since is not None:
            mask &= self.moment >= round(since.timestamp() * 1e6)
        if until is not None:
            mask &= (self.moment <= round(until.timestamp() * 1e6)) & (self.moment != NO_TIME)
        return mask
