#!/usr/bin/env bash
# pylance 14.0.2: an index on a column of booleans takes the nulls out of `NOT (done IS TRUE)`, for `delete` too.
#
# One would guess: an index makes a filter faster and never changes its answer. `IS TRUE` is false for a null, so its
# negation is true: the rows not yet marked.
# What happens: without an index that holds. With a BTREE or a BITMAP index the null rows are missing, no error: counts,
# scans and deletes leave them out. `done IS NOT TRUE`, which says the same, and `NOT (done IS FALSE)`'s own twin
# `done IS NOT FALSE` find them with either, and so does a ZONEMAP index. So a filter that worked until the column got
# its index answers otherwise from then on.
# Output seen, of [True, False, None, None]:
#   none:    NOT (done IS TRUE) 3, done IS NOT TRUE 3, NOT (done IS FALSE) 3; left after deleting the first: 1
#   BTREE:   NOT (done IS TRUE) 1, done IS NOT TRUE 3, NOT (done IS FALSE) 1; left after deleting the first: 3
#   BITMAP:  NOT (done IS TRUE) 1, done IS NOT TRUE 3, NOT (done IS FALSE) 1; left after deleting the first: 3
#   ZONEMAP: NOT (done IS TRUE) 3, done IS NOT TRUE 3, NOT (done IS FALSE) 3; left after deleting the first: 1
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q pylance==14.0.2
"$folder/v/bin/python" - "$folder" <<'PYTHON'
import sys

import lance
import pyarrow as pa

FILTERS = ("NOT (done IS TRUE)", "done IS NOT TRUE", "NOT (done IS FALSE)")
seen = {}
for kind in ("none", "BTREE", "BITMAP", "ZONEMAP"):
    rows = lance.write_dataset(pa.table({"done": [True, False, None, None]}), f"{sys.argv[1]}/{kind}.lance")
    if kind != "none":
        rows.create_scalar_index("done", kind)
    counts = [rows.count_rows(text) for text in FILTERS]
    if counts != [rows.to_table(filter=text).num_rows for text in FILTERS]:
        sys.exit("a count and a scan differ")
    rows.delete(FILTERS[0])
    seen[kind] = (*counts, rows.count_rows())
    told = ", ".join(f"{text} {count}" for text, count in zip(FILTERS, counts))
    print(f"{kind}: {told}; left after deleting the first: {rows.count_rows()}")
right, wrong = (3, 3, 3, 1), (1, 3, 1, 3)
if seen != {"none": right, "BTREE": wrong, "BITMAP": wrong, "ZONEMAP": right}:
    sys.exit("the behaviour has changed")
PYTHON
