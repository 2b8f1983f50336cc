"""Codex rollouts: the fixtures counted by hand; the traps of the format are in `transcripts/codex`."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slowwave.tasks.ingest.formats.agents.codex import READER
from slowwave.tasks.ingest.parsing.records import Limits, Record, Rejected, Session, Skipped
from tests.transcript_rows import select_messages as messages

Json = dict[str, Any]
TS = "2026-05-02T09:00:00.000Z"


def line(kind: str, payload: Json, ts: str = TS) -> Json:
    return {"timestamp": ts, "type": kind, "payload": payload}


def meta(id: str = "c1", **more: Any) -> Json:
    return line("session_meta", {"id": id, "cwd": "/home/ada/kiln", "source": "cli", **more})


def says(role: str, *texts: str, ts: str = TS) -> Json:
    part = "output_text" if role == "assistant" else "input_text"
    content = [{"type": part, "text": text} for text in texts]
    return line("response_item", {"type": "message", "role": role, "content": content}, ts)


def read(folder: Path, *lines: object, name: str = "rollout-x.jsonl") -> list[Record]:
    path = folder / name
    path.write_text("".join(one if isinstance(one, str) else json.dumps(one) + "\n" for one in lines))
    return list(READER.read(path, Limits()))


@pytest.fixture
def fixture(bench_data: Path) -> Callable[[str], list[Record]]:
    return lambda name: list(READER.read(bench_data / "fixtures" / "codex" / name, Limits()))


# The fixtures, counted by reading them.


def test_large_fixture(fixture: Callable[[str], list[Record]]) -> None:
    """20 lines: six prompts (the first also as an event), seven answers, one call with its output, one injected
    context; the head, a turn_context and a token_count are no messages.
    """
    found = fixture("large.jsonl")
    assert Counter((m.role, m.origin) for m in messages(found)) == {
        ("user", "human"): 6,
        ("assistant", "model"): 8,
        ("tool", "tool"): 1,
        ("system", "synthetic"): 1,
    }
    assert Counter(b.type for m in messages(found) for b in m.blocks) == {"text": 14, "tool_call": 1, "tool_result": 1}
    assert Counter(r.kind for r in found if isinstance(r, Skipped)) == {
        **{"turn_context": 1, "twin": 1},
        "event_msg/token_count": 1,
    }


def test_small_fixture(fixture: Callable[[str], list[Record]]) -> None:
    """118 lines. Prompts: 4 with its twin 6, 71, 85 (of which 101 is the third telling). Calls: 9, 10, 12, 14, 43, 49,
    103, 114. Outputs: 11, 13, 21, 28, 105, 115. Thought: 7 with 8. Answers: 23 with 24, 102, 110. Another agent: 33,
    116. Summaries: 47, 69, 81, 89, 111 (26 is empty), and the developer's 98. Nothing is broken.
    """
    found = fixture("small.jsonl")
    assert Counter((m.role, m.origin) for m in messages(found)) == {
        ("user", "human"): 3,
        ("assistant", "model"): 12,
        ("tool", "tool"): 6,
        ("agent", "model"): 2,
        ("system", "synthetic"): 6,
    }
    assert not [r for r in found if isinstance(r, Rejected)]
    assert {m.session for m in messages(found)} == {"019fc8be-3658-7ca3-9e29-000000000000"}
    first = messages(found)[0]
    assert (first.text, [b.type for b in first.blocks]) == ("List the files", ["text", "image"])


def forked(folder: Path, *own: Json, again: bool) -> tuple[list[str | None], list[str | None]]:
    """Identities in a parent and in its fork; `again`: the copied lines are stamped anew, as Codex does."""
    said = [("user", "Fire"), ("assistant", "Ok"), ("user", "Higher"), ("assistant", "Ok")]
    parent = [meta("p1"), *(says(role, text) for role, text in said), says("user", "Stop")]
    stamp = "2026-05-03T10:00:00.000Z" if again else TS
    copied = [meta("p1"), *(says(role, text, ts=stamp) for role, text in said)]
    old = read(folder, *parent, name="parent.jsonl")
    new = read(folder, meta("f1", forked_from_id="p1"), *copied, *own, name="fork.jsonl")
    assert {m.session for m in messages(new)} == {"f1"}
    assert isinstance(new[0], Session)
    assert (new[0].native_id, new[0].kind, new[0].parent_id) == ("f1", "chat", "p1")
    return [m.identity for m in messages(old)], [m.identity for m in messages(new)]


@pytest.mark.parametrize("again", [True, False])
def test_forks_copy_of_its_parent_is_the_parents(tmp_path: Path, again: bool) -> None:
    old, new = forked(tmp_path, says("user", "Lower"), says("user", "Stop"), again=again)
    assert new[:4] == old[:4]
    assert len({*old, *new}) == 5 + 2  # "Ok" twice, and "Stop" said elsewhere, are messages of their own


def test_equal_words_in_unrelated_sessions_are_two_messages(tmp_path: Path) -> None:
    one, two = (read(tmp_path, meta(id), says("user", "hi"), name=f"{id}.jsonl") for id in ("c1", "c2"))
    assert messages(one)[0].identity != messages(two)[0].identity


def test_home_is_taken_from_codex_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CODEX_HOME", raising=False)
    assert {place.root for place in READER.locations(tmp_path)} == {
        tmp_path / ".codex" / "sessions",
        tmp_path / ".codex" / "archived_sessions",
    }
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "elsewhere"))
    assert {place.root.parent for place in READER.locations(tmp_path)} == {tmp_path / "elsewhere"}
