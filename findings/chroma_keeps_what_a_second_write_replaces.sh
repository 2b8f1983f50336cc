#!/usr/bin/env bash
# chromadb 1.5.9: `add` under a known id changes nothing and says nothing, and `upsert` keeps metadata that it was not given.
#
# One would guess: `add` with an id that exists raises, as an insert with a primary key does; `upsert` leaves the record that
# it was given, and no more; `get(ids=[...])` returns the records in the order of the ids that were asked for.
# What happens: the second `add` returns None and the old text stays. After `upsert` the text and the vector are new and the
# metadata is the union of old and new, so a memory that was marked "replaced by ..." keeps the mark with its new text; only
# a key that is set to None goes. `update` of an id that does not exist does nothing. `get` returns another order than
# asked, so a `zip` of ids and documents pairs the wrong ones. Nothing is raised or logged in any of these.
# Output seen:
#   add again: old text
#   upsert: new text, metadata {'kind': 'fact', 'replaced_by': 'b'}
#   update of an unknown id: 2 records, as before
#   asked for ['b', 'a'], got ['a', 'b']
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q chromadb==1.5.9
ANONYMIZED_TELEMETRY=False "$folder/v/bin/python" - <<'PYTHON'
import sys

import chromadb

memory = chromadb.EphemeralClient().create_collection(
    "memory", embedding_function=None
)
old = {"documents": ["old text"], "embeddings": [[1.0, 0.0]]}
new = {"documents": ["new text"], "embeddings": [[0.0, 1.0]]}
memory.add(ids=["a"], metadatas=[{"kind": "plan", "replaced_by": "b"}], **old)
memory.add(ids=["b"], **old)

memory.add(ids=["a"], metadatas=[{"kind": "fact"}], **new)
again = memory.get(ids=["a"])["documents"][0]
memory.upsert(ids=["a"], metadatas=[{"kind": "fact"}], **new)
after = memory.get(ids=["a"])
text, kept = after["documents"][0], after["metadatas"][0]
memory.update(ids=["unknown"], **new)
count = memory.count()
order = memory.get(ids=["b", "a"])["ids"]
print(f"add again: {again}")
print(f"upsert: {text}, metadata {dict(sorted(kept.items()))}")
print(f"update of an unknown id: {count} records, as before")
print(f"asked for ['b', 'a'], got {order}")
if (again, text, kept, count, order) != (
    "old text",
    "new text",
    {"kind": "fact", "replaced_by": "b"},
    2,
    ["a", "b"],
):
    sys.exit("the behaviour has changed")
PYTHON
