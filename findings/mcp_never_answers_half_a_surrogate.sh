#!/usr/bin/env bash
# mcp 2.3.0 (Python SDK): over stdio a request with half a surrogate pair gets no answer, not even an error.
#
# One would guess: a line that can't be parsed is answered by JSON-RPC's "parse error", as its specification asks, so
# that the client stops waiting.
# What happens: the line is dropped, nothing is written, and the server goes on with the next one; the client waits
# until its own time is over. JSON.stringify of JavaScript and json.dumps of Python write such a line ("\ud83d") for a
# text that was cut within an emoji. Replace the half in the line before the SDK reads it.
# Output seen:
#   ids sent     [0, 1, 2]
#   ids answered [0, 2]
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q mcp==2.3.0
cat > "$folder/server.py" <<'PYTHON'
from mcp.server.mcpserver import MCPServer

server = MCPServer("s")


@server.tool()
def echo(text: str) -> str:
    return repr(text)


server.run("stdio")
PYTHON
"$folder/v/bin/python" - "$folder" <<'PYTHON'
import json
import subprocess
import sys

folder = sys.argv[1]
hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
sent = [
    {"id": 0, "method": "initialize", "params": hello},
    {"method": "notifications/initialized"},
    {"id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "cut \ud83d"}}},
    {"id": 2, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "whole"}}},
]
server = subprocess.Popen(
    [f"{folder}/v/bin/python", f"{folder}/server.py"],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
)
server.stdin.write("".join(json.dumps({"jsonrpc": "2.0"} | line) + "\n" for line in sent))
server.stdin.flush()
answered = []
while 2 not in answered:
    answered.append(json.loads(server.stdout.readline())["id"])
server.stdin.close()
answered += [json.loads(line)["id"] for line in server.stdout]
print("ids sent    ", [line["id"] for line in sent if "id" in line])
print("ids answered", answered)
if answered != [0, 2]:
    print("the behaviour has changed")
    sys.exit(1)
PYTHON
