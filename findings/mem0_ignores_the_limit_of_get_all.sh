#!/usr/bin/env bash
# mem0ai 2.2.1: `get_all(limit=1000)` returns 20 memories of 150, as `get_all()` does, and says nothing.
#
# One would guess: "get all" gives all; if it has a bound, `limit`, its name in mem0 1, raises it or is refused as an
# argument that is not known.
# What happens: the bound is called `top_k` now and is 20. `limit` goes into the other keyword arguments and is dropped there,
# as is any word ("limt"). The answer is a plain dictionary of results without a total or a mark that there is more. So a
# backup or an export for the person who asks what is stored of her has 20 memories of 150, and `search` likewise.
# Output seen:
#   get_all: 20, limit=1000: 20, limt=1000: 20, top_k=1000: 150
#   keys of the answer: ['results']
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q mem0ai==2.2.1 langchain==1.5.2 langchain-core==1.8.3
cat > "$folder/try.py" <<'PYTHON'
import sys

from langchain_core.embeddings import DeterministicFakeEmbedding
from mem0 import Memory

folder, size = sys.argv[1], 8
config = {
    "embedder": {"provider": "langchain", "config": {"model": DeterministicFakeEmbedding(size=size)}},
    "vector_store": {"provider": "qdrant", "config": {"path": f"{folder}/vectors", "embedding_model_dims": size}},
    "history_db_path": f"{folder}/history.db",
}
memory = Memory.from_config(config)
for number in range(150):
    memory.add(f"The gauge stood at {number}.", user_id="ann", infer=False)
ann = {"user_id": "ann"}
answers = {word: memory.get_all(filters=ann, **{word: 1000}) for word in ("limit", "limt", "top_k")}
plain = memory.get_all(filters=ann)
counts = {"get_all": len(plain["results"])} | {word: len(answer["results"]) for word, answer in answers.items()}
print("get_all: {get_all}, limit=1000: {limit}, limt=1000: {limt}, top_k=1000: {top_k}".format(**counts))
print(f"keys of the answer: {list(plain)}")
if (counts, list(plain)) != ({"get_all": 20, "limit": 20, "limt": 20, "top_k": 150}, ["results"]):
    sys.exit("the behaviour has changed")
PYTHON
env OPENAI_API_KEY="any text" HOME="$folder" MEM0_DIR="$folder/mem0" MEM0_TELEMETRY=False \
    "$folder/v/bin/python" "$folder/try.py" "$folder" 2> "$folder/log" || { tail -n 5 "$folder/log"; exit 1; }
