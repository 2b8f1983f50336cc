#!/usr/bin/env bash
# sqlite-vec 0.1.9: with a vector of zeros in a table, a search by cosine loses real neighbours.
#
# One would guess: a vector without a direction comes last or not at all, and the rest are found as without it; all
# conditions beside MATCH limit what is searched; and k is the number of hits.
# What happens: its distance is NULL, and comparing with that breaks the choice of the k nearest. Stored first, it is the
# nearest to every query. In a table with partitions the rows stored behind it are lost: the 4 nearest leave out the
# third nearest and hold the opposite of the query. With ORDER BY distance SQLite puts it first. One text without
# tokens does that. Besides, `id > 2` is applied after the k nearest are chosen and finds nothing, where a condition
# on a metadata column is applied before; and over two partitions k = 1 gives two hits.
# Output seen (ids from the nearest on; 9 is the zero vector):
#   without it: [1, 2, 3, 4], with it, stored first: [9, 1, 2, 3]
#   partitions: [1, 2, 3, 5], with it: [1, 2, 5, 6]
#   k = 1: who = 'b' [5], id > 2 [], space in ('x', 'y') [1, 2]
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q sqlite-vec==0.1.9 apsw==3.54.1.0
"$folder/v/bin/python" - <<'PYTHON'
import sys

import apsw
import sqlite_vec

ZERO = (9, "[0, 0]", "a", "x")
ROWS = [
    (1, "[1, 0]", "a", "x"),
    (2, "[.9, .1]", "b", "y"),
    (3, "[.8, .2]", "a", "x"),
    (5, "[0, 1]", "b", "y"),
    (6, "[-1, 0]", "b", "y"),
]
store = apsw.Connection(":memory:")
store.enable_load_extension(True)
store.load_extension(sqlite_vec.loadable_path())


def find(rows, k, space="", condition="true"):
    store.execute("drop table if exists texts")
    columns = f"id integer primary key, vector float[2] distance_metric=cosine, who text, space text {space}"
    store.execute(f"create virtual table texts using vec0({columns})")
    store.executemany("insert into texts values (?, ?, ?, ?)", rows)
    query = f"select id from texts where vector match '[1, 0]' and k = {k} and {condition}"
    return [row[0] for row in store.execute(query)]


plain = find(ROWS, 4), find([ZERO, *ROWS], 4)
behind = [ROWS[0], ZERO, *ROWS[1:]]
split = find(ROWS, 4, "partition key"), find(behind, 4, "partition key")
print("without it: {}, with it, stored first: {}".format(*plain))
print("partitions: {}, with it: {}".format(*split))
limited = [find(ROWS, 1, condition=condition) for condition in ("who = 'b'", "id > 2")]
limited.append(find(ROWS, 1, "partition key", "space in ('x', 'y')"))
print("k = 1: who = 'b' {}, id > 2 {}, space in ('x', 'y') {}".format(*limited))
expected = ([1, 2, 3, 5], [9, 1, 2, 3]), ([1, 2, 3, 5], [1, 2, 5, 6]), [[2], [], [1, 2]]
if (plain, split, limited) != expected:
    sys.exit("the behaviour has changed")
PYTHON
