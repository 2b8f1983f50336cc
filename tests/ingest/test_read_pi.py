"""pi's sessions: counts from reading the real files with jq; more are in `transcripts/pi`."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from slowwave.tasks.ingest.formats.agents.openclaw import reader as openclaw
from slowwave.tasks.ingest.parsing.lines import read_head
from slowwave.tasks.ingest.parsing.records import Inactive, Limits, Message, Record, Rejected, Session, Skipped


def read(path: Path) -> list[Record]:
    return list(openclaw.PI_READER.read(path, Limits()))


def write(path: Path, events: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(e) + "\n" for e in events))
    return path


def said(role: str, words: str, second: int, **more: Any) -> dict[str, Any]:
    message = {"role": role, "content": [{"type": "text", "text": words}], "timestamp": 1763681600000 + second * 1000}
    return {"type": "message", "timestamp": f"2025-11-20T23:33:{second:02d}.000Z", "message": message | more}


V1 = {
    "type": "session",
    "id": "p1",
    "timestamp": "2025-11-20T23:33:00.000Z",
    "cwd": "/w",
    "provider": "a",
    "modelId": "m",
}


def test_a_real_session_of_1019_lines(bench_data: Path) -> None:
    records = read(bench_data / "fixtures" / "pi" / "large-session.jsonl")
    found = [r for r in records if isinstance(r, Message)]
    # 914 message lines, of which 14 are assistant rows with an empty content, all aborted.
    assert Counter((m.role, m.origin) for m in found) == {
        ("user", "human"): 88,
        ("assistant", "model"): 439,
        ("tool", "tool"): 373,
    }
    blocks = Counter(b.type for m in found for b in m.blocks)
    assert blocks == {"text": 88 + 244, "tool_call": 391, "tool_result": 373, "thinking": 1}
    errors = Counter(b.is_error for m in found for b in m.blocks if b.type == "tool_result")
    assert errors == {False: 354, True: 19}
    assert Counter(r.kind for r in records if isinstance(r, Skipped)) == {
        "thinking_level_change": 103,
        "model_change": 1,
        "assistant without content (aborted)": 14,
    }
    assert [r for r in records if isinstance(r, Rejected | Inactive)] == []
    # Every line is accounted for: header, messages, what was left out.
    assert 1 + len(found) + sum(isinstance(r, Skipped) for r in records) == 1019
    assert len({m.identity for m in found}) == len(found) == 900


def test_the_small_session(bench_data: Path) -> None:
    records = read(bench_data / "fixtures" / "pi" / "small.jsonl")
    found = [r for r in records if isinstance(r, Message)]
    assert [(m.role, m.origin) for m in found] == [
        ("user", "human"),
        ("assistant", "model"),
        ("system", "synthetic"),  # a compaction: a summary is nobody's speech
        ("user", "human"),
        ("assistant", "model"),
        ("system", "synthetic"),
    ]
    assert Counter(r.kind for r in records if isinstance(r, Skipped)) == {"model_change": 1, "thinking_level_change": 1}
    # The answer is word for word the same twice: two messages all the same.
    assert len({m.identity for m in found}) == 6


def test_a_role_that_is_no_text_is_no_session_of_pis(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [{"type": "message", "message": {"role": ["user"]}}])
    assert not openclaw.PI_READER.sniff(read_head(path))


def test_a_branched_files_copies_are_the_same_messages(tmp_path: Path) -> None:
    lines = [said("user", "port 8080", 1), said("assistant", "ok", 2)]
    parent = write(tmp_path / "2025-11-20T23-33-00-000Z_p1.jsonl", [V1, *lines])
    header = {**V1, "id": "p2", "timestamp": "2025-11-21T08:00:00.000Z", "branchedFrom": str(parent)}
    branch = write(tmp_path / "2025-11-21T08-00-00-000Z_p2.jsonl", [header, *lines, said("user", "port 8443", 9)])
    first, second = ([r for r in read(path) if isinstance(r, Message)] for path in (parent, branch))
    assert [m.identity for m in second[:2]] == [m.identity for m in first]
    assert second[2].identity not in {m.identity for m in first}
    assert next(r for r in read(branch) if isinstance(r, Session)).parent_id == "p1"


def test_migrating_to_a_tree_changes_no_message(tmp_path: Path) -> None:
    lines = [said("user", "port 8080", 1), said("assistant", "ok", 2)]
    old = write(tmp_path / "a.jsonl", [V1, *lines])
    ids = [("0a", None), ("0b", "0a")]
    linked = [{**line, "id": i, "parentId": p} for line, (i, p) in zip(lines, ids, strict=True)]
    new = write(tmp_path / "b.jsonl", [{**V1, "version": 3}, *linked])
    first, second = ([r.identity for r in read(path) if isinstance(r, Message)] for path in (old, new))
    assert first == second
