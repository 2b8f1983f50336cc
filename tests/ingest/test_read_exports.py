"""Chat exports: what each fixture holds was counted by reading it; each trap has its own small file."""

import gzip
import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from slowwave.tasks.ingest.formats.agents import cursor
from slowwave.tasks.ingest.formats.chats import chatgpt, claude_ai, gemini, openai_chat, sharegpt
from slowwave.tasks.ingest.parsing import documents as documents_module
from slowwave.tasks.ingest.parsing.lines import read_head
from slowwave.tasks.ingest.parsing.records import Inactive, Limits, Message, Reader, Record, Rejected, Session, Skipped

READERS = (chatgpt, claude_ai, gemini, sharegpt, openai_chat, cursor)


def read(reader: Reader, path: Path) -> list[Record]:
    return list(reader.read(path, Limits()))


def messages(records: list[Record]) -> list[Message]:
    return [record for record in records if isinstance(record, Message)]


def rejected(records: list[Record]) -> list[Rejected]:
    return [record for record in records if isinstance(record, Rejected)]


def saved(path: Path, value: object) -> Path:
    path.write_text(json.dumps(value))
    return path


# Fixture, reader, messages, blocks by type, skipped by kind, inactive; nothing is rejected in any of them.
FIXTURES = [
    ("exports/chatgpt_2026_sample.json", chatgpt, 6, {"text": 4, "image": 1, "tool_result": 1, "other": 1}, {}, 1),
    (
        "exports/claude_2026_sample.json",
        claude_ai,
        2,
        {"text": 2, "thinking": 1, "tool_call": 1, "tool_result": 1, "other": 2},
        {},
        0,
    ),
    ("exports/gemini_2026_sample.json", gemini, 5, {"text": 5, "thinking": 1, "image": 1, "other": 2}, {}, 0),
    ("gemini/small.json", gemini, 2, {"text": 2, "thinking": 1}, {}, 0),
    ("gemini/large.json", gemini, 6, {"text": 4, "thinking": 1, "tool_call": 2, "tool_result": 2}, {"info": 1}, 0),
    ("gemini/jsonl_v040.jsonl", gemini, 3, {"text": 2, "tool_call": 1, "tool_result": 1}, {"$set": 1}, 0),
    ("cursor/small.jsonl", cursor, 4, {"text": 4, "tool_call": 1}, {"turn_ended": 1}, 0),
    ("cursor/large.jsonl", cursor, 10, {"text": 7, "thinking": 1, "tool_call": 2, "tool_result": 2}, {}, 0),
]


@pytest.mark.parametrize(("name", "module", "count", "blocks", "skipped", "inactive"), FIXTURES)
def test_fixture_holds_what_was_counted_in_it(
    bench_data: Path,
    name: str,
    module: object,
    count: int,
    blocks: dict[str, int],
    skipped: dict[str, int],
    inactive: int,
) -> None:
    path = bench_data / "fixtures" / name
    assert [reader for reader in READERS if reader.READER.sniff(read_head(path))] == [module]
    records = read(module.READER, path)  # type: ignore[attr-defined]
    assert len(messages(records)) == count
    assert Counter(block.type for message in messages(records) for block in message.blocks) == blocks
    assert Counter(record.kind for record in records if isinstance(record, Skipped)) == skipped
    assert sum(isinstance(record, Inactive) for record in records) == inactive
    assert rejected(records) == []


# --- ChatGPT ---------------------------------------------------------------------------------------------------------


def node(
    key: str, parent: str | None, role: str = "user", content: object = "hi", **message: object
) -> dict[str, object]:
    body = {"content_type": "text", "parts": [content]} if isinstance(content, str) else content
    said = {"id": f"m-{key}", "author": {"role": role}, "content": body, **message}
    return {key: {"id": key, "parent": parent, "children": [], "message": said}}


def conversation(*nodes: dict[str, object], current: str | None, **fields: object) -> dict[str, object]:
    mapping = {key: value for part in nodes for key, value in part.items()}
    return {"id": "c", "title": "T", "current_node": current, "mapping": mapping, **fields}


