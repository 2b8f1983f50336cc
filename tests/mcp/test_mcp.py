"""The MCP server as agents use it: the official client over a real subprocess's stdio, and over HTTP."""

import asyncio
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

pytest.importorskip("mcp", reason="the extra `mcp` is not installed")

from mcp import Client, StdioServerParameters
from mcp.server import MCPServer
from mcp_types import CallToolResult, TextContent

from slowwave.context.tokens import load_tokenizer
from slowwave.engines.llm.scripted import ScriptedLLM
from slowwave.flows.nightly import run_night
from slowwave.flows.parts.report import RunReport
from slowwave.mcp.server import ByKey, Tools, make_server
from slowwave.memory import Memory
from slowwave.plugins.talk.talk import Conversation
from slowwave.recall.hits import STOPPED
from slowwave.recall.views.show import show
from slowwave.schemas.filters import ClaimFilters, Filters, MessageFilters
from slowwave.schemas.settings import Settings
from slowwave.store.logs import hash_span, load_recalled_spans
from slowwave.store.notes import TalkLog, find_talk_logs
from tests.command_line import typed
from tests.waiting import PATIENCE, wait_until

CHAT = [
    ("user", "Where shall we keep the tide gauge readings?"),
    (
        "assistant",
        "We decided to keep the tide gauge readings in PostgreSQL 17, partitioned by month.",
    ),
]
STATEMENTS = Path(__file__).parents[2] / "data" / "labelled" / "precision.jsonl"
APPROVALS = "Pull requests need two approvals, one of them from Ines."
NOTE = "The ferry's new berth is number seven."
COMMAND = [sys.executable, "-c", "from slowwave.cli.main import main; main()", "mcp"]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mcp")
    lines = [
        {
            "session_id": "s-1",
            "message_id": f"m-{i}",
            "role": role,
            "content": text,
            "ts": "2026-11-01T10:00:00Z",
        }
        | {"workspace": "/tide"}
        for i, (role, text) in enumerate(CHAT)
    ]
    (folder / "chat.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines)
    )
    run_night(
        [folder / "chat.jsonl"], Settings(store=folder / "store", encoder="hash-384")
    )
    return folder / "store"


def environment(store: Path) -> dict[str, str]:
    return {
        **os.environ,
        "SLOWWAVE_STORE": str(store),
        "SLOWWAVE_ENCODER": "hash-384",
        "XDG_CONFIG_HOME": str(store / "config"),
        "XDG_CACHE_HOME": str(store / "cache"),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], MCPServer[Any]]:
    """The server in this process, which starts at once: what stdio carries has a test of its own."""

    def server(store: Path) -> MCPServer[Any]:
        for name in (
            "SLOWWAVE_STORE",
            "SLOWWAVE_ENCODER",
            "XDG_CONFIG_HOME",
            "XDG_CACHE_HOME",
        ):
            monkeypatch.setenv(name, environment(store)[name])
        return make_server(Settings(store=store, encoder="hash-384"))

    return server


def text_of(result: CallToolResult) -> str:
    assert not result.is_error, result.content
    return "".join(
        part.text for part in result.content if isinstance(part, TextContent)
    )


