#!/usr/bin/env bash
# lancedb 0.40.0: in a hybrid search whose reranker adds up scores, the only row with the keyword gets 0 for it.
#
# One would guess: a hybrid search for "E4711", which one row holds, puts that row first if the vectors weigh 0 or little.
# That is what one adds full text for: a name or a code that one row alone has.
# What happens: scores are moved so that the least is 0 and the best is 1. Where all hits score the same, and a single
# hit always does, they become 0, as much as a row without the word has. `LinearCombinationReranker(weight=0.0)` then
# gives every row 0, and at weight 0.3 the hit has what its vector gives it and comes eighth. `normalize="rank"` does
# the same. The default `RRFReranker` puts the hit first.
# Output seen (row 7 has the word, the query's vector is nearest to rows 0, 1, 2, ...):
#   LinearCombinationReranker(weight=0.0, fill=1.0) by score: row 7 has 0.000 and is at place 8
#   LinearCombinationReranker(weight=0.3, fill=1.0) by score: row 7 has 0.259 and is at place 8
#   LinearCombinationReranker(weight=0.0, fill=1.0) by rank: row 7 has 0.000 and is at place 8
#   RRFReranker(K=60) by score: row 7 has 0.031 and is at place 1
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q lancedb==0.40.0
"$folder/v/bin/python" - "$folder/db" <<'PYTHON'
import sys

import lancedb
from lancedb.index import FTS
from lancedb.rerankers import LinearCombinationReranker, RRFReranker

rows = [{"id": i, "text": "order E4711" if i == 7 else f"order {i}", "vector": [float(i), 1.0]} for i in range(20)]
table = lancedb.connect(sys.argv[1]).create_table("t", rows)
table.create_index("text", config=FTS())


def search(reranker, normalize="score"):
    query = table.search(query_type="hybrid").vector([0.0, 1.0]).text("E4711")
    found = query.rerank(reranker, normalize=normalize).limit(20).to_list()
    place = [row["id"] for row in found].index(7)
    print(f"{reranker} by {normalize}: row 7 has {found[place]['_relevance_score']:.3f} and is at place {place + 1}")
    return place + 1


places = [
    search(LinearCombinationReranker(weight=0.0)),
    search(LinearCombinationReranker(weight=0.3)),
    search(LinearCombinationReranker(weight=0.0), "rank"),
    search(RRFReranker()),
]
if places != [8, 8, 8, 1]:
    sys.exit("the behaviour has changed")
PYTHON
