#!/usr/bin/env bash
# openai-agents 0.24.0: with a Chat Completions model every answer in a session has the same id.
#
# One would guess: the items that SQLiteSession stores have an id each, or none where the endpoint gives none; a session
# that is read back with `limit` begins with a message that can be sent.
# What happens: answers and tool calls of any model that is spoken to by Chat Completions (which most servers of one's own
# speak) are stored with "id": "__fake_id__". Who stores messages by id keeps one answer out of a whole session. The
# endpoint's own id is in `provider_data`. What a person said has no id. And `get_items(limit=2)` cuts between a
# call and its result: the first item is then an output of a call that is not there.
# Output seen:
#   ids of 5 items: [None, '__fake_id__', None, '__fake_id__', '__fake_id__']; ids of the endpoint's: 3
#   the last two: ['function_call_output', 'message']
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
folder="$(mktemp -d)"
trap 'kill "${stub:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
python3 -m venv "$folder/v"
"$folder/v/bin/pip" install -q openai-agents==0.24.0
python3 "$here/stub_model_server.py" "$folder/port" &
stub=$!
until [ -s "$folder/port" ]; do sleep 0.2; done
"$folder/v/bin/python" - "$folder" <<'PYTHON'
import asyncio
import sys
from pathlib import Path

from agents import Agent, OpenAIChatCompletionsModel, Runner, SQLiteSession, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

folder = Path(sys.argv[1])
set_tracing_disabled(True)


@function_tool
def read_gauge() -> str:
    """Read the gauge."""
    return "high"


async def talk():
    url = f"http://127.0.0.1:{(folder / 'port').read_text()}/v1"
    model = OpenAIChatCompletionsModel("stub", AsyncOpenAI(base_url=url, api_key="none"))
    agent = Agent(name="keeper", model=model, tools=[read_gauge])
    session = SQLiteSession("harbour", folder / "sessions.db")
    await Runner.run(agent, "We keep the tides.", session=session)
    await Runner.run(agent, "Look.\nCALL read_gauge {}\nSAY Done.", session=session)
    return await session.get_items(), await session.get_items(limit=2)


items, last = asyncio.run(talk())
kept = [item for item in items if item.get("type") != "function_call_output"]
ids = [item.get("id") for item in kept]
own = {item["provider_data"]["response_id"] for item in kept if "provider_data" in item}
types = [item["type"] for item in last]
print(f"ids of {len(kept)} items: {ids}; ids of the endpoint's: {len(own)}\nthe last two: {types}")
fake = "__fake_id__"
if (ids, len(own), types) != ([None, fake, None, fake, fake], 3, ["function_call_output", "message"]):
    sys.exit("the behaviour has changed")
PYTHON
