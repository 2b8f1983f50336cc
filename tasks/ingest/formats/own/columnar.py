"""Parquet and Arrow IPC (Feather v2, file or stream) with the columns of `generic.py`, read batch by batch.

`content` is a string column, or a list of structs with the fields of a block. Compressed copies (`.gz`, `.zst`) are
unpacked into a temporary file first, because both formats are read from their end.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.dataset

from slowwave.tasks.ingest.formats.own import generic
from slowwave.tasks.ingest.parsing.lines import DAMAGE, decompress_file
from slowwave.tasks.ingest.parsing.records import Head, Limits, Reader, Record, Rejected

COLUMNS = (
    *("session_id", "message_id", "role", "content", "ts", "workspace", "speaker", "title"),
    *("name", "call_id", "tool_call_id", "tags"),
)
ROWS = 4096
FORMATS = {b"PAR1": "parquet", b"ARRO": "ipc", b"\xff\xff\xff\xff": "stream"}
"""By the first four bytes of a file."""
DAMAGED = (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError, *DAMAGE)


def sniff(head: Head) -> bool:
    """Return whether it is a Parquet or Arrow file with columns role and content.

    A damaged one is claimed, and says so.
    """
    try:
        return {"role", "content"} <= set(read_column_names(head))
    except DAMAGED:
        return FORMATS[head.data[:4]] != "stream"


def read_column_names(head: Head) -> list[str]:
    """Return the names of a Parquet or Arrow file's columns; none of another file.

    Raises:
        OSError, pa.ArrowInvalid and others of `DAMAGED`: the file is damaged.
    """
    if head.data[:4] not in FORMATS:
        return []
    with _open_dataset(head.path) as dataset:
        return list(dataset.schema.names)


def read(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield records in order of the rows; `line` is the row, from 1."""
    yield from generic.build_records(read_rows(path, COLUMNS), path.name.split(".")[0])


def read_rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, object]] | Rejected]:
    """Yield number (from 1) and values of each row, of those of the columns that the file has; nulls are left out."""
    number = 0
    try:
        with _open_dataset(path) as dataset:
            names = [name for name in columns if name in dataset.schema.names]
            for batch in dataset.to_batches(columns=names, batch_size=ROWS, batch_readahead=1):
                for row in _convert_batch(_cast_to_microseconds(batch)):
                    number += 1
                    yield Rejected(number, row) if isinstance(row, str) else (number, row)
    except DAMAGED as error:
        why = str(error).rpartition("': ")[2]  # behind the path, which may be a copy's
        yield Rejected(number + 1, f"file is damaged after row {number}: {why}")


@contextmanager
def _open_dataset(path: Path) -> Iterator[Any]:
    """Open a file, or a folder of Lance, as a dataset of its library's: both have `schema` and `to_batches`."""
    if path.is_dir():
        yield lance.dataset(str(path))
        return
    with decompress_file(path) as plain, plain.open("rb") as stream:
        kind = FORMATS[stream.read(4)]
        if kind == "stream":
            stream.seek(0)
            yield pyarrow.dataset.dataset(pa.ipc.open_stream(stream).read_all())
        else:
            yield pyarrow.dataset.dataset(plain, format=kind)


def _convert_batch(batch: pa.RecordBatch) -> Iterator[dict[str, object] | str]:
    """Yield each row as a dict without nulls; a row that is no UTF-8 as the reason."""
    try:
        yield from map(_drop_nulls, batch.to_pylist())
    except UnicodeDecodeError as bad:
        if batch.num_rows == 1:
            yield f"invalid UTF-8 at byte {bad.start} of a column"
        else:
            for i in range(batch.num_rows):
                yield from _convert_batch(batch.slice(i, 1))


def _drop_nulls(value: Any) -> Any:
    """Return a value without the fields that are null, as its JSON would have it."""
    if isinstance(value, list):
        return [_drop_nulls(item) for item in value]
    return {k: _drop_nulls(v) for k, v in value.items() if v is not None} if isinstance(value, dict) else value


def _cast_to_microseconds(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return times in µs: Python's datetime has no nanoseconds."""
    kinds = [pa.timestamp("us", f.type.tz) if pa.types.is_timestamp(f.type) else f.type for f in batch.schema]
    return batch.cast(pa.schema(zip(batch.schema.names, kinds, strict=True)), safe=False)


READER = Reader("columnar", 1, sniff, read)
