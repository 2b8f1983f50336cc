#!/usr/bin/env bash
# mem0ai 2.2.1: after `delete_all` every text is still in history.db, twice, and `history` gives it out.
#
# One would guess: `delete_all(user_id=...)` leaves nothing of what was stored of a person, or the log of changes keeps that
# something was deleted and not what.
# What happens: the vectors are gone, and "Memories deleted successfully!" is the answer. Each deletion writes the deleted text
# once more, as `old_memory` of an event DELETE, beside the event ADD that has it as `new_memory`. The rows name no person,
# so they can't be found by one afterwards: the ids have to be known before. `delete` of one memory does the same. Only
# `reset`, which empties the whole memory of all persons, takes the history along.
# Output seen:
#   after delete_all: 0 memories, [('ADD', None, 'Ann has moved to Bergen.'), ('DELETE', 'Ann has moved to Bergen.', None)]
#   columns that name a person: []
#   after reset: 0 rows
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q mem0ai==2.2.1 langchain==1.5.2 langchain-core==1.8.3
cat > "$folder/try.py" <<'PYTHON'
import sqlite3
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
text = "Ann has moved to Bergen."
(added,) = memory.add(text, user_id="ann", infer=False)["results"]
memory.delete_all(user_id="ann")
left = len(memory.get_all(filters={"user_id": "ann"})["results"])
kept = [(each["event"], each["old_memory"], each["new_memory"]) for each in memory.history(added["id"])]
print(f"after delete_all: {left} memories, {kept}")


def read(query):
    return sqlite3.connect(f"{folder}/history.db").execute(query).fetchall()


persons = [name for _, name, *_ in read("pragma table_info(history)") if name.startswith(("user", "agent", "run"))]
stored = read("select new_memory from history where event = 'ADD'")
memory.reset()
(rows,) = read("select count(*) from history")[0]
print(f"columns that name a person: {persons}\nafter reset: {rows} rows")
if (left, kept, stored) != (0, [("ADD", None, text), ("DELETE", text, None)], [(text,)]) or persons or rows:
    sys.exit("the behaviour has changed")
PYTHON
env OPENAI_API_KEY="any text" HOME="$folder" MEM0_DIR="$folder/mem0" MEM0_TELEMETRY=False \
    "$folder/v/bin/python" "$folder/try.py" "$folder" 2> "$folder/log" || { tail -n 5 "$folder/log"; exit 1; }
