"""Codex rollouts: the fixtures counted by hand, then one small file for each trap of the format."""

import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slowwave.tasks.ingest.formats.agents.codex.reader import READER
from slowwave.tasks.ingest.parsing.lines import read_head
from slowwave.tasks.ingest.parsing.records import Inactive, Limits, Message, Record, Rejected, Session, Skipped

Json = dict[str, Any]
TS = "2026-05-02T09:00:00.000Z"


def line(kind: str, payload: Json, ts: str = TS) -> Json:
    return {"timestamp": ts, "type": kind, "payload": payload}


def meta(id: str = "c1", **more: Any) -> Json:
    return line("session_meta", {"id": id, "cwd": "/home/ada/kiln", "source": "cli", **more})


def item(kind: str, **fields: Any) -> Json:
    return line("response_item", {"type": kind, **fields})


def says(role: str, *texts: str, ts: str = TS) -> Json:
    part = "output_text" if role == "assistant" else "input_text"
    content = [{"type": part, "text": text} for text in texts]
    return line("response_item", {"type": "message", "role": role, "content": content}, ts)


def event(kind: str, **fields: Any) -> Json:
    return line("event_msg", {"type": kind, **fields})


def read(folder: Path, *lines: object, name: str = "rollout-x.jsonl") -> list[Record]:
    path = folder / name
    path.write_text("".join(one if isinstance(one, str) else json.dumps(one) + "\n" for one in lines))
    return list(READER.read(path, Limits()))


def messages(records: list[Record]) -> list[Message]:
    return [r for r in records if isinstance(r, Message)]


def whose(records: list[Record]) -> list[tuple[str, str, str]]:
    return [(m.role, m.origin, m.text) for m in messages(records)]


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


# What a line becomes.


def test_modern_lines(tmp_path: Path) -> None:
    session, first, second = read(tmp_path, meta(), says("user", "Fire at 1240 °C"), says("assistant", "Noted."))
    assert session == Session("c1", workspace="/home/ada/kiln", kind="chat")
    assert isinstance(first, Message)
    assert (first.role, first.ts, first.native_id) == ("user", datetime(2026, 5, 2, 9, tzinfo=UTC), "2")
    assert isinstance(second, Message)


def test_oldest_files_have_bare_lines(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        {"id": "old1", "timestamp": TS, "instructions": None, "git": {}},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Fire"}]},
        {"role": "assistant", "content": [{"type": "output_text", "text": "Lit."}]},
        {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "k"},
        {"type": "function_call_output", "call_id": "k", "output": "ok"},
    )
    assert {m.session for m in messages(found)} == {"old1"}
    assert whose(found) == [
        ("user", "human", "Fire"),
        ("assistant", "model", "Lit."),
        ("assistant", "model", ""),
        ("tool", "tool", ""),
    ]


def test_file_without_a_head_takes_its_id_from_its_name(tmp_path: Path) -> None:
    uuid = "019b2ea4-aaaa-7bbb-8ccc-58208e1f0000"
    found = read(tmp_path, says("user", "hi"), name=f"rollout-2026-05-02T09-00-00-{uuid}.jsonl")
    assert messages(found)[0].session == uuid


@pytest.mark.parametrize(
    ("fields", "text", "name"),
    [
        ({"type": "function_call", "name": "shell", "arguments": '{"cmd":"ls"}'}, '{"cmd":"ls"}', "shell"),
        ({"type": "custom_tool_call", "name": "apply_patch", "input": "*** Begin"}, "*** Begin", "apply_patch"),
        ({"type": "local_shell_call", "action": {"command": ["ls"]}}, '{"command":["ls"]}', "local_shell"),
        ({"type": "web_search_call", "action": {"query": "clay"}}, '{"query":"clay"}', "web_search"),
        ({"type": "tool_search_call", "arguments": {"query": "k"}}, '{"query":"k"}', "tool_search"),
    ],
)
def test_tool_calls(tmp_path: Path, fields: Json, text: str, name: str) -> None:
    (message,) = messages(read(tmp_path, meta(), line("response_item", {"call_id": "k1", **fields})))
    (block,) = message.blocks
    assert (block.type, block.text, block.name, block.call_id) == ("tool_call", text, name, "k1")
    assert (message.role, message.origin, message.text) == ("assistant", "model", "")


