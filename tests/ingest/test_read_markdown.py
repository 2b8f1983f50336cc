"""Histories in Markdown, SpecStory's and aider's: `transcripts/` has the shapes of real files of several versions."""

import random
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slowwave.plugins.formats import markdown
from slowwave.tasks.ingest.formats.registry import detect_reader
from slowwave.tasks.ingest.parsing.lines import read_head
from slowwave.tasks.ingest.parsing.records import (
    Limits,
    Message,
    Record,
    Rejected,
    Session,
)
from tests.transcript_rows import put, read

TRANSCRIPTS = Path(__file__).parent / "transcripts"
SPECSTORY_NAME = "shop/.specstory/history/2025-04-29_18-49-available-tasks.md"
CLI = (
    TRANSCRIPTS / "specstory/shop/.specstory/history/2026-07-10_20-01-10Z-merge.md"
).read_text(encoding="utf-8")
EDITOR = (TRANSCRIPTS / "specstory" / SPECSTORY_NAME).read_text(encoding="utf-8")
AIDER = (TRANSCRIPTS / "aider/barn" / markdown.AIDER_NAME).read_text(encoding="utf-8")


def told(path: Path) -> list[tuple[str, str, str]]:
    return [(m.role, m.origin, m.text) for m in read(path) if isinstance(m, Message)]


QUOTED = {
    "claude-code": '{"type":"user","uuid":"u","sessionId":"s","parentUuid":null,"message":{"content":"x"}}',
    "codex": '{"timestamp":"2026-05-02T09:00:00Z","type":"session_meta","payload":{"id":"c1"}}',
    "pmm": '{"id":1,"ts":"2026-05-02T09:00:00Z","kind":"user","content":"x","prev_hash":"","hash":"0"}',
}


@pytest.mark.parametrize("line", QUOTED.values(), ids=QUOTED.keys())
def test_a_history_that_quotes_another_format_is_read_as_what_it_says_it_is(
    tmp_path: Path, line: str
) -> None:
    """People paste lines of transcripts: one JSON line is a weaker sign than the file's own first line."""
    quoting = CLI.replace("or a rebase?", f"what is this?\n\n{line}")
    assert detect_reader(put(tmp_path / "quoting.md", quoting)).name == "specstory"
    assert (
        "user",
        "human",
        f"what would a merge look like?\n\n---\n\nwhat is this?\n\n{line}",
    ) in told(tmp_path / "quoting.md")
    assert detect_reader(put(tmp_path / "chat.md", AIDER + line)).name == "aider"


def find_lost(lines: list[str], records: list[Record]) -> list[str]:
    """Return lines that stand in no message and no quarantine, and are none of the two formats' own marks."""
    kept = [
        "\n".join(b.text or "" for b in r.blocks)
        for r in records
        if isinstance(r, Message)
    ]
    held = {line.strip() for text in kept for line in text.split("\n")}
    held |= {
        line.strip()
        for r in records
        if isinstance(r, Rejected)
        for line in r.excerpt.split("\n")
    }
    held |= {f"{mark} {line}".strip() for mark in (">", "####") for line in held}
    marks = ("---", "_**", "# ", "## ", "<!--", "#### <blank>")
    return [
        line
        for line in lines
        if line.strip()
        and line.strip() not in held
        and not line.startswith(marks)
        and line.strip("#> ")
    ]


@pytest.mark.parametrize("name", ["specstory/**/*.md", "aider/**/.*.md"])
def test_no_line_of_a_history_is_lost(name: str) -> None:
    paths = list(TRANSCRIPTS.glob(name))
    assert len(paths) > 2
    for path in paths:
        assert (
            find_lost(path.read_text(encoding="utf-8").splitlines(), read(path)) == []
        )


@pytest.mark.parametrize(
    ("name", "text"),
    [(SPECSTORY_NAME, CLI), (SPECSTORY_NAME, EDITOR), (markdown.AIDER_NAME, AIDER)],
)
def test_a_file_that_grows_keeps_the_names_of_what_it_held(
    tmp_path: Path, name: str, text: str
) -> None:
    """Cut at any line, but for the message that was being written."""
    lines = text.splitlines(keepends=True)

    def named(upto: int) -> dict[tuple[str, str], object]:
        found = (
            markdown.read_specstory if name == SPECSTORY_NAME else markdown.read_aider
        )
        records = found(put(tmp_path / name, "".join(lines[:upto])), Limits())
        return {
            (m.session, m.native_id): m.blocks
            for m in records
            if isinstance(m, Message)
        }

    whole = named(len(lines))
    opened = {
        i
        for i, line in enumerate(lines)
        if line.startswith(("<tool-use", "<details", "<think"))
    }
    for upto in range(1, len(lines)):
        part = list(named(upto).items())[:-1]
        # A block that is not closed yet is read as text.
        inside = any(i < upto <= i + 12 for i in opened)
        assert inside or all(whole.get(key) == blocks for key, blocks in part), upto


def is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


PIECES = [
    line.encode()
    for line in [*CLI.splitlines(), *EDITOR.splitlines(), *AIDER.splitlines()]
]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=12)), max_size=40)
)
@example([b"> Aider v0.86.1  ", b">\x00"])
def test_no_bytes_raise_and_no_line_is_lost(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]
) -> None:
    path = put(
        tmp_path_factory.getbasetemp() / f"h{random.random()}.md",
        b"\n" + b"\n".join(lines),
    )
    for reader in (markdown.SPECSTORY, markdown.AIDER):
        records = list(reader.read(path, Limits()))
        text = [
            line.decode() for line in b"\n".join(lines).split(b"\n") if is_utf8(line)
        ]
        assert (
            find_lost(
                [line.replace("\r", "") for line in text if "\r" not in line], records
            )
            == []
        )
    path.unlink()


def test_an_aider_history_that_somebody_wrote_above_is_one_by_its_name(
    tmp_path: Path,
) -> None:
    text = "-*- mode: fundamental -*-\n> lint failed  \n\n" + AIDER
    path = put(tmp_path / "barn" / markdown.AIDER_NAME, text)
    assert detect_reader(path) is markdown.AIDER
    assert (
        next(one.native_id for one in read(path) if isinstance(one, Session)) == "barn@"
    )
    assert not markdown.sniff_aider(read_head(put(tmp_path / "notes.md", text)))
