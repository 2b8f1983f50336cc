"""Nothing hides another: what is left out is known by its content, told by name, and takes nothing beside it along."""

import os
from pathlib import Path
from typing import Any

import pytest

from slowwave.flows.export import export_tables
from slowwave.flows.nightly import run_night
from slowwave.schemas.counters import Count
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import FILES, MESSAGES, QUARANTINE
from slowwave.store import Store
from slowwave.tasks.ingest.formats.left_out import LeftOut
from slowwave.tasks.ingest.formats.registry import detect_reader, find_files
from slowwave.tasks.ingest.parsing.records import HUMAN
from slowwave.tasks.ingest.parsing.unread import holds_turn
from slowwave.tasks.ingest.parsing.values import extract_tag_body, strip_tags
from tests.transcript_rows import put, read_messages

pytestmark = pytest.mark.usefixtures("only_read")

SAID = {
    "session_id": "s",
    "message_id": "m1",
    "role": "user",
    "content": "The lamp is green.",
}


def find(folder: Path) -> tuple[list[str], dict[Count, int]]:
    left_out = LeftOut()
    found = [
        path.relative_to(folder).as_posix() for path in find_files([folder], left_out)
    ]
    return found, dict(left_out.counts)


# Folders.

FAKES: dict[str, object] = {
    "manifest.json": {"format": "jsonl", "release_id": "x", "tables": {}},
    "topics.lance/notes.txt": "a folder of this name is no table",
    "releases.lance/_versions/18446744073709551614.manifest": "no manifest of Lance's",
}


@pytest.mark.parametrize("name", FAKES)
def test_a_name_alone_hides_nothing_beside_or_below_it(
    name: str, tmp_path: Path
) -> None:
    put(tmp_path / name, FAKES[name])
    for place in ("a.jsonl", "sub/b.jsonl", f"{Path(name).parts[0]}.d/c.jsonl"):
        put(tmp_path / place, (SAID,))
    assert {"a.jsonl", "sub/b.jsonl", f"{Path(name).parts[0]}.d/c.jsonl"} <= {
        *find(tmp_path)[0]
    }


def test_a_store_and_an_exports_tables_are_left_out_and_what_lies_beside_them_is_read(
    tmp_path: Path,
) -> None:
    settings = Settings(
        store=tmp_path / "in" / "store", encoder="hash-384", embeddings=False
    )
    run_night([put(tmp_path / "first.jsonl", (SAID,))], settings)
    export_tables(settings, tmp_path / "in" / "out", "jsonl")
    for place in (
        "beside.jsonl",
        "store/beside.jsonl",
        "out/beside.jsonl",
        "out/sub/below.jsonl",
    ):
        put(tmp_path / "in" / place, (SAID,))
    found, counts = find(tmp_path / "in")
    assert found == [
        "beside.jsonl",
        "out/beside.jsonl",
        "out/manifest.json",
        "out/sub/below.jsonl",
        "store/beside.jsonl",
    ]
    assert counts[Count.STORES] == 1
    # A talk of a table's name is no table.
    put(tmp_path / "in" / "out" / "topics.jsonl", (SAID,))
    assert "out/topics.jsonl" in find(tmp_path / "in")[0]


def test_what_is_left_out_is_counted_and_named_in_the_runs_report(
    tmp_path: Path,
) -> None:
    put(tmp_path / "in" / "a.jsonl", (SAID,))
    put(tmp_path / "in" / "node_modules" / "x.jsonl", (SAID,))
    put(tmp_path / "in" / "sessions.json", {})
    put(tmp_path / "in" / "notes.pdf", "")
    (tmp_path / "in" / "link.jsonl").symlink_to(tmp_path / "in" / "a.jsonl")
    report = run_night(
        [tmp_path / "in"],
        Settings(store=tmp_path / "store", encoder="hash-384", embeddings=False),
    )
    assert [note for note in report.collect_notes() if note.startswith("left out")] == [
        "left out, files left out by name: 1 ("
        + str(tmp_path / "in" / "sessions.json")
        + ")",
        "left out, files of other kinds: 1 (.pdf)",
        "left out, folders left out by name: 1 (node_modules)",
        "left out, links not followed: 1 (" + str(tmp_path / "in" / "link.jsonl") + ")",
    ]
    assert report.failures == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root lists every folder")
def test_a_folder_that_cannot_be_listed_is_told(tmp_path: Path) -> None:
    put(tmp_path / "shut" / "a.jsonl", (SAID,))
    (tmp_path / "shut").chmod(0)
    left_out = LeftOut()
    assert list(find_files([tmp_path], left_out)) == []
    assert left_out.unreadable == [
        (tmp_path / "shut", "the folder can't be listed: Permission denied")
    ]
    (tmp_path / "shut").chmod(0o700)