@pytest.mark.parametrize(
    ("output", "text", "error"),
    [
        ("a.txt", "a.txt", None),
        ('{"output":"gone","metadata":{"exit_code":2}}', "gone", True),
        ({"content": "fine", "success": True}, "fine", False),
        ({"type": "input_text", "text": "one"}, "one", None),
        ([{"type": "input_text", "text": "one"}, {"type": "input_text", "text": "two"}], "one\ntwo", None),
    ],
)
def test_outputs_are_text_dict_or_list(tmp_path: Path, output: object, text: str, error: bool | None) -> None:
    (message,) = messages(read(tmp_path, meta(), item("function_call_output", call_id="k1", output=output)))
    (block,) = message.blocks
    assert (block.type, block.text, block.call_id, block.is_error) == ("tool_result", text, "k1", error)
    assert (message.role, message.origin) == ("tool", "tool")


def test_image_bytes_are_never_kept(tmp_path: Path) -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,QUJDQUJD"}
    prompt = item("message", role="user", content=[{"type": "input_text", "text": "see"}, image])
    output = item("function_call_output", call_id="k", output=[image])
    drawn = item("image_generation_call", revised_prompt="a kiln", result="QUJDQUJD")
    found = read(tmp_path, meta(), prompt, output, drawn)
    assert "QUJDQUJD" not in repr(found)
    assert [b.media for m in messages(found) for b in m.blocks if b.type == "image"] == ["image/png"] * 2


def test_reasoning_summary_is_a_thought_and_the_encrypted_kind_is_counted(tmp_path: Path) -> None:
    seen = item("reasoning", summary=[{"type": "summary_text", "text": "Check the valve"}], encrypted_content="x")
    found = read(tmp_path, meta(), seen, item("reasoning", summary=[], encrypted_content="x"))
    assert [(b.type, b.text) for m in messages(found) for b in m.blocks] == [("thinking", "Check the valve")]
    assert found[-1] == Skipped("reasoning, encrypted", 3)


def test_compaction_is_synthetic_and_its_history_no_news(tmp_path: Path) -> None:
    history = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Fire"}]}]
    done = line("compacted", {"message": "They fired the kiln.", "replacement_history": history})
    empty = line("compacted", {"message": "", "replacement_history": history})
    found = read(tmp_path, meta(), says("user", "Fire"), done, empty)
    assert whose(found) == [("user", "human", "Fire"), ("system", "synthetic", "They fired the kiln.")]


# Twins.


@pytest.mark.parametrize("event_first", [True, False])
def test_event_and_item_of_the_same_words_are_said_once(tmp_path: Path, event_first: bool) -> None:
    asked = [event("user_message", message="Fire"), event("task_started"), says("user", "Fire")]
    told = [event("agent_message", message="Lit."), event("token_count"), says("assistant", "Lit.")]
    lines = asked + told if event_first else asked[::-1] + told[::-1]
    assert whose(read(tmp_path, meta(), *lines)) == [("user", "human", "Fire"), ("assistant", "model", "Lit.")]


def test_words_really_repeated_stay_repeated(tmp_path: Path) -> None:
    """Three times "go on": twice in a row with twins, once more after an answer."""
    twins = [says("user", "go on"), event("user_message", message="go on")]
    found = read(tmp_path, meta(), *twins, *twins, says("assistant", "Ok"), says("assistant", "Ok"), *twins)
    assert [text for _, _, text in whose(found)] == ["go on", "go on", "Ok", "Ok", "go on"]


def test_repeated_items_without_events_stay(tmp_path: Path) -> None:
    found = read(tmp_path, meta(), says("user", "yes"), says("assistant", "Ok"), says("user", "yes"))
    assert len(messages(found)) == 3


