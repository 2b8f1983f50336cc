"""Conversations and notes that slowwave itself writes down: generic JSONL in the space's folder, for the next night.

    <store>/<space>/talk/talk-20261121-211500-3f2a.jsonl     one conversation of `slowwave talk`
    <store>/<space>/notes/2026-11-21.jsonl                   what agents and people asked to be remembered that day

They belong to no release and are written without the writer's lock. A folder that is not there is made, since a note
may come before the first night. Secrets are replaced before anything is written, as a night would.

What an agent noted may be what a page told it to note. So until a person confirms it, it stands in no briefing, no
skill and no project file, bears nothing out, and is held less sure; what is rejected is left out of all that is
distilled. Verdicts hold at once.
"""

import secrets
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Literal

from slowwave.schemas.errors import UsageError
from slowwave.store.journal import Review, append, append_lines, format_line, format_now, parse_line, read
from slowwave.store.place import find_place
from slowwave.store.private import make_private_folder
from slowwave.telemetry import open_memory_span

TALK, NOTES = "talk", "notes"
FORGETTING = "forgetting"
"""Folder of a space with plans of what is to be forgotten (`slowwave.tasks.forget`)."""
PREFIX = "note-"
"""Prefix of a note's session id."""
OWN_SESSIONS = (PREFIX, f"{TALK}-")
"""Prefixes of the ids of slowwave's own sessions."""
NOTED = "Noted."
MAX_NOTE = 10_000
"""Characters of a note, with its names: more is a document, and no one thing to be remembered."""
MAX_DAY = 500_000
"""Most bytes of a day's notes by agents, so that a misled agent fills no disk; a person may add as much again."""
Verdict = Literal["confirmed", "rejected"]


def is_unfinished(space_dir: Path) -> bool:
    """Return True if a run that was killed had begun to forget something, and no run has finished that yet."""
    return any((space_dir / FORGETTING).glob("*.json"))


def find_journals(space_dir: Path) -> list[Path]:
    """Return the folders of a space that hold what slowwave wrote down; none where it wrote nothing yet."""
    return [folder for name in (TALK, NOTES) if (folder := space_dir / name).is_dir()]


class Journal:
    """One conversation being written down; its file is made with the first message."""

    def __init__(
        self, space_dir: Path, workspace: str | None = None, at: datetime | None = None, *, redact: bool = True
    ) -> None:
        started = at or datetime.now(UTC)
        self.session = f"{TALK}-{started:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
        self.path = space_dir / TALK / f"{self.session}.jsonl"
        self.workspace, self.count = workspace, 0
        self._format = partial(_format_message, redact)

    def append(
        self, role: str, content: str, speaker: str | None = None, at: datetime | None = None, tags: Sequence[str] = ()
    ) -> str:
        """Write down a message; its id.

        Args:
            role: user or assistant.
            content: what was said.
            speaker: who said it.
            at: when, aware; now by default.
            tags: words to keep with it.

        Raises:
            OSError: the folder can't be written to.
        """
        message = f"m{self.count + 1}"
        line = self._format(self.session, message, role, content, self.workspace, speaker, at, tags)
        make_private_folder(self.path.parent)
        append_lines(self.path, line, durable=True)
        self.count += 1
        return message


def write_note(
    space_dir: Path,
    note: str,
    *,
    workspace: str | None = None,
    of_person: bool = False,
    speaker: str | None = None,
    at: datetime | None = None,
    tags: Sequence[str] = (),
    redact: bool = True,
) -> str:
    """Write down a note, a session of its own; the session's id. `Memory.remember` says what the arguments are.

    Raises:
        UsageError: the note is empty or over-long, so is a name, or the day has its fill of notes.
        OSError: the folder can't be written to.
    """
    moment, write = at or datetime.now(UTC), partial(_format_message, redact)
    path = space_dir / NOTES / f"{moment:%Y-%m-%d}.jsonl"
    length = len("".join((note.strip(), workspace or "", speaker or "", *tags)))  # its names too
    if not note.strip() or length > MAX_NOTE:
        raise UsageError(f"a note has 1 to {MAX_NOTE:,} characters, this one has {length:,}: nothing was noted")
    if path.exists() and path.stat().st_size > (max_bytes := MAX_DAY * (1 + of_person)):
        raise UsageError(f"this day's notes have over {max_bytes:,} bytes: nothing was noted")
    session = f"{PREFIX}{secrets.token_hex(8)}"  # no hash of it: it stays when the note is forgotten
    role = "user" if of_person else "assistant"
    lines = write(session, "m1", role, note.strip(), workspace, speaker, moment, tags)
    answer = write(session, "m2", "agent", NOTED, workspace, "slowwave", moment)  # one alone is no session
    with open_memory_span("create_memory", space_dir) as count_records:
        make_private_folder(path.parent)
        append_lines(path, lines + answer, durable=True)
        count_records(1)
    find_place(space_dir.parent).push(space_dir.name)
    return session


