"""Write one released table to a file: Parquet, Lance or JSONL, a batch at a time."""

import hashlib
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import lance
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.parquet as pq
from pyarrow.parquet.encryption import create_encryption_properties

from slowwave.schemas.errors import UsageError
from slowwave.schemas.tables import INTERNAL, MEANING, UTC_US, Table
from slowwave.store.private import open_new
from slowwave.store.releases import Snapshot
from slowwave.tasks.publish.increment import Increment, find_increment

FORMATS = ("parquet", "lance", "jsonl")
MANIFEST = "manifest.json"
"""File in a folder of tables. It is written last."""
WORKSPACE = "workspace"
PARTITIONS = {"day": pa.date32(), WORKSPACE: pa.string()}
"""What an export may be partitioned by, and the type of its values."""
REMOVED = pa.schema([("table", pa.string()), ("row_id", pa.string())])
"""Columns of the file that names the removed rows of an increment."""
MOST_PARTITIONS = 1 << 20
"""Arrow's own bound is 1,024, which days of three years exceed."""
MOST_OPEN = 200
"""Files open at once; beyond it Arrow closes one, and a partition may have several."""
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""Hive's name for a folder of rows whose value is null."""
LONGEST_NAME = 255
"""Bytes of a folder's name."""


def place_part(to: Path) -> Path:
    """Return the folder that an export fills before it is renamed to `to`. A killed export leaves it there."""
    return to.with_name(f".{to.name}.part")


@dataclass(frozen=True)
class Layout:
    """How the tables of an export are written."""

    form: str = "parquet"
    """One of FORMATS."""
    phrase: str | None = None
    """Passphrase that encrypts Parquet files."""
    internal: bool = False
    """Write the columns of INTERNAL, too."""
    partition_by: str | None = None
    """One of PARTITIONS: a folder for each value, as Hive names them."""
    since: Snapshot | None = None
    """Write only rows that are new or differ since this release."""


@dataclass(frozen=True)
class Written:
    """One table of an export."""

    facts: dict[str, Any]
    """Its rows, file, key and columns, for the manifest."""
    removed: list[str]
    """For an increment, the keys of the rows that the later release does not have; else empty."""


def write_table(
    snapshot: Snapshot,
    table: Table,
    to: Path,
    layout: Layout,
) -> Written:
    """Write a released table, each column with its meaning as metadata.

    With a passphrase, a Parquet file is encrypted by Parquet's own encryption, and the manifest has the salt of its
    key. A table without the column that the export is partitioned by is one file.

    Raises:
        UsageError: a workspace is too long for the name of a folder.
    """
    dataset = snapshot.open_dataset(table)
    path = to / f"{table.name}.{layout.form}"
    schema = _describe_schema(dataset.schema, table, internal=layout.internal)
    increment = _compare(
        dataset=dataset, table=table, columns=schema.names, since=layout.since
    )
    batches = _read_batches(
        dataset=dataset, schema=schema, key=table.key, increment=increment
    )
    salt = secrets.token_bytes(16) if layout.phrase else b""
    column = find_partition_column(table, layout.partition_by)
    if column and layout.partition_by:
        _write_partitions(
            batches=batches,
            schema=schema,
            path=path,
            partition_by=layout.partition_by,
            column=column,
        )
    elif layout.form == "parquet":
        key = _derive_key(layout.phrase, salt) if layout.phrase else None
        _write_parquet(batches=batches, schema=schema, path=path, key=key)
    elif layout.form == "lance":
        reader = pa.RecordBatchReader.from_batches(schema, batches)
        lance.write_dataset(reader, str(path))
    else:
        _write_jsonl(batches, path)
    facts: dict[str, Any] = {
        "rows": len(increment.changed) if increment else dataset.count_rows(),
        "file": path.name,
        "key": table.key,
        "columns": {field.name: str(field.type) for field in schema},
    }
    if column:
        facts["partitioned_by"] = layout.partition_by
    if salt:
        facts["salt"] = salt.hex()
    return Written(facts, increment.removed if increment else [])


def _compare(
    dataset: lance.LanceDataset,
    table: Table,
    columns: Sequence[str],
    since: Snapshot | None,
) -> Increment | None:
    """Return the changes of a table since an earlier release; None without one, if all rows are to be written."""
    if since is None:
        return None
    return find_increment(
        old=since.open_dataset(table), new=dataset, key=table.key, columns=columns
    )


