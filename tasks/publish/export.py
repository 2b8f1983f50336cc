"""One released table as a file: Parquet, Lance or JSONL, streamed by the batch."""

import hashlib
import secrets
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import lance
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.parquet.encryption import create_encryption_properties

from slowwave.schemas.tables import Table
from slowwave.store.snapshot import Snapshot

FORMATS = ("parquet", "lance", "jsonl")
MANIFEST = "manifest.json"
"""In a folder of tables; written last."""


def write_table(snapshot: Snapshot, table: Table, to: Path, form: str, phrase: str | None = None) -> dict[str, Any]:
    """Write the table as the release has it; returns rows, file and columns for the manifest.

    With a passphrase a Parquet file is encrypted as its format says; the manifest has the salt of its key.
    """
    path = to / f"{table.name}.{form}"
    # Marks of Lance's own in the schema mean nothing to whoever reads the export.
    found = snapshot.open_dataset(table).schema
    schema = pa.schema([found.field(name).remove_metadata() for name in table.schema.names])
    reader = pa.RecordBatchReader.from_batches(schema, _iter_record_batches(snapshot, table, schema))
    salt = secrets.token_bytes(16) if phrase else b""
    key = _derive_key(phrase, salt) if phrase else None
    writers: dict[str, Callable[[pa.RecordBatchReader, Path], int]] = {
        "parquet": partial(_write_parquet, key=key),
        "lance": _write_lance,
        "jsonl": _write_jsonl,
    }
    columns = {field.name: str(field.type) for field in schema}
    facts = {"rows": writers[form](reader, path), "file": path.name, "key": table.key, "columns": columns}
    return {**facts, "salt": salt.hex()} if salt else facts


def _derive_key(phrase: str, salt: bytes) -> bytes:
    """Return 32 bytes that only who has the passphrase can make, by scrypt."""
    return hashlib.scrypt(phrase.encode(), salt=salt, n=1 << 15, r=8, p=1, maxmem=1 << 26, dklen=32)


def _iter_record_batches(snapshot: Snapshot, table: Table, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in snapshot.open_dataset(table).to_batches(columns=schema.names):
        yield pa.RecordBatch.from_arrays(
            [c.cast(f.type) for c, f in zip(batch.columns, schema, strict=True)], schema=schema
        )


def _write_parquet(reader: pa.RecordBatchReader, path: Path, key: bytes | None) -> int:
    rows, sealed = 0, create_encryption_properties(key) if key else None
    with pq.ParquetWriter(path, reader.schema, compression="zstd", encryption_properties=sealed) as writer:
        for batch in reader:
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


def _write_lance(reader: pa.RecordBatchReader, path: Path) -> int:
    return int(lance.write_dataset(reader, str(path)).count_rows())


def _write_jsonl(reader: pa.RecordBatchReader, path: Path) -> int:
    rows = 0
    with path.open("wb") as stream:
        for batch in reader:
            for row in batch.to_pylist():
                stream.write(orjson.dumps(row, option=orjson.OPT_UTC_Z, default=str) + b"\n")
            rows += batch.num_rows
    return rows
