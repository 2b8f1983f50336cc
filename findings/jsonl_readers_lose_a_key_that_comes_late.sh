#!/usr/bin/env bash
# duckdb 2.0.1, polars 2.1.0, pyarrow 26.0.1: a key that a JSONL file or folder has late is lost without an error.
#
# One would guess: a reader that finds the columns out by itself reads the lines for them, or raises at a key that it did not
# expect; "one sample" decides about types, not about what is kept. Transcripts are such files: an error, a summary or the
# usage of tokens comes in few lines, and late.
# What happens: a key that stands only in line 25,001 of one file is lost by duckdb and polars; a key that stands only in
# the last of 40 files by duckdb, polars and `pyarrow.dataset` (in duckdb, `union_by_name=true` brings it back; it does not
# for the single file). `pyarrow.json.read_json`, which reads the whole file first, has it. The count of rows is right each
# time, so nothing shows that something is missing.
# Output seen:
#   line 25,001 of one file: duckdb lost, polars.read_ndjson lost, polars.scan_ndjson lost, pyarrow.json kept
#   the last of 40 files: duckdb lost, duckdb by name kept, polars.scan_ndjson lost, pyarrow.dataset lost
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q duckdb==2.0.1 polars==2.1.0 pyarrow==26.0.1
cd "$folder"
v/bin/python - <<'PYTHON'
import json
import sys
from pathlib import Path

import duckdb
import polars
import pyarrow.dataset
import pyarrow.json

LATE = {"error": "rate limit"}


def write(path, rows):
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows))


rows = [{"id": number, "text": "hello"} for number in range(25_001)]
write("one.jsonl", [*rows[:-1], rows[-1] | LATE])
Path("many").mkdir()
for number in range(40):
    write(f"many/{number:02}.jsonl", [rows[number] | (LATE if number == 39 else {})])

one = {
    "duckdb": duckdb.sql("FROM 'one.jsonl'").columns,
    "polars.read_ndjson": polars.read_ndjson("one.jsonl").columns,
    "polars.scan_ndjson": polars.scan_ndjson("one.jsonl").collect().columns,
    "pyarrow.json": pyarrow.json.read_json("one.jsonl").column_names,
}
many = {
    "duckdb": duckdb.sql("FROM read_json('many/*.jsonl')").columns,
    "duckdb by name": duckdb.sql(
        "FROM read_json('many/*.jsonl', union_by_name=true)"
    ).columns,
    "polars.scan_ndjson": polars.scan_ndjson("many/*.jsonl").collect().columns,
    "pyarrow.dataset": pyarrow.dataset.dataset("many", format="json")
    .to_table()
    .column_names,
}
seen = []
for title, columns in {
    "line 25,001 of one file": one,
    "the last of 40 files": many,
}.items():
    told = [f"{name} {'kept' if 'error' in keys else 'lost'}" for name, keys in columns.items()]
    seen.append([text.endswith("kept") for text in told])
    print(f"{title}: {', '.join(told)}")
if seen != [[False, False, False, True], [False, True, False, False]]:
    sys.exit("the behaviour has changed")
PYTHON
