"""Claude Code transcripts: the fixtures counted by hand, then one small file for each trap of the format."""

import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slowwave.tasks.ingest.formats.agents.claude_code.reader import READER
from slowwave.tasks.ingest.parsing.lines import read_head
from slowwave.tasks.ingest.parsing.records import Inactive, Limits, Message, Record, Rejected, Session, Skipped

Json = dict[str, Any]


def record(kind: str, uuid: str, parent: str | None = None, **more: Any) -> Json:
    base = {"sessionId": "s1", "cwd": "/home/ada/kiln", "timestamp": "2026-03-01T08:00:00.000Z", "isSidechain": False}
    return {"type": kind, "uuid": uuid, "parentUuid": parent, **base, **more}


def user(uuid: str, content: object, parent: str | None = None, **more: Any) -> Json:
    return record("user", uuid, parent, message={"role": "user", "content": content}, **more)


def answer(uuid: str, *blocks: object, parent: str | None = None, id: str | None = None, **more: Any) -> Json:
    content = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]
    return record("assistant", uuid, parent, message={"role": "assistant", "id": id, "content": content}, **more)


def call(number: int) -> Json:
    return {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": "ls"}}


def result(number: int, content: object = "out") -> Json:
    return {"type": "tool_result", "tool_use_id": f"t{number}", "content": content}


def read(folder: Path, *records: object, name: str = "s1.jsonl") -> list[Record]:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in records))
    return list(READER.read(path, Limits()))


def messages(records: list[Record]) -> list[Message]:
    return [r for r in records if isinstance(r, Message)]


def whose(records: list[Record]) -> list[tuple[str, str, str]]:
    return [(m.role, m.origin, m.text) for m in messages(records)]


def inactive(records: list[Record]) -> dict[str, str]:
    return {r.native_id: r.reason for r in records if isinstance(r, Inactive)}


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


# What a record becomes.


def test_prompt_answer_and_what_is_known_of_them(tmp_path: Path) -> None:
    session, first, second = read(tmp_path, user("u1", "Fire at 1240 °C"), answer("a1", "Noted.", parent="u1"))
    assert session == Session("s1", workspace="/home/ada/kiln", kind="chat")
    assert isinstance(first, Message)
    assert first.ts == datetime(2026, 3, 1, 8, tzinfo=UTC)
    assert first.identity == "claude-code/u1"
    assert isinstance(second, Message)
    assert (second.parent_id, second.line) == ("u1", 2)


def test_one_answer_streamed_as_several_records_is_one_message(tmp_path: Path) -> None:
    found = messages(
        read(
            tmp_path,
            user("u1", "Look"),
            answer("a1", {"type": "thinking", "thinking": "hm", "signature": "x"}, id="m1", parent="u1"),
            answer("a2", "Let me see.", id="m1", parent="a1"),
            answer("a3", call(1), id="m1", parent="a2"),
            user("r1", [result(1)], parent="a3"),
            answer("a4", call(2), id="m1", parent="a3"),
            user("r2", [result(2)], parent="a4"),
            answer("a5", "Done.", id="m2", parent="r2"),
        )
    )
    assert [m.native_id for m in found] == ["u1", "a1", "r1", "r2", "a5"]
    assert [b.type for b in found[1].blocks] == ["thinking", "text", "tool_call", "tool_call"]
    assert found[1].text == "Let me see."
    assert [m.parent_id for m in found] == [None, "u1", "a1", "a1", "r2"]


def test_answers_without_an_id_are_not_thrown_together(tmp_path: Path) -> None:
    assert len(messages(read(tmp_path, answer("a1", "One"), answer("a2", "Two", parent="a1")))) == 2


def test_tool_result_alone_is_the_tools_and_beside_text_the_persons(tmp_path: Path) -> None:
    both = [result(1), {"type": "text", "text": "and stop there"}]
    found = read(tmp_path, user("u1", [result(1)]), user("u2", both))
    assert whose(found) == [("tool", "tool", ""), ("user", "human", "and stop there")]