def _format_message(
    redact: bool,
    session: str,
    message: str,
    role: str,
    content: str,
    workspace: str | None,
    speaker: str | None,
    at: datetime | None,
    tags: Iterable[str] = (),
) -> bytes:
    """Return the line of a message, without secrets unless `redact` is off."""
    from slowwave.text.redact import redact_text

    clean = redact_text if redact else str
    fields = {
        "session_id": session,
        "message_id": message,
        "role": role,
        "content": clean(content),
        "ts": (at or datetime.now(UTC)).isoformat(timespec="milliseconds"),
        "workspace": workspace and clean(workspace),
        "speaker": speaker and clean(speaker),
        "tags": list(dict.fromkeys(map(clean, tags))) or None,
    }
    return format_line({name: value for name, value in fields.items() if value is not None})


@dataclass(frozen=True)
class Note:
    """One note."""

    id: str
    """Its session's, as the transcript has it."""
    at: str
    """ISO, UTC."""
    by: str
    """person or agent."""
    text: str
    workspace: str | None
    speaker: str | None
    verdict: str
    """What a person said of it: confirmed, rejected; unconfirmed of an agent's note that nobody looked at."""


def read_notes(space_dir: Path) -> list[Note]:
    """Return all notes, the oldest first; lines that can't be read are passed over, as the night quarantines them."""
    verdicts = {review.id: review.verdict for review in read(space_dir, Review)}
    lines = [
        line
        for path in sorted((space_dir / NOTES).glob("*.jsonl"))
        for line in map(parse_line, path.read_bytes().splitlines())
        if str(line.get("session_id", "")).startswith(PREFIX) and line.get("message_id") == "m1"
    ]
    # A note is as its last verdict says.
    return [
        Note(
            line["session_id"],
            str(line.get("ts", "")),
            by := "person" if line.get("role") == "user" else "agent",
            str(line.get("content", "")),
            line.get("workspace"),
            line.get("speaker"),
            verdicts.get(line["session_id"], "confirmed" if by == "person" else "unconfirmed"),
        )
        for line in lines
    ]


def read_written(space_dir: Path, read_before: Container[tuple[str, int, int]]) -> list[dict[str, str]]:
    """Return the lines of talks and notes, less those of notes that a person rejected; those that can't be read are
    passed over. A file is left out whose name, size and time of change (ns) are in `read_before`.
    """
    paths = [path for folder in find_journals(space_dir) for path in folder.glob("*.jsonl")]
    stats = [(path, path.stat()) for path in paths]
    changed = [path for path, stat in stats if (path.name, stat.st_size, stat.st_mtime_ns) not in read_before]
    if not changed:
        return []
    rejected = {entry.id for entry in read(space_dir, Review) if entry.verdict == "rejected"}
    lines = [line for path in changed for line in map(parse_line, path.read_bytes().splitlines())]
    spoken = [line for line in lines if line.get("role") in ("user", "assistant")]
    return [line for line in spoken if line["session_id"] not in rejected]


def review_note(space_dir: Path, note: Note, verdict: Verdict) -> None:
    """Write a person's verdict down.

    Raises:
        StoreUnwritable: the folder takes no more.
    """
    append(space_dir, Review(format_now(), note.id, verdict))
    find_place(space_dir.parent).push(space_dir.name)
