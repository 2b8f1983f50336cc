#!/usr/bin/env bash
# pyarrow 26.0.1: if making the rows fails, `with pq.ParquetWriter(...)` leaves a valid file of the first ones.
#
# One would guess: the footer is written when all went well, so after an error the file can't be read, and a later step
# or the next night sees that, as with polars; or the earlier file stays, as with DuckDB.
# What happens: leaving the block closes the writer, error or not, and that writes the footer. The file is as valid as one
# of all rows, and it has taken the earlier one's place. A process that is killed leaves one that can't be read; one that
# raises at a bad record leaves a short table. `pa.ipc.new_file` does the same, and so does a ParquetWriter on an object
# store. polars 2.1.0 (`sink_parquet`) leaves a file that can't be read, DuckDB 2.0.1 (`copy`) the earlier one.
# Output seen (rows in the file, of 3 before and 200000 to come):
#   pyarrow, Parquet: 1000
#   pyarrow, IPC: 1000
#   polars: unreadable
#   duckdb: 3
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q pyarrow==26.0.1 polars==2.1.0 duckdb==2.0.1
cd "$folder"
"$folder/v/bin/python" - 2> errors.txt <<'PYTHON' || { cat errors.txt; exit 1; }
import sys

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from polars.io.plugins import register_io_source

BEFORE = pa.table({"n": [1, 2, 3]})


def make_batches():
    yield pa.record_batch({"n": list(range(1000))})
    raise ValueError("a bad record")


def write_parquet(path):
    with pq.ParquetWriter(path, BEFORE.schema) as writer:
        for batch in make_batches():
            writer.write_batch(batch)


def write_ipc(path):
    with pa.ipc.new_file(path, BEFORE.schema) as writer:
        for batch in make_batches():
            writer.write_batch(batch)


def write_by_polars(path):
    def read(*_):
        for batch in make_batches():
            yield pl.from_arrow(batch)

    register_io_source(read, schema={"n": pl.Int64}).sink_parquet(path)


def write_by_duckdb(path):
    rows = "select case when n = 150000 then error('a bad record') else n end as n from range(200000) t(n)"
    duckdb.sql(f"copy ({rows}) to '{path}' (format parquet)")


def read_ipc(path):
    return pa.ipc.open_file(path).read_all()


WAYS = {
    "pyarrow, Parquet": (write_parquet, pq.write_table, pq.read_table, 1000),
    "pyarrow, IPC": (write_ipc, lambda table, path: pa.ipc.new_file(path, table.schema).close(), read_ipc, 1000),
    "polars": (write_by_polars, pq.write_table, pq.read_table, "unreadable"),
    "duckdb": (write_by_duckdb, pq.write_table, pq.read_table, 3),
}
changed = False
for name, (write, prepare, read, expected) in WAYS.items():
    prepare(BEFORE, name)
    try:
        write(name)
    except Exception as error:
        assert "a bad record" in str(error)
    else:
        sys.exit(f"{name} did not fail")
    try:
        rows = read(name).num_rows
    except pa.ArrowInvalid:
        rows = "unreadable"
    changed |= rows != expected
    print(f"{name}: {rows}")
if changed:
    sys.exit("the behaviour has changed")
PYTHON