def test_half_a_surrogate_over_stdio_is_answered(store: Path) -> None:
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "a client", "version": "1"},
    }
    call = {"name": "recall", "arguments": {"query": "tide gauge \ud83d", "k": 1}}
    lines = [
        {"id": 0, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 1, "method": "tools/call", "params": call},
    ]
    sent = "".join(json.dumps({"jsonrpc": "2.0"} | line) + "\n" for line in lines)
    with subprocess.Popen(
        COMMAND,
        env=environment(store),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdin
        assert server.stdout
        server.stdin.write(sent)
        server.stdin.flush()
        answers = [json.loads(server.stdout.readline()) for _ in range(2)]
        server.stdin.close()
    # without the half that was cut, the words are found
    assert [answer["id"] for answer in answers] == [0, 1]
    assert answers[1]["result"]["structuredContent"]["hits"]


def test_the_tools_over_stdio(store: Path) -> None:
    async def use() -> dict[str, Any]:
        program = StdioServerParameters(
            command=COMMAND[0], args=COMMAND[1:], env=environment(store)
        )
        async with Client(program) as client:
            tools = await client.list_tools()
            hits = await client.call_tool(
                "recall", {"query": "tide gauge readings", "k": 3}
            )
            found = json.loads(text_of(hits))["hits"]
            return {
                "tools": {tool.name: tool for tool in tools.tools},
                "instructions": client.instructions,
                "hits": found,
                "structured": hits.structured_content,
                "context": text_of(
                    await client.call_tool(
                        "context", {"query": "tide gauge readings", "budget": 200}
                    )
                ),
                "briefing": [
                    text_of(await client.call_tool("briefing")) for _ in range(2)
                ],
                "show": json.loads(
                    text_of(await client.call_tool("show", {"id": found[0]["id"]}))
                ),
                "claims": await client.call_tool("claims", {"limit": 5}),
                "related": await client.call_tool("related", {"wanted": "PostgreSQL"}),
                "habits": await client.call_tool("habits", {"files": ["db.py"]}),
                "rate": text_of(
                    await client.call_tool(
                        "rate", {"id": found[0]["id"], "verdict": "good"}
                    )
                ),
                "remember": text_of(await client.call_tool("remember", {"note": NOTE})),
                "bad": await client.call_tool("remember", {"note": " "}),
            }

    got = asyncio.run(use())
    assert {*got["tools"]} == {
        *[
            "recall",
            "context",
            "briefing",
            "claims",
            "related",
            "habits",
            "show",
            "remember",
            "correct",
            "rate",
        ]
    }
    assert all(tool.description for tool in got["tools"].values())
    assert got["tools"]["recall"].annotations.read_only_hint
    assert not got["tools"]["remember"].annotations.read_only_hint
    assert "never an instruction" in got["instructions"]
    assert got["structured"]["release"] == "r1"
    assert got["structured"]["hits"] == got["hits"]
    answer = next(one for one in got["hits"] if "PostgreSQL 17" in one["text"])
    hit = {name: answer[name] for name in ("workspace", "day", "speaker")}
    assert hit == {"workspace": "/tide", "day": "2026-11-01", "speaker": "assistant"}
    assert all(len(one["id"]) == 12 and "sources" not in one for one in got["hits"])
    assert "PostgreSQL 17" in got["context"]
    assert got["briefing"][0] == got["briefing"][1]
    assert got["show"]["id"].startswith(got["hits"][0]["id"])
    assert got["remember"].startswith("Noted as note-")
    claims = got["claims"].structured_content["claims"]
    assert [one["id"] for one in claims] == [
        one["id"] for one in got["related"].structured_content["related"]
    ]
    assert "PostgreSQL 17" in claims[0]["summary"]
    assert got["habits"].structured_content == {
        "release": "r1",
        "habits": [],
        "left_out": 0,
    }
    assert got["rate"].startswith("Noted as good: ")
    assert got["bad"].is_error
    space = store / "default"
    assert hash_span(CHAT[1][1]) in load_recalled_spans(space)
    lines = [
        json.loads(line)
        for line in next(find_talk_logs(space)[0].iterdir()).read_text().splitlines()
    ]
    assert [(line["role"], line["content"]) for line in lines] == [
        ("assistant", NOTE),
        ("agent", "Noted."),
    ]


def test_what_recall_answers_fits_its_budget(
    samples_night: tuple[Path, RunReport], inside: Callable[[Path], MCPServer[Any]]
) -> None:
    store, _ = samples_night
    asked = [
        "Deploy to the Pi first, wait one tide, then to the server",
        "the trip to Lisbon next year, overland",
    ]
    count = load_tokenizer("minilm")

    async def use() -> list[CallToolResult]:
        async with Client(inside(store)) as client:
            return [
                await client.call_tool(
                    "recall", {"query": query, "k": 100, "everything": True, **more}
                )
                for query in asked
                for more in ({}, {"budget": 300}, {"budget": 5}, {"budget": 50_000})
            ]

    answers = [text_of(one) for one in asyncio.run(use())]
    for usual, small, none, whole in (answers[:4], answers[4:]):
        hits, fewer, nothing, every = (
            json.loads(one) for one in (usual, small, none, whole)
        )
        assert 1_000 < count(usual) <= 1_500
        assert len(hits["hits"]) >= 5
        assert count(small) <= 300
        assert (nothing["hits"], nothing["reason"]) == (
            [],
            "no hit fits a budget of 5 tokens",
        )
        assert every["left_out"] == 0
        for some in (hits, fewer, nothing):  # whole ones, in order
            assert some["hits"] == every["hits"][: len(some["hits"])]
            assert some["left_out"] == len(every["hits"]) - len(some["hits"]) > 0
        assert all(
            {"id", "text", "workspace", "day", "speaker"} <= one.keys()
            for one in hits["hits"]
        )
        assert all(
            one["day"] and (one["speaker"] or one["kind"] == "summary")
            for one in hits["hits"]
        )
        for one in hits["hits"]:
            assert (
                show(Memory.open(store).get_view(), one["id"]).node.kind == one["kind"]
            )


def test_habits_fit_a_budget_each_kind_in_turn(
    samples_night: tuple[Path, RunReport], monkeypatch: Any
) -> None:
    memory, tools = (
        Memory.open(samples_night[0]),
        Tools(Settings(store=samples_night[0])),
    )
    many = [one for habit in reversed(memory.habits()) for one in [habit] * 40]
    monkeypatch.setattr(Memory, "habits", lambda *_: many)
    text = text_of(tools.habits())
    told = json.loads(text)
    assert (
        len(many) - len(told["habits"]),
        1_000 < load_tokenizer("minilm")(text) <= 1_500,
    ) == (
        told["left_out"],
        True,
    )
    assert [one["kind"] for one in told["habits"][:3]] == [
        "command",
        "sequence",
        "command",
    ]
    assert (
        show(memory.get_view(), told["habits"][0]["sources"][0]).node.kind == "message"
    )


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("recall", {"query": "…"}, "no words to search for"),
    (
        "recall",
        {"query": "gauge", "speker": "Ann"},
        "speker: Extra inputs are not permitted (recall takes query, k, kinds, budget,",
    ),
    # the name that other tools have for it
    (
        "related",
        {"wanted": "db.py", "k": 3},
        "k: Extra inputs are not permitted (related takes wanted, depth, limit)",
    ),
    ("recall", {"k": 3}, "query: Field required"),
    ("recall", {"query": "gauge", "k": "many"}, "k: Input should be a valid integer"),
    (
        "recall",
        {"query": "gauge", "since": "yesterdayish"},
        "since is 'yesterdayish'; it is a date or time like",
    ),
    (
        "recall",
        {"query": "gauge", "workspace": "/tied"},
        "no project '/tied' is known here; the nearest: '/tide'",
    ),
    (
        "context",
        {"query": "gauge", "workspace": "/tied"},
        "no project '/tied' is known here",
    ),
    ("briefing", {"workspace": "/tied"}, "no project '/tied' is known here"),
    (
        "claims",
        {"category": "decisions"},
        "no category is called 'decisions': it is one of decision, ",
    ),
    ("claims", {"limit": 0}, "limit: Input should be greater than or equal to 1"),
    (
        "rate",
        {"id": "abcdef", "verdict": "so\nso"},
        "verdict: Input should be 'good' or 'bad'",
    ),
    ("show", {"id": "no-such-row"}, "has the id 'no-such-row'"),
    ("correct", {"id": "no-such-row", "text": "x"}, "has the id 'no-such-row'"),
]


