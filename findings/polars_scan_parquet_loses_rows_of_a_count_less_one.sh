#!/usr/bin/env bash
# polars 2.1.0: a filter that calculates with a whole number finds rows by `read_parquet` that `scan_parquet` loses.
#
# One would guess: the lazy scan and the eager read give the same rows; a number that runs over affects its own row at most.
# What happens: the filter is also worked out from the smallest and the largest number of a row group, and there it may run
# over for the group as a whole. `group_by().len()` makes UInt32, so with one 0 in the file "smallest less one" is
# 4294967295, nothing seems to be below 3, and all rows are skipped: 1, 2 and 3 are gone with the 0. The largest Int64,
# as a mark for "for ever", hides all other rows from `until + 10 > 150` likewise. It also holds for one row group,
# and `use_statistics=False` or a cast to Int64 before the sum gives all rows. No error, no warning.
# Output seen:
#   count - 1 < 3:                   read [1, 2, 3], scan [], without statistics [1, 2, 3]
#   (count - 1).is_between(0, 2):    read [1, 2, 3], scan [], without statistics [1, 2, 3]
#   count cast to Int64 - 1 < 3:     read [0, 1, 2, 3], scan [0, 1, 2, 3], without statistics [0, 1, 2, 3]
#   until + 10 > 150:                read [200], scan [], without statistics [200]
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q polars==2.1.0
cd "$folder"
"$folder/v/bin/python" - <<'PYTHON'
import sys

import polars as pl

count, until = pl.col("count"), pl.col("until")
COUNTS = pl.DataFrame({"count": pl.Series([0, 1, 2, 3, 9], dtype=pl.UInt32)})
UNTIL = pl.DataFrame({"until": [100, 200, 2**63 - 1]})
CASES = {
    "count - 1 < 3": (COUNTS, count - 1 < 3, [1, 2, 3], []),
    "(count - 1).is_between(0, 2)": (COUNTS, (count - 1).is_between(0, 2), [1, 2, 3], []),
    "count cast to Int64 - 1 < 3": (COUNTS, count.cast(pl.Int64) - 1 < 3, [0, 1, 2, 3], [0, 1, 2, 3]),
    "until + 10 > 150": (UNTIL, until + 10 > 150, [200], []),
}
changed = False
for told, (table, condition, *expected) in CASES.items():
    table.write_parquet("rows.parquet")
    frames = [
        pl.read_parquet("rows.parquet").lazy(),
        pl.scan_parquet("rows.parquet"),
        pl.scan_parquet("rows.parquet", use_statistics=False),
    ]
    read, scan, plain = [frame.filter(condition).collect().to_series().to_list() for frame in frames]
    changed |= [read, scan, plain] != [*expected, expected[0]]
    print(f"{told}: read {read}, scan {scan}, without statistics {plain}")
if changed:
    sys.exit("the behaviour has changed")
PYTHON