def test_events_alone_are_read_too(tmp_path: Path) -> None:
    found = read(tmp_path, meta(), event("user_message", message="Fire"), event("agent_message", message="Lit."))
    assert whose(found) == [("user", "human", "Fire"), ("assistant", "model", "Lit.")]


def test_third_telling_is_a_twin_too(tmp_path: Path) -> None:
    content = [{"type": "Text", "text": "Lit."}]
    third = event("item_completed", item={"type": "AgentMessage", "content": content})
    found = read(tmp_path, meta(), event("agent_message", message="Lit."), third, says("assistant", "Lit."))
    assert whose(found) == [("assistant", "model", "Lit.")]


def test_the_twin_that_knows_the_images_is_kept(tmp_path: Path) -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,QUJD"}
    rich = item("message", role="user", content=[{"type": "input_text", "text": "see"}, image])
    (message,) = messages(read(tmp_path, meta(), event("user_message", message="see"), rich))
    assert [b.type for b in message.blocks] == ["text", "image"]


def test_thoughts_come_in_parts_as_events_and_whole_as_item(tmp_path: Path) -> None:
    parts = [{"type": "summary_text", "text": "One"}, {"type": "summary_text", "text": "Two"}]
    events = event("agent_reasoning", text="One"), event("agent_reasoning", text="Two")
    found = read(tmp_path, meta(), *events, item("reasoning", summary=parts))
    assert [b.text for m in messages(found) for b in m.blocks] == ["One", "Two"]


# Whose words.


@pytest.mark.parametrize(
    "noise",
    [
        "<environment_context>\n<cwd>/home/ada</cwd>\n</environment_context>",
        "<user_instructions>\n# AGENTS.md\nUse tabs.\n</user_instructions>",
        "# AGENTS.md instructions for /home/ada\n\n<INSTRUCTIONS>\nUse tabs.\n</INSTRUCTIONS>",
        "# AGENTS.md instructions for /home/ada\n\nUse tabs.",
        "<user_shell_command>\n<command>ls</command>\n<result>a</result>\n</user_shell_command>",
        "<turn_aborted>\nThe user interrupted.\n</turn_aborted>",
    ],
)
def test_injected_text_is_nobodys_words(tmp_path: Path, noise: str) -> None:
    assert whose(read(tmp_path, meta(), says("user", noise))) == [("system", "synthetic", "")]


def test_what_is_typed_beside_injected_text_stays(tmp_path: Path) -> None:
    noise = "<environment_context><cwd>/x</cwd></environment_context>"
    assert whose(read(tmp_path, meta(), says("user", noise, "Fire"))) == [("user", "human", "Fire")]


def test_request_in_the_editors_context(tmp_path: Path) -> None:
    text = "# Context from my IDE setup:\n\n## Active file: a.py\n\n## My request for Codex:\nFix the valve\n"
    assert whose(read(tmp_path, meta(), says("user", text))) == [("user", "human", "Fix the valve")]


def test_developer_and_system_messages_are_synthetic(tmp_path: Path) -> None:
    found = read(tmp_path, meta(), says("developer", "Be brief."), says("system", "You are Codex."))
    assert [(role, origin) for role, origin, _ in whose(found)] == [("system", "synthetic")] * 2


def test_sub_agents_answer_in_a_notification(tmp_path: Path) -> None:
    body = '{"agent_id":"x7","status":{"completed":"The valve leaks."}}'
    (message,) = messages(
        read(tmp_path, meta(), says("user", f"<subagent_notification>{body}</subagent_notification>"))
    )
    assert (message.role, message.origin, message.text, message.speaker) == ("agent", "model", "The valve leaks.", "x7")


def test_agents_file_is_a_session_with_a_parent(tmp_path: Path) -> None:
    source = {"subagent": {"thread_spawn": {"parent_thread_id": "c1", "depth": 1}}}
    found = read(tmp_path, meta("c2", source=source), says("user", "Find the valve"), says("assistant", "Found."))
    assert found[0] == Session("c2", workspace="/home/ada/kiln", kind="subagent", parent_id="c1")
    assert whose(found) == [("agent", "model", "Find the valve"), ("assistant", "model", "Found.")]


# Forks, titles, folders.


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


