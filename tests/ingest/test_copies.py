"""A tool that resumes, forks or migrates a session copies its lines: the same messages, and equal words are not."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import MESSAGES
from slowwave.store import Store
from slowwave.tasks.ingest.formats import registry
from slowwave.tasks.ingest.formats.agents.codex import READER as CODEX_READER
from slowwave.tasks.ingest.formats.agents.openclaw.reader import PI_READER
from slowwave.tasks.ingest.parsing.lines import read_head
from slowwave.tasks.ingest.parsing.records import (
    Inactive,
    Limits,
    Message,
    Record,
    Session,
)
from tests.transcript_rows import put, read, read_messages

Line = dict[str, Any]
STAMP = "2026-05-02T09:00:00.000Z"


def identify(path: Path, *lines: Line) -> list[str | None]:
    return [message.identity for message in read_messages(put(path, lines))]


def get_parent(path: Path) -> str | None:
    return next(
        record.parent_id for record in read(path) if isinstance(record, Session)
    )


def test_a_resumed_session_of_claude_code_replays_its_messages(tmp_path: Path) -> None:
    said: list[tuple[str, str | None, str, object]] = [
        ("u1", None, "user", "Plan"),
        ("a1", "u1", "assistant", [{"type": "text", "text": "Ready"}]),
        ("u2", "a1", "user", "Go on"),
    ]

    def talk(session: str, count: int) -> list[str | None]:
        lines = [
            {
                "type": role,
                "uuid": uuid,
                "parentUuid": parent,
                "sessionId": session,
                "message": {"content": content},
            }
            for uuid, parent, role, content in said[:count]
        ]
        return identify(tmp_path / f"{session}.jsonl", *lines)

    first, second = talk("s1", 2), talk("s2", 3)
    assert second[:2] == first
    assert len(set(second)) == 3
    assert {message.session for message in read_messages(tmp_path / "s2.jsonl")} == {
        "s2"
    }


def codex(kind: str, stamp: str = STAMP, **payload: object) -> Line:
    return {"timestamp": stamp, "type": kind, "payload": payload}


def codex_says(role: str, text: str, stamp: str = STAMP) -> Line:
    part = "output_text" if role == "assistant" else "input_text"
    return codex(
        "response_item",
        stamp,
        type="message",
        role=role,
        content=[{"type": part, "text": text}],
    )


@pytest.mark.parametrize("stamp", ["2026-05-03T10:00:00.000Z", STAMP])
def test_a_codex_forks_copy_is_its_parents_though_it_is_stamped_anew(
    tmp_path: Path, stamp: str
) -> None:
    said = [
        ("user", "Fire"),
        ("assistant", "Ok"),
        ("user", "Higher"),
        ("assistant", "Ok"),
    ]
    parent, fork = (
        codex("session_meta", id="p1"),
        codex("session_meta", id="f1", forked_from_id="p1"),
    )
    old = identify(
        tmp_path / "p.jsonl",
        parent,
        *(codex_says(*turn) for turn in said),
        codex_says("user", "Stop"),
    )
    copied = [codex_says(role, text, stamp) for role, text in said]
    own = codex_says("user", "Lower"), codex_says("user", "Stop")
    new = identify(tmp_path / "f.jsonl", fork, parent, *copied, *own)
    assert new[:4] == old[:4]
    # "Ok" twice, and "Stop" said elsewhere, are messages of their own.
    assert len({*old, *new}) == 5 + 2
    assert get_parent(tmp_path / "f.jsonl") == "p1"
    one, two = (
        identify(tmp_path / id, codex("session_meta", id=id), codex_says("user", "hi"))
        for id in ("c1", "c2")
    )
    assert one != two


def test_two_codex_forks_that_point_to_their_parent_share_no_message(
    tmp_path: Path,
) -> None:
    """Since 0.171 nothing is copied: equal first prompts of two forks are two messages."""

    def fork(name: str) -> list[str | None]:
        head = codex(
            "session_meta",
            id=name,
            forked_from_id="p1",
            history_base={"thread_id": "p1"},
        )
        return identify(tmp_path / f"{name}.jsonl", head, codex_says("user", "Decide."))

    assert fork("f1") != fork("f2")


ROLLED_BACK = [
    codex_says("user", "Two"),
    codex_says("assistant", "2"),
    codex("event_msg", type="thread_rolled_back", num_turns=1),
]
KEPT = [
    codex_says("user", "One"),
    codex_says("user", "Three"),
    codex_says("assistant", "3"),
]


def test_a_rollout_that_is_rewritten_without_its_rolled_back_turns_has_the_same_messages(
    tmp_path: Path,
) -> None:
    """As `codex migrate-rollouts --apply` does."""
    path, head = tmp_path / "r.jsonl", codex("session_meta", id="r1")
    before = read_messages(put(path, (head, KEPT[0], *ROLLED_BACK, *KEPT[1:])))
    gone = {record.native_id for record in read(path) if isinstance(record, Inactive)}
    after = identify(path, head, *KEPT)
    assert [
        message.identity for message in before if message.native_id not in gone
    ] == after


def test_words_that_were_rolled_back_and_are_said_again_count(tmp_path: Path) -> None:
    records = read(
        put(
            tmp_path / "r.jsonl",
            (codex("session_meta", id="r1"), *ROLLED_BACK, ROLLED_BACK[0]),
        )
    )
    # The answer alone.
    assert [record.native_id for record in records if isinstance(record, Inactive)] == [
        "3"
    ]
    assert [
        message.native_id for message in records if isinstance(message, Message)
    ] == ["2", "3", "2"]


def test_a_message_keeps_its_identity_when_a_reader_gives_identities_of_another_form(
    tmp_path: Path,
) -> None:
    settings = Settings(
        store=tmp_path / "store", encoder="hash-384", keywords={"top": 0}
    )
    path = put(tmp_path / "talks/r.jsonl", (codex("session_meta", id="r1"), *KEPT))
    old = replace(
        CODEX_READER,
        name="old",
        version=1,
        tool="codex",
        read=lambda path, limits: read_as_before(path),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "OWN", (old,))
        registry.load_readers.cache_clear()
        run_night([path.parent], settings)
    registry.load_readers.cache_clear()
    with path.open("a") as file:
        file.write(json.dumps(codex_says("user", "Four")) + "\n")
    run_night([path.parent], settings)
    texts = Store.open(settings.store).read(MESSAGES, ["text"])["text"].to_pylist()
    assert sorted(texts) == ["3", "Four", "One", "Three"]


def read_as_before(path: Path) -> Iterator[Record]:
    for record in CODEX_READER.read(path, Limits()):
        yield (
            replace(record, identity=f"old/{record.native_id}")
            if isinstance(record, Message)
            else record
        )


def event(role: str, words: str, second: int, **more: object) -> Line:
    """An event of pi's, which are OpenClaw's too."""
    message = {
        "role": role,
        "content": [{"type": "text", "text": words}],
        "timestamp": 1763681600000 + second * 1000,
    }
    return {
        "type": "message",
        "timestamp": f"2025-11-20T23:33:{second:02d}.000Z",
        "message": message,
        **more,
    }


PI = {
    "type": "session",
    "timestamp": "2025-11-20T23:33:00.000Z",
    "cwd": "/w",
    "provider": "a",
    "modelId": "m",
}
SAID = [
    event("user", "port 8080", 1),
    event("assistant", "ok", 2),
    event("assistant", "ok", 3),
]


def test_a_branch_of_pis_copies_and_a_migrated_file_has_the_same_messages(
    tmp_path: Path,
) -> None:
    parent, branch = (
        tmp_path / "2025-11-20T23-33-00-000Z_p1.jsonl",
        tmp_path / "2025-11-21T08-00-00-000Z_p2.jsonl",
    )
    old = identify(parent, {**PI, "id": "p1"}, *SAID)
    new = identify(
        branch,
        {**PI, "id": "p2", "branchedFrom": str(parent)},
        *SAID,
        event("user", "port 8443", 9),
    )
    assert new[:3] == old
    assert len(set(new)) == 4  # the same words twice are two messages
    assert get_parent(branch) == "p1"
    tree = [
        line | {"id": id, "parentId": above}
        for line, id, above in zip(SAID, "abc", (None, "a", "b"), strict=True)
    ]
    assert (
        identify(
            tmp_path / "2025-11-20T23-34-00-000Z_p1.jsonl",
            {**PI, "id": "p1", "version": 3},
            *tree,
        )
        == old
    )


def test_an_openclaw_forks_copy_is_its_parents_and_a_short_id_alone_is_not(
    tmp_path: Path,
) -> None:
    header = {"type": "session", "version": 3, "cwd": "/w", "timestamp": STAMP}
    fork = {
        "id": "s2",
        "parentSession": "C:\\Users\\x\\.openclaw\\agents\\main\\sessions\\s1.jsonl",
    }
    asked, other = (
        event("user", words, 1, id="a1", parentId=None) for words in ("hello", "bye")
    )
    first = identify(tmp_path / "s1.jsonl", {**header, "id": "s1"}, asked)
    second = identify(
        tmp_path / "s2.jsonl",
        {**header, **fork},
        asked,
        event("user", "go on", 5, id="a2"),
    )
    third = identify(tmp_path / "s3.jsonl", {**header, "id": "s3"}, other)
    assert first == second[:1] != third
    assert get_parent(tmp_path / "s2.jsonl") == "s1"


def test_a_role_that_is_no_text_is_no_session_of_pis(tmp_path: Path) -> None:
    assert not PI_READER.sniff(
        read_head(
            put(
                tmp_path / "a.jsonl", {"type": "message", "message": {"role": ["user"]}}
            )
        )
    )
