#!/usr/bin/env bash
# mcp 2.3.0 (Python SDK): the two halves of a tool's answer, text and data, are made in two ways and can disagree.
#
# One would guess: a tool that returns typed data has it in `structuredContent`, and the same as JSON in a text block, as
# the specification asks of servers.
# What happens: the data go through the return annotation, the text does not. A key that a TypedDict lacks is in the text
# and not in the data. A list is one text block for each item, not one of JSON, so an empty list and None have no
# text at all: the model of a client that reads the text alone gets an empty answer to "what is known of this?" Of `dict`
# without types there is no data. An argument that the tool does not have is dropped without a word, so a misspelt
# filter finds everything.
# Output seen (text blocks | data):
#   typed: ['{ "a": 1, "extra": 2 }'] | {'a': 1}
#   words: ['tide', 'gauge'] | {'result': ['tide', 'gauge']}
#   nothing: [] | {'result': []}
#   untyped: ['{ "a": 1 }'] | None
#   search, asked with {"limt": 1}: ['all'] | {'result': 'all'}
set -euo pipefail
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q mcp==2.3.0
"$folder/v/bin/python" - <<'PYTHON'
import asyncio
import sys
from typing import TypedDict

from mcp.server import MCPServer


class Hit(TypedDict):
    a: int


def typed() -> Hit:
    return {"a": 1, "extra": 2}


def words() -> list[str]:
    return ["tide", "gauge"]


def nothing() -> list[str]:
    return []


def untyped() -> dict:
    return {"a": 1}


def search(limit: int = 0) -> str:
    return "some" if limit else "all"


async def ask(tool, arguments):
    server = MCPServer("memory")
    server.add_tool(tool)
    answer = await server.call_tool(tool.__name__, arguments)
    return [" ".join(block.text.split()) for block in answer.content], answer.structured_content


expected = {
    typed: (['{ "a": 1, "extra": 2 }'], {"a": 1}),
    words: (["tide", "gauge"], {"result": ["tide", "gauge"]}),
    nothing: ([], {"result": []}),
    untyped: (['{ "a": 1 }'], None),
    search: (["all"], {"result": "all"}),
}
changed = False
for tool, halves in expected.items():
    text, data = asyncio.run(ask(tool, {"limt": 1} if tool is search else {}))
    print(f"{tool.__name__}: {text} | {data}")
    changed |= (text, data) != halves
if changed:
    sys.exit("the behaviour has changed")
PYTHON
