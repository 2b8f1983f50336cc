#!/usr/bin/env bash
# pyarrow 26.0.1: building a column from Python values under a schema is not checked as a cast is.
#
# One would guess: `pa.array([1.7], pa.int64())` raises, as `pa.array([1.7]).cast(pa.int64())` does ("truncated") and as
# it does itself for "1" and for True; and a list of times is refused if only some of them have a zone.
# What happens: the float loses its fraction, in `Table.from_pylist` with a schema too. In a list of times the first one
# decides: if it has a zone, times without one are taken as UTC and shown in that zone; if it has none, the others are
# turned into UTC and their zone is dropped. So the same two times in another order are other moments. No error anywhere.
# Output seen:
#   [1.7, 2.9] as int64: [1, 2]; the cast: ArrowInvalid
#   {"n": 1.9} under a schema: [{'n': 1}]
#   12:00+01:00, then 12:00: timestamp[us, tz=+01:00], hours [12, 13]
#   12:00, then 12:00+01:00: timestamp[us], hours [12, 11]
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q pyarrow==26.0.1
"$folder/v/bin/python" - <<'PYTHON'
import sys
from datetime import datetime, timedelta, timezone

import pyarrow as pa


def cast(values, to):
    try:
        return pa.array(values).cast(to).to_pylist()
    except pa.ArrowInvalid as refused:
        return type(refused).__name__


naive = datetime(2026, 1, 1, 12)
berlin = naive.replace(tzinfo=timezone(timedelta(hours=1)))
zoned, plain = pa.array([berlin, naive]), pa.array([naive, berlin])
seen = {
    "[1.7, 2.9] as int64": (pa.array([1.7, 2.9], pa.int64()).to_pylist(), cast([1.7, 2.9], pa.int64())),
    "1.9 under a schema": pa.Table.from_pylist([{"n": 1.9}], pa.schema([("n", pa.int64())])).to_pylist(),
    "zone first": (str(zoned.type), [value.hour for value in zoned.to_pylist()]),
    "zone last": (str(plain.type), [value.hour for value in plain.to_pylist()]),
}
for name, found in seen.items():
    print(f"{name}: {found}")
expected = [
    ([1, 2], "ArrowInvalid"),
    [{"n": 1}],
    ("timestamp[us, tz=+01:00]", [12, 13]),
    ("timestamp[us]", [12, 11]),
]
if list(seen.values()) != expected:
    sys.exit("the behaviour has changed")
PYTHON