# Words that a reader does not know to read.

USER = {
    "type": "user",
    "content": [{"type": "text", "text": "The export goes to Parquet."}],
}
ENVELOPE = {"uuid": "u1", "parentUuid": None, "sessionId": "q1", "type": "user"}
UNREAD: dict[str, tuple[dict[str, Any], ...]] = {
    "typed-roles": (
        {"type": "system", "content": "You help."},
        USER,
        {"type": "assistant", "content": "It goes there now."},
        {
            "type": "reasoning",
            "id": "r1",
            "summary": [{"type": "summary_text", "text": "I look."}],
        },
    ),
    "session-header": (
        {"type": "session", "id": "d1", "version": 1, "cwd": "/home/mika/pond"},
        {
            "type": "user/message",
            "time": "2026-05-01T08:00:00Z",
            "text": "pond needs Python 3.12.",
        },
    ),
    "unknown-record-of-claude": (
        {"type": "summary", "summary": "x", "leafUuid": "u"},
        {"type": "human-turn", "sessionId": "s", "prompt": "pond needs Python 3.12."},
    ),
    "unknown-item-of-codex": (
        {
            "timestamp": "2026-05-01T08:00:00Z",
            "type": "session_meta",
            "payload": {"id": "c1"},
        },
        {
            "timestamp": "2026-05-01T08:00:00Z",
            "type": "event_msg",
            "payload": {"type": "user_prompt", "text": "Hi."},
        },
    ),
}


@pytest.mark.parametrize("name", UNREAD)
def test_a_users_words_that_nobody_reads_are_quarantined_and_never_skipped(
    name: str, tmp_path: Path
) -> None:
    path = put(tmp_path / f"{name}.jsonl", UNREAD[name])
    run_night(
        [path], Settings(store=tmp_path / "store", encoder="hash-384", embeddings=False)
    )
    store = Store.open(tmp_path / "store")
    held = {
        n
        for n, line in enumerate(UNREAD[name], 1)
        if holds_turn(line) and line["type"] != "reasoning"
    }
    assert {*store.read(QUARANTINE)["line"].to_pylist()} == held
    assert "human" not in store.read(MESSAGES)["origin"].to_pylist()


READ: dict[str, tuple[dict[str, Any], ...]] = {
    "parts": (
        {
            **ENVELOPE,
            "message": {"role": "user", "parts": [{"text": "Released on Monday."}]},
        },
    ),
    "no-session": (
        {"type": "user", "message": {"role": "user", "content": "Released on Monday."}},
    ),
    "one-block": (
        {
            **ENVELOPE,
            "message": {
                "role": "user",
                "content": {"type": "text", "text": "Released on Monday."},
            },
        },
    ),
}


@pytest.mark.parametrize("name", READ)
def test_records_of_claude_code_in_other_shapes_are_read(
    name: str, tmp_path: Path
) -> None:
    (message,) = read_messages(put(tmp_path / "pond.jsonl", READ[name]))
    assert (message.session, message.origin, message.text) == (
        "pond" if name == "no-session" else "q1",
        "human",
        "Released on Monday.",
    )


def test_a_reader_that_reads_no_person_gives_the_file_up_to_the_next(
    tmp_path: Path,
) -> None:
    """Its first line is a header of pi's; what follows are lines of the generic format."""
    header = {"type": "session", "id": "d1", "version": 1, "cwd": "/w"}
    lines = [
        {
            "type": "user",
            "role": "user",
            "message": {"role": "user", "content": f"Said {n}."},
        }
        for n in range(3)
    ]
    path = put(tmp_path / "d1.jsonl", (header, *lines))
    assert detect_reader(path).name in ("claude-code", "openclaw", "pi")
    run_night(
        [path], Settings(store=tmp_path / "store", encoder="hash-384", embeddings=False)
    )
    store = Store.open(tmp_path / "store")
    assert sorted(store.read(MESSAGES)["text"].to_pylist()) == [
        "Said 0.",
        "Said 1.",
        "Said 2.",
    ]
    assert store.read(FILES)["messages"].to_pylist() == [3]


# Blocks that never end.


def test_a_tag_that_a_person_names_takes_no_words_up_to_the_next_block() -> None:
    told = "Why is <system-reminder> here? Remove it. <system-reminder>by a tool</system-reminder> Thanks."
    assert (
        strip_tags(told, ["system-reminder"])
        == "Why is <system-reminder> here? Remove it.  Thanks."
    )
    assert strip_tags("a <x>b <x>c</x> d</x> e", ["x"]) == "a  e"
    assert extract_tag_body("named <b> only, <b>meant</b>", "b") == "meant"


