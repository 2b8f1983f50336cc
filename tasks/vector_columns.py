"""Vectors as an Arrow column and as a matrix, of any dimension."""

import numpy as np
import pyarrow as pa

from slowwave.engines.encoders.protocol import Vectors


def build_vector_array(vectors: Vectors) -> pa.ListArray:
    """Return an Arrow column of vectors, shape (n, dim)."""
    flat = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).reshape(-1))
    starts = np.arange(len(vectors) + 1, dtype=np.int32) * vectors.shape[1]
    return pa.ListArray.from_arrays(pa.array(starts), flat)


def build_vector_matrix(column: pa.Array | pa.ChunkedArray) -> Vectors:
    """Return shape (n, dim) of a vector column, zeros for a null; dim is 0 if all are null. Not to be written to:
    without nulls it is the column's own memory.
    """
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if len(array) and not array.null_count:
        whole: Vectors = array.flatten().to_numpy().reshape(len(array), -1)
        return whole
    has = array.is_valid().to_numpy(zero_copy_only=False)
    values = array.drop_null().flatten().to_numpy(zero_copy_only=False)
    matrix = np.zeros((len(array), len(values) // max(has.sum(), 1)), dtype=np.float32)
    matrix[has] = values.reshape(has.sum(), matrix.shape[1])
    return matrix