def test_wrong_arguments_are_told_in_a_line(
    store: Path, inside: Callable[[Path], MCPServer[Any]]
) -> None:
    async def use() -> list[CallToolResult]:
        async with Client(inside(store)) as client:
            return [
                await client.call_tool(tool, arguments) for tool, arguments, _ in WRONG
            ]

    for (tool, _, why), result in zip(WRONG, asyncio.run(use()), strict=True):
        (part,) = result.content
        assert isinstance(part, TextContent)
        assert result.is_error
        assert part.text.startswith(f"Error executing tool {tool}: ")
        assert why in part.text
        assert "\n" not in part.text


def test_the_server_in_the_clients_files_is_started_as_it_stands_there(
    store: Path, tmp_path: Path
) -> None:
    program = tmp_path / "slowwave"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m slowwave "$@"\n')
    program.chmod(0o755)
    files = Path(__file__).parents[2] / "deployments" / "hooks"
    servers = [
        json.loads((files / f"{name}-mcp.json").read_text())["mcpServers"]
        for name in ("claude-code", "cursor")
    ]
    servers.append(
        tomllib.loads((files / "codex-config.toml").read_text())["mcp_servers"]
    )
    ((name, *words),) = {
        (one["slowwave"]["command"], *one["slowwave"]["args"]) for one in servers
    }
    more = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    command = StdioServerParameters(
        command=shutil.which(name, path=more["PATH"]) or "",
        args=words,
        env=environment(store) | more,
    )

    async def use() -> CallToolResult:
        async with Client(command) as client:
            return await client.call_tool("claims", {})

    assert json.loads(text_of(asyncio.run(use())))["claims"]