def test_tool_result_with_parts_and_error(tmp_path: Path) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    parts = [{"type": "text", "text": "no such file"}, image]
    (message,) = messages(read(tmp_path, user("u1", [{**result(1, parts), "is_error": True}])))
    assert [(b.type, b.text, b.call_id, b.is_error, b.media) for b in message.blocks] == [
        ("tool_result", "no such file", "t1", True, None),
        ("image", None, "t1", None, "image/png"),
    ]


@pytest.mark.parametrize(
    ("structured", "text"), [("Error: gone", "Error: gone"), ({"stdout": "a", "stderr": "b"}, "a\nb"), ([1], "")]
)
def test_empty_tool_result_takes_the_structured_one(tmp_path: Path, structured: object, text: str) -> None:
    (message,) = messages(read(tmp_path, user("u1", [result(1, "")], toolUseResult=structured)))
    assert message.blocks[0].text == text


def test_image_bytes_are_never_kept(tmp_path: Path) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "QUJD" * 100}}
    document = {"type": "document", "source": {"type": "base64", "data": "QUJD" * 100}, "title": "plan.pdf"}
    found = read(
        tmp_path, user("u1", [image, document, {"type": "text", "text": "x data:image/png;base64,QUJDQUJD y"}])
    )
    assert "QUJDQUJD" not in repr(found)
    assert whose(found) == [("user", "human", "x [image/png] y")]


def test_message_that_is_a_string(tmp_path: Path) -> None:
    assert whose(read(tmp_path, record("user", "u1", message="just text"))) == [("user", "human", "just text")]


@pytest.mark.parametrize("message", [None, 42, {}, {"content": None}, []])
def test_message_without_content_is_quarantined(tmp_path: Path, message: object) -> None:
    bad, good = (r for r in read(tmp_path, record("user", "u1", message=message), user("u2", "hi")) if r != SESSION)
    assert isinstance(bad, Rejected)
    assert bad.line == 1
    assert isinstance(good, Message)


SESSION = Session("s1", workspace="/home/ada/kiln", kind="chat")


@pytest.mark.parametrize(
    "stamp", [{"timestamp": "yesterday"}, {"timestamp": None}, {"timestmap": "2026-03-01T08:00:00Z"}]
)
def test_missing_or_misspelled_time_is_no_time(tmp_path: Path, stamp: Json) -> None:
    line = {**user("u1", "hi"), **stamp}
    if "timestmap" in stamp:
        del line["timestamp"]
    (message,) = messages(read(tmp_path, line))
    assert message.ts is None


def test_broken_lines_are_quarantined_and_the_rest_read(tmp_path: Path) -> None:
    lines = ('"massive error"\n', "42\n", "[1]\n", user("u1", "hi"), '{"type":"user","uu')
    found = read(tmp_path, *lines)
    assert [r.line for r in found if isinstance(r, Rejected)] == [1, 2, 3, 5]
    assert len(messages(found)) == 1


def test_unknown_types_are_counted_and_keep_the_chain(tmp_path: Path) -> None:
    found = read(tmp_path, record("teleport", "x1"), record("mode", "x2"), user("u1", "hi", parent="x1"))
    assert [r.kind for r in found if isinstance(r, Skipped)] == ["unknown: teleport", "mode"]


# Whose words.


@pytest.mark.parametrize(
    "noise",
    [
        "<command-name>/model</command-name>\n<command-message>model</command-message>\n<command-args></command-args>",
        "<local-command-stdout>Set model to \x1b[1mopus\x1b[22m</local-command-stdout>",
        "<bash-input>ls</bash-input>",
        "<bash-stdout>a</bash-stdout><bash-stderr></bash-stderr>",
        "<system-reminder>\nYour todo list is empty.\n</system-reminder>",
        "<ide_opened_file>The user opened /a.py</ide_opened_file>",
        "<ide_selection>lines 1 to 3</ide_selection>",
        "<user-memory-input>use tabs</user-memory-input>",
        "Caveat: The messages below were generated by the user while running local commands.",
        "[Request interrupted by user]",
        "[Request interrupted by user for tool use]",
    ],
)
def test_noise_is_nobodys_words(tmp_path: Path, noise: str) -> None:
    found = read(tmp_path, user("u1", noise), user("u2", f"{noise}\nglaze it"))
    assert whose(found) == [("system", "synthetic", ""), ("user", "human", "glaze it")]


