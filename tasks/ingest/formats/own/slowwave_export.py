"""slowwave's own exports, read back: `slowwave export OUT` from one store, `slowwave run OUT` into another.

An export is one transcript: its `manifest.json`, or its messages' file alone. What the store knew a message and its
session by is kept: a message's identity hangs on its tool's own ids, so it can't be made again, and must be the same
when the tool's transcript is read too. Without the sessions' file the sessions have no names of their own.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TypeVar

import orjson
from pydantic import BaseModel, Field, ValidationError

from slowwave.schemas.tables import MESSAGES, SESSIONS, Table
from slowwave.tasks.ingest.formats.own import columnar
from slowwave.tasks.ingest.parsing.lines import format_excerpt, iter_json, open_binary, read_head
from slowwave.tasks.ingest.parsing.records import (
    Block,
    Head,
    Limits,
    Message,
    Origin,
    Reader,
    Record,
    Rejected,
    Role,
    Session,
    SessionKind,
    StoredMessage,
    StoredSession,
)
from slowwave.tasks.ingest.parsing.values import coerce_dict, coerce_time

MANIFEST = "manifest.json"
_TOLD = frozenset(("message_id", "session_id", "native_id", "identity", "blocks", "prev_hash", "hash"))
"""Columns that messages have, and no other table nor tool."""
Id = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]


class _SessionRow(BaseModel):
    session_id: Id
    native_id: str
    source: str
    inactive: list[Id]
    workspace: str | None = None
    title: str | None = None
    kind: SessionKind | None = None
    parent_id: str | None = None


class _MessageRow(BaseModel):
    message_id: Id
    session_id: Id
    identity: Id
    native_id: str
    source: str
    role: Role
    origin: Origin
    blocks: list[Block]
    text: str
    ts: Any = None
    parent_id: str | None = None
    speaker: str | None = None
    workspace: str | None = None


Row = TypeVar("Row", bound=BaseModel)


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
    for _, row in _read_table(sessions, SESSIONS, _SessionRow, limits):
        if isinstance(row, Rejected):
            yield row
            continue
        stored = StoredSession(row.session_id, row.source, tuple(row.inactive))
        known[row.session_id] = Session(row.native_id, row.workspace, row.title, row.kind, row.parent_id, stored)
    told: set[str] = set()
    for line, message in _read_table(messages, MESSAGES, _MessageRow, limits):
        if isinstance(message, Rejected):
            yield message
            continue
        sid, source = message.session_id, message.source
        if sid not in told:
            told.add(sid)
            yield known.get(sid) or Session(sid, stored=StoredSession(sid, source))
        yield Message(
            sid,
            **message.model_dump(include={"native_id", "role", "origin", "text", "parent_id", "speaker"}),
            blocks=message.blocks,
            ts=coerce_time(message.ts),
            line=line,
            stored=StoredMessage(message.message_id, message.identity, source, message.workspace),
        )


def _locate_tables(path: Path) -> tuple[Path, Path]:
    """Return where an export's messages and sessions are; no name that it holds is followed."""
    if path.name != MANIFEST:
        return path, path.with_name(SESSIONS.name + path.name.removeprefix(MESSAGES.name))
    form = _parse_format(path.read_bytes())
    return path.with_name(f"{MESSAGES.name}.{form}"), path.with_name(f"{SESSIONS.name}.{form}")


def _read_table(path: Path, table: Table, form: type[Row], limits: Limits) -> Iterator[tuple[int, Row | Rejected]]:
    """Yield number and values of each row of a table's file; a row that is none is rejected with the reason."""
    if not _is_there(path):
        return
    is_lines = not path.is_dir() and _begins_with(path, b"{")
    for item in iter_json(path, limits) if is_lines else columnar.read_rows(path, table.schema.names):
        if isinstance(item, Rejected):
            yield item.line, item
            continue
        line, row = item
        try:
            yield line, form.model_validate(row)
        except ValidationError as error:
            name = error.errors()[0]["loc"][0]
            why = f"{name} is {row.get(str(name))!r:.60}: no export has that"
            yield line, Rejected(line, why, format_excerpt(row))


def _is_there(path: Path) -> bool:
    """Return whether a table is there, and no pipe: whoever opens one waits for one who writes."""
    return path.is_file() or path.is_dir()


def _begins_with(path: Path, mark: bytes) -> bool:
    with open_binary(path) as stream:
        return stream.read(len(mark)) == mark


READER = Reader("slowwave", 1, sniff, read)
