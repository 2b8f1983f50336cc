#!/usr/bin/env bash
# polars 2.1.0 with pyarrow 26.0.1: a filter by a time with a zone finds other hours in a pyarrow dataset.
#
# One would guess: `scan_pyarrow_dataset(dataset).filter(...)` gives the rows that `scan_parquet` and the frame itself give.
# What happens: the filter is handed to pyarrow, and on the way the time keeps its UTC clock and is taken for the column's
# local clock. In Berlin's summer it is two hours early, in winter one: `at == 03:00` finds the row of 01:00, and
# `at >= 03:00` two rows too many. Nothing is raised. A column in UTC is right, so a test on UTC data shows nothing.
# Output seen (hours found):
#   frame:           == [3], >= [3, 4, 5]
#   scan_parquet:    == [3], >= [3, 4, 5]
#   pyarrow dataset: == [1], >= [1, 2, 3, 4, 5]
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q polars==2.1.0 pyarrow==26.0.1 tzdata==2026.1
cd "$folder"
"$folder/v/bin/python" - <<'PYTHON'
import sys
from datetime import datetime
from zoneinfo import ZoneInfo

import polars as pl
import pyarrow.dataset as ds

zone = "Europe/Berlin"
times = [datetime(2026, 7, 1, hour, tzinfo=ZoneInfo(zone)) for hour in range(6)]
frame = pl.DataFrame({"hour": range(6), "at": pl.Series(times, dtype=pl.Datetime("us", zone))})
frame.write_parquet("notes.parquet")
SOURCES = {
    "frame": frame.lazy(),
    "scan_parquet": pl.scan_parquet("notes.parquet"),
    "pyarrow dataset": pl.scan_pyarrow_dataset(ds.dataset("notes.parquet")),
}
at, three = pl.col("at"), times[3]
seen = {}
for name, source in SOURCES.items():
    seen[name] = [source.filter(each).collect()["hour"].to_list() for each in (at == three, at >= three)]
    print(f"{name}: == {seen[name][0]}, >= {seen[name][1]}")
right = [[3], [3, 4, 5]]
if seen != {"frame": right, "scan_parquet": right, "pyarrow dataset": [[1], [1, 2, 3, 4, 5]]}:
    sys.exit("the behaviour has changed")
PYTHON
