"""One released table as a file: Parquet, Lance or JSONL, streamed by the batch."""

import hashlib
import secrets
from pathlib import Path
from typing import Any

import lance
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.parquet.encryption import create_encryption_properties

from slowwave.schemas.tables import INTERNAL, MEANING, Table
from slowwave.store.private import open_new
from slowwave.store.releases import Snapshot

FORMATS = ("parquet", "lance", "jsonl")
MANIFEST = "manifest.json"
"""In a folder of tables; written last."""


def write_table(
    snapshot: Snapshot, table: Table, to: Path, form: str, phrase: str | None = None, *, internal: bool = False
) -> dict[str, Any]:
    """Write the table as the release has it, each column with its meaning as metadata; return rows, file and columns
    for the manifest.

    Columns of INTERNAL are left out unless `internal`.

    With a passphrase a Parquet file is encrypted as its format says; the manifest has the salt of its key.
    """
    # 1. The rows. Marks of Lance's own in the schema mean nothing to whoever reads the export.
    dataset, path = snapshot.open_dataset(table), to / f"{table.name}.{form}"
    names = [name for name in table.schema.names if internal or name not in INTERNAL]
    described = {name: {MEANING: table.meanings[name]} if name in table.meanings else None for name in names}
    schema = pa.schema([dataset.schema.field(name).with_metadata(described[name]) for name in names])
    batches = (
        pa.RecordBatch.from_arrays([c.cast(f.type) for c, f in zip(batch.columns, schema, strict=True)], schema=schema)
        for batch in dataset.to_batches(columns=schema.names)
    )
    # 2. The file, a batch at a time.
    salt = secrets.token_bytes(16) if phrase else b""
    if form == "parquet":
        sealed = create_encryption_properties(_derive_key(phrase, salt)) if phrase else None
        with (
            open_new(path) as stream,
            pq.ParquetWriter(stream, schema, compression="zstd", encryption_properties=sealed) as writer,
        ):
            for batch in batches:
                writer.write_batch(batch)
    elif form == "lance":
        lance.write_dataset(pa.RecordBatchReader.from_batches(schema, batches), str(path))
    else:
        with open_new(path) as stream:
            for batch in batches:
                rows = (orjson.dumps(row, option=orjson.OPT_UTC_Z, default=str) for row in batch.to_pylist())
                stream.writelines(row + b"\n" for row in rows)
    # 3. What the manifest says of it.
    columns = {field.name: str(field.type) for field in schema}
    facts = {"rows": dataset.count_rows(), "file": path.name, "key": table.key, "columns": columns}
    return {**facts, "salt": salt.hex()} if salt else facts


def _derive_key(phrase: str, salt: bytes) -> bytes:
    """Return 32 bytes that only who has the passphrase can make, by scrypt."""
    return hashlib.scrypt(phrase.encode(), salt=salt, n=1 << 15, r=8, p=1, maxmem=1 << 26, dklen=32)