def test_a_tag_that_is_never_closed_is_a_mention(tmp_path: Path) -> None:
    text = "why is there a <system-reminder> in my log?"
    assert whose(read(tmp_path, user("u1", text))) == [("user", "human", text)]


def test_ansi_codes_go(tmp_path: Path) -> None:
    found = read(tmp_path, user("u1", "see \x1b[31mred\x1b[0m \x1b]8;;http://x\x07link\x1b]8;;\x07"))
    assert whose(found) == [("user", "human", "see red link")]


def test_meta_and_compaction_summaries_are_synthetic(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        user("u1", "Base directory for this skill: /x", isMeta=True),
        user("u2", "The user asked for …", isCompactSummary=True, isVisibleInTranscriptOnly=True),
        user("u3", "This session is being continued from a previous conversation that ran out of context."),
        record("system", "s1", subtype="away_summary", content="You fixed the kiln."),
    )
    assert {(m.role, m.origin) for m in messages(found)} == {("system", "synthetic")}
    assert len(messages(found)) == 4


def test_queued_command_is_the_person_steering(tmp_path: Path) -> None:
    queued = {"type": "queued_command", "prompt": "no, the blue one", "commandMode": "prompt"}
    found = read(
        tmp_path,
        record("queue-operation", "q1", operation="enqueue", content="no, the blue one"),
        record("attachment", "q2", attachment=queued),
        record("queue-operation", "q3", operation="remove", content=None),
    )
    assert whose(found) == [("user", "human", "no, the blue one")]


def test_queued_command_in_mid_answer_does_not_split_it(tmp_path: Path) -> None:
    queued = {"type": "queued_command", "prompt": "faster", "commandMode": "prompt"}
    found = read(
        tmp_path,
        answer("a1", "First", id="m1"),
        record("attachment", "q1", "a1", attachment=queued),
        answer("a2", "second", id="m1", parent="a1"),
    )
    assert whose(found) == [("assistant", "model", "First\n\nsecond"), ("user", "human", "faster")]


NOTIFICATION = (
    "<task-notification><task-id>k1</task-id><status>completed</status><summary>Agent done</summary>"
    "<result>The leak is in the valve.</result></task-notification>"
)


def test_task_notification_keeps_the_sub_agents_answer(tmp_path: Path) -> None:
    queued = {"type": "queued_command", "prompt": NOTIFICATION, "commandMode": "task-notification"}
    found = read(tmp_path, user("u1", NOTIFICATION), record("attachment", "q1", attachment=queued))
    assert whose(found) == [("agent", "model", "The leak is in the valve.")] * 2


def test_words_beside_a_notification_are_two_messages(tmp_path: Path) -> None:
    found = read(tmp_path, user("u1", f"{NOTIFICATION}\nthanks, close it"))
    assert whose(found) == [("user", "human", "thanks, close it"), ("agent", "model", "The leak is in the valve.")]
    assert len({m.identity for m in messages(found)}) == 2


def test_team_mates_message_is_an_agents(tmp_path: Path) -> None:
    text = '<teammate-message teammate_id="reviewer" color="red">Looks fine</teammate-message>'
    (message,) = messages(read(tmp_path, user("u1", text)))
    assert (message.role, message.origin, message.text, message.speaker) == ("agent", "model", "Looks fine", "reviewer")


def test_api_errors_are_synthetic(tmp_path: Path) -> None:
    error = answer("a1", "API Error: 529", isApiErrorMessage=True)
    filler = answer("a2", "No response requested.", id="m2")
    filler["message"]["model"] = "<synthetic>"
    assert [(role, origin) for role, origin, _ in whose(read(tmp_path, error, filler))] == [
        ("assistant", "synthetic")
    ] * 2


# Sub-agents and sidechains.


def test_sub_agents_file_is_a_session_of_its_own(tmp_path: Path) -> None:
    name = "s1/subagents/agent-x7.jsonl"
    (tmp_path / "s1/subagents").mkdir(parents=True)
    (tmp_path / "s1/subagents/agent-x7.meta.json").write_text('{"agentType": "Explore", "spawnDepth": 1}')
    lines = user("u1", "Find the valve", isSidechain=True, agentId="x7"), answer("a1", "Found.", agentId="x7")
    found = read(tmp_path, *lines, name=name)
    assert found[0] == Session("s1/x7", workspace="/home/ada/kiln", kind="subagent", parent_id="s1")
    assert whose(found) == [("agent", "model", "Find the valve"), ("assistant", "model", "Found.")]
    assert messages(found)[1].speaker == "Explore"


