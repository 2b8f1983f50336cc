"""Claude Code transcripts: the fixtures counted by hand; the traps of the format are in `transcripts/claude-code`."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slowwave.tasks.ingest.formats.agents.claude_code import READER
from slowwave.tasks.ingest.parsing.records import Inactive, Limits, Record, Rejected, Session, Skipped
from tests.transcript_rows import select_messages as messages

Json = dict[str, Any]


def record(kind: str, uuid: str, parent: str | None = None, **more: Any) -> Json:
    base = {"sessionId": "s1", "cwd": "/home/ada/kiln", "timestamp": "2026-03-01T08:00:00.000Z", "isSidechain": False}
    return {"type": kind, "uuid": uuid, "parentUuid": parent, **base, **more}


def user(uuid: str, content: object, parent: str | None = None, **more: Any) -> Json:
    return record("user", uuid, parent, message={"role": "user", "content": content}, **more)


def answer(uuid: str, *blocks: object, parent: str | None = None, id: str | None = None, **more: Any) -> Json:
    content = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]
    return record("assistant", uuid, parent, message={"role": "assistant", "id": id, "content": content}, **more)


def read(folder: Path, *records: object, name: str = "s1.jsonl") -> list[Record]:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in records))
    return list(READER.read(path, Limits()))


@pytest.fixture
def fixture(bench_data: Path) -> Callable[[str], list[Record]]:
    return lambda name: list(READER.read(bench_data / "fixtures" / "claude" / name, Limits()))


# The fixtures, counted by reading them.


def test_large_fixture(fixture: Callable[[str], list[Record]]) -> None:
    """Ten lines: four prompts, one tool result, five answers, the first of them with thought, text and call."""
    found = fixture("large.jsonl")
    assert Counter(m.role for m in messages(found)) == {"user": 4, "assistant": 5, "tool": 1}
    assert Counter(b.type for m in messages(found) for b in m.blocks) == {
        **{"text": 9, "thinking": 1},
        **{"tool_call": 1, "tool_result": 1},
    }
    assert len(found) == 11  # and the session


def test_small_fixture(fixture: Callable[[str], list[Record]]) -> None:
    """89 lines. Prompts: 7, 49, 62, 63, 87 and the queued 39, 43, 45. Another agent's: 59, 60. Tool results: 9, 10,
    30. Answers: 8, 18, 19, 29, 47 (made by the tool), 50, 55, 65, and 77 with 78 under one message id. One compaction
    summary: 22. The other 65 lines are no conversation; none is broken.
    """
    found = fixture("small.jsonl")
    assert Counter((m.role, m.origin) for m in messages(found)) == {
        ("user", "human"): 8,
        ("agent", "model"): 2,
        ("tool", "tool"): 3,
        ("assistant", "model"): 8,
        ("assistant", "synthetic"): 1,
        ("system", "synthetic"): 1,
    }
    assert Counter(b.type for m in messages(found) for b in m.blocks) == {
        **{"text": 17, "thinking": 6, "tool_call": 3, "tool_result": 3, "image": 2},
        "other": 1,  # the switch to another model in line 50
    }
    assert sum(isinstance(r, Skipped) for r in found) == 65
    assert not [r for r in found if isinstance(r, Rejected)]
    assert [r.title for r in found if isinstance(r, Session) and r.title] == ["Stage0 small fixture"]
    assert [(r.native_id, r.reason) for r in found if isinstance(r, Inactive)][:3] == [
        ("a2", "superseded"),
        ("a3", "retracted"),
        ("u1", "refused"),
    ]


def test_resumed_session_replays_the_same_messages(tmp_path: Path) -> None:
    first = read(tmp_path, user("u1", "Plan"), answer("a1", "Ready", parent="u1"))
    again = [{**line, "sessionId": "s2"} for line in (user("u1", "Plan"), answer("a1", "Ready", parent="u1"))]
    second = read(tmp_path, *again, user("u2", "Go on", parent="a1", sessionId="s2"), name="s2.jsonl")
    old, new = ([m.identity for m in messages(r)] for r in (first, second))
    assert new[:2] == old
    assert {m.session for m in messages(second)} == {"s2"}