def test_rolled_back_turns_are_inactive(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        meta(),
        says("user", "One"),
        says("assistant", "1"),
        says("user", "Two"),
        says("assistant", "2"),
        event("thread_rolled_back", num_turns=1),
        says("user", "Three"),
    )
    assert [(r.native_id, r.reason) for r in found if isinstance(r, Inactive)] == [
        ("4", "rolled back"),
        ("5", "rolled back"),
    ]


def test_title_and_folder(tmp_path: Path) -> None:
    bare = line("session_meta", {"id": "c1"})
    context = line("turn_context", {"cwd": "/home/ada/kiln"})
    found = read(tmp_path, bare, context, says("user", "hi"), event("thread_name_updated", thread_name="Kiln"))
    sessions = [r for r in found if isinstance(r, Session)]
    assert sessions[0].workspace == "/home/ada/kiln"
    assert sessions[-1].title == "Kiln"


# What can't be used.


def test_unknown_and_broken_lines_are_told(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        meta(),
        "42\n",
        line("hologram", {}),
        item("ghost_snapshot"),
        item("levitation"),
        item("message", role="user", content=None),
        item("message", role="wizard", content=[{"type": "input_text", "text": "hi"}]),
        '{"timestamp":"2026',
    )
    assert [r.line for r in found if isinstance(r, Rejected)] == [2, 6, 7, 8]
    assert [r.kind for r in found if isinstance(r, Skipped)] == [
        "unknown: hologram",
        "response_item/ghost_snapshot",
        "unknown: response_item/levitation",
    ]


@pytest.mark.parametrize(
    "first",
    [
        meta(),
        {"id": "old1", "timestamp": TS, "instructions": None},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Fire"}]},
        meta(base_instructions="x" * 100_000),
    ],
)
def test_sniffs_its_own(tmp_path: Path, first: Json) -> None:
    read(tmp_path, first)
    assert READER.sniff(read_head(tmp_path / "rollout-x.jsonl"))


@pytest.mark.parametrize(
    "first",
    [
        {"type": "session", "version": 3, "id": "x", "timestamp": TS, "cwd": "/"},
        {"type": "message", "id": "a", "parentId": None, "message": {"role": "user", "content": "hi"}},
        {"role": "user", "content": "hi"},
    ],
)
def test_leaves_others_alone(tmp_path: Path, first: Json) -> None:
    read(tmp_path, first)
    assert not READER.sniff(read_head(tmp_path / "rollout-x.jsonl"))


def test_home_is_taken_from_codex_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CODEX_HOME", raising=False)
    assert {place.root for place in READER.locations(tmp_path)} == {
        tmp_path / ".codex" / "sessions",
        tmp_path / ".codex" / "archived_sessions",
    }
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "elsewhere"))
    assert {place.root.parent for place in READER.locations(tmp_path)} == {tmp_path / "elsewhere"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["hi", "user", "input_text", "message", "data:x"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "text", "content", "subagent"]), inner)
    ),
    max_leaves=6,
)
FIELDS = ["type", "role", "content", "id", "call_id", "output", "arguments", "message", "summary", "item", "cwd"]
FIELDS += ["source", "num_turns", "thread_name", "images", "forked_from_id", "text", "author", "result", "name"]
KINDS = st.sampled_from(["response_item", "event_msg", "session_meta", "turn_context", "compacted"])
TYPES = st.sampled_from(
    ["message", "reasoning", "function_call", "function_call_output", "user_message", "item_completed"]
)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(KINDS, TYPES, st.dictionaries(st.sampled_from(FIELDS), JSON)), max_size=6))
def test_whatever_the_fields_hold_every_line_is_accounted_for(
    tmp_path: Path, lines: list[tuple[str, str, Json]]
) -> None:
    found = read(tmp_path, *(line(kind, {"type": inner, **fields}) for kind, inner, fields in lines))
    told = {r.line for r in found if isinstance(r, Message | Rejected | Skipped)}
    heads = sum(kind == "session_meta" for kind, _, _ in lines)
    assert len(told) >= len(lines) - min(heads, 1)