def test_older_sub_agents_file_lies_beside_the_session(tmp_path: Path) -> None:
    found = read(tmp_path, user("u1", "Find it", isSidechain=True), name="agent-x7.jsonl")
    assert isinstance(found[0], Session)
    assert (found[0].native_id, found[0].kind, found[0].parent_id) == ("s1/x7", "subagent", "s1")


def test_sidechain_in_the_sessions_own_file_is_kept_and_not_abandoned(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        user("u1", "Fix it"),
        user("b1", "Search the docs", isSidechain=True),
        user("b2", "Search the code", isSidechain=True),
        answer("a1", "Fixed.", parent="u1"),
    )
    assert [role for role, _, _ in whose(found)] == ["user", "agent", "agent", "assistant"]
    assert inactive(found) == {}


@pytest.mark.parametrize("name", ["s1.jsonl", "agent-w.jsonl"])
def test_warm_up_sidechains_are_skipped(tmp_path: Path, name: str) -> None:
    found = read(
        tmp_path,
        user("w1", "Warmup", isSidechain=True),
        answer("w2", "I'm ready to help.", parent="w1", isSidechain=True),
        name=name,
    )
    assert found == [Skipped("warm-up", 1), Skipped("warm-up", 2)]


def test_a_person_may_say_warmup(tmp_path: Path) -> None:
    assert whose(read(tmp_path, user("u1", "Warmup"))) == [("user", "human", "Warmup")]


# The tree.


def test_rewound_branch_is_inactive(tmp_path: Path) -> None:
    """After a1 the person asked u2, went back, and asked u3 instead: u2 and what is below it were taken back."""
    found = read(
        tmp_path,
        user("u1", "Plan"),
        answer("a1", "Ready", parent="u1"),
        user("u2", "Use clay", parent="a1"),
        answer("a2", "Clay it is", call(1), parent="u2"),
        user("r2", [result(1)], parent="a2"),
        user("u3", "Use glass", parent="a1"),
        answer("a3", "Glass it is", parent="u3"),
    )
    assert inactive(found) == {"u2": "rewound", "a2": "rewound", "r2": "rewound"}


def test_parallel_tool_calls_are_no_rewind(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        user("u1", "Look"),
        answer("a1", call(1), id="m1", parent="u1"),
        answer("a2", call(2), id="m1", parent="a1"),
        user("r1", [result(1)], parent="a1"),
        user("r2", [result(2)], parent="a2"),
        answer("a3", "Both seen", id="m2", parent="r1"),
        answer("a4", "Retry", id="m3", parent="r1"),
    )
    assert inactive(found) == {}


def test_a_replayed_record_is_no_rewind_of_itself(tmp_path: Path) -> None:
    lines = user("u1", "Plan"), answer("a1", "Ready", parent="u1"), user("u2", "Go", parent="a1")
    assert inactive(read(tmp_path, *lines, *lines)) == {}


def test_several_roots_after_a_compaction_hang_together(tmp_path: Path) -> None:
    """The rewound branch goes on across a compaction, whose root names its logical parent."""
    found = read(
        tmp_path,
        user("u1", "Plan"),
        user("u2", "Use clay", parent="u1"),
        record("system", "c1", None, subtype="compact_boundary", logicalParentUuid="u2", content="compacted"),
        user("u3", "Summary", parent="c1", isCompactSummary=True),
        answer("a3", "Clay", parent="u3"),
        user("u4", "Use glass", parent="u1"),
    )
    assert set(inactive(found)) == {"u2", "u3", "a3"}


def test_cycles_and_dangling_parents_end(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        user("u1", "One", parent="u2"),
        user("u2", "Two", parent="u1"),
        user("u3", "Three", parent="u3"),
        user("u4", "Four", parent="nowhere"),
    )
    assert len(messages(found)) == 4
    assert inactive(found) == {}