def test_chatgpt_marks_an_edited_prompt_and_all_below_it_inactive(tmp_path: Path) -> None:
    path = saved(
        tmp_path / "conversations.json",
        [
            conversation(
                node("a", None, content="first"),
                node("a-old", None, content="first try"),
                node("b-old", "a-old", "assistant"),
                node("b", "a", "assistant"),
                current="b",
            )
        ],
    )
    records = read(chatgpt.READER, path)
    assert [m.native_id for m in messages(records)] == ["m-a", "m-b", "m-a-old", "m-b-old"]
    assert [r.native_id for r in records if isinstance(r, Inactive)] == ["m-a-old", "m-b-old"]


def test_chatgpt_survives_a_cycle_and_a_dangling_parent(tmp_path: Path) -> None:
    talk = conversation(node("a", "c"), node("b", "a"), node("c", "b"), node("d", "gone"), current="c")
    records = read(chatgpt.READER, saved(tmp_path / "c.json", [talk]))
    assert sorted(m.native_id for m in messages(records)) == ["m-a", "m-b", "m-c", "m-d"]
    assert [r.native_id for r in records if isinstance(r, Inactive)] == ["m-d"]


def test_chatgpt_without_a_current_node_ends_at_the_newest_message(tmp_path: Path) -> None:
    nodes = [node("a", None, create_time=1.0), node("b", "a", create_time=3.5), node("old", "a", create_time=2.0)]
    records = read(chatgpt.READER, saved(tmp_path / "c.json", [conversation(*nodes, current="unknown")]))
    assert [r.native_id for r in records if isinstance(r, Inactive)] == ["m-old"]
    assert messages(records)[1].ts == datetime(1970, 1, 1, 0, 0, 3, 500_000, tzinfo=UTC)


def test_chatgpt_hidden_messages_are_nobodys_words_and_tools_are_tools(tmp_path: Path) -> None:
    nodes = [
        node("h", None, "user", metadata={"is_visually_hidden_from_conversation": True}),
        node("p", "h", "user", {"content_type": "user_editable_context", "user_profile": "likes tea"}),
        node("c", "p", "assistant", {"content_type": "code", "text": "print(1)"}, recipient="python"),
        node("t", "c", "tool", {"content_type": "execution_output", "text": "1"}),
        node("th", "t", "assistant", {"content_type": "thoughts", "thoughts": [{"summary": "s", "content": "deep"}]}),
        node("e", "th", "assistant", ""),
        node("x", "e", "assistant", "see \ue200cite\ue202turn0search1\ue201 this"),
    ]
    records = read(chatgpt.READER, saved(tmp_path / "c.json", [conversation(*nodes, current="x")]))
    got = [(m.role, m.origin, m.blocks[0].type, m.text) for m in messages(records)]
    assert got == [
        ("user", "synthetic", "text", "hi"),
        ("user", "synthetic", "other", ""),
        ("assistant", "model", "tool_call", ""),
        ("tool", "tool", "tool_result", ""),
        ("assistant", "model", "thinking", ""),
        ("assistant", "model", "text", "see  this"),
    ]
    assert [r.kind for r in records if isinstance(r, Skipped)] == ["empty message"]


def test_chatgpt_rejects_a_bad_conversation_by_its_number_and_reads_the_rest(tmp_path: Path) -> None:
    good = conversation(node("a", None), current="a")
    path = saved(tmp_path / "c.json", [good, 42, {"id": "x"}, {**good, "id": "d"}, {"mapping": good["mapping"]}])
    records = read(chatgpt.READER, path)
    assert [(r.line, r.reason) for r in rejected(records)] == [
        (2, "expected a conversation object, got int"),
        (3, "conversation without mapping"),
        (5, "conversation without id"),
    ]
    assert [m.session for m in messages(records)] == ["c", "d"]


