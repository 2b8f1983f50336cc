"""`transcripts/` has small files of each format, with the traps that real ones have, and beside each its rows."""

import gzip
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slowwave.tasks.ingest.formats.registry import detect_reader, find_files, find_installed
from slowwave.tasks.ingest.parsing import lines
from slowwave.tasks.ingest.parsing.records import Session
from tests.transcript_rows import put, read, read_messages, read_rows

TRANSCRIPTS = Path(__file__).parent / "transcripts"
ROWS = sorted(TRANSCRIPTS.rglob("*.rows"))


@pytest.mark.parametrize("rows", ROWS, ids=[str(path.relative_to(TRANSCRIPTS)) for path in ROWS])
def test_a_file_gives_its_rows(rows: Path) -> None:
    transcript = rows.with_suffix("")
    assert detect_reader(transcript).name == rows.relative_to(TRANSCRIPTS).parts[0]
    assert read_rows(transcript) == rows.read_text(encoding="utf-8")


# Fixture, messages, blocks by type, rows of another kind; nothing is rejected in any of them.
FIXTURES = [
    ("exports/chatgpt_2026_sample.json", 6, {"text": 4, "image": 1, "tool_result": 1, "other": 1}, {"inactive": 1}),
    (
        "exports/claude_2026_sample.json",
        2,
        {"text": 2, "thinking": 1, "tool_call": 1, "tool_result": 1, "other": 2},
        {},
    ),
    ("exports/gemini_2026_sample.json", 5, {"text": 5, "thinking": 1, "image": 1, "other": 2}, {}),
    ("gemini/small.json", 2, {"text": 2, "thinking": 1}, {}),
    ("gemini/large.json", 6, {"text": 4, "thinking": 1, "tool_call": 2, "tool_result": 2}, {"skipped": 1}),
    ("gemini/jsonl_v040.jsonl", 3, {"text": 2, "tool_call": 1, "tool_result": 1}, {"skipped": 1}),
    ("cursor/small.jsonl", 4, {"text": 4, "tool_call": 1}, {"skipped": 1}),
    ("cursor/large.jsonl", 10, {"text": 7, "thinking": 1, "tool_call": 2, "tool_result": 2}, {}),
]


@pytest.mark.parametrize(("name", "count", "blocks", "others"), FIXTURES)
def test_a_fixture_holds_what_was_counted_in_it(
    bench_data: Path, name: str, count: int, blocks: dict[str, int], others: dict[str, int]
) -> None:
    path = bench_data / "fixtures" / name
    assert len(read_messages(path)) == count
    assert Counter(block.type for message in read_messages(path) for block in message.blocks) == blocks
    told = [type(record).__name__.lower() for record in read(path)]
    assert {kind: told.count(kind) for kind in ("inactive", "skipped", "rejected") if kind in told} == others


FOREIGN = [
    '{"type":"user","uuid":"u","sessionId":"s","message":{"role":"user","content":"the \\"mapping\\""}}',
    '{"timestamp":"2026-01-01T00:00:00Z","type":"session_meta","payload":{"id":"x"}}',
    '{"type":"session","version":3,"id":"x","timestamp":"2026-01-01T00:00:00Z","cwd":"/"}',
    '{"type":"user","uuid":"u","sessionId":"s","toolUseResult":{"mapping":1,"children":[],"chat_messages":[],"uuid":1}}',
]


@pytest.mark.parametrize("line", FOREIGN)
def test_lines_of_an_agent_that_speak_of_a_chats_keys_are_no_chat(line: str, tmp_path: Path) -> None:
    assert detect_reader(put(tmp_path / "s.jsonl", f"{line}\n{line}\n")).name in ("claude-code", "codex", "pi")


def test_of_a_run_in_a_container_or_without_its_template_nothing_is_guessed(tmp_path: Path) -> None:
    run = json.loads((TRANSCRIPTS / "swe-agent/run.traj.json").read_text())
    run["info"]["config"] = {"environment": {"cwd": "/testbed", "image": "docker.io/some:latest"}}
    session, _, task, *_ = read(put(tmp_path / "run.traj.json", run))
    assert isinstance(session, Session)
    assert session.workspace is None
    assert getattr(task, "text", "").startswith("Please solve this issue: The gauge lags.")


