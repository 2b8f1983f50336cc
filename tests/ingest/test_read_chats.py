"""`transcripts/` has small files of each format, with the traps that real ones have, and beside each its rows."""

import gzip
import json
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slowwave.tasks.ingest.formats.registry import detect_reader
from slowwave.tasks.ingest.parsing.records import Inactive, Message, Rejected, Session
from tests.transcript_rows import put, read, read_messages, read_rows, select_messages

TRANSCRIPTS = Path(__file__).parent / "transcripts"
ROWS = sorted(TRANSCRIPTS.rglob("*.rows"))


@pytest.mark.parametrize(
    "rows", ROWS, ids=[str(path.relative_to(TRANSCRIPTS)) for path in ROWS]
)
def test_a_file_gives_its_rows(rows: Path) -> None:
    transcript = rows.with_suffix("")
    assert detect_reader(transcript).name == rows.relative_to(TRANSCRIPTS).parts[0]
    assert read_rows(transcript) == rows.read_text(encoding="utf-8")


# Each fixture's messages by who speaks, blocks by type and other records, counted by reading it. Nothing is rejected.
FIXTURES = """
claude/large.jsonl: 4 user/human, 5 assistant/model, 1 tool/tool, 9 text, 1 thinking, 1 tool_call, 1 tool_result
claude/small.jsonl: 8 user/human, 8 assistant/model, 3 tool/tool, 1 system/synthetic, 1 assistant/synthetic, \
2 agent/model, 17 text, 6 thinking, 3 tool_call, 3 tool_result, 2 image, 1 other, 65 Skipped, 5 Inactive
codex/large.jsonl: 6 user/human, 8 assistant/model, 1 tool/tool, 1 system/synthetic, 14 text, 1 tool_call, \
1 tool_result, 3 Skipped
codex/small.jsonl: 3 user/human, 12 assistant/model, 6 tool/tool, 2 agent/model, 6 system/synthetic, 20 text, 4 image, \
1 thinking, 8 tool_call, 6 tool_result, 1 other, 88 Skipped
openclaw/small.jsonl: 1 user/human, 1 assistant/model, 1 tool/tool, 2 text, 1 tool_call, 1 tool_result, 1 Skipped
openclaw/large.jsonl: 1 user/human, 3 assistant/model, 2 tool/tool, 1 system/synthetic, 5 text, 2 tool_call, \
2 tool_result, 3 Skipped
pi/small.jsonl: 2 user/human, 2 assistant/model, 2 system/synthetic, 6 text, 2 Skipped
pi/large-session.jsonl: 88 user/human, 439 assistant/model, 373 tool/tool, 332 text, 391 tool_call, 373 tool_result, \
1 thinking, 118 Skipped
exports/chatgpt_2026_sample.json: 1 user/human, 4 assistant/model, 1 system/synthetic, 4 text, 1 image, \
1 tool_result, 1 other, 1 Inactive
exports/claude_2026_sample.json: 1 user/human, 1 assistant/model, 2 text, 1 thinking, 1 tool_call, 1 tool_result, \
2 other
exports/gemini_2026_sample.json: 2 user/human, 2 assistant/model, 1 system/synthetic, 5 text, 1 thinking, 1 image, \
2 other
gemini/small.json: 1 user/human, 1 assistant/model, 2 text, 1 thinking
gemini/large.json: 2 user/human, 4 assistant/model, 4 text, 1 thinking, 2 tool_call, 2 tool_result, 1 Skipped
gemini/jsonl_v040.jsonl: 1 user/human, 2 assistant/model, 2 text, 1 tool_call, 1 tool_result, 1 Skipped
cursor/small.jsonl: 2 user/human, 2 assistant/model, 4 text, 1 tool_call, 1 Skipped
cursor/large.jsonl: 3 user/human, 5 assistant/model, 2 tool/tool, 7 text, 1 thinking, 2 tool_call, 2 tool_result
""".strip().split("\n")


@pytest.mark.parametrize("row", FIXTURES)
def test_a_fixture_holds_what_was_counted_in_it(bench_data: Path, row: str) -> None:
    name, _, counts = row.partition(": ")
    records = read(bench_data / "fixtures" / name)
    messages = select_messages(records)
    counted = Counter(f"{message.role}/{message.origin}" for message in messages)
    counted.update(block.type for message in messages for block in message.blocks)
    counted.update(
        type(record).__name__
        for record in records
        if not isinstance(record, (Message, Session))
    )
    assert counted == {
        kind: int(number)
        for number, kind in (part.split() for part in counts.split(", "))
    }