# --- documents -------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["at once", "streamed"])
def whole(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "streamed":
        monkeypatch.setattr(documents_module, "WHOLE", 10)
    return str(request.param)


def three(tmp_path: Path, pack: Callable[[bytes], bytes] = lambda data: data, name: str = "c.json") -> Path:
    talks = [conversation(node("a", None, content=f"say {i}"), current="a") | {"id": f"c{i}"} for i in range(3)]
    path = tmp_path / name
    path.write_bytes(pack(json.dumps(talks).encode()))
    return path


def test_an_array_that_breaks_off_yields_what_it_held_and_says_where(tmp_path: Path, whole: str) -> None:
    records = read(chatgpt.READER, three(tmp_path, lambda data: data[:-40]))
    assert [m.text for m in messages(records)] == ["say 0", "say 1"]
    assert [r.line for r in rejected(records)] == [3]
    assert rejected(records)[0].reason.startswith("broken JSON in conversation 3, the rest can't be read")


def test_invalid_utf8_rejects_its_conversation_alone(tmp_path: Path, whole: str) -> None:
    records = read(chatgpt.READER, three(tmp_path, lambda data: data.replace(b"say 1", b"say \xff\xfe")))
    assert [m.text for m in messages(records)] == ["say 0", "say 2"]
    assert [(r.line, r.reason) for r in rejected(records)] == [(2, "invalid UTF-8 in conversation 2")]


def test_compressed_marked_and_torn_files(tmp_path: Path, whole: str) -> None:
    packed = three(tmp_path, gzip.compress, "c.json.gz")
    assert chatgpt.READER.sniff(read_head(packed))
    assert len(messages(read(chatgpt.READER, packed))) == 3
    marked = three(tmp_path, lambda data: b"\xef\xbb\xbf" + data)
    assert len(messages(read(chatgpt.READER, marked))) == 3
    torn = three(tmp_path, lambda data: gzip.compress(data)[:-20], "t.json.gz")
    assert len(rejected(read(chatgpt.READER, torn))) == 1


# --- Claude.ai -------------------------------------------------------------------------------------------------------


def test_claude_ai_text_serves_only_without_content_and_attachments_are_no_speech(tmp_path: Path) -> None:
    said = [
        {"uuid": "1", "sender": "human", "text": "old export", "created_at": "2024-01-02T03:04:05Z"},
        {"uuid": "2", "sender": "assistant", "text": "derived", "content": [{"type": "text", "text": "real"}]},
        {
            "uuid": "3",
            "sender": "human",
            "text": "",
            "attachments": [{"file_name": "n.md", "extracted_content": "doc"}],
        },
        {"uuid": "4", "sender": "human", "text": "", "content": []},
        {"uuid": "5", "sender": "ghost", "text": "boo"},
    ]
    talk = {"uuid": "c", "name": "N", "chat_messages": said}
    records = read(claude_ai.READER, saved(tmp_path / "conversations.json", [talk]))
    assert [(m.text, m.blocks[0].type) for m in messages(records)] == [
        ("old export", "text"),
        ("real", "text"),
        ("", "other"),
    ]
    assert messages(records)[0].ts == datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert [r.reason for r in rejected(records)] == ["message 4 has unknown sender 'ghost'"]
    assert records[0] == Session("c", title="N")


def test_claude_ai_marks_what_does_not_lead_to_the_current_leaf(tmp_path: Path) -> None:
    said = [
        {"uuid": "1", "sender": "human", "text": "q", "parent_message_uuid": "root"},
        {"uuid": "2", "sender": "assistant", "text": "bad", "parent_message_uuid": "1"},
        {"uuid": "3", "sender": "assistant", "text": "good", "parent_message_uuid": "1"},
    ]
    talk = {"uuid": "c", "chat_messages": said, "current_leaf_message_uuid": "3"}
    records = read(claude_ai.READER, saved(tmp_path / "c.json", [talk]))
    assert [r.native_id for r in records if isinstance(r, Inactive)] == ["2"]


# --- Gemini ----------------------------------------------------------------------------------------------------------


def test_ai_studio_prompt_alone_in_its_file_is_a_session_by_the_files_name(tmp_path: Path) -> None:
    chunks = [
        {"role": "user", "text": "hello", "driveImage": {"id": "i1"}},
        {"role": "model", "text": "hmm", "isThought": True},
        {"role": "model", "parts": [{"executableCode": {"code": "1+1"}}, {"codeExecutionResult": {"output": "2"}}]},
        {"role": "alien", "text": "x"},
    ]
    path = saved(tmp_path / "My prompt.json", {"chunkedPrompt": {"chunks": chunks}})
    assert gemini.READER.sniff(read_head(path))
    records = read(gemini.READER, path)
    assert [[b.type for b in m.blocks] for m in messages(records)] == [
        ["text", "image"],
        ["thinking"],
        ["tool_call", "tool_result"],
    ]
    assert {m.session for m in messages(records)} == {"My prompt"}
    assert [r.reason for r in rejected(records)] == ["message 3 has unknown role 'alien'"]


def test_gemini_cli_rewind_takes_back_a_message_and_all_after_it(tmp_path: Path) -> None:
    lines = [
        {"sessionId": "s", "projectHash": "p", "kind": "subagent"},
        *({"id": i, "type": "user", "content": i, "timestamp": "2026-01-01T00:00:00Z"} for i in "abc"),
        {"$rewindTo": "b"},
        {"id": "d", "type": "gemini", "content": "again"},
        {"$set": {"summary": "A talk", "messages": [{"id": "d"}, {"id": "e", "type": "user", "content": "new"}]}},
        {"id": "w", "type": "warning", "content": "quota"},
        {"text": "no type"},
    ]
    path = tmp_path / "session-x.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)) + '\n{"id": "torn')
    records = read(gemini.READER, path)
    assert [m.native_id for m in messages(records)] == ["a", "b", "c", "d", "e"]
    assert [r.native_id for r in records if isinstance(r, Inactive)] == ["b", "c"]
    assert [r.kind for r in records if isinstance(r, Skipped)] == ["$set", "warning"]
    assert [(r.line, r.reason) for r in rejected(records)] == [
        (9, "message 9 has no type"),
        (10, "torn line: the JSON object does not end"),
    ]
    assert records[0] == Session("s", workspace="p", kind="subagent")


# --- ShareGPT --------------------------------------------------------------------------------------------------------


def test_sharegpt_parts_of_a_split_chat_are_one_session(tmp_path: Path) -> None:
    turns = [{"from": "human", "value": "q"}, {"from": "bing", "value": "a"}, {"from": "system", "value": "s"}]
    talks = [{"id": "x_0", "conversations": turns}, {"id": "x_1", "conversations": turns}, {"conversations": turns}]
    records = read(sharegpt.READER, saved(tmp_path / "sg.json", talks))
    split = [m for m in messages(records) if m.session == "x"]
    assert [m.native_id for m in split] == ["0:0", "0:1", "0:2", "1:0", "1:1", "1:2"]
    assert [m.origin for m in split[:3]] == ["human", "model", "synthetic"]
    assert len({m.session for m in messages(records)}) == 2


def test_sharegpt_html_becomes_text_and_a_mention_of_a_tag_stays(tmp_path: Path) -> None:
    html = '<div class="markdown"><p>Use <code>a &lt; b</code></p><pre>x = 1<button>Copy code</button></pre></div>'
    talk = {
        "id": "h",
        "conversations": [
            {"from": "human", "value": "what does <div> do in vector<int>?"},
            {"from": "gpt", "value": html},
            {"from": "martian", "value": "?"},
            {"from": "gpt", "value": None},
            {"from": "gpt", "value": " "},
        ],
    }
    path = tmp_path / "sg.jsonl"
    path.write_text(json.dumps(talk) + "\n[1]\n")
    assert sharegpt.READER.sniff(read_head(path))
    records = read(sharegpt.READER, path)
    assert [m.text for m in messages(records)] == ["what does <div> do in vector<int>?", "Use a < b\n\nx = 1"]
    assert messages(records)[1].blocks[0].text == html
    assert [(r.line, r.reason) for r in rejected(records)] == [
        (1, "turn 2: unknown speaker 'martian'"),
        (1, "turn 3: value is NoneType, no text"),
        (2, "expected a JSON object, got list"),
    ]


# --- OpenAI lines ----------------------------------------------------------------------------------------------------


def test_openai_lines_with_tools_images_and_named_speakers(tmp_path: Path) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    talk = [
        {"role": "developer", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "look"}, image], "name": "Ann"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "1"},
        {"role": "assistant", "content": "done", "reasoning_content": "thought"},
        {"role": "elf", "content": "x"},
        {"role": "user", "content": 7},
    ]
    path = tmp_path / "chat.jsonl"
    path.write_text(json.dumps({"messages": talk}) + "\n" + json.dumps({"messages": talk[:2], "id": "n"}) + "\n{}\n")
    assert openai_chat.READER.sniff(read_head(path))
    records = read(openai_chat.READER, path)
    first = messages(records)[:5]
    assert [[b.type for b in m.blocks] for m in first] == [
        ["text"],
        ["text", "image"],
        ["tool_call"],
        ["tool_result"],
        ["thinking", "text"],
    ]
    assert (first[1].speaker, first[1].blocks[1].media) == ("Ann", "image/png")
    assert (first[2].blocks[0].name, first[2].blocks[0].text, first[3].blocks[0].call_id) == ("f", '{"a":1}', "c1")
    assert messages(records)[-1].session == "n"
    assert [r.reason for r in rejected(records)] == [
        "message 5: unknown role 'elf'",
        "message 6: content is neither text nor a list",
        "line without a list of messages",
    ]