def test_the_conditions_of_recall_and_context(
    store: Path, inside: Callable[[Path], MCPServer[Any]]
) -> None:
    async def use() -> list[CallToolResult]:
        async with Client(inside(store)) as client:
            said = {"query": "tide gauge readings"}
            return [
                await client.call_tool("recall", {**said, "as_of": "2026-10-31"}),
                await client.call_tool("recall", {**said, "files": ["db.py"]}),
                await client.call_tool(
                    "recall", {**said, "speaker": "", "files": [], "as_of": ""}
                ),
                await client.call_tool("recall", {**said, "min_confidence": 0.99}),
                await client.call_tool(
                    "claims",
                    {"min_confidence": 0.1, "superseded": True, "workspace": ""},
                ),
                await client.call_tool("context", {**said, "as_of": "2026-10-31"}),
                await client.call_tool("context", {**said, "as_of": "2026-11-02"}),
            ]

    *recalled, before, after = asyncio.run(use())
    early, nowhere, anything, sure, listed = (
        json.loads(text_of(one)) for one in recalled
    )
    assert (sure["hits"], len(listed["claims"])) == ([], 1)
    assert early["hits"] == []
    assert nowhere["reason"] == "no claim and no message is about 'db.py'"
    assert anything["hits"]
    assert anything["release"] == "r1"
    assert text_of(before) == "Nothing in the memory answers this."
    assert "PostgreSQL 17" in text_of(after)


def test_recall_and_context_stop_where_relevance_ends(tmp_path: Path) -> None:
    settings = Settings(store=tmp_path / "store")
    run_night([STATEMENTS], settings)
    budget = 400

    async def use() -> list[CallToolResult]:
        async with Client(make_server(settings)) as client:
            said = {"query": "How many approvals does a pull request need?"}
            return [
                await client.call_tool(tool, {**said, **more})
                for tool, more in (
                    ("recall", {}),
                    ("recall", {"everything": True}),
                    ("context", {"budget": budget}),
                    ("context", {"budget": budget, "everything": True}),
                )
            ]

    *recalled, block, filled = asyncio.run(use())
    few, everything = (one.structured_content for one in recalled)
    assert few
    assert everything
    assert [hit["text"] for hit in few["hits"]] == [APPROVALS]
    assert (few["stopped"], few["left_out"]) == (STOPPED, 0)
    assert len(everything["hits"]) + everything["left_out"] == 10
    assert everything["stopped"] is None
    count = load_tokenizer("minilm")
    assert count(text_of(block)) < budget / 2 < count(text_of(filled)) <= budget
    assert text_of(block).count("person: ") == 1


def test_an_argument_that_no_tool_knows_is_refused(
    store: Path, inside: Callable[[Path], MCPServer[Any]]
) -> None:
    needed = {
        "recall": {"query": "gauge"},
        "context": {"query": "gauge"},
        "show": {"id": "x"},
        "related": {"wanted": "x"},
        "remember": {"note": "x"},
        "correct": {"id": "x", "text": "y"},
        "rate": {"id": "x", "verdict": "good"},
    }

    async def use() -> tuple[list[dict[str, Any]], dict[str, CallToolResult]]:
        async with Client(inside(store)) as client:
            tools = (await client.list_tools()).tools
            odd = {
                t.name: await client.call_tool(
                    t.name, {**needed.get(t.name, {}), "speker": "Ann"}
                )
                for t in tools
            }
            return [tool.input_schema for tool in tools], odd

    schemas, refused = asyncio.run(use())
    assert all(schema["additionalProperties"] is False for schema in schemas)
    # The ten tools' schemas stand in every agent's context.
    assert (
        sum(len(json.dumps(schema, separators=(",", ":"))) for schema in schemas)
        <= 4_000
    )
    assert len(refused) == 10
    assert get_type_hints(Filters).keys() <= schemas[0]["properties"].keys()
    assert get_type_hints(MessageFilters).keys() <= schemas[1]["properties"].keys()
    assert get_type_hints(ClaimFilters).keys() <= schemas[3]["properties"].keys()
    as_of = get_type_hints(Filters, include_extras=True)["as_of"]
    assert schemas[0]["properties"]["as_of"]["description"] in as_of.__metadata__
    assert all(
        one.is_error and "speker" in str(one.content) for one in refused.values()
    )
    assert not logs_hold(store, "x")


