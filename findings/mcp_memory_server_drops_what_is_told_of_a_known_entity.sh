#!/usr/bin/env bash
# @modelcontextprotocol/server-memory 2026.8.31: what is told of an entity that exists is dropped with a success, and two words
# are found in one order alone.
#
# One would guess: `create_entities` with a known name adds its observations, replaces the entity, or is an error, as
# `add_observations` on an unknown name is; and `search_nodes` finds an entity by the words that it holds.
# What happens: the call succeeds with an empty list, and the observations are stored nowhere. A model that does not look
# first has told the memory something that it never learns. Twice in one call the name is stored twice; another
# spelling is another entity; a relation may lead to nobody. A search looks for the whole query as one piece of text:
# "green tea" is found, "tea green" and "Ann tea" are not, and a question never is.
# Output seen:
#   known entity: {"entities": []}, stored: ["likes green tea"]
#   one name twice in a call: ["Bo", "Bo"]
#   found: green tea
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$folder" @modelcontextprotocol/server-memory@2026.8.31
python3 - "$folder" <<'PYTHON'
import json
import os
import subprocess
import sys

folder = sys.argv[1]
script = f"{folder}/node_modules/@modelcontextprotocol/server-memory/dist/index.js"
server = subprocess.Popen(
    ["node", script],
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    stderr=subprocess.DEVNULL,
    env=os.environ | {"MEMORY_FILE_PATH": f"{folder}/memory.jsonl"},
    text=True,
)


def send(method, params, **ident):
    server.stdin.write(json.dumps({"jsonrpc": "2.0", "method": method, "params": params} | ident) + "\n")
    server.stdin.flush()
    return json.loads(server.stdout.readline())["result"] if ident else None


def call(tool, **arguments):
    return send("tools/call", {"name": tool, "arguments": arguments}, id=2)["structuredContent"]


def tell(*facts):
    entities = [{"name": name, "entityType": "person", "observations": [text]} for name, text in facts]
    return call("create_entities", entities=entities)


def list_names(found):
    return [entity["name"] for entity in found["entities"]]


client = {"name": "finding", "version": "1"}
send("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}, id=1)
send("notifications/initialized", {})
tell(("Ann", "likes green tea"))
again = tell(("Ann", "is allergic to nuts"))
(ann,) = call("read_graph")["entities"]
twice = list_names(tell(("Bo", "lives in Rome"), ("Bo", "moved to Oslo")))
queries = ["green tea", "tea green", "Ann tea", "green  tea", "Who likes tea?"]
found = [query for query in queries if list_names(call("search_nodes", query=query))]
server.stdin.close()
server.wait(60)
print(f"known entity: {json.dumps(again)}, stored: {json.dumps(ann['observations'])}")
print(f"one name twice in a call: {json.dumps(twice)}\nfound: {', '.join(found)}")
if (again, ann["observations"], twice, found) != ({"entities": []}, ["likes green tea"], ["Bo", "Bo"], ["green tea"]):
    sys.exit("the behaviour has changed")
PYTHON
