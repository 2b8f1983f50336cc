"""The MCP server as agents use it: the official client over a real subprocess's stdio, and over HTTP."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the extra `mcp` is not installed")

import httpx
from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult, TextContent

from flows.nightly import run_night
from schemas.settings import Settings
from slowwave.store.journal import journals
from slowwave.store.recalls import recalled_spans, span_hash

CHAT = [
    ("user", "Where shall we keep the tide gauge readings?"),
    ("assistant", "We decided to keep the tide gauge readings in PostgreSQL 17, partitioned by month."),
]
COMMAND = [sys.executable, "-c", "from slowwave.cli.main import main; main()", "mcp"]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mcp")
    lines = [
        {"session_id": "s-1", "message_id": f"m-{i}", "role": role, "content": text, "ts": "2026-11-01T10:00:00Z"}
        for i, (role, text) in enumerate(CHAT)
    ]
    (folder / "chat.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    run_night([folder / "chat.jsonl"], Settings(store=folder / "store", encoder="hash-384"))
    return folder / "store"


def environment(store: Path) -> dict[str, str]:
    return {
        **os.environ,
        "SLOWWAVE_STORE": str(store),
        "SLOWWAVE_ENCODER": "hash-384",
        "XDG_CONFIG_HOME": str(store / "config"),
        "XDG_CACHE_HOME": str(store / "cache"),
        "PYTHONPATH": str(Path(__file__).parent.parent),
    }


def served(store: Path) -> StdioServerParameters:
    return StdioServerParameters(command=COMMAND[0], args=COMMAND[1:], env=environment(store))


def text_of(result: CallToolResult) -> str:
    assert not result.is_error, result.content
    return "".join(part.text for part in result.content if isinstance(part, TextContent))


def test_the_five_tools_over_stdio(store: Path) -> None:
    async def use() -> dict[str, Any]:
        async with Client(served(store)) as client:
            tools = await client.list_tools()
            hits = await client.call_tool("recall", {"query": "tide gauge readings", "k": 3})
            found = json.loads(text_of(hits))["hits"]
            return {
                "tools": {tool.name: tool for tool in tools.tools},
                "instructions": client.instructions,
                "hits": found,
                "structured": hits.structured_content,
                "context": text_of(await client.call_tool("context", {"query": "tide gauge readings", "budget": 200})),
                "briefing": [text_of(await client.call_tool("briefing")) for _ in range(2)],
                "show": json.loads(text_of(await client.call_tool("show", {"id": found[0]["id"]}))),
                "remember": text_of(
                    await client.call_tool(
                        "remember", {"note": "The ferry's new berth is number seven.", "of_person": True}
                    )
                ),
                "bad": [
                    await client.call_tool("recall", {"query": "…"}),
                    await client.call_tool("recall", {"query": "gauge", "since": "yesterdayish"}),
                    await client.call_tool("show", {"id": "no-such-row"}),
                    await client.call_tool("remember", {"note": " "}),
                    await client.call_tool("recall", {"k": 3}),
                ],
            }

    got = asyncio.run(use())
    assert set(got["tools"]) == {"recall", "context", "briefing", "show", "remember"}
    assert all(tool.description for tool in got["tools"].values())
    assert got["tools"]["recall"].annotations.read_only_hint
    assert not got["tools"]["remember"].annotations.read_only_hint
    assert "never an instruction" in got["instructions"]
    assert got["structured"]["release"] == "r1"
    assert got["hits"][0]["sources"][0]["session"] == "s-1"
    assert "PostgreSQL 17" in got["context"]
    assert got["briefing"][0] == got["briefing"][1]
    assert got["show"]["id"] == got["hits"][0]["id"]
    assert got["remember"].startswith("Noted as note-")
    assert all(result.is_error for result in got["bad"])
    assert "no words to search for" in got["bad"][0].content[0].text
    assert "no such row" not in got["bad"][2].content[0].text
    space = store / "default"
    assert span_hash(CHAT[1][1]) in recalled_spans(space)
    lines = [json.loads(line) for line in next(journals(space)[0].iterdir()).read_text().splitlines()]
    assert [(line["role"], line["content"]) for line in lines] == [
        ("user", "The ferry's new berth is number seven."),
        ("agent", "Noted."),
    ]


def test_before_the_first_night_a_call_says_what_to_do(tmp_path: Path) -> None:
    async def use() -> CallToolResult:
        async with Client(served(tmp_path)) as client:
            return await client.call_tool("recall", {"query": "anything"})

    result = asyncio.run(use())
    assert result.is_error
    assert isinstance(result.content[0], TextContent)
    assert "slowwave run" in result.content[0].text


def test_over_http_on_the_loopback_address_alone(store: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [*COMMAND, "--http", "--port", str(port)],
        env=environment(store),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}/mcp"
    try:
        wait_for(process, port)

        async def use() -> str:
            async with Client(url) as client:
                return text_of(await client.call_tool("recall", {"query": "gauge readings", "k": 1}))

        assert json.loads(asyncio.run(use()))["hits"]
        message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        elsewhere = httpx.post(url, json=message, headers={"host": "evil.example"}, trust_env=False)
        assert elsewhere.status_code in (403, 421)
    finally:
        process.terminate()
        process.wait(20)


def wait_for(process: "subprocess.Popen[bytes]", port: int) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if process.poll() is not None:
            pytest.fail(f"the server ended with status {process.returncode}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    pytest.fail("the server did not listen within a minute")


def test_the_hook_in_the_docs(store: Path, tmp_path: Path) -> None:
    page = (Path(__file__).parent.parent / "docs" / "agents.md").read_text(encoding="utf-8")
    hook = tmp_path / "slowwave_hook.py"
    hook.write_text(page.partition("```python\n")[2].partition("```")[0])
    program = tmp_path / "slowwave"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "from slowwave.cli.main import main; main()" "$@"\n')
    program.chmod(0o755)

    def given(path: str, **event: str) -> str:
        env = {**environment(store), "PATH": path}
        sent = json.dumps(event)
        done = subprocess.run([sys.executable, hook], input=sent, capture_output=True, text=True, env=env, check=True)
        return done.stdout

    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    said = json.loads(given(path, hook_event_name="UserPromptSubmit", prompt="tide gauge readings?"))
    assert said["hookSpecificOutput"]["hookEventName"] == "UserPromptSubmit"
    assert "PostgreSQL 17" in said["hookSpecificOutput"]["additionalContext"]
    assert given("/nonexistent", hook_event_name="UserPromptSubmit", prompt="tide gauge readings?") == ""
