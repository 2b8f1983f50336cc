"""Conversations and notes that slowwave itself writes down: generic JSONL in the space's folder, for the next night.

    <store>/<space>/talk/talk-20261121-211500-3f2a.jsonl     one conversation of `slowwave talk`
    <store>/<space>/notes/2026-11-21.jsonl                   what agents and people asked to be remembered that day

Like `recalls.jsonl` these belong to no release and are written without the writer's lock, each line in one append. A
space's night reads those of its own space. A folder that is not there is made, since a note may come before the first
night. Secrets are replaced before anything is written, as a night would.
"""

import json
import os
import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from slowwave.schemas.errors import UsageError
from slowwave.schemas.ids import compute_content_id
from slowwave.store.private import make_private_folder

FOLDERS = ("talk", "notes")
NOTED = "Noted."
MAX_NOTE = 10_000
"""Characters of a note: more is a document, and no one thing to be remembered."""

MAX_DAY = 500_000
"""Bytes of one day's notes: an agent that is led to note on and on fills no disk and no night."""
MAX_NAME = 1_000
"""Characters of the name of a workspace or a speaker."""


def find_journals(space_dir: Path) -> list[Path]:
    """Return the folders of a space that hold what slowwave wrote down; none where it wrote nothing yet."""
    return [folder for name in FOLDERS if (folder := space_dir / name).is_dir()]


class Journal:
    """One conversation being written down; its file is made with the first message."""

    def __init__(
        self, space_dir: Path, workspace: str | None = None, at: datetime | None = None, *, redact: bool = True
    ) -> None:
        started = at or datetime.now(UTC)
        self.session = f"talk-{started:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
        self.path = space_dir / "talk" / f"{self.session}.jsonl"
        self.workspace, self.redact, self.count = workspace, redact, 0

    def append(
        self,
        role: str,
        content: str,
        speaker: str | None = None,
        at: datetime | None = None,
        tags: Sequence[str] = (),
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
        words = _redact_fields(self.redact, content, self.workspace, speaker)
        kept = _redact_tags(self.redact, tags)
        _append_to_file(self.path, _format_line(self.session, message, role, *words, at, kept))
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
    """Write down a note, a session of its own; the session's id.

    Args:
        space_dir: the space's folder.
        note: what to remember, in words that stand alone.
        workspace: what it belongs to.
        of_person: whether these are the person's own words; else they are an agent's.
        speaker: who says it.
        at: when; now, unless given.
        tags: words to keep with it.
        redact: whether secrets become placeholders, as the setting of that name says.

    Raises:
        UsageError: the note is empty or over-long, so is a name, or the day has its fill of notes.
        OSError: the folder can't be written to.
    """
    text = note.strip()
    if not text or len(text) > MAX_NOTE:
        raise UsageError(f"a note has 1 to {MAX_NOTE:,} characters, this one has {len(text):,}: nothing was noted")
    if any(len(name) > MAX_NAME for name in (workspace or "", speaker or "", *tags)):
        raise UsageError(
            f"a workspace's, a speaker's or a tag's name has at most {MAX_NAME:,} characters: nothing was noted"
        )
    moment = at or datetime.now(UTC)
    path = space_dir / "notes" / f"{moment:%Y-%m-%d}.jsonl"
    if path.exists() and path.stat().st_size > MAX_DAY:
        raise UsageError(f"this day's notes have over {MAX_DAY:,} bytes: nothing was noted")
    words = _redact_fields(redact, text, workspace, speaker)
    session = f"note-{compute_content_id(words[0], words[1], moment.isoformat())[:16]}"
    role = "user" if of_person else "assistant"
    said = _format_line(session, "m1", role, *words, moment, _redact_tags(redact, tags))
    answer = _format_line(
        session, "m2", "agent", NOTED, words[1], "slowwave", moment
    )  # one message alone is no session
    _append_to_file(path, said + answer)
    return session


def _redact_fields(
    redact: bool, content: str, workspace: str | None, speaker: str | None
) -> tuple[str, str | None, str | None]:
    """Return what a line says, of where and by whom, without secrets where they are to be left out."""
    if not redact:
        return content, workspace, speaker
    from slowwave.text.redact import redact_text

    return (
        redact_text(content),
        redact_text(workspace) if workspace else None,
        redact_text(speaker) if speaker else None,
    )


def _redact_tags(redact: bool, tags: Sequence[str]) -> list[str]:
    """Return tags without secrets where these are to be left out, each once."""
    if not redact or not tags:
        return list(dict.fromkeys(tags))
    from slowwave.text.redact import redact_text

    return list(dict.fromkeys(map(redact_text, tags)))


def _format_line(
    session: str,
    message: str,
    role: str,
    content: str,
    workspace: str | None,
    speaker: str | None,
    at: datetime | None,
    tags: Sequence[str] = (),
) -> bytes:
    fields: Mapping[str, object] = {
        "session_id": session,
        "message_id": message,
        "role": role,
        "content": content.encode("utf-8", "replace").decode(),  # a lone surrogate has no place in a file
        "ts": (at or datetime.now(UTC)).isoformat(timespec="milliseconds"),
        "workspace": workspace,
        "speaker": speaker,
        "tags": list(tags) or None,
    }
    known = {name: value for name, value in fields.items() if value is not None}
    return json.dumps(known, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _append_to_file(path: Path, raw: bytes) -> None:
    """Append all of it in one write, for the owner's eyes alone."""
    make_private_folder(path.parent)
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        written = os.write(handle, raw)
        if written != len(raw):
            raise OSError(f"only {written} of {len(raw)} bytes could be written to {path}")
        os.fsync(handle)
    finally:
        os.close(handle)
