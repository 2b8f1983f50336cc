#!/usr/bin/env bash
# mcp 2.3.0 (Python SDK): a tool's text argument is read as JSON unless its annotation is just `str`.
#
# One would guess: a string that a client sends for `text: str | None` arrives as that string, or is refused.
# What happens: for every annotation but plain `str` a string that parses as JSON's null, an array or an object is
# replaced by what it parses to, before the types are checked. "null" (a query, a name, a note of one word) arrives as
# None, which often means "no filter"; under `str | list[str]` the text '["a"]' arrives as a list. A note that is a
# piece of JSON is refused as "not a string" though the client sent one and the tool's schema allows it. Numbers, true
# and quoted strings stay text. Annotate with `str` and a default of "" where any text must arrive.
# Output seen:
#   optional 'null'     -> None
#   optional '["a"]'    -> refused
#   optional '{"a": 1}' -> refused
#   either   '["a"]'    -> ['a']
#   plain    'null'     -> 'null'
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q mcp==2.3.0
"$folder/v/bin/python" - 2>/dev/null <<'PYTHON'
import asyncio
import sys

from mcp import Client
from mcp.server.mcpserver import MCPServer

server = MCPServer("s")


@server.tool()
def optional(text: str | None = None) -> str:
    return repr(text)


@server.tool()
def either(text: str | list[str]) -> str:
    return repr(text)


@server.tool()
def plain(text: str) -> str:
    return repr(text)


SENT = [("optional", t) for t in ("null", '["a"]', '{"a": 1}', "true")] + [("either", '["a"]'), ("plain", "null")]


async def call_all():
    async with Client(server) as client:
        answers = [await client.call_tool(tool, {"text": text}) for tool, text in SENT]
    return ["refused" if answer.is_error else answer.content[0].text for answer in answers]


seen = asyncio.run(call_all())
for (tool, text), got in zip(SENT, seen, strict=True):
    print(f"{tool:8} {text!r:10} -> {got}")
if seen != ["None", "refused", "refused", "'true'", "['a']", "'null'"]:
    print("the behaviour has changed")
    sys.exit(1)
PYTHON