def test_a_chat_without_an_id_is_known_by_its_content_wherever_it_stands(tmp_path: Path) -> None:
    def list_sessions(*talks: str) -> list[str]:
        lines = tuple({"messages": [{"role": "user", "content": talk}]} for talk in talks)
        return [message.session for message in read_messages(put(tmp_path / "c.jsonl", lines))]

    assert list_sessions("a", "b")[1] == list_sessions("b")[0]


def test_runs_of_one_task_are_sessions_of_their_own_and_one_that_grows_stays_one(tmp_path: Path) -> None:
    run = json.loads((TRANSCRIPTS / "swe-agent/tide-1.traj").read_text())
    asked, answered, later = run["history"][:3], run["history"][3], run["history"][4:]

    def name(*history: object) -> str:
        return read_rows(put(tmp_path / "tide-1.traj", {**run, "history": history})).split()[1]

    other = answered | {"content": "I search."}
    assert name(*asked, answered) == name(*asked, answered, *later)
    assert name(asked[0], asked[2], answered) != name(asked[0], asked[2], other)


def test_two_openhands_runs_of_one_instance_are_two_sessions(tmp_path: Path) -> None:
    events = json.loads((TRANSCRIPTS / "openhands/trajectory-7.json").read_text())
    later = [events[0] | {"timestamp": "2026-02-02T08:00:00"}, *events[1:]]
    runs: list[Any] = [events, later, {"instance_id": "tide-1", "history": events}]
    paths = [put(tmp_path / str(number) / "trajectory.json", run) for number, run in enumerate(runs)]
    assert [read_rows(path).split()[1] for path in paths] == [
        "trajectory@2026-02-01T00:14:00",
        "trajectory@2026-02-02T08:00:00",
        "tide-1@2026-02-01T00:14:00",
    ]


def test_files_are_found_where_the_tools_keep_them(tmp_path: Path) -> None:
    put(tmp_path / ".cursor/projects/my-app/agent-transcripts/u1.jsonl", "{}")
    put(tmp_path / ".gemini/tmp/p/chats/session-1.json", {})
    assert [(reader.name, path.name) for reader, path in find_installed(tmp_path)] == [
        ("cursor", "u1.jsonl"),
        ("gemini", "session-1.json"),
    ]
    run = put(tmp_path / "runs/tide-1.traj", {})
    assert list(find_files([tmp_path / "runs"])) == [run]


# Arrays that are parsed at once, or piece by piece.


@pytest.fixture(params=["at once", "streamed"])
def at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "streamed":
        monkeypatch.setattr(lines, "WHOLE", 10)


NODE = {"message": {"author": {"role": "user"}, "content": {"content_type": "text", "parts": ["say"]}}, "children": []}
THREE = json.dumps([{"id": f"c{i}", "mapping": {str(i): NODE}} for i in range(3)]).encode()
WHOLE = [row for i in range(3) for row in (f"session c{i}", f"{i} user/human: say")]
SPOILT: list[tuple[str, Callable[[bytes], bytes], list[str]]] = [
    ("marked.json", lambda data: b"\xef\xbb\xbf" + data, WHOLE),
    ("packed.json.gz", gzip.compress, WHOLE),
    (
        "short.json",
        lambda data: data[:-40],
        [*WHOLE[:4], "rejected 3: broken JSON in conversation 3, the rest can't be"],
    ),
    (
        "bytes.json",
        lambda data: data.replace(b'"1": ', b'"1\xff": '),
        [*WHOLE[:2], "rejected 2: invalid UTF-8 in conversation 2", *WHOLE[4:]],
    ),
]


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(("name", "spoil", "rows"), SPOILT, ids=[name for name, _, _ in SPOILT])
def test_of_a_spoilt_array_the_rest_is_read(
    name: str, spoil: Callable[[bytes], bytes], rows: list[str], tmp_path: Path
) -> None:
    found = read_rows(put(tmp_path / name, spoil(THREE))).splitlines()
    assert [row[: len(start)] for row, start in zip(found, rows, strict=True)] == rows


@pytest.mark.usefixtures("at_once")
def test_a_packed_array_that_is_cut_is_rejected_once(tmp_path: Path) -> None:
    assert read_rows(put(tmp_path / "t.json.gz", gzip.compress(THREE)[:-20])).count("rejected") == 1
