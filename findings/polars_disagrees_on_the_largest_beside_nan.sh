#!/usr/bin/env bash
# polars 2.1.0: which of some scores is the largest depends on the method, once one of them is NaN.
#
# One would guess: NaN is the largest for all methods, as it is for `sort` and for `>`, or for none; and `top_k(1)` gives
# the value of `max()`, as `rolling_max` over all rows does.
# What happens: `max`, `arg_max`, `cum_max` and `max_by` leave NaN out; `sort`, `top_k`, `top_k_by`, `rank`, `rolling_max`
# and `quantile(1.0)` take it for the largest. A table of scores in which one text had no vector so has the best score in
# one column and the row without any in the next.
# Output seen:
#   0.9 is the largest: max, arg_max, cum_max, max_by
#   nan is the largest: sort, top_k, top_k_by, rank, rolling_max, quantile
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q polars==2.1.0
"$folder/v/bin/python" - <<'PYTHON'
import math
import sys

import polars as pl

scores = pl.Series("score", [math.nan, 0.2, 0.9])
table = pl.DataFrame([scores])
largest = {
    "max": scores.max(),
    "arg_max": scores[scores.arg_max()],
    "cum_max": scores.cum_max()[-1],
    "max_by": table.select(pl.col("score").max_by("score")).item(),
    "sort": scores.sort()[-1],
    "top_k": scores.top_k(1)[0],
    "top_k_by": table.select(pl.col("score").top_k_by("score", 1)).item(),
    "rank": scores[scores.rank().to_list().index(3.0)],
    "rolling_max": scores.rolling_max(3)[-1],
    "quantile": scores.quantile(1.0),
}
numbers = [name for name, value in largest.items() if value == 0.9]
others = [name for name, value in largest.items() if math.isnan(value)]
print(f"0.9 is the largest: {', '.join(numbers)}\nnan is the largest: {', '.join(others)}")
if numbers != list(largest)[:4] or others != list(largest)[4:]:
    sys.exit("the behaviour has changed")
PYTHON
