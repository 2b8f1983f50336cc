#!/usr/bin/env bash
# pyarrow 26.0.1 and duckdb 2.0.1: what a text in a JSONL file becomes depends on how the other texts of its column look.
#
# One would guess: a JSON string is read as a string, as polars 2.1.0 does; who wants times names a type. Or a time that is
# read from a text still means the same moment.
# What happens: pyarrow makes timestamps of a column of texts that all look like times in whole seconds, and drops the zone:
# "10:00:00+02:00" becomes 08:00 of no zone, so a later step that takes it for local time is two hours off. One
# time with a fraction in the block leaves all of them text, so two days of one log have two types. A column of what people
# wrote is no different: the answer "2026-11-18" becomes a datetime, and in DuckDB "12:30" a time. DuckDB keeps the
# moment of those with a zone.
# Output seen:
#   pyarrow: timestamp[s] 2026-11-18 08:00:00 | string | timestamp[s] 2026-11-18 00:00:00 | string
#   duckdb: TIMESTAMP WITH TIME ZONE | TIMESTAMP WITH TIME ZONE | DATE | TIME
#   polars: String | String | String | String
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q pyarrow==26.0.1 duckdb==2.0.1 polars==2.1.0
cd "$folder"
"$folder/v/bin/python" - <<'PYTHON'
import json
import sys
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.json as pj

FILES = [
    ["2026-11-18T10:00:00+02:00", "2026-11-18T11:00:00+02:00"],
    ["2026-11-18T10:00:00+02:00", "2026-11-18T11:00:00.250+02:00"],
    ["2026-11-18"],
    ["12:30"],
]
seen = {"pyarrow": [], "duckdb": [], "polars": []}
for number, texts in enumerate(FILES):
    name = f"{number}.jsonl"
    Path(name).write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    column = pj.read_json(name)["text"]
    first = f" {column[0].as_py()}" if pa.types.is_timestamp(column.type) else ""
    seen["pyarrow"].append(f"{column.type}{first}")
    seen["duckdb"].append(str(duckdb.sql(f"from '{name}'").types[0]))
    seen["polars"].append(str(pl.read_ndjson(name)["text"].dtype))
for name, types in seen.items():
    print(f"{name}: {' | '.join(types)}")
EXPECTED = {
    "pyarrow": ["timestamp[s] 2026-11-18 08:00:00", "string", "timestamp[s] 2026-11-18 00:00:00", "string"],
    "duckdb": ["TIMESTAMP WITH TIME ZONE"] * 2 + ["DATE", "TIME"],
    "polars": ["String"] * 4,
}
if seen != EXPECTED:
    sys.exit("the behaviour has changed")
PYTHON
