#!/usr/bin/env bash
# mem0ai 2.2.1: a memory that stores text as it is, with an encoder of one's own, asks for a key of OpenAI's.
#
# One would guess: with `infer=False` no language model is used, and so none is needed: the client is made when it is first
# asked, or not at all. Of what `metadata` holds, either all or none of mem0's own fields is taken.
# What happens: `Memory.from_config` makes OpenAI's client at once and raises without a key, whatever embedder is configured.
# Any text will do as the key; nothing is sent. With it, `add(..., infer=False)` stores what was said, as often as it is
# said: the same sentence three times is three memories, each of them a hit of its own. Of mem0's own fields in
# `metadata` it takes `created_at`, unchecked ("last week" is then the time of creation *and* of the last change), and drops
# `hash`, `data` and `user_id`.
# Output seen:
#   without a key: OpenAIError
#   with any text as key: 3 memories of one sentence, 3 hits
#   metadata: created_at 'last week', updated_at 'last week', user_id 'ann', kept {'topic': 'tide'}
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q mem0ai==2.2.1 langchain==1.5.2 langchain-core==1.8.3
cat > "$folder/try.py" <<'PYTHON'
import os
import sys

from langchain_core.embeddings import DeterministicFakeEmbedding
from mem0 import Memory

folder = sys.argv[1]
size = 32
config = {
    "embedder": {"provider": "langchain", "config": {"model": DeterministicFakeEmbedding(size=size)}},
    "vector_store": {"provider": "qdrant", "config": {"path": f"{folder}/vectors", "embedding_model_dims": size}},
    "history_db_path": f"{folder}/history.db",
}
try:
    Memory.from_config(config)
    refused = "nothing"
except Exception as error:
    refused = type(error).__name__
print(f"without a key: {refused}")
os.environ["OPENAI_API_KEY"] = "any text"
config["vector_store"]["config"]["path"] += "-2"
memory = Memory.from_config(config)
ann = {"user_id": "ann"}
for _ in range(3):
    memory.add("We keep the tides in PostgreSQL.", user_id="ann", infer=False)
stored = len(memory.get_all(filters=ann)["results"])
hits = len(memory.search("We keep the tides in PostgreSQL.", filters=ann)["results"])
print(f"with any text as key: {stored} memories of one sentence, {hits} hits")
given = {"created_at": "last week", "hash": "x", "data": "y", "user_id": "bob", "topic": "tide"}
(added,) = memory.add("We read the rota.", user_id="ann", infer=False, metadata=given)["results"]
found = memory.get(added["id"])
times = found["created_at"], found["updated_at"]
print("metadata: created_at {!r}, updated_at {!r}, user_id {!r}, kept {}".format(*times, found["user_id"], found["metadata"]))
if (refused, stored, hits) != ("OpenAIError", 3, 3):
    sys.exit("the behaviour has changed")
if (*times, found["user_id"], found["metadata"]) != ("last week", "last week", "ann", {"topic": "tide"}):
    sys.exit("the behaviour has changed")
PYTHON
env -u OPENAI_API_KEY HOME="$folder" MEM0_DIR="$folder/mem0" MEM0_TELEMETRY=False \
    "$folder/v/bin/python" "$folder/try.py" "$folder" 2> "$folder/log" || { tail -n 5 "$folder/log"; exit 1; }