def test_openai_session_is_known_by_its_content_wherever_its_line_stands(tmp_path: Path) -> None:
    def sessions(*talks: str) -> list[str]:
        path = tmp_path / "c.jsonl"
        path.write_text("".join(json.dumps({"messages": [{"role": "user", "content": t}]}) + "\n" for t in talks))
        return [m.session for m in messages(read(openai_chat.READER, path))]

    assert sessions("a", "b")[1] == sessions("b")[0]


# --- Cursor ----------------------------------------------------------------------------------------------------------


def test_cursor_keeps_what_the_person_typed_out_of_what_the_editor_added(tmp_path: Path) -> None:
    folder = tmp_path / ".cursor/projects/my-app/agent-transcripts"
    folder.mkdir(parents=True)
    path = folder / "u1.jsonl"
    typed = "<attached_files>noise</attached_files>\n<user_query>\nfix it\n</user_query>"
    path.write_text(
        json.dumps({"role": "user", "message": {"content": [{"type": "text", "text": typed}]}})
        + '\n{"role": "pope", "message": {"content": "x"}}\nnull\n'
    )
    assert cursor.READER.sniff(read_head(path))
    records = read(cursor.READER, path)
    assert records[0] == Session("u1", workspace="my-app")
    assert [m.text for m in messages(records)] == ["fix it"]
    assert [r.line for r in rejected(records)] == [2, 3]
    assert [place.root for place in cursor.READER.locations(tmp_path)] == [tmp_path / ".cursor/projects"]


FOREIGN = [
    '{"type":"user","uuid":"u","sessionId":"s","message":{"role":"user","content":"the \\"mapping\\""}}',
    '{"timestamp":"2026-01-01T00:00:00Z","type":"session_meta","payload":{"id":"x"}}',
    '{"type":"session","version":3,"id":"x","timestamp":"2026-01-01T00:00:00Z","cwd":"/"}',
    '{"type":"user","uuid":"u","sessionId":"s","toolUseResult":{"mapping":1,"children":[],"chat_messages":[],"uuid":1}}',
]


@pytest.mark.parametrize("line", FOREIGN)
def test_no_export_reader_claims_another_tools_file(line: str, tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(f"{line}\n{line}\n")
    assert [module for module in READERS if module.READER.sniff(read_head(path))] == []