TURN = "---\n\n_**User (2026-05-01 10:0{}Z)**_\n\n{}\n\n---\n\n_**Assistant (default)**_\n\n{}\n\n"
OPEN = {
    "details": "Tool use: **apply_patch**\n\n<details>\n<summary>x</summary>\n\n---\n\nShall I go on?",
    "tool-use": '<tool-use data-tool-name="Bash">\n\nout',
    "think": "<think>\n\nI wonder",
    "two": "<details>\n\n<details>\n\nout",
    "stray end": "<details>\n\nout",
    "fence": "<details>\n\n```diff\n+line",
    "fence, then others": "<details>\n\n```diff\n+line",
}
CLOSED = {
    "tool-use": '<tool-use data-tool-name="Bash">\n\nout\n\n</tool-use>',
    "think": "<think>\n\nI wonder\n\n</think>",
    "stray end": "<details>\n\n</details>\n\n</details>",
    "fence, then others": "<details>\n\n```text\nout\n```\n\n</details>",
}


@pytest.mark.parametrize("name", OPEN)
def test_a_block_that_is_never_closed_takes_no_turn_of_the_person(
    name: str, tmp_path: Path
) -> None:
    closed = CLOSED.get(name, "<details><summary>x</summary>\n\nout\n\n</details>")
    turns = [
        (1, "Write the plan.", OPEN[name]),
        (2, "Never from a laptop.", "Noted."),
        (3, "Go.", closed),
        (4, "Bye.", ""),
    ]
    text = "<!-- Generated by SpecStory -->\n\n" + "".join(
        TURN.format(*turn) for turn in turns
    )
    said = [
        message
        for message in read_messages(put(tmp_path / "h.md", text))
        if message.role == "user"
    ]
    assert [message.text for message in said] == [
        "Write the plan.",
        "Never from a laptop.",
        "Go.",
        "Bye.",
    ]


def test_a_block_may_hold_turns_of_another_history_in_its_code(tmp_path: Path) -> None:
    shown = "```\n" + TURN.format(0, "Of another file.", "Indeed.") + "```"
    answer = f'<tool-use data-tool-name="Read">\n\n{shown}\n\n</tool-use>'
    text = (
        "<!-- Generated by SpecStory -->\n\n"
        + TURN.format(1, "Read it.", answer)
        + TURN.format(2, "Thanks.", "")
    )
    said = [
        message.text
        for message in read_messages(put(tmp_path / "h.md", text))
        if message.role == "user"
    ]
    assert said == ["Read it.", "Thanks."]


def test_the_words_of_one_record_are_known_by_who_speaks() -> None:
    assert holds_turn(
        {"item": {"author": {"role": "user"}, "parts": [{"text": "Hi."}]}}
    )
    assert holds_turn({"type": "UserMessage", "text": "Hi."}, HUMAN)
    # the envelope names who speaks, what it holds has the words
    assert holds_turn({"type": "user_input", "payload": {"text": "Hi."}}, HUMAN)
    for other in (
        {"type": "assistant", "text": "Hi."},
        {"type": "user", "text": " "},
        {"text": "Hi."},
        {"type": ["user"]},
    ):
        assert not holds_turn(other, HUMAN)


def test_claude_codes_copies_of_what_it_sent_are_no_unread_words(
    tmp_path: Path,
) -> None:
    common = {
        "sessionId": "s1",
        "cwd": "/home/ada/mill",
        "timestamp": "2026-11-20T10:00:00Z",
    }
    said = {
        **common,
        "type": "user",
        "uuid": "u1",
        "message": {"role": "user", "content": "The lamp is green."},
    }
    sent = {
        "type": "api-request-blob",
        "sessionId": "s1",
        "message": {"role": "user", "content": "The lamp is green."},
    }
    settings = Settings(store=tmp_path / "store", encoder="hash-384", embeddings=False)
    run_night([put(tmp_path / "s1.jsonl", (said, sent))], settings).check_complete()
    store = Store.open(settings.store)
    assert (store.count(MESSAGES), store.count(QUARANTINE)) == (1, 0)


def test_words_of_an_unknown_kind_are_quarantined_if_nobody_else_speaks(
    tmp_path: Path,
) -> None:
    common = {
        "sessionId": "s1",
        "cwd": "/home/ada/mill",
        "timestamp": "2026-11-20T10:00:00Z",
    }
    unknown = {
        **common,
        "type": "prompt",
        "uuid": "u1",
        "prompt": "We decided that the lamp is green.",
    }
    answer = {"role": "assistant", "content": [{"type": "text", "text": "Noted."}]}
    answered = {**common, "type": "assistant", "uuid": "a1", "message": answer}
    settings = Settings(store=tmp_path / "store", encoder="hash-384", embeddings=False)
    run_night([put(tmp_path / "s1.jsonl", (unknown, answered))], settings)
    (row,) = Store.open(settings.store).read(QUARANTINE).to_pylist()
    assert "the lamp is green" in row["excerpt"]
