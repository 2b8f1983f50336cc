"""Cline: `~/.cline/data/sessions/<id>/<id>.messages.json`; a sub-agent's is `agent_<id>.messages.json` beside it.

A file is one document with Anthropic's messages, each with an id. A person's words are in `<user_input mode="act">`; an
attached file is another part of the prompt. `<id>.json` has the session's folder. A fork begins with copies of the
messages above it, with their ids and times. A prompt that was interrupted has no time: it gets that of the message
above it, or of the session's start. What is only displayed, such as an error, is synthetic.
"""

from contextlib import suppress
from pathlib import Path

import orjson

from slowwave.plugins.formats.chats import (
    Chat,
    ChatFormat,
    Fields,
    get_id,
    get_text,
    starts_with,
)
from slowwave.tasks.ingest.parsing.records import (
    Block,
    Reader,
    Role,
    Session,
    lies_in,
)
from slowwave.tasks.ingest.parsing.values import (
    coerce_dict,
    extract_outer_body,
    extract_typed,
    parse_blocks,
)

NAME = "cline"
BY_PROGRAM = ("automation", "task")
"""Origins of sessions that a program began."""
BIGGEST_STATE = 4 << 20
"""Most bytes of `<id>.json` that are read."""


def _open(path: Path, number: int, fields: Fields) -> Chat | None:
    named = get_id(fields, "sessionId")
    if named is None:
        return None
    state = _read_state(path)
    about = Session(
        native_id=named,
        workspace=get_text(state, "workspace_root", "cwd"),
        title=get_text(state, "metadata.title")
        if fields.get("agent") == "lead"
        else None,
        kind="chat",
        parent_id=get_text(fields, "origin.parentThreadId"),
    )
    if fields.get("agent") != "lead":
        about.kind = "subagent"
    elif get_text(fields, "origin.mode") in BY_PROGRAM:
        about.kind = "scheduled"
    began = state.get("started_at")
    return Chat(about, _add_times(fields, began), began, text=_extract_typed)


def _add_times(fields: Fields, began: object) -> object:
    """Return the messages, each without a time with that of the message above it."""
    messages = fields.get("messages")
    if not isinstance(messages, list):
        return messages
    timed: list[object] = []
    last = began
    for message in messages:
        if isinstance(message, dict):
            last = message.get("ts") or last
            message = {**message, "ts": last}
        timed.append(message)
    return timed


def _is_displayed(message: Fields) -> bool:
    """Return True if a message is the program's: an error that is displayed, or a summary."""
    return get_text(message, "metadata.displayRole") in ("error", "system")


def _read_state(path: Path) -> Fields:
    """Return Cline's state of the session, `<id>.json`; an empty one if it is missing, a link, too large or no JSON."""
    state = path.parent / f"{path.parent.name}.json"
    with suppress(OSError, ValueError):
        if not state.is_symlink() and state.stat().st_size <= BIGGEST_STATE:
            return coerce_dict(orjson.loads(state.read_bytes()))
    return {}


def _extract_typed(text: str, role: Role) -> str:
    """Return the typed part of a user's prompt; the text of other roles is unchanged."""
    if role != "user":
        return text
    typed = extract_outer_body(text, "user_input")
    return extract_typed(text) if typed is None else typed


def _parse(fields: Fields, role: Role) -> list[Block] | None:
    return parse_blocks(fields.get("content"))


FORMAT = ChatFormat(
    open=_open,
    parse=_parse,
    time=("ts",),
    hides=_is_displayed,
    copies=f"{NAME}/",
)
READER = Reader(
    name=NAME,
    sniff=starts_with("agent sessionId origin messages"),
    read=FORMAT.read,
    locations=lies_in(
        "CLINE_DATA_DIR", ".cline/data", ("sessions",), "*/*.messages.json"
    ),
    version=3,
)
