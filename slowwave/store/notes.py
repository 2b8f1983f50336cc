"""Conversations and notes that slowwave itself writes: generic JSONL in the space's folder, for the next night.

    <store>/<space>/talk/talk-20261121-211500-3f2a.jsonl     one conversation of `slowwave talk`
    <store>/<space>/notes/2026-11-21.jsonl                   what agents and people asked to be remembered that day

They are not part of a release and are written without the writer's lock. A missing folder is made, since a note may be
written before the first night. Secrets are replaced before writing, as in a night.

A web page may have told an agent what to note. So until a person confirms an agent's note, it is left out of briefings,
skills and project files, does not confirm other claims, and has a lower confidence. A rejected note is left out of all
distilled rows. Verdicts apply at once.
"""

import json
import secrets
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from slowwave.schemas.errors import UsageError
from slowwave.schemas.tables import TAGS
from slowwave.store.logs import (
    LogLine,
    Review,
    append,
    append_lines,
    format_line,
    format_now,
    parse_line,
    read,
)
from slowwave.store.place import find_place
from slowwave.store.private import make_private_folder
from slowwave.telemetry import open_memory_span

TALK = "talk"
NOTES = "notes"
FORGETTING = "forgetting"
"""Folder of a space with the plans of unfinished forgettings (`slowwave.tasks.forget`)."""
CHECKOUTS = "checkouts.json"
"""The checkouts that a space's claims are about, so that an idle night sees a new HEAD."""
NEEDED = ("session_id", "message_id", "content", "ts")
"""Fields of a line besides the role, all strings."""
PREFIX = "note-"
"""Prefix of a note's session id."""
OWN_SESSIONS = (PREFIX, f"{TALK}-")
"""Prefixes of the ids of slowwave's own sessions."""
NOTED = "Noted."
MAX_NOTE = 10_000
"""Most characters of a note, with its names: a longer text is a document, not one thing to remember."""
MAX_DAY = 500_000
"""Most bytes of a day's notes by agents, so that a misled agent can't fill the disk; a person may add as much again."""
Verdict = Literal["confirmed", "rejected"]
CORRECTS = "corrects"
"""First word of the tag by which a note names the claim that it corrects."""


SUBJECT = " (corrects: "
"""Begins what a correction is about, behind its words."""


class Corrected(NamedTuple):
    """The claim that a note corrects."""

    claim: str
    """Its id."""
    words: str
    """The hash of its words, by which it is found if its id has changed (`hash_words`)."""


