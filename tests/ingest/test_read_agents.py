"""Runs of SWE-agent, mini-swe-agent, OpenHands and opencode: small ones of the shape that the programs write."""

import json
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slowwave.tasks.ingest.formats.agents import opencode, openhands, swe_agent
from slowwave.tasks.ingest.formats.registry import detect_reader, find_files
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


def call(key: str, name: str, **given: object) -> Fields:
    return {"id": key, "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}


HISTORY: list[Fields] = [
    {"role": "system", "content": "You are a programmer.", "agent": "main", "message_type": "system_prompt"},
    {"role": "user", "content": "An old run.", "agent": "main", "is_demo": True},
    {"role": "user", "content": "ISSUE:\nThe gauge lags.", "agent": "main", "message_type": "observation"},
    {"role": "assistant", "content": "I look.", "thought": "I look.", "action": "open lag.py", "agent": "main"},
    {"role": "user", "content": "1: lag = 3", "agent": "main", "message_type": "observation"},
    {"role": "assistant", "content": [{"type": "text", "text": "Fixed."}], "agent": "main"}
    | {"tool_calls": [call("c1", "submit")], "thinking_blocks": [{"type": "thinking", "thinking": "Is it?"}]},
    {"role": "tool", "content": "diff --git", "agent": "main", "tool_call_ids": ["c1"]},
]
STEP: Fields = {"action": "open lag.py", "observation": "1: lag = 3", "response": "I look.", "thought": "I look."}
STEP |= {"state": '{"open_file": "n/a", "working_dir": "/ada__tidepool"}', "execution_time": 0.2}


def test_swe_agent_tells_the_issue_from_what_commands_print(tmp_path: Path) -> None:
    path = put(tmp_path / "a/tide-1.traj", {"environment": "main", "trajectory": [STEP], "history": HISTORY})
    records = read(path)
    assert told(records) == [
        ("system", "synthetic", "You are a programmer."),
        ("user", "human", "ISSUE:\nThe gauge lags."),
        ("assistant", "model", "I look."),
        ("tool", "tool", ""),
        ("assistant", "model", "Fixed."),
        ("tool", "tool", ""),
    ]
    assert [kind for kind, *_ in blocks(records)] == [
        *("text", "text", "text", "tool_call", "tool_result"),
        *("thinking", "text", "tool_call", "tool_result"),
    ]
    assert ("tool_result", None, "c1") in blocks(records)
    assert [one.kind for one in records if isinstance(one, Skipped)] == ["demonstration"]
    (session,) = [one for one in records if isinstance(one, Session)]
    assert (session.title, session.workspace) == ("tide-1", "/ada__tidepool")
    assert list(find_files([tmp_path])) == [path]


def test_runs_of_one_task_are_sessions_of_their_own_and_one_that_grows_stays_one(tmp_path: Path) -> None:
    def name(*said: Fields) -> str:
        records = read(put(tmp_path / "tide-1.traj", {"trajectory": [STEP], "history": list(said)}))
        return next(one.native_id for one in records if isinstance(one, Session))

    other = HISTORY[3] | {"content": "I search."}
    asked, answered = [HISTORY[0], HISTORY[2]], HISTORY[3]
    assert name(*asked, answered) == name(*asked, answered, *HISTORY[4:]) != name(*asked, other)


def test_swe_agent_without_a_history_is_read_by_its_steps(tmp_path: Path) -> None:
    records = read(put(tmp_path / "tide.traj", {"trajectory": [STEP, STEP]}))
    assert told(records)[:2] == [("assistant", "model", "I look."), ("tool", "tool", "")]
    assert len(told(records)) == 4
    assert [type(one) for one in swe_agent.read(put(tmp_path / "none.traj", {"trajectory": []}), Limits())] == [
        Rejected
    ]


MINI: Fields = {
    "info": {
        "config": {
            "agent": {"instance_template": "Please solve this issue: {{task}}\n\nYou can run commands.\n{{system}}"},
            "environment": {"cwd": "/home/ada/tidepool"},
        },
        "mini_version": "2.2.7",
        "submission": "diff",
    },
    "messages": [
        {"role": "system", "content": "You are helpful."},
        {"role": "user", "content": "Please solve this issue: The gauge lags.\n\nYou can run commands.\nLinux"},
        {"role": "assistant", "content": "I look.", "tool_calls": [call("c1", "bash", command="ls")]}
        | {"extra": {"response": {"created": 1775795494}, "actions": [{"command": "ls"}]}},
        {"role": "tool", "content": "lag.py", "tool_call_id": "c1", "extra": {"timestamp": 1775795499.5}},
        {"role": "assistant", "content": "```bash\nls -a\n```", "extra": {"actions": [{"command": "ls -a"}]}},
        {"role": "user", "content": "<output>lag.py</output>"},
        {"role": "exit", "content": "diff"},
        {"role": "alien", "content": "?"},
    ],
    "trajectory_format": "mini-swe-agent-1.1",
}


def test_mini_swe_agents_task_is_what_its_template_was_put_around(tmp_path: Path) -> None:
    records = read(put(tmp_path / "run.traj.json", MINI))
    assert told(records)[1:] == [
        ("user", "human", "The gauge lags."),
        ("assistant", "model", "I look."),
        ("tool", "tool", ""),
        ("assistant", "model", "```bash\nls -a\n```"),
        ("tool", "tool", ""),
    ]
    calls = [b.text for one in records if isinstance(one, Message) for b in one.blocks if b.type == "tool_call"]
    assert calls == ['{"command": "ls"}', '{"command":"ls -a"}']
    times = [one.ts.isoformat() for one in records if isinstance(one, Message) and one.ts]
    assert times == ["2026-04-10T04:31:34+00:00", "2026-04-10T04:31:39.500000+00:00"]
    assert [one.reason for one in records if isinstance(one, Rejected)] == ["message 7: unknown role 'alien'"]
    session = next(one for one in records if isinstance(one, Session))
    assert (session.workspace, session.native_id.split("@")[0]) == ("/home/ada/tidepool", "run")
    contained = json.loads(json.dumps(MINI))
    contained["info"]["config"]["environment"]["image"] = "docker.io/some:latest"
    del contained["info"]["config"]["agent"]["instance_template"]
    records = read(put(tmp_path / "in-a-container.traj.json", contained))
    assert next(one.workspace for one in records if isinstance(one, Session)) is None
    assert told(records)[1][2].startswith("Please solve this issue: The gauge lags.")


def event(key: int, **more: object) -> Fields:
    return {"id": key, "timestamp": f"2026-02-01T00:14:{key:02}", "source": "agent", "message": "", **more}


EVENTS = [
    event(0, source="user", action="message", args={"content": "The gauge lags.", "image_urls": ["data:"]}),
    event(1, observation="recall", content="", extras={"repo_directory": "/workspace/tidepool"}),
    event(2, action="run", args={"command": "ls", "thought": "I look.", "image_urls": None})
    | {
        "tool_call_metadata": {"function_name": "execute_bash", "tool_call_id": "c1"}
        | {"model_response": {"choices": [{"message": {"tool_calls": [call("c1", "execute_bash", command="ls")]}}]}}
    },
    event(3, cause=2, observation="run", content="lag.py", extras={"metadata": {"exit_code": 1}})
    | {"tool_call_metadata": {"tool_call_id": "c1"}},
    event(4, action="read", args={"path": "lag.py", "thought": ""}),
    event(5, cause=4, observation="read", content="lag = 3"),
    event(6, action="think", args={"thought": "It is three hours."}),
    event(7, action="change_agent_state", args={"agent_state": "finished"}),
    event(8, action="finish", args={"final_thought": "Fixed.", "outputs": {}}),
    event(9, cause=8, observation="error", content="No such tool."),
    event(10, source="user"),
]


def test_openhands_events_are_messages_calls_and_results(tmp_path: Path) -> None:
    records = read(put(tmp_path / "trajectory-7.json", EVENTS))
    assert told(records) == [
        ("user", "human", "The gauge lags."),
        ("assistant", "model", "I look."),
        ("tool", "tool", ""),
        ("assistant", "model", ""),
        ("tool", "tool", ""),
        ("assistant", "model", ""),
        ("assistant", "model", "Fixed."),
        ("tool", "tool", ""),
    ]
    assert blocks(records) == [
        ("text", None, None),
        ("image", None, None),
        ("text", None, None),
        ("tool_call", "execute_bash", "c1"),
        ("tool_result", "run", "c1"),
        ("tool_call", "read", "4"),
        ("tool_result", "read", "4"),
        ("thinking", None, None),
        ("text", None, None),
        ("tool_call", "finish", "8"),
        ("tool_result", "error", "8"),
    ]
    failed = [b.is_error for one in records if isinstance(one, Message) for b in one.blocks if b.type == "tool_result"]
    assert failed == [True, None, True]
    assert Counter(one.kind for one in records if isinstance(one, Skipped)) == {"recall": 1, "change_agent_state": 1}
    assert [one.reason for one in records if isinstance(one, Rejected)] == [
        "event 10 is neither an action nor an observation"
    ]
    assert {(one.native_id, one.workspace) for one in records if isinstance(one, Session)} == {
        ("trajectory-7", None),
        ("trajectory-7", "/workspace/tidepool"),
    }
    run = put(tmp_path / "output.json", {"instance_id": "tide-1", "history": EVENTS})
    assert told(read(run)) == told(records)


def test_two_openhands_runs_of_one_instance_are_two_sessions(tmp_path: Path) -> None:
    later = [EVENTS[0] | {"timestamp": "2026-02-02T08:00:00"}, *EVENTS[1:]]
    runs: list[Any] = [EVENTS, later, {"instance_id": "tide-1", "history": EVENTS}]
    paths = [put(tmp_path / str(number) / "trajectory.json", run) for number, run in enumerate(runs)]
    named = [one.native_id for path in paths for one in read(path)[:1] if isinstance(one, Session)]
    assert named == ["trajectory@2026-02-01T00:14:00", "trajectory@2026-02-02T08:00:00", "tide-1@2026-02-01T00:14:00"]


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
    assert [one.exists for one in opencode.list_locations(tmp_path)] == [True]


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
@given(st.sampled_from([HISTORY, EVENTS, [info | {"parts": parts} for info, parts in MESSAGES]]), JSON, st.data())
def test_whatever_stands_in_a_field_nothing_raises_and_every_record_is_told(
    tmp_path_factory: pytest.TempPathFactory, good: list[Fields], odd: object, data: st.DataObject
) -> None:
    rows = [dict(one) for one in good]
    row = data.draw(st.sampled_from(rows))
    row[data.draw(st.sampled_from(sorted(row)))] = odd
    documents = {
        swe_agent: {"history": rows},
        openhands: rows,
        opencode: {"info": INFO, "messages": [{"info": one, "parts": one.get("parts")} for one in rows]},
    }
    for module, document in documents.items():
        path = put(tmp_path_factory.getbasetemp() / f"odd-{module.__name__.rpartition('.')[2]}.json", document)
        records = [one for one in module.READER.read(path, Limits()) if not isinstance(one, (Session, Inactive))]
        assert len(records) >= len(rows)
