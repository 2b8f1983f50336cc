"""Notes as they were written down, and what a person said of them: `reviews.jsonl`, a line a verdict, the last counts.

What an agent noted may be what a page told it to note. So until a person confirms it, it stands in no briefing, no
skill and no project file, bears nothing out, and is held less sure; what is rejected is left out of all that is
distilled. Verdicts hold at once: they belong to no release.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from slowwave.schemas.errors import StoreUnwritable, UsageError
from slowwave.store.journals.recalls import append_line

FILE = "reviews.jsonl"
FOLDER = "notes"
PREFIX = "note-"
"""Of a note's session."""
Verdict = Literal["confirmed", "rejected"]


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
    verdicts = read_reviews(space_dir)
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
        for path in sorted((space_dir / FOLDER).glob("*.jsonl"))
        for line in _iter_lines(path)
        if str(line.get("session_id", "")).startswith(PREFIX) and line.get("message_id") == "m1"
    ]


def find_note(space_dir: Path, wanted: str) -> Note:
    """Return the note whose id begins so, with `note-` or without.

    Raises:
        UsageError: there is none, or there are several.
    """
    found = [one for one in read_notes(space_dir) if wanted and one.id.removeprefix(PREFIX).startswith(_strip(wanted))]
    if len(found) != 1:
        raise UsageError(f"{len(found)} notes have an id that begins with {wanted!r}: `slowwave notes list`")
    return found[0]


def review_note(space_dir: Path, note: Note, verdict: Verdict) -> None:
    """Write a person's verdict down.

    Raises:
        StoreUnwritable: the folder takes no more.
    """
    line = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "id": note.id, "verdict": verdict}
    if not append_line(space_dir / FILE, line):
        raise StoreUnwritable(space_dir, f"{FILE} takes no line")


def read_reviews(space_dir: Path) -> dict[str, str]:
    """Return note's id -> the last verdict on it."""
    lines = _iter_lines(path) if (path := space_dir / FILE).is_file() else ()
    return {str(line["id"]): str(line["verdict"]) for line in lines if line.keys() >= {"id", "verdict"}}


def _iter_lines(path: Path) -> Iterator[dict[str, str]]:
    for raw in path.read_bytes().splitlines():
        try:
            line = json.loads(raw)
        except (ValueError, RecursionError):  # cut by a crash, or written by hand
            continue
        if isinstance(line, dict):
            yield line


def _strip(wanted: str) -> str:
    return wanted.removeprefix(PREFIX)