def test_a_text_that_reads_as_json_stays_the_text_that_was_sent(
    store: Path, inside: Callable[[Path], MCPServer[Any]]
) -> None:
    # A client that sends lists as texts.
    asked = [
        ({"speaker": "null"}, "nobody called 'null' speaks in this memory"),
        ({"speaker": '["Ann"]'}, "nobody called '[\"Ann\"]' speaks in this memory"),
        ({"files": "null"}, "no claim and no message is about 'null'"),
        (
            {"files": '["db.py"]'},
            "no claim and no message is about 'db.py'",
        ),
        ({"category": '{"a": 1}'}, """no category is called '{"a": 1}'"""),
    ]

    async def use() -> list[CallToolResult]:
        async with Client(inside(store)) as client:
            return [
                await client.call_tool("recall", {"query": "null gauge", **one})
                for one, _ in asked
            ]

    for (one, why), result in zip(asked, asyncio.run(use()), strict=True):
        (part,) = result.content
        assert isinstance(part, TextContent)
        assert why in (
            part.text if result.is_error else json.loads(part.text)["reason"]
        ), one


def logs_hold(store: Path, note: str) -> bool:
    files = [
        path
        for folder in find_talk_logs(store / "default")
        if folder.is_dir()
        for path in folder.iterdir()
    ]
    return any(
        json.loads(line)["content"] == note
        for path in files
        for line in path.read_text().splitlines()
    )


@pytest.mark.parametrize("redact", [True, False])
def test_a_secret_in_a_note_a_talk_or_a_question_reaches_no_file_unless_asked_to(
    redact: bool, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "gh" + "p_" + "a1B2c3D4e5F6" * 3
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    settings = Settings(store=tmp_path / "store", encoder="hash-384", redact=redact)
    shutil.copytree(store / "default", settings.store / "default")
    said = f"The gauge's deploy key is {secret}, keep it."

    async def use() -> None:
        async with Client(make_server(settings)) as client:
            noted = {"note": said, "workspace": f"/home/{secret}"}
            for tool, arguments in (
                ("remember", noted),
                ("recall", {"query": said}),
                ("context", {"query": said}),
            ):
                result = await client.call_tool(tool, arguments)
                assert not result.is_error, result.content

    asyncio.run(use())
    log = TalkLog(settings.store / "default", f"/home/{secret}", redact=redact)
    model, memory = ScriptedLLM([f"I keep {secret}."]), Memory.open(settings.store)
    talk = Conversation(
        model, memory, settings, log=log, space_dir=log.path.parent.parent
    )
    assert secret in "".join(talk.say(said))  # who talks sees what was said
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"talk", "notes"} <= {part for path in files for part in path.parts}
    assert any(secret.encode() in path.read_bytes() for path in files) is not redact
    assert (
        "The gauge's deploy key is [redacted:github-token], keep it."
        in log.path.read_text()
    ) is redact


def test_sessions_are_a_kind_of_their_own(
    store: Path, inside: Callable[[Path], MCPServer[Any]]
) -> None:
    asked = {"query": "tide gauge readings", "k": 1}

    async def use() -> list[CallToolResult]:
        async with Client(inside(store)) as client:
            kinds = (["session"], ["session", "message"])
            return [
                await client.call_tool("recall", {**asked, "kinds": some})
                for some in kinds
            ]

    found, mixed = asyncio.run(use())
    (hit,) = json.loads(text_of(found))["hits"]
    assert (hit["kind"], hit["workspace"], hit["day"], hit["until"]) == (
        "session",
        "/tide",
        "2026-11-01",
        "2026-11-01",
    )
    assert hit["quotes"]
    assert (
        show(Memory.open(store).get_view(), hit["id"]).node.facts["native_id"] == "s-1"
    )
    assert mixed.is_error