def test_superseded_retracted_and_refused(tmp_path: Path) -> None:
    """The retraction names the second record of a streamed answer: the whole answer is meant."""
    found = read(
        tmp_path,
        user("u1", "Do"),
        answer("a1", "No", id="m1", parent="u1"),
        answer("a2", "way", id="m1", parent="a1"),
        answer("a3", "Yes", id="m2", parent="u1", supersedesUuids=["a0"]),
        record("system", "s1", subtype="api_refusal", retractedMessageUuids=["a2"], refusedUserMessageUuid="u1"),
    )
    assert inactive(found) == {"a0": "superseded", "a1": "retracted", "u1": "refused"}


def test_resumed_session_replays_the_same_messages(tmp_path: Path) -> None:
    first = read(tmp_path, user("u1", "Plan"), answer("a1", "Ready", parent="u1"))
    again = [{**line, "sessionId": "s2"} for line in (user("u1", "Plan"), answer("a1", "Ready", parent="u1"))]
    second = read(tmp_path, *again, user("u2", "Go on", parent="a1", sessionId="s2"), name="s2.jsonl")
    old, new = ([m.identity for m in messages(r)] for r in (first, second))
    assert new[:2] == old
    assert {m.session for m in messages(second)} == {"s2"}


# Titles.


def test_a_persons_title_wins_and_a_foreign_summary_is_ignored(tmp_path: Path) -> None:
    custom = {"type": "custom-title", "customTitle": "Kiln", "sessionId": "s1"}
    own = {"type": "ai-title", "aiTitle": "About kilns", "sessionId": "s1"}
    foreign = {"type": "summary", "summary": "Another talk", "leafUuid": "elsewhere"}
    mine = {"type": "summary", "summary": "This talk", "leafUuid": "u1"}

    def title(*lines: Json) -> list[str]:
        return [r.title for r in read(tmp_path, *lines, user("u1", "hi")) if isinstance(r, Session) and r.title]

    assert title(custom, own, mine) == ["Kiln"]
    assert title(own, mine) == ["About kilns"]
    assert title(mine, foreign) == ["This talk"]
    assert title(foreign) == []


def test_workspace_is_where_the_session_began(tmp_path: Path) -> None:
    found = read(tmp_path, user("u1", "hi", cwd="/a"), user("u2", "ho", cwd="/a/b"))
    assert [r.workspace for r in found if isinstance(r, Session)] == ["/a"]


# The reader as a whole.


def test_sniffs_its_own_and_nothing_else(tmp_path: Path) -> None:
    read(tmp_path, '"massive error"\n', user("u1", "hi"))
    assert READER.sniff(read_head(tmp_path / "s1.jsonl"))
    read(tmp_path, user("u1", "x" * 100_000), name="long.jsonl")
    assert READER.sniff(read_head(tmp_path / "long.jsonl"))
    read(tmp_path, {"role": "user", "content": "hi", "session_id": "s"}, name="other.jsonl")
    assert not READER.sniff(read_head(tmp_path / "other.jsonl"))


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.sampled_from(["u1", "a1", "text", "<b>", "user", "tool_result"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "content", "text"]), inner),
    max_leaves=6,
)
FIELDS = ["type", "uuid", "parentUuid", "sessionId", "message", "timestamp", "attachment", "subtype", "content"]
FIELDS += [
    "cwd",
    "origin",
    "isSidechain",
    "isMeta",
    "toolUseResult",
    "supersedesUuids",
    "agentId",
    "leafUuid",
    "aiTitle",
]
KINDS = st.sampled_from(["user", "assistant", "system", "attachment", "summary", "ai-title"])


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(KINDS, st.dictionaries(st.sampled_from(FIELDS), JSON)), max_size=6))
def test_whatever_the_fields_hold_every_line_is_accounted_for(tmp_path: Path, lines: list[tuple[str, Json]]) -> None:
    found = read(tmp_path, *({"type": kind, **fields} for kind, fields in lines))
    told = {r.line for r in found if isinstance(r, Message | Rejected | Skipped)}
    merged = sum(len(m.blocks) for m in messages(found))
    assert len(told) + merged >= len(lines)
