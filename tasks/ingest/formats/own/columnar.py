"""Parquet and Arrow IPC (Feather v2, file or stream) with the columns of `generic.py`, read batch by batch.

`content` is a string column, or a list of structs with the fields of a block. Compressed copies (`.gz`, `.zst`) are
unpacked into a temporary file first, because both formats are read from their end.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slowwave.tasks.ingest.formats.own import generic
from slowwave.tasks.ingest.parsing.documents import decompress_file
from slowwave.tasks.ingest.parsing.lines import DAMAGE
from slowwave.tasks.ingest.parsing.records import Head, Limits, Reader, Record, Rejected

COLUMNS = (
    *("session_id", "message_id", "role", "content", "ts", "workspace", "speaker", "title"),
    *("name", "call_id", "tool_call_id", "tags"),
)
ROWS = 4096
_PARQUET, _ARROW, _STREAM = b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"
DAMAGED = (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError, *DAMAGE)


def sniff(head: Head) -> bool:
    """Return whether it is a Parquet or Arrow file with columns role and content.

    A damaged one is claimed, and says so.
    """
    if not head.data.startswith((_PARQUET, _ARROW, _STREAM)):
        return False
    try:
        return {"role", "content"} <= set(read_column_names(head))
    except DAMAGED:
        return not head.data.startswith(_STREAM)


def read_column_names(head: Head) -> list[str]:
    """Return the names of a Parquet or Arrow file's columns; none of another file.

    Raises:
        OSError, pa.ArrowInvalid and others of `DAMAGED`: the file is damaged.
    """
    if not head.data.startswith((_PARQUET, _ARROW, _STREAM)):
        return []
    with decompress_file(head.path) as path, _open_batches(path, COLUMNS) as (schema, _):
        return list(schema.names)


def read(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield records in order of the rows; `line` is the row, from 1."""
    yield from generic.build_records(read_rows(path, COLUMNS), path.name.split(".")[0])


def read_rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, object]] | Rejected]:
    """Yield number (from 1) and values of each row, of those of the columns that the file has; nulls are left out."""
    number = 0
    try:
        with decompress_file(path) as plain, _open_batches(plain, columns) as (_, batches):
            for batch in batches:
                for row in _convert_batch(batch):
                    number += 1
                    yield (number, row) if isinstance(row, dict) else Rejected(number, row)
    except DAMAGED as error:
        yield Rejected(number + 1, f"file is damaged after row {number}: {error}")


@contextmanager
def _open_batches(path: Path, columns: Sequence[str]) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """Open the file: its schema and its record batches, of the columns asked for."""
    if path.is_dir():
        dataset = lance.dataset(str(path))
        yield dataset.schema, dataset.to_batches(columns=[name for name in columns if name in dataset.schema.names])
        return
    with path.open("rb") as stream:
        magic = stream.read(6)
        stream.seek(0)
        if magic.startswith(_PARQUET):
            file = pq.ParquetFile(stream)
            names = [name for name in columns if name in file.schema_arrow.names]
            yield file.schema_arrow, file.iter_batches(ROWS, columns=names)
        elif magic == _ARROW:
            reader = pa.ipc.open_file(stream)
            yield (
                reader.schema,
                (_select_columns(reader.get_batch(i), columns) for i in range(reader.num_record_batches)),
            )
        else:
            with pa.ipc.open_stream(stream) as flow:
                yield flow.schema, (_select_columns(batch, columns) for batch in flow)


def _select_columns(batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
    return batch.select([name for name in columns if name in batch.schema.names])


def _convert_batch(batch: pa.RecordBatch) -> Iterator[dict[str, object] | str]:
    """Yield each row as a dict without nulls; a row that is no UTF-8 as the reason."""
    batch = _cast_to_microseconds(batch)
    for start in range(0, batch.num_rows, ROWS):
        part = batch.slice(start, ROWS)
        try:
            yield from map(_drop_nulls, part.to_pylist())
        except UnicodeDecodeError:
            yield from (_convert_row(part.slice(i, 1)) for i in range(part.num_rows))


def _convert_row(row: pa.RecordBatch) -> dict[str, object] | str:
    try:
        return _drop_nulls(row.to_pylist()[0])
    except UnicodeDecodeError as bad:
        return f"invalid UTF-8 at byte {bad.start} of a column"


def _drop_nulls(row: dict[str, object]) -> dict[str, object]:
    return {key: _drop_block_nulls(value) for key, value in row.items() if value is not None}


def _drop_block_nulls(value: object) -> object:
    """Return blocks without the fields that are null, as their JSON would have them."""
    if isinstance(value, list):
        return [{k: v for k, v in b.items() if v is not None} if isinstance(b, dict) else b for b in value]
    return value


def _cast_to_microseconds(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return times in µs: Python's datetime has no nanoseconds."""
    at = batch.schema.get_field_index("ts")
    if at < 0 or not pa.types.is_timestamp(kind := batch.schema.field(at).type):
        return batch
    times = pc.cast(batch.column(at), pa.timestamp("us", kind.tz), safe=False)
    return batch.set_column(at, pa.field("ts", times.type), times)


READER = Reader("columnar", 1, sniff, read)
