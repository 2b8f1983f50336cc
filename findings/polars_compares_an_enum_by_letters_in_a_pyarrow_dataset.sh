#!/usr/bin/env bash
# polars 2.1.0 with pyarrow 26.0.1: over a pyarrow dataset an Enum is compared by its letters, and "not in" finds nulls.
#
# One would guess: an Enum is ordered as its categories are given, wherever the filter runs, since the dataset's field names
# them in that order; a null is neither in a list nor out of it.
# What happens: `scan_pyarrow_dataset` hands the filter to pyarrow, which compares the words: "high" is below "low" and
# "mid". Of the levels low, mid, high the filter `level < "high"` finds no row, and `level >= "mid"` leaves out "high", the
# rows that are wanted most. `~is_in([...])` also finds the row without a value. The frame itself and `scan_parquet` of the
# same file give other rows; nothing is raised.
# Output seen (ids of level < "high"; level >= "mid"; level not in ["low"]):
#   scan_parquet:    [1, 4]; [2, 4]; [2, 4]
#   pyarrow dataset: []; [4]; [2, 3, 4]
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q polars==2.1.0 pyarrow==26.0.1
cd "$folder"
"$folder/v/bin/python" - <<'PYTHON'
import sys

import polars as pl
import pyarrow.dataset as ds

levels = pl.Series(["low", "high", None, "mid"], dtype=pl.Enum(["low", "mid", "high"]))
frame = pl.DataFrame({"id": [1, 2, 3, 4], "level": levels, "word": ["low", "high", None, "mid"]})
frame.write_parquet("notes.parquet")
FILTERS = [pl.col("level") < "high", pl.col("level") >= "mid", ~pl.col("word").is_in(["low"])]
SOURCES = {
    "frame": frame.lazy(),
    "scan_parquet": pl.scan_parquet("notes.parquet"),
    "pyarrow dataset": pl.scan_pyarrow_dataset(ds.dataset("notes.parquet")),
}
seen = {}
for name, source in SOURCES.items():
    seen[name] = [source.filter(each).collect()["id"].to_list() for each in FILTERS]
    print(f"{name}: {'; '.join(map(str, seen[name]))}")
right = [[1, 4], [2, 4], [2, 4]]
if seen != {"frame": right, "scan_parquet": right, "pyarrow dataset": [[], [4], [2, 3, 4]]}:
    sys.exit("the behaviour has changed")
PYTHON