FOREIGN = [
    '{"type":"user","uuid":"u","sessionId":"s","message":{"role":"user","content":"the \\"mapping\\""}}',
    '{"timestamp":"2026-01-01T00:00:00Z","type":"session_meta","payload":{"id":"x"}}',
    '{"type":"session","version":3,"id":"x","timestamp":"2026-01-01T00:00:00Z","cwd":"/"}',
    '{"type":"user","uuid":"u","sessionId":"s","toolUseResult":{"mapping":1,"children":[],"chat_messages":[],"uuid":1}}',
]


@pytest.mark.parametrize("line", FOREIGN)
def test_lines_of_an_agent_that_speak_of_a_chats_keys_are_no_chat(
    line: str, tmp_path: Path
) -> None:
    assert detect_reader(put(tmp_path / "s.jsonl", f"{line}\n{line}\n")).name in (
        "claude-code",
        "codex",
        "pi",
    )


def test_an_opencode_fork_in_the_database_adds_its_own_messages_alone(
    tmp_path: Path,
) -> None:
    path = make_database(tmp_path / "opencode.db")
    with sqlite3.connect(path) as db:
        # Begun at 99, with a copy of the first message under another id.
        db.execute(
            "INSERT INTO session (id, directory, time_created) VALUES ('ses_2', '/w', 99)"
        )
        for key, at in (("copy", 2), ("own", 100)):
            db.execute(
                "INSERT INTO message VALUES (?, 'ses_2', ?, ?)",
                (key, at, '{"role": "user"}'),
            )
            part = json.dumps({"type": "text", "text": key})
            db.execute(
                "INSERT INTO part VALUES (?, ?, 'ses_2', ?)", (f"p-{key}", key, part)
            )
    db.close()
    records = [
        record for record in read(path) if getattr(record, "session", "") == "ses_2"
    ]
    assert [
        (type(record).__name__, getattr(record, "native_id", "")) for record in records
    ] == [
        ("Message", "own"),
        ("Inactive", "copy"),
    ]


def test_a_chat_without_an_id_is_known_by_its_content_wherever_it_stands(
    tmp_path: Path,
) -> None:
    def list_sessions(*talks: str) -> list[str]:
        lines = tuple(
            {"messages": [{"role": "user", "content": talk}]} for talk in talks
        )
        return [
            message.session
            for message in read_messages(put(tmp_path / "c.jsonl", lines))
        ]

    assert list_sessions("a", "b")[1] == list_sessions("b")[0]


# Arrays of conversations that are spoilt.

NODE = {
    "message": {
        "author": {"role": "user"},
        "content": {"content_type": "text", "parts": ["say"]},
    },
    "children": [],
}
THREE = json.dumps(
    [{"id": f"c{i}", "mapping": {str(i): NODE}} for i in range(3)]
).encode()
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


@pytest.mark.parametrize(
    ("name", "spoil", "rows"), SPOILT, ids=[name for name, _, _ in SPOILT]
)
def test_of_a_spoilt_array_the_rest_is_read(
    name: str, spoil: Callable[[bytes], bytes], rows: list[str], tmp_path: Path
) -> None:
    found = read_rows(put(tmp_path / name, spoil(THREE))).splitlines()
    assert [row[: len(start)] for row, start in zip(found, rows, strict=True)] == rows


def test_a_packed_array_that_is_cut_is_rejected_once(tmp_path: Path) -> None:
    assert (
        read_rows(put(tmp_path / "t.json.gz", gzip.compress(THREE)[:-20])).count(
            "rejected"
        )
        == 1
    )


Fields = dict[str, Any]


EXPORT = json.loads(
    (Path(__file__).parent / "transcripts/opencode/ses_1.json").read_text()
)
INFO: Fields = EXPORT["info"]
MESSAGES: list[tuple[Fields, list[Fields]]] = [
    (one["info"], one["parts"]) for one in EXPORT["messages"]
]


def make_database(path: Path, **session: object) -> Path:
    """A database of opencode's with the messages, and a part that is broken."""
    with sqlite3.connect(path) as db:
        db.execute(
            "CREATE TABLE session (id, parent_id, directory, title, revert, time_created)"
        )
        db.execute("CREATE TABLE message (id, session_id, time_created, data)")
        db.execute("CREATE TABLE part (id, message_id, session_id, data)")
        row = {
            "id": "ses_1",
            "directory": INFO["directory"],
            "title": INFO["title"],
            "time_created": 1,
        } | session
        db.execute(
            f"INSERT INTO session ({','.join(row)}) VALUES ({','.join('?' * len(row))})",
            list(row.values()),
        )
        for at, (info, parts) in enumerate(MESSAGES):
            data = json.dumps(
                {key: value for key, value in info.items() if key != "id"}
            )
            db.execute(
                "INSERT INTO message VALUES (?, 'ses_1', ?, ?)", (info["id"], at, data)
            )
            for n, part in enumerate(parts):
                db.execute(
                    "INSERT INTO part VALUES (?, ?, 'ses_1', ?)",
                    (f"{at}{n}", info["id"], json.dumps(part)),
                )
        db.execute("INSERT INTO part VALUES ('99', 'msg_5', 'ses_1', '{')")
    db.close()
    return path