def collect_tags(blocks: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a message's tags, from the lines of its block TAGS."""
    return [
        tag
        for block in blocks
        if block["name"] == TAGS
        for tag in (block["text"] or "").splitlines()
    ]


def format_correction(corrected: Corrected) -> str:
    """Return the tag of a note that corrects a claim."""
    return " ".join((CORRECTS, *corrected))


def add_subject(words: str, subject: str) -> str:
    """Return the words of a correction, followed by what it corrects."""
    return f"{words}{SUBJECT}{subject})"


def cut_subject(text: str) -> str:
    """Return a text without what it corrects, if it is a correction."""
    return text.partition(SUBJECT)[0]


def parse_correction(tags: object) -> Corrected | None:
    """Return the claim that a note with these tags corrects, or None."""
    for tag in tags if isinstance(tags, list) else ():
        match str(tag).split(" "):
            case [mark, claim, words] if mark == CORRECTS:
                return Corrected(claim, words)
    return None


def is_unfinished(space_dir: Path) -> bool:
    """Return True if a killed run left a forgetting unfinished."""
    return any((space_dir / FORGETTING).glob("*.json"))


def find_talk_logs(space_dir: Path) -> list[Path]:
    """Return the existing folders of conversations and notes of a space."""
    return [folder for name in (TALK, NOTES) if (folder := space_dir / name).is_dir()]


class TalkLog:
    """Writes a conversation to a file. The file is made with the first message."""

    def __init__(
        self,
        space_dir: Path,
        workspace: str | None = None,
        at: datetime | None = None,
        *,
        redact: bool = True,
        name: str | None = None,
    ) -> None:
        """Begin a conversation, or continue the conversation `name`. Secrets are masked unless `redact` is off."""
        started = at or datetime.now(UTC)
        fresh = f"{started:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
        self._is_named = name is not None
        self.session = f"{TALK}-{fresh if name is None else name}"
        self.path = space_dir / TALK / f"{self.session}.jsonl"
        self.workspace = workspace
        self.count = 0
        self._format = partial(_format_message, redact)

    def append(
        self,
        role: str,
        content: str,
        speaker: str | None = None,
        at: datetime | None = None,
        tags: Sequence[str] = (),
        extra: Mapping[str, object] | None = None,
    ) -> str:
        """Write a message, and return its id.

        Args:
            role: user or assistant.
            content: the text.
            speaker: the speaker's name.
            at: the time, with a time zone; default: now.
            tags: words to store with it.
            extra: values that `read_lines` returns as `extra`; no night reads them.

        Raises:
            OSError: the folder can't be written to.
        """
        # a named conversation may have lost messages to a forgetting, whose ids must not be used again
        message = secrets.token_hex(8) if self._is_named else f"m{self.count + 1}"
        line = self._format(
            session=self.session,
            message=message,
            role=role,
            content=content,
            workspace=self.workspace,
            speaker=speaker,
            at=at,
            tags=tags,
            extra=extra,
        )
        make_private_folder(self.path.parent)
        append_lines(self.path, line, durable=True)
        self.count += 1
        return message

    def read_lines(self) -> list[LogLine]:
        """Return the messages in the conversation's file, in order; an empty list if there is no file."""
        if not self.path.is_file():
            return []
        lines = map(parse_line, self.path.read_bytes().splitlines())
        return [line for line in lines if line]


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
    extra: Mapping[str, object] | None = None,
) -> str:
    """Write a note as a session of its own, and return the session's id.

    `Memory.remember` describes the arguments. `extra` is stored in the note's line, where `read_note_lines` returns it;
    no night reads it.

    Raises:
        UsageError: the note is empty, too long with its names, or the day's notes are too large.
        OSError: the folder can't be written.
    """
    moment = at or datetime.now(UTC)
    write = partial(_format_message, redact)
    path = space_dir / NOTES / f"{moment:%Y-%m-%d}.jsonl"
    _check_length(
        note=note, workspace=workspace, speaker=speaker, tags=tags, extra=extra
    )
    if path.exists() and path.stat().st_size > (max_bytes := MAX_DAY * (1 + of_person)):
        raise UsageError(
            f"this day's notes have over {max_bytes:,} bytes: nothing was noted"
        )
    # no hash of the note, since the id remains after a forgetting
    session = f"{PREFIX}{secrets.token_hex(8)}"
    role = "user" if of_person else "assistant"
    lines = write(
        session=session,
        message="m1",
        role=role,
        content=note.strip(),
        workspace=workspace,
        speaker=speaker,
        at=moment,
        tags=tags,
        extra=extra,
    )
    # a session has at least two messages
    answer = write(
        session=session,
        message="m2",
        role="agent",
        content=NOTED,
        workspace=workspace,
        speaker="slowwave",
        at=moment,
    )
    with open_memory_span("create_memory", space_dir) as count_records:
        make_private_folder(path.parent)
        append_lines(path, lines + answer, durable=True)
        count_records(1)
    find_place(space_dir.parent).push(space_dir.name)
    return session


