#!/usr/bin/env bash
# pylance 14.0.2: a fuzzy search corrects words by the index alone, so rows added since it was built are not found.
#
# One would guess: full text finds a row that is not indexed yet, whatever the query: Lance scans such rows, and a plain
# match, a phrase and a boolean query do find them.
# What happens: with `fuzziness=1` the misspelt word is replaced by like words of the index. Rows outside the index are
# compared with it as it was typed. "quik" finds the indexed "quick" and not the one added a moment ago, "houd" finds
# no "hound" at all, and no error or warning says that a part of the table was not searched.
# Output seen:  quick: [1, 2]   quik, fuzziness 1: [1]   houd, fuzziness 1: []
# After `optimize_indices()`:   quik, fuzziness 1: [1, 2]   houd, fuzziness 1: [3]
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q pylance==14.0.2
"$folder/v/bin/python" - "$folder/t.lance" <<'PYTHON'
import sys

import lance
import pyarrow as pa
from lance.query import MatchQuery

path = sys.argv[1]
lance.write_dataset(pa.table({"id": [1], "text": ["quick fox"]}), path)
lance.dataset(path).create_scalar_index("text", "INVERTED", stem=False)
lance.write_dataset(pa.table({"id": [2, 3], "text": ["quick dog", "hound"]}), path, mode="append")


def find(word, fuzziness):
    query = MatchQuery(word, "text", fuzziness=fuzziness)
    return sorted(lance.dataset(path).to_table(full_text_query=query)["id"].to_pylist())


def find_all():
    found = find("quick", 0), find("quik", 1), find("houd", 1)
    print("quick: {}   quik, fuzziness 1: {}   houd, fuzziness 1: {}".format(*found))
    return found


before = find_all()
lance.dataset(path).optimize.optimize_indices()
after = find_all()
if before != ([1, 2], [1], []) or after != ([1, 2], [1, 2], [3]):
    sys.exit("the behaviour has changed")
PYTHON