def test_an_export_and_the_database_of_opencode_tell_the_same(tmp_path: Path) -> None:
    records = read(
        put(tmp_path / "ses_1.json", EXPORT | {"info": INFO | {"parentID": "ses_0"}})
    )
    back = json.dumps({"messageID": "msg_4"})
    stored = read(
        make_database(tmp_path / "opencode.db", parent_id="ses_0", revert=back)
    )
    packed = put(
        tmp_path / "opencode.db.gz",
        gzip.compress((tmp_path / "opencode.db").read_bytes()),
    )
    assert read(packed) == stored
    keep = [
        (one.native_id, one.role, one.blocks, one.ts)
        for one in records
        if isinstance(one, Message)
    ]
    assert [
        (one.native_id, one.role, one.blocks, one.ts)
        for one in stored
        if isinstance(one, Message)
    ] == keep
    assert [one.native_id for one in stored if isinstance(one, Inactive)] == [
        "msg_4",
        "msg_5",
    ]
    assert len([one for one in stored if isinstance(one, Rejected)]) == 1
    session = next(one for one in stored if isinstance(one, Session))
    assert (session.workspace, session.kind, session.parent_id) == (
        "/home/ada/tidepool",
        "subagent",
        "ses_0",
    )


GEMINI_CONTEXT = "<session_context>\nToday is Sunday.\n</session_context>"


def write_gemini_session(path: Path, *messages: tuple[str, str, list[str]]) -> Path:
    """A session of Gemini CLI: each message's time (seconds), type and texts."""
    lines: list[dict[str, Any]] = [{"sessionId": path.stem, "projectHash": "b" * 64}]
    for at, (second, kind, texts) in enumerate(messages):
        lines.append(
            {
                "id": f"{path.stem}-{at}",
                "timestamp": f"2026-11-29T22:28:{second}Z",
                "type": kind,
                "content": [{"text": text} for text in texts],
            }
        )
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def list_prompts(path: Path) -> list[str]:
    messages = select_messages(read(path))
    return [message.text for message in messages if message.origin == "human"]


def test_a_checkpoint_that_another_session_resumes_is_stored_once(
    tmp_path: Path,
) -> None:
    first = write_gemini_session(
        tmp_path / "session-a.jsonl",
        ("01.000", "user", [GEMINI_CONTEXT]),
        ("02.000", "user", ["We keep the tides."]),
        ("03.000", "gemini", ["Understood."]),
    )
    second = write_gemini_session(
        tmp_path / "session-b.jsonl",
        ("11.000", "user", [GEMINI_CONTEXT]),
        ("12.000", "user", [GEMINI_CONTEXT, "We keep the tides."]),
        ("12.000", "gemini", ["Understood."]),
        ("12.000", "user", ["Said in a session that is gone."]),
        ("13.000", "user", ["We keep the tides."]),
    )
    # restored at 12; the last is said again
    gone = "Said in a session that is gone."
    assert list_prompts(second) == [gone, "We keep the tides."]
    # without the original the copy is all there is
    first.unlink()
    assert list_prompts(second) == ["We keep the tides.", gone, "We keep the tides."]


def test_two_sessions_that_resume_one_that_is_gone_keep_its_words(
    tmp_path: Path,
) -> None:
    resumed = [
        write_gemini_session(
            tmp_path / f"session-{name}.jsonl",
            ("11.000", "user", [GEMINI_CONTEXT]),
            ("12.000", "user", [GEMINI_CONTEXT, "We keep the tides."]),
            ("13.000", "user", [own]),
        )
        for name, own in (("b", "We drop the buoys."), ("c", "We paint the pier."))
    ]
    # neither has the original, and each looks for it in the other
    assert [list_prompts(path) for path in resumed] == [
        ["We keep the tides.", "We drop the buoys."],
        ["We keep the tides.", "We paint the pier."],
    ]


def test_a_first_prompt_with_the_context_in_it_is_no_copy(tmp_path: Path) -> None:
    opening = ("02.000", "user", [GEMINI_CONTEXT, "Hello."])
    write_gemini_session(tmp_path / "session-a.jsonl", opening)
    other = write_gemini_session(tmp_path / "session-b.jsonl", opening)
    assert list_prompts(other) == ["Hello."]


def test_a_fork_of_cline_has_the_identities_of_what_it_copied() -> None:
    first, fork = (
        read_messages(next((TRANSCRIPTS / "cline" / name).glob("*.messages.json")))
        for name in ("1795992564409_wbui7", "1795992637262_hcd6i")
    )
    assert [message.identity for message in fork[:2]] == [
        message.identity for message in first
    ]
    assert fork[2].text == "Forked: we drop RabbitMQ."