def write_removed(
    removed: Mapping[str, Sequence[str]], to: Path, form: str
) -> dict[str, Any]:
    """Write the keys of the rows that are gone since an earlier release, by table; return the facts of the file."""
    pairs = [(name, key) for name, keys in removed.items() for key in keys]
    names, keys = zip(*pairs, strict=True) if pairs else ((), ())
    rows = pa.table([pa.array(names), pa.array(keys)], schema=REMOVED)
    path = to / f"removed.{form}"
    if form == "parquet":
        _write_parquet(batches=rows.to_batches(), schema=REMOVED, path=path, key=None)
    elif form == "lance":
        lance.write_dataset(rows, str(path))
    else:
        _write_jsonl(rows.to_batches(), path)
    columns = {field.name: str(field.type) for field in REMOVED}
    return {"rows": len(pairs), "file": path.name, "columns": columns}


def find_partition_column(table: Table, partition_by: str | None) -> str | None:
    """Return the column that a table is partitioned by: the workspace, or the first time; None if it has none."""
    if partition_by == WORKSPACE:
        return WORKSPACE if WORKSPACE in table.schema.names else None
    times = (field.name for field in table.fields if field.type == UTC_US)
    return next(times, None) if partition_by else None


def _describe_schema(stored: pa.Schema, table: Table, *, internal: bool) -> pa.Schema:
    """Return the columns of an export, each with its meaning in place of Lance's own metadata."""
    names = [name for name in table.schema.names if internal or name not in INTERNAL]
    described = {
        name: {MEANING: table.meanings[name]} if name in table.meanings else None
        for name in names
    }
    return pa.schema(
        [stored.field(name).with_metadata(described[name]) for name in names]
    )


def _read_batches(
    dataset: lance.LanceDataset,
    schema: pa.Schema,
    key: str,
    increment: Increment | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table, or those that an increment changed, cast to the schema."""
    if increment and not len(increment.changed):
        return
    fragments = increment.fragments if increment else None
    for batch in dataset.scanner(
        columns=schema.names, fragments=fragments
    ).to_batches():
        if increment:
            batch = batch.filter(pc.is_in(batch[key], value_set=increment.changed))
        columns = [
            column.cast(field.type)
            for column, field in zip(batch.columns, schema, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _write_partitions(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    path: Path,
    partition_by: str,
    column: str,
) -> None:
    """Write Parquet files to a folder for each day or workspace.

    A workspace is then only in the folder's name, as in Hive. A day is added to the time, which stays in its column.

    Raises:
        UsageError: a workspace is too long for the name of a folder.
    """
    kind = PARTITIONS[partition_by]
    whole = (
        schema
        if column == partition_by
        else schema.append(pa.field(partition_by, kind))
    )

    def add_day() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if column == partition_by:
                _check_folder_names(batch[column])
                yield batch
            else:
                days = batch[column].cast(kind)
                yield pa.RecordBatch.from_arrays([*batch.columns, days], schema=whole)

    path.mkdir()
    partitioning = pyarrow.dataset.partitioning(
        pa.schema([(partition_by, kind)]), flavor="hive"
    )
    form = pyarrow.dataset.ParquetFileFormat()
    pyarrow.dataset.write_dataset(
        pa.RecordBatchReader.from_batches(whole, add_day()),
        path,
        format=form,
        file_options=form.make_write_options(compression="zstd"),
        partitioning=partitioning,
        basename_template="part-{i}.parquet",
        max_partitions=MOST_PARTITIONS,
        max_open_files=MOST_OPEN,
        existing_data_behavior="error",
    )
    if not any(path.iterdir()):  # readers of a table without rows need its columns
        empty = path / f"{partition_by}={NO_VALUE}" / "part-0.parquet"
        empty.parent.mkdir()
        names = [name for name in schema.names if name != partition_by]
        columns = pa.schema([schema.field(name) for name in names])
        _write_parquet(batches=[], schema=columns, path=empty, key=None)


def _check_folder_names(workspaces: pa.Array) -> None:
    """Check that each workspace fits into the name of a folder.

    Raises:
        UsageError: a workspace is too long.
    """
    for value in pc.unique(workspaces).to_pylist():
        name = f"{WORKSPACE}={quote(value or '', safe='')}"
        if len(name) > LONGEST_NAME:
            raise UsageError(
                f"project {value[:60]!r}… makes a folder's name of {len(name)} bytes, and"
                f" {LONGEST_NAME} fit: leave out --partition-by {WORKSPACE}"
            )


def _write_parquet(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    path: Path,
    key: bytes | None,
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
