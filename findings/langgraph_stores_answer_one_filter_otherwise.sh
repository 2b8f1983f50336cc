#!/usr/bin/env bash
# langgraph-checkpoint 4.3.2 and langgraph-checkpoint-sqlite 3.1.2: the two stores for a long-term memory answer one filter
# otherwise.
#
# One would guess: InMemoryStore, which one tests with, and SqliteStore, which one runs, share `BaseStore.search` and so
# what a filter means; what cannot be compared is an error in both or in none.
# What happens: an item without the field passes `{"state": {"$ne": "done"}}` in memory and not in SQLite, so what was
# never marked is missing there. `{"size": {"$gt": 1}}` raises in memory as soon as one item lacks the field and leaves
# that item out in SQLite. A nested value is compared as `{"place": {"port": 5}}` in memory, which SQLite refuses, and as
# `{"place.port": 5}` in SQLite, which finds nothing in memory. The list of an item got from memory is the stored one: who
# appends to it changes the store. From SQLite it is a copy.
# Output seen:
#   state is not done:          memory [b, c], sqlite [b]
#   size over 1:                memory TypeError, sqlite [b]
#   {"place": {"port": 5}}:     memory [a], sqlite ValueError
#   {"place.port": 5}:          memory [], sqlite [a]
#   list after an append to it: memory [1, 2], sqlite [1]
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q langgraph-checkpoint==4.3.2 langgraph-checkpoint-sqlite==3.1.2
"$folder/v/bin/python" - <<'PYTHON'
import sqlite3
import sys

from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore

on_disk = SqliteStore(sqlite3.connect(":memory:", isolation_level=None))
on_disk.setup()
FILTERS = ({"state": {"$ne": "done"}}, {"size": {"$gt": 1}}, {"place": {"port": 5}}, {"place.port": 5})


def ask(store, wanted):
    try:
        return sorted(item.key for item in store.search(("notes",), filter=wanted))
    except (TypeError, ValueError) as error:
        return type(error).__name__


seen = {}
for name, store in (("memory", InMemoryStore()), ("sqlite", on_disk)):
    store.put(("notes",), "a", {"state": "done", "size": 1, "place": {"port": 5}, "list": [1]})
    store.put(("notes",), "b", {"state": "open", "size": 2})
    store.put(("notes",), "c", {})
    answers = [ask(store, wanted) for wanted in FILTERS]
    store.get(("notes",), "a").value["list"].append(2)
    seen[name] = [*answers, store.get(("notes",), "a").value["list"]]
    print(f"{name}: {seen[name]}")
memory = [["b", "c"], "TypeError", ["a"], [], [1, 2]]
sqlite = [["b"], ["b"], "ValueError", ["a"], [1]]
if seen != {"memory": memory, "sqlite": sqlite}:
    sys.exit("the behaviour has changed")
PYTHON