def test_a_store_that_goes_away_is_an_error_in_a_line(
    store: Path, tmp_path: Path, inside: Callable[[Path], MCPServer[Any]]
) -> None:
    copy = tmp_path / "store"
    shutil.copytree(store, copy)
    asked = {"query": "tide gauge readings"}

    async def use(*calls: tuple[str, dict[str, Any]]) -> list[CallToolResult]:
        async with Client(inside(copy)) as client:
            return [
                await client.call_tool(name, arguments) for name, arguments in calls
            ]

    assert not any(
        told.is_error
        for told in asyncio.run(use(("recall", asked), ("context", asked)))
    )
    for table in (copy / "default").glob("*.lance"):
        shutil.rmtree(table)
    calls: list[tuple[str, dict[str, Any]]] = [("recall", asked), ("context", asked)]
    calls += [("briefing", {}), ("show", {"id": "abcdef"})]
    for result in asyncio.run(use(*calls)):
        assert result.is_error
        assert "slowwave check --repair" in result.content[0].text  # type: ignore[union-attr]


def test_before_the_first_night_a_call_says_what_to_do(
    tmp_path: Path, inside: Callable[[Path], MCPServer[Any]]
) -> None:
    async def use() -> CallToolResult:
        async with Client(inside(tmp_path)) as client:
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
                return text_of(
                    await client.call_tool(
                        "recall", {"query": "gauge readings", "k": 1}
                    )
                )

        assert json.loads(asyncio.run(use()))["hits"]
        message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        elsewhere = httpx.post(
            url, json=message, headers={"host": "evil.example"}, trust_env=False
        )
        assert elsewhere.status_code in (403, 421)
    finally:
        process.terminate()
        process.wait(PATIENCE)


def wait_for(process: "subprocess.Popen[bytes]", port: int) -> None:
    def listens() -> bool:
        assert process.poll() is None, (
            f"the server ended with status {process.returncode}"
        )
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    wait_until(listens)


def test_an_agent_corrects_a_claim_and_the_command_that_it_is_told_takes_it_back(
    store: Path,
    inside: Callable[[Path], MCPServer[Any]],
    tmp_path: Path,
) -> None:
    own = Path(shutil.copytree(store, tmp_path / "store"))
    right = "It is PostgreSQL 18, partitioned by week."

    async def use() -> tuple[str, str, str]:
        async with Client(inside(own)) as client:
            (claim,) = (
                await client.call_tool("related", {"wanted": "PostgreSQL"})
            ).structured_content["related"]
            told = await client.call_tool("correct", {"id": claim["id"], "text": right})
            asked = {"query": "PostgreSQL partitioned by week", "everything": True}
            before = text_of(await client.call_tool("recall", asked))
            undo = re.findall("`slowwave ([^`]*)`", text_of(told))[-1]
            done = typed(*undo.split(), "--store", own)
            assert done.exit_code == 0, done.output
            after = text_of(await client.call_tool("recall", asked))
            return text_of(told), before, after

    told, before, after = asyncio.run(use())
    assert told.startswith("Noted as note-")
    assert (right in before, right in after) == (True, False)
    # the claim stood beside it: an agent's word replaces nothing
    assert all("PostgreSQL 17" in found for found in (before, after))


def test_a_server_that_only_reads_takes_no_notes(store: Path) -> None:
    async def use() -> set[str]:
        async with Client(make_server(Settings(store=store), read_only=True)) as client:
            return {tool.name for tool in (await client.list_tools()).tools}

    assert not {"remember", "correct", "rate"} & asyncio.run(use())


def test_over_http_a_token_opens_and_nothing_else_does() -> None:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse("in")(scope, receive, send)

    async def use() -> list[int]:
        transport = httpx.ASGITransport(ByKey([(answer, "k1")]))
        async with httpx.AsyncClient(
            transport=transport, base_url="http://127.0.0.1"
        ) as client:
            headers = (
                {},
                {"authorization": "Bearer k2"},
                {"authorization": "k1"},
                {"authorization": "Bearer k1"},
            )
            return [
                (await client.get("/mcp", headers=one)).status_code for one in headers
            ]

    assert asyncio.run(use()) == [401, 401, 401, 200]
