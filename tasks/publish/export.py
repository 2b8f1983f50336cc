"""Write one released table to a file: Parquet, Lance or JSONL, a batch at a time."""

import hashlib
import secrets
from collections.abc import Iterable, Iterator
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
"""File in a folder of tables. It is written last."""


def write_table(
    snapshot: Snapshot,
    table: Table,
    to: Path,
    form: str,
    phrase: str | None = None,
    *,
    internal: bool = False,
) -> dict[str, Any]:
    """Write the released table to a file, each column with its meaning as metadata, and return its rows, file and
    columns for the manifest.

    Columns of INTERNAL are left out unless `internal`.

    With a passphrase, a Parquet file is encrypted by Parquet's own encryption, and the manifest has the salt of its
    key.
    """
    dataset = snapshot.open_dataset(table)
    path = to / f"{table.name}.{form}"
    # Lance's own field metadata has no meaning outside Lance.
    names = [name for name in table.schema.names if internal or name not in INTERNAL]
    described = {
        name: {MEANING: table.meanings[name]} if name in table.meanings else None
        for name in names
    }
    schema = pa.schema(
        [dataset.schema.field(name).with_metadata(described[name]) for name in names]
    )
    batches = _read_batches(dataset, schema)
    salt = secrets.token_bytes(16) if phrase else b""
    if form == "parquet":
        _write_parquet(
            batches, schema, path, _derive_key(phrase, salt) if phrase else None
        )
    elif form == "lance":
        lance.write_dataset(
            pa.RecordBatchReader.from_batches(schema, batches), str(path)
        )
    else:
        _write_jsonl(batches, path)
    columns = {field.name: str(field.type) for field in schema}
    facts = {
        "rows": dataset.count_rows(),
        "file": path.name,
        "key": table.key,
        "columns": columns,
    }
    return {**facts, "salt": salt.hex()} if salt else facts


def _read_batches(
    dataset: lance.LanceDataset, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table, cast to the schema."""
    for batch in dataset.to_batches(columns=schema.names):
        columns = [
            column.cast(field.type)
            for column, field in zip(batch.columns, schema, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _write_parquet(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, path: Path, key: bytes | None
) -> None:
    """Write batches to a Parquet file, encrypted if there is a key."""
    encryption = create_encryption_properties(key) if key else None
    with (
        open_new(path) as stream,
        pq.ParquetWriter(
            stream, schema, compression="zstd", encryption_properties=encryption
        ) as writer,
    ):
        for batch in batches:
            writer.write_batch(batch)


def _write_jsonl(batches: Iterable[pa.RecordBatch], path: Path) -> None:
    """Write batches to a file with a JSON object a line."""
    with open_new(path) as stream:
        for batch in batches:
            rows = (
                orjson.dumps(row, option=orjson.OPT_UTC_Z, default=str)
                for row in batch.to_pylist()
            )
            stream.writelines(row + b"\n" for row in rows)


def _derive_key(phrase: str, salt: bytes) -> bytes:
    """Return a key of 32 bytes, derived from the passphrase by scrypt."""
    return hashlib.scrypt(
        phrase.encode(), salt=salt, n=1 << 15, r=8, p=1, maxmem=1 << 26, dklen=32
    )
