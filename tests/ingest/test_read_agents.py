"""opencode's database and its exports: small ones of the shape that the program writes."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slowwave.tasks.ingest.formats.agents import opencode
from slowwave.tasks.ingest.formats.registry import detect_reader
from slowwave.tasks.ingest.parsing.records import Inactive, Limits, Message, Record, Rejected, Session, Skipped

Fields = dict[str, Any]


def put(path: Path, value: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2))
    return path


def read(path: Path) -> list[Record]:
    return list(detect_reader(path).read(path, Limits()))


def told(records: list[Record]) -> list[tuple[str, str, str]]:
    return [(one.role, one.origin, one.text) for one in records if isinstance(one, Message)]


def blocks(records: list[Record]) -> list[tuple[str, str | None, str | None]]:
    return [(b.type, b.name, b.call_id) for one in records if isinstance(one, Message) for b in one.blocks]


INFO: Fields = {"id": "ses_1", "projectID": "p", "directory": "/home/ada/tidepool", "title": "The gauge"}
TOOL: Fields = {"type": "tool", "tool": "bash", "callID": "c1"}
DONE = {"status": "completed", "input": {"command": "ls x"}, "output": "no x", "metadata": {"exit": 2}}
MESSAGES: list[tuple[Fields, list[Fields]]] = [
    (
        {"id": "msg_1", "role": "user", "time": {"created": 1795500606481}},
        [
            {"type": "text", "synthetic": True, "text": "<content>lag = 3</content>"},
            {"type": "file", "mime": "text/plain", "filename": "lag.py", "url": "file:///lag.py"},
            {"type": "text", "text": "The gauge lags."},
        ],
    ),
    (
        {"id": "msg_2", "role": "assistant", "parentID": "msg_1", "time": {"created": 1795500608530}},
        [
            {"type": "step-start"},
            {"type": "reasoning", "text": "Is it?"},
            {"type": "text", "text": "I look."},
            TOOL | {"state": DONE},
            TOOL | {"callID": "c2", "state": {"status": "error", "input": {}, "error": "not there"}},
            TOOL | {"callID": "c3", "state": {"status": "running", "input": {}}},
            {"type": "from-later-on", "x": 1},
            {"type": "step-finish"},
        ],
    ),
    ({"id": "msg_3", "role": "assistant", "error": {"name": "APIError"}, "time": {"created": 3}}, []),
    (
        {"id": "msg_4", "role": "assistant", "summary": True, "time": {"created": 4}},
        [{"type": "text", "text": "So far"}],
    ),
    ({"id": "msg_5", "role": "user", "time": {"created": 5}}, [{"type": "text", "text": "No, wait."}]),
]


def make_database(path: Path, **session: object) -> Path:
    """A database of opencode's with the messages, and a part that is broken."""
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE session (id, parent_id, directory, title, revert, time_created)")
        db.execute("CREATE TABLE message (id, session_id, time_created, data)")
        db.execute("CREATE TABLE part (id, message_id, session_id, data)")
        row = {"id": "ses_1", "directory": INFO["directory"], "title": INFO["title"], "time_created": 1} | session
        db.execute(f"INSERT INTO session ({','.join(row)}) VALUES ({','.join('?' * len(row))})", list(row.values()))
        for at, (info, parts) in enumerate(MESSAGES):
            data = json.dumps({key: value for key, value in info.items() if key != "id"})
            db.execute("INSERT INTO message VALUES (?, 'ses_1', ?, ?)", (info["id"], at, data))
            for n, part in enumerate(parts):
                db.execute("INSERT INTO part VALUES (?, ?, 'ses_1', ?)", (f"{at}{n}", info["id"], json.dumps(part)))
        db.execute("INSERT INTO part VALUES ('99', 'msg_5', 'ses_1', '{')")
    db.close()
    return path


def test_an_export_and_the_database_of_opencode_tell_the_same(tmp_path: Path) -> None:
    exported = {"info": INFO, "messages": [{"info": info, "parts": parts} for info, parts in MESSAGES]}
    records = read(put(tmp_path / "ses_1.json", exported))
    assert told(records) == [
        ("user", "human", "The gauge lags."),
        ("assistant", "model", "I look."),
        ("assistant", "synthetic", "So far"),
        ("user", "human", "No, wait."),
    ]
    assert [(kind, call) for kind, _, call in blocks(records)][3:10] == [
        ("thinking", None),
        ("text", None),
        ("tool_call", "c1"),
        ("tool_result", "c1"),
        ("tool_call", "c2"),
        ("tool_result", "c2"),
        ("tool_call", "c3"),
    ]
    failed = [b.is_error for one in records if isinstance(one, Message) for b in one.blocks if b.type == "tool_result"]
    assert failed == [True, True]
    assert [one.kind for one in records if isinstance(one, Skipped)] == ["failed answer"]
    back = json.dumps({"messageID": "msg_4"})
    stored = read(make_database(tmp_path / "opencode.db", parent_id="ses_0", revert=back))
    keep = [(one.native_id, one.role, one.blocks, one.ts) for one in records if isinstance(one, Message)]
    assert [(one.native_id, one.role, one.blocks, one.ts) for one in stored if isinstance(one, Message)] == keep
    assert [one.native_id for one in stored if isinstance(one, Inactive)] == ["msg_4", "msg_5"]
    assert len([one for one in stored if isinstance(one, Rejected)]) == 1
    session = next(one for one in stored if isinstance(one, Session))
    assert (session.workspace, session.kind, session.parent_id) == ("/home/ada/tidepool", "subagent", "ses_0")
    place = tmp_path / ".local/share/opencode"
    place.mkdir(parents=True)
    assert [one.exists for one in opencode.READER.locations(tmp_path)] == [True]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "content", "id", "action", "args", "parts", "info", "history"]), inner
        )
    ),
    max_leaves=12,
)


@settings(max_examples=100, deadline=None)
@given(JSON, st.data())
def test_whatever_stands_in_a_field_nothing_raises_and_every_record_is_told(
    tmp_path_factory: pytest.TempPathFactory, odd: object, data: st.DataObject
) -> None:
    rows: list[Fields] = [info | {"parts": parts} for info, parts in MESSAGES]
    row = data.draw(st.sampled_from(rows))
    row[data.draw(st.sampled_from(sorted(row)))] = odd
    document = {"info": INFO, "messages": [{"info": row, "parts": row.get("parts")} for row in rows]}
    path = put(tmp_path_factory.getbasetemp() / "odd-opencode.json", document)
    records = [one for one in opencode.READER.read(path, Limits()) if not isinstance(one, (Session, Inactive))]
    assert len(records) >= len(rows)
