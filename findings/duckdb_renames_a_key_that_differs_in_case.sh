#!/usr/bin/env bash
# duckdb 2.0.1: of two keys of JSON that differ in case, one gets a new name, and a query for it reads the other.
#
# One would guess: JSON's keys are told apart by case, as by polars and by DuckDB's own `json_extract`; or, since SQL's names
# are not, both keys fill one column; or it raises.
# What happens: the key that comes second becomes `sessionID_1`. The query `select sessionID`, spelt as in the file, gets the
# column `sessionId` and so null for each row of the other spelling, without an error. Transcripts of two clients read as
# one folder are such a case (Claude Code writes sessionId, opencode sessionID): by which one the rows are found depends on
# the order of the files' names.
# Output seen:
#   columns: ['sessionId', 'text', 'sessionID_1']
#   select sessionID: [('s1',), (None,)]
#   of an object, json_extract: ('s2',)
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q duckdb==2.0.1
cd "$folder"
"$folder/v/bin/python" - <<'PYTHON'
import sys
from pathlib import Path

import duckdb

Path("a.jsonl").write_text('{"sessionId": "s1", "text": "We keep the tides."}\n')
Path("b.jsonl").write_text('{"sessionID": "s2", "text": "The pump is fixed."}\n')
both = "read_json('*.jsonl', union_by_name = true)"
columns = duckdb.sql(f"from {both}").columns
rows = duckdb.sql(f"select sessionID from {both} order by text desc").fetchall()
one = duckdb.sql("""select json_extract_string('{"sessionId": "s1", "sessionID": "s2"}', 'sessionID')""").fetchall()[0]
print(f"columns: {columns}\nselect sessionID: {rows}\nof an object, json_extract: {one}")
if (columns, rows, one) != (["sessionId", "text", "sessionID_1"], [("s1",), (None,)], ("s2",)):
    sys.exit("the behaviour has changed")
PYTHON
