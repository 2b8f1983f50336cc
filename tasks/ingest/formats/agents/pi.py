"""pi's sessions: `~/.pi/agent/sessions/--<cwd>--/<time>_<uuid>.jsonl`, versions 1 (a list), 2 and 3 (a tree).

A branched file begins with copies of its parent's lines, and a version 1 file is rewritten with fresh ids when pi
opens it again: so a message is known by its times and its content, never by its place or its id.
"""

from collections.abc import Iterator
from pathlib import Path

from slowwave.tasks.ingest.formats.agents.openclaw.events import KINDS, Dialect, parse_session_id, read_events
from slowwave.tasks.ingest.formats.agents.openclaw.text import UnwrappedText
from slowwave.tasks.ingest.parsing.lines import iter_json
from slowwave.tasks.ingest.parsing.records import Head, Limits, Location, Reader, Record, Session
from slowwave.tasks.ingest.parsing.values import clean_text

PI = Dialect(
    "pi",
    lambda raw: UnwrappedText(clean_text(raw)),
    lambda raw: UnwrappedText(clean_text(raw)),
    ids_are_stable=False,
    retries=False,
)


def sniff(head: Head) -> bool:
    """Return whether the file holds session events; OpenClaw, which writes the same ones, is asked first."""
    return any(is_event(line) for line in head.lines[:20])


def is_event(line: object) -> bool:
    """Return whether a JSON value is a session's header or one of its messages."""
    if not isinstance(line, dict):
        return False
    if line.get("type") == "session":
        return isinstance(line.get("id"), str) and bool({"cwd", "version", "provider"} & line.keys())
    message = line.get("message")
    if line.get("type") != "message" or not isinstance(message, dict):
        return False
    return message.get("role") in KINDS and not ({"sessionId", "uuid", "payload"} & line.keys())


def read(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield records of one session file."""
    session = Session(parse_session_id(path.name), kind="chat")
    yield from read_events(iter_json(path, limits), session, PI)


def list_locations(home: Path) -> list[Location]:
    """Return where pi keeps its sessions."""
    root = home / ".pi" / "agent" / "sessions"
    return [Location(root, "**/*.jsonl", root.is_dir())]


READER = Reader("pi", 1, sniff, read, list_locations)
