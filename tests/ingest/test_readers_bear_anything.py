"""Whatever stands in a transcript, no reader raises, and each line is a message, skipped or rejected with a reason.

The lines are the samples' and those of `transcripts/`, and one of them is then another: cut, with a byte flipped, with
a value of another type in the place of any field, or nested 900 deep.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slowwave.tasks.ingest.formats.registry import load_readers
from slowwave.tasks.ingest.parsing.records import (
    Limits,
    Record,
    Rejected,
    Session,
    Skipped,
)
from tests.killed_nights import SAMPLES

CHATS = Path(__file__).parent / "transcripts"
TRAPS = {
    "claude-code": ("content", "whose-words", "tree", "title-of-a-person"),
    "codex": (
        "calls-and-outputs",
        "whose-words",
        "title-and-folder",
        "rolled-back",
        "told-three-times",
        "compacted",
    ),
    "openclaw": ("sessions", "words"),
    "pi": ("version-2", "bash"),
}
"""Files of transcripts whose lines are spoilt beside those of the samples."""
TRANSCRIPTS = {
    name: [
        sorted(SAMPLES.glob(f"{name}/**/*.jsonl"))[0],
        *(CHATS / name / f"{one}.jsonl" for one in files),
    ]
    for name, files in TRAPS.items()
}
TRANSCRIPTS["cursor"] = [CHATS / "cursor/projects/my-app/agent-transcripts/u1.jsonl"]
TRANSCRIPTS["generic"] = [SAMPLES / "generic" / "marit-and-theo.jsonl"]
EXPORTS = {
    **{
        name: SAMPLES / name / "conversations.json" for name in ("chatgpt", "claude-ai")
    },
    "gemini": CHATS / "gemini/studio.json",
    "opencode": CHATS / "opencode/ses_1.json",
}
READ = {reader.name: reader.read for reader in load_readers()}
DEEP: Any = json.loads("[" * 900 + "]" * 900)
STAMPS = ["9999-12-31T23:59:59+14:00", "0001-01-01", 1e308, -1, 2**63, -(2**70)]
PARTS: list[Any] = [
    [],
    {},
    [None],
    [[]],
    [{}],
    {"": None},
    {"type": 1},
    {"text": {}},
    [{"type": "text", "text": []}],
]
ODD: Any = st.sampled_from(
    [None, True, 0, "", " ", "\ud800", "\x00", *STAMPS, *PARTS, DEEP]
)


def list_places(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to each value in a document, itself included."""
    inside = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [
        place,
        *(one for key, held in inside for one in list_places(held, (*place, key))),
    ]


def replaced(document: Any, place: tuple[Any, ...], value: Any) -> Any:
    if not place:
        return value
    changed: Any = document.copy()
    changed[place[0]] = replaced(document[place[0]], place[1:], value)
    return changed


@st.composite
def spoilt(draw: st.DrawFn, raw: bytes) -> bytes:
    """A document that is no longer what it was."""
    kind = draw(st.sampled_from(["field", "field", "field", "cut", "flip"]))
    if kind == "field":
        document = json.loads(raw)
        place = draw(st.sampled_from(list_places(document)))
        return json.dumps(replaced(document, place, draw(ODD))).encode()
    at = draw(st.integers(0, len(raw) - 1))
    if kind == "cut":
        return raw[:at]
    return (
        raw[:at]
        + bytes([draw(st.integers(0, 255).filter(lambda byte: byte != 10))])
        + raw[at + 1 :]
    )


def read(name: str, path: Path, raw: bytes) -> list[Record]:
    path.write_bytes(raw)
    return list(READ[name](path, Limits()))


def test_a_further_part_of_an_answer_that_says_nothing_is_told(tmp_path: Path) -> None:
    lines = [
        line
        for path in TRANSCRIPTS["claude-code"]
        for line in path.read_bytes().splitlines()
    ]
    at = next(
        number for number, line in enumerate(lines) if b'"uuid": "streamed-a2"' in line
    )
    lines[at] = json.dumps(
        json.loads(lines[at]) | {"message": {"id": "streamed-m1", "content": True}}
    ).encode()
    found = read(
        "claude-code", tmp_path / TRANSCRIPTS["claude-code"][0].name, b"\n".join(lines)
    )
    assert Skipped("part without content", at + 1) in found


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_each_line_of_a_transcript_is_accounted_for(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    lines = [
        line for path in TRANSCRIPTS[name] for line in path.read_bytes().splitlines()
    ]
    path = tmp_path_factory.mktemp("spoilt") / TRANSCRIPTS[name][0].name

    @settings(max_examples=120, deadline=None)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        at = data.draw(st.integers(0, len(lines) - 1))
        line = data.draw(spoilt(lines[at]))
        found = read(name, path, b"\n".join([*lines[:at], line, *lines[at + 1 :]]))
        header = at == 0 and any(isinstance(record, Session) for record in found)
        if (
            line.strip()
            and not header
            and at + 1 not in {getattr(record, "line", 0) for record in found}
        ):
            # It is named by no record: then it is a part of one, which is another without it.
            assert found != read(
                name, path, b"\n".join([*lines[:at], b"", *lines[at + 1 :]])
            )
        assert all(record.reason for record in found if isinstance(record, Rejected))

    check()


@pytest.mark.parametrize("name", EXPORTS)
def test_an_export_is_read_or_rejected(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("spoilt") / EXPORTS[name].name
    whole = json.loads(EXPORTS[name].read_bytes())

    @settings(max_examples=60, deadline=None)
    @given(spoilt(json.dumps(whole).encode()))
    def check(raw: bytes) -> None:
        found = read(name, path, raw)
        assert found or raw.strip() in (b"", b"[]"), raw[:200]

    check()