def _check_length(
    note: str,
    workspace: str | None,
    speaker: str | None,
    tags: Sequence[str],
    extra: Mapping[str, object] | None,
) -> None:
    """Check the number of characters of a note, its names and tags, and its `extra` as JSON.

    Raises:
        UsageError: the note is empty or too long.
    """
    names = "".join((note.strip(), workspace or "", speaker or "", *tags))
    length = len(names) + (len(format_line(extra)) if extra else 0)
    if not note.strip() or length > MAX_NOTE:
        found = f"{length:,} with its names and fields" if note.strip() else "none"
        raise UsageError(
            f"a note has 1 to {MAX_NOTE:,} characters, this one has {found}: nothing was noted"
        )


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
    extra: Mapping[str, object] | None = None,
) -> bytes:
    """Return a message as a line of JSON. Secrets are masked unless `redact` is off."""
    from slowwave.text.redact import redact_json, redact_text

    clean = redact_text if redact else str
    raw = format_line(extra).decode() if extra else "null"
    fields = {
        "session_id": session,
        "message_id": message,
        "role": role,
        "content": clean(content),
        "ts": (at or datetime.now(UTC)).isoformat(timespec="milliseconds"),
        "workspace": workspace and clean(workspace),
        "speaker": speaker and clean(speaker),
        "tags": list(dict.fromkeys(map(clean, tags))) or None,
        "extra": json.loads(redact_json(raw)[0] if redact else raw),
    }
    return format_line(
        {name: value for name, value in fields.items() if value is not None}
    )


@dataclass(frozen=True)
class Note:
    """One note."""

    id: str
    """The id of its session in the transcript."""
    at: str
    """ISO, UTC."""
    by: str
    """person or agent."""
    text: str
    workspace: str | None
    speaker: str | None
    verdict: str
    """A person's verdict: confirmed or rejected; unconfirmed for an agent's note without a verdict."""


def read_notes(space_dir: Path) -> list[Note]:
    """Return all notes, oldest first; unreadable lines are skipped, since the night quarantines them."""
    verdicts = {review.id: review.verdict for review in read(space_dir, Review)}
    notes = []
    for line in read_note_lines(space_dir):
        is_own = line.get("role") == "user"
        note = Note(
            id=line["session_id"],
            at=str(line.get("ts", "")),
            by="person" if is_own else "agent",
            text=str(line.get("content", "")),
            workspace=line.get("workspace"),
            speaker=line.get("speaker"),
            verdict=verdicts.get(
                line["session_id"], "confirmed" if is_own else "unconfirmed"
            ),
        )
        notes.append(note)
    return notes


def read_note_lines(space_dir: Path) -> list[LogLine]:
    """Return the lines of all notes as they were written, oldest first; unreadable ones are skipped."""
    return [
        line
        for path in sorted((space_dir / NOTES).glob("*.jsonl"))
        for line in map(parse_line, path.read_bytes().splitlines())
        if str(line.get("session_id", "")).startswith(PREFIX)
        and line.get("message_id") == "m1"
    ]


def read_written(
    space_dir: Path, read_before: Container[tuple[str, int, int]]
) -> list[dict[str, str]]:
    """Return the lines of conversations and notes by users and assistants, without rejected notes and unreadable lines.

    A line is unreadable if it isn't a JSON object or lacks a field of `NEEDED`. A file is skipped if its name, size and
    time of change (ns) are in `read_before`.
    """
    paths = [
        path for folder in find_talk_logs(space_dir) for path in folder.glob("*.jsonl")
    ]
    stats = [(path, path.stat()) for path in paths]
    changed = [
        path
        for path, stat in stats
        if (path.name, stat.st_size, stat.st_mtime_ns) not in read_before
    ]
    if not changed:
        return []
    rejected = {
        entry.id for entry in read(space_dir, Review) if entry.verdict == "rejected"
    }
    lines = [
        line
        for path in changed
        for line in map(parse_line, path.read_bytes().splitlines())
    ]
    spoken = [
        line
        for line in lines
        if line.get("role") in ("user", "assistant")
        and all(isinstance(line.get(name), str) for name in NEEDED)
    ]
    return [line for line in spoken if line["session_id"] not in rejected]


def review_note(
    space_dir: Path,
    note: Note,
    verdict: Verdict,
) -> None:
    """Append a person's verdict on a note to the log of reviews, and publish it if the store is in a bucket.

    Raises:
        StoreUnwritable: the folder's disk is full or read-only.
    """
    append(space_dir, Review(format_now(), note.id, verdict))
    find_place(space_dir.parent).push(space_dir.name)
