"""Parquet and Arrow IPC (Feather v2, file or stream) with the columns of `generic.py`, read batch by batch.

`content` is a string column, or a list of structs with the fields of a block. Compressed copies (`.gz`, `.zst`) are
unpacked into a temporary file first, because both formats are read from their end.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tasks.read import generic
from tasks.read.documents import plain_file
from tasks.read.lines import DAMAGE
from tasks.read.records import Head, Limits, Reader, Record, Rejected

COLUMNS = (
    *("session_id", "message_id", "role", "content", "ts", "workspace", "speaker", "title"),
    *("name", "call_id", "tool_call_id"),
)
ROWS = 4096
_PARQUET, _ARROW, _STREAM = b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"
_DAMAGED = (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError, *DAMAGE)


def sniff(head: Head) -> bool:
    """Whether it is a Parquet or Arrow file with columns role and content; a damaged one is claimed, and says so."""
    if not head.data.startswith((_PARQUET, _ARROW, _STREAM)):
        return False
    try:
        with plain_file(head.path) as path, _batches(path) as (schema, _):
            return {"role", "content"} <= set(schema.names)
    except _DAMAGED:
        return not head.data.startswith(_STREAM)


def read(path: Path, limits: Limits) -> Iterator[Record]:
    """Records in order of the rows; `line` is the row, from 1."""
    yield from generic.records(_rows(path), path.name.split(".")[0])


def _rows(path: Path) -> Iterator[tuple[int, dict[str, object]] | Rejected]:
    number = 0
    try:
        with plain_file(path) as plain, _batches(plain) as (_, batches):
            for batch in batches:
                for row in _dicts(batch):
                    number += 1
                    yield (number, row) if isinstance(row, dict) else Rejected(number, row)
    except _DAMAGED as error:
        yield Rejected(number + 1, f"file is damaged after row {number}: {error}")


@contextmanager
def _batches(path: Path) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """The file's schema and its record batches, of the columns we know."""
    with path.open("rb") as stream:
        magic = stream.read(6)
        stream.seek(0)
        if magic.startswith(_PARQUET):
            file = pq.ParquetFile(stream)
            names = [name for name in COLUMNS if name in file.schema_arrow.names]
            yield file.schema_arrow, file.iter_batches(ROWS, columns=names)
        elif magic == _ARROW:
            reader = pa.ipc.open_file(stream)
            yield reader.schema, (_known(reader.get_batch(i)) for i in range(reader.num_record_batches))
        else:
            with pa.ipc.open_stream(stream) as flow:
                yield flow.schema, map(_known, flow)


def _known(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.select([name for name in COLUMNS if name in batch.schema.names])


def _dicts(batch: pa.RecordBatch) -> Iterator[dict[str, object] | str]:
    """Each row as a dict without nulls; a row that is no UTF-8 as the reason."""
    batch = _in_microseconds(batch)
    for start in range(0, batch.num_rows, ROWS):
        part = batch.slice(start, ROWS)
        try:
            yield from map(_without_nulls, part.to_pylist())
        except UnicodeDecodeError:
            yield from (_one(part.slice(i, 1)) for i in range(part.num_rows))


def _one(row: pa.RecordBatch) -> dict[str, object] | str:
    try:
        return _without_nulls(row.to_pylist()[0])
    except UnicodeDecodeError as bad:
        return f"invalid UTF-8 at byte {bad.start} of a column"


def _without_nulls(row: dict[str, object]) -> dict[str, object]:
    return {key: _bare(value) for key, value in row.items() if value is not None}


def _bare(value: object) -> object:
    """Blocks without the fields that are null, as their JSON would have them."""
    if isinstance(value, list):
        return [{k: v for k, v in b.items() if v is not None} if isinstance(b, dict) else b for b in value]
    return value


def _in_microseconds(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Times in µs: Python's datetime has no nanoseconds."""
    at = batch.schema.get_field_index("ts")
    if at < 0 or not pa.types.is_timestamp(kind := batch.schema.field(at).type):
        return batch
    times = pc.cast(batch.column(at), pa.timestamp("us", kind.tz), safe=False)
    return batch.set_column(at, pa.field("ts", times.type), times)


READER = Reader("columnar", 1, sniff, read)
