"""slowwave's own exports, read back: `slowwave export OUT` from one store, `slowwave run OUT` into another.

An export is one transcript: its `manifest.json`, or its messages' file alone. What the store knew a message and its
session by is kept: a message's identity hangs on its tool's own ids, so it can't be made again, and must be the same
when the tool's transcript is read too. Without the sessions' file the sessions have no names of their own.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import cast, get_args

import orjson

from slowwave.schemas.tables import BLOCK_TYPES, MESSAGES, SESSIONS, Table
from slowwave.tasks.ingest.formats.own import columnar
from slowwave.tasks.ingest.parsing.lines import iter_json, open_binary, read_head
from slowwave.tasks.ingest.parsing.records import (
    Head,
    Limits,
    Message,
    Origin,
    Reader,
    Record,
    Rejected,
    Role,
    Session,
    StoredMessage,
    StoredSession,
)
from slowwave.tasks.ingest.parsing.values import (
    coerce_dict,
    coerce_list,
    coerce_text,
    coerce_time,
    format_excerpt,
    parse_blocks,
)

MANIFEST = "manifest.json"
_TOLD = frozenset(("message_id", "session_id", "native_id", "identity", "blocks", "prev_hash", "hash"))
"""Columns that messages have, and no other table nor tool."""
_ID = re.compile(r"[0-9a-f]{32}")


def sniff(head: Head) -> bool:
    """Return whether it is an export's manifest, or the file of its messages."""
    first = next(iter(head.lines), None)
    try:
        names = set(first if isinstance(first, dict) else columnar.read_column_names(head))
    except columnar.DAMAGED:
        return False
    return names >= _TOLD or bool(_parse_format(head.data))


def is_export(folder: Path) -> bool:
    """Return whether the folder's manifest says that it is an export."""
    path = folder / MANIFEST
    try:
        return path.is_file() and bool(_parse_format(read_head(path).data))
    except OSError:
        return False


def _parse_format(manifest: bytes) -> str | None:
    """Return the format that an export's manifest names; None when it is no such manifest."""
    try:
        found = coerce_dict(orjson.loads(manifest))
    except orjson.JSONDecodeError:
        return None
    form = found.get("format")
    return form if form in ("parquet", "lance", "jsonl") and {"release_id", "tables"} <= found.keys() else None


def read(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield records in order of the messages' rows; a session comes before its first message."""
    messages, sessions = _locate_tables(path)
    if not _is_there(messages):
        yield Rejected(0, f"this export holds no messages: `slowwave export OUT --table {MESSAGES.name}` writes them")
        return
    if messages.is_file() and _begins_with(messages, b"PARE"):
        yield Rejected(0, "this export is encrypted, and only its passphrase opens it: nothing of it was read")
        return
    known: dict[str, Session] = {}
    for found in _read_table(sessions, SESSIONS, _parse_session, limits):
        if isinstance(found, Session):
            known[found.key] = found
        else:
            yield found
    told: set[str] = set()
    for found in _read_table(messages, MESSAGES, _parse_message, limits):
        if isinstance(found, Message) and found.session not in told:
            told.add(found.session)
            yield known.get(found.session) or _make_unnamed_session(found)
        yield found


def _locate_tables(path: Path) -> tuple[Path, Path]:
    """Return where an export's messages and sessions are; no name that it holds is followed."""
    if path.name != MANIFEST:
        return path, path.with_name(SESSIONS.name + path.name.removeprefix(MESSAGES.name))
    form = _parse_format(path.read_bytes())
    return path.with_name(f"{MESSAGES.name}.{form}"), path.with_name(f"{SESSIONS.name}.{form}")


def _read_table(
    path: Path, table: Table, made: Callable[[int, Mapping[str, object]], Record], limits: Limits
) -> Iterator[Record]:
    """Yield what is made of each row of a table's file; a row that is none is rejected with the reason."""
    if not _is_there(path):
        return
    for item in iter_json(path, limits) if _is_jsonl_file(path) else columnar.read_rows(path, table.schema.names):
        if isinstance(item, Rejected):
            yield item
            continue
        line, row = item
        wrong = (name for name, fits in _FITS.items() if name in table.schema.names and not fits(row.get(name)))
        name = next(wrong, None)
        yield (
            Rejected(line, f"{name} is {row.get(name)!r:.60}: no export has that", format_excerpt(row))
            if name
            else made(*item)
        )


def _is_there(path: Path) -> bool:
    """Return whether a table is there, and no pipe: whoever opens one waits for one who writes."""
    return path.is_file() or path.is_dir()


def _is_jsonl_file(path: Path) -> bool:
    return not path.is_dir() and _begins_with(path, b"{")


def _begins_with(path: Path, mark: bytes) -> bool:
    with open_binary(path) as stream:
        return stream.read(len(mark)) == mark


def _is_id(value: object) -> bool:
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_block_list(value: object) -> bool:
    return isinstance(value, list) and all(coerce_dict(block).get("type") in BLOCK_TYPES for block in value)


_FITS: Mapping[str, Callable[[object], bool]] = {
    **dict.fromkeys(("message_id", "session_id", "identity"), _is_id),
    **dict.fromkeys(("native_id", "source", "text"), _is_text),
    "role": lambda value: value in get_args(Role),
    "origin": lambda value: value in get_args(Origin),
    "blocks": _is_block_list,
    "inactive": lambda value: isinstance(value, list) and all(map(_is_id, value)),
}
"""What columns must hold; what is wrong in others counts as absent."""


def _parse_session(line: int, row: Mapping[str, object]) -> Session:
    kind = row.get("kind")
    return Session(
        str(row["native_id"]),
        coerce_text(row.get("workspace")),
        coerce_text(row.get("title")),
        kind if kind in ("chat", "subagent", "scheduled") else None,
        coerce_text(row.get("parent_id")),
        StoredSession(str(row["session_id"]), str(row["source"]), tuple(map(str, coerce_list(row["inactive"])))),
    )


def _make_unnamed_session(message: Message) -> Session:
    """Return the session of a message whose sessions were not exported."""
    source = message.stored.source if message.stored else ""
    return Session(message.session, stored=StoredSession(message.session, source))


def _parse_message(line: int, row: Mapping[str, object]) -> Message:
    message_id, identity, source = (str(row[name]) for name in ("message_id", "identity", "source"))
    return Message(
        session=str(row["session_id"]),
        native_id=str(row["native_id"]),
        role=cast(Role, row["role"]),
        origin=cast(Origin, row["origin"]),
        blocks=parse_blocks(row["blocks"]) or [],
        text=str(row["text"]),
        ts=coerce_time(row.get("ts")),
        parent_id=coerce_text(row.get("parent_id")),
        speaker=coerce_text(row.get("speaker")),
        line=line,
        stored=StoredMessage(message_id, identity, source, coerce_text(row.get("workspace"))),
    )


READER = Reader("slowwave", 1, sniff, read)
