"""Columns as arrays: strings as numbers, times as microseconds, and where a row or a value stands.

What all arrays of a release share; it knows no store.
"""

from collections.abc import Sequence
from datetime import datetime

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


def locate_rows(row_ids: npt.NDArray[np.uint64], by_row: Ints, wanted: npt.NDArray[np.uint64]) -> Ints:
    """Return where each of the row ids wanted stands among `row_ids`, whose places in ascending order are `by_row`."""
    found: Ints = by_row[np.searchsorted(row_ids, wanted, sorter=by_row)]
    return found


def find_code(values: tuple[str, ...], value: str) -> int:
    """Return where a value stands among those of a column; -2, the number of no row, for one that is not there."""
    return values.index(value) if value in values else -2


def build_filter_mask(
    workspace: Ints,
    workspaces: tuple[str, ...],
    moment: Ints,
    places: Sequence[str],
    since: datetime | None,
    until: datetime | None,
) -> Mask:
    """Return which rows are of one of some places (none: of any), and were said in a stretch of time."""
    mask: Mask = np.ones(len(moment), dtype=bool)
    if places:
        mask &= np.isin(workspace, [find_code(workspaces, place) for place in places])
    if since is not None:
        mask &= moment >= round(since.timestamp() * 1e6)
    if until is not None:
        mask &= (moment <= round(until.timestamp() * 1e6)) & (moment != NO_TIME)
    return mask
