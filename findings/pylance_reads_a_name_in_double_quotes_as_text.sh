#!/usr/bin/env bash
# pylance 14.0.2 and lancedb 0.40.0: one filter in SQL, on one table, says two things.
#
# One would guess: `"kind" != 'draft'` compares the column `kind`, as in SQL, and both packages read it alike: they open
# the same files.
# What happens: in lancedb double quotes name a column. In pylance they hold text, as single quotes do: the filter
# compares the words "kind" and "draft", is true of every row, and `delete` takes the whole table, without an error.
# `"kind" = 'draft'` finds nothing there. A name that needs quotes (a space, a capital) takes backticks in both.
# Output seen, of 3 rows, one of them a draft:
#   "kind" = 'draft'    lancedb counts 1, pylance counts 0
#   "kind" != 'draft'   lancedb deletes 2, pylance deletes 3
#   `kind` != 'draft'   lancedb deletes 2, pylance deletes 2
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q lancedb==0.40.0 pylance==14.0.2
"$folder/v/bin/python" - "$folder/db" <<'PYTHON'
import sys

import lance
import lancedb
import pyarrow as pa

db = lancedb.connect(sys.argv[1])
rows = pa.table({"id": ["a", "b", "c"], "kind": ["draft", "note", "fact"]})


def write(name):
    return db.create_table(name, rows, mode="overwrite"), lance.dataset(f"{sys.argv[1]}/{name}.lance")


def count(where):
    table, dataset = write("counted")
    return table.count_rows(where), dataset.count_rows(where)


def delete(where):
    table, _ = write("a")
    _, dataset = write("b")
    table.delete(where)
    dataset.delete(where)
    return 3 - table.count_rows(), 3 - dataset.count_rows()


seen = {
    "\"kind\" = 'draft'": count("\"kind\" = 'draft'"),
    "\"kind\" != 'draft'": delete("\"kind\" != 'draft'"),
    "`kind` != 'draft'": delete("`kind` != 'draft'"),
}
for where, (by_lancedb, by_pylance) in seen.items():
    print(f"{where:20} lancedb {by_lancedb}, pylance {by_pylance}")
if list(seen.values()) != [(1, 0), (2, 3), (2, 2)]:
    sys.exit("the behaviour has changed")
PYTHON
