"""opencode's sessions: its database (`~/.local/share/opencode/opencode.db`), and what `opencode export` prints.

Both hold the same objects: a session's `info`, and messages with their parts. The database belongs to a running
program: it is opened read-only. A damaged row goes to quarantine under its rowid.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import orjson

from slowwave.tasks.ingest.parsing.lines import format_excerpt, has_leading_keys, iter_documents
from slowwave.tasks.ingest.parsing.records import (
    HUMAN,
    MODEL,
    Block,
    Head,
    Inactive,
    Limits,
    Message,
    Reader,
    Record,
    Rejected,
    Session,
    Skipped,
    lies_below,
    read_each,
)
from slowwave.tasks.ingest.parsing.sqlite_readonly import (
    MAGIC,
    TROUBLE,
    explain_long_cell,
    fetch_row,
    has_columns,
    is_database,
    list_columns,
    open_read_only,
)
from slowwave.tasks.ingest.parsing.values import (
    coerce_dict,
    coerce_id,
    coerce_list,
    coerce_text,
    coerce_time,
    encode_json,
    join_text_blocks,
)

_NOISE = frozenset(("step-start", "step-finish", "snapshot", "patch", "agent", "retry", "compaction"))
"""Parts that tell of the program's own doing."""

Fields = dict[str, object]


def sniff(head: Head) -> bool:
    """Return whether the file is opencode's database, or starts as an export of it."""
    is_export = not head.data.startswith(MAGIC) and has_leading_keys(head, "info", "projectID", "directory")
    return is_export or has_columns(head, "part", {"session_id", "message_id", "data"})


def read(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield records of each session; `line` is the message's rowid, or the export's number."""
    if is_database(path):
        return _read_database(path, limits)
    return read_each(
        iter_documents(path, limits),
        lambda number, document: _read_session(
            number,
            coerce_dict(document.get("info")),
            ((number, coerce_dict(message)) for message in coerce_list(document.get("messages"))),
        ),
    )


def _read_database(path: Path, limits: Limits) -> Iterator[Record]:
    try:
        with open_read_only(path, limits) as db:
            revert = "revert" if "revert" in list_columns(db, "session") else "NULL"
            columns = ("id", "parent_id", "directory", "title", revert)
            for (rowid,) in db.execute("SELECT rowid FROM session ORDER BY time_created, id").fetchall():
                cells, long = fetch_row(db, "session", columns, "rowid", rowid)
                yield from (Rejected(rowid, f"session's {name}: {explain_long_cell(limits)}") for name in long)
                info: Fields = dict(zip(("id", "parentID", "directory", "title"), cells, strict=False))
                info["revert"] = _parse_data(cells[-1])
                yield from _read_session(0, info, _query_messages(db, cells[0], limits))
    except TROUBLE as error:
        yield Rejected(0, f"the database cannot be read: {error}")


def _query_messages(db: sqlite3.Connection, session: str, limits: Limits) -> Iterator[tuple[int, Fields] | Rejected]:
    """Yield rowid and message of each, as an export has them."""
    parts: dict[str, list[object]] = {}
    for rowid, owner in db.execute("SELECT rowid, message_id FROM part WHERE session_id = ? ORDER BY id", (session,)):
        part = _fetch_data(db, "part", f"part of message {owner}", rowid, limits)
        if isinstance(part, Rejected):
            yield part
        else:
            parts.setdefault(owner, []).append(part)
    messages = "SELECT rowid, id FROM message WHERE session_id = ? ORDER BY time_created, id"
    for rowid, key in db.execute(messages, (session,)):
        info = _fetch_data(db, "message", f"message {key}", rowid, limits)
        if isinstance(info, Rejected):
            yield info
        else:
            yield rowid, {"info": info | {"id": key}, "parts": parts.get(key, [])}


def _fetch_data(db: sqlite3.Connection, table: str, what: str, rowid: int, limits: Limits) -> Fields | Rejected:
    (data,), long = fetch_row(db, table, ["data"], "rowid", rowid)
    if long:
        return Rejected(rowid, f"{what}: {explain_long_cell(limits)}")
    fields = _parse_data(data)
    return Rejected(rowid, f"{what} is no JSON object", str(data)[:200]) if fields is None else fields


def _parse_data(data: object) -> Fields | None:
    with suppress(orjson.JSONDecodeError):
        value = orjson.loads(data) if isinstance(data, str) else None
        return value if isinstance(value, dict) else None
    return None


def _read_session(line: int, info: Fields, messages: Iterable[tuple[int, Fields] | Rejected]) -> Iterator[Record]:
    session, parent = coerce_id(info.get("id")), coerce_id(info.get("parentID"))
    if session is None:
        yield Rejected(line, "session without an id", format_excerpt(info))
        return
    workspace, title = coerce_text(info.get("directory")), coerce_text(info.get("title"))
    yield Session(session, workspace, title, "subagent" if parent else None, parent)
    back, is_back = coerce_id(coerce_dict(info.get("revert")).get("messageID")), False
    for item in messages:
        record = item if isinstance(item, Rejected) else _parse_message(session, *item)
        yield record
        if isinstance(record, Message):
            is_back = is_back or record.native_id == back
            if is_back:
                yield Inactive(session, record.native_id, "reverted")


def _parse_message(session: str, line: int, message: Fields) -> Message | Rejected | Skipped:
    info, parts = coerce_dict(message.get("info")), message.get("parts")
    key, role = coerce_id(info.get("id")), info.get("role")
    if key is None or role not in ("user", "assistant") or not isinstance(parts, list):
        return Rejected(line, f"message {key!r} of role {role!r}, or without parts", format_excerpt(message))
    blocks = [block for part in map(coerce_dict, parts) for block in _parse_part(part)]
    if not blocks:
        return Skipped("failed answer" if info.get("error") else "empty message", line)
    text, at = join_text_blocks(blocks), coerce_time(coerce_dict(info.get("time")).get("created"))
    if role == "user":
        who = HUMAN if text else ("user", "synthetic")
    else:  # a summary is what was said so far, for the model itself
        who = ("assistant", "synthetic") if info.get("summary") is True else MODEL
    return Message(session, key, *who, blocks, text, at, coerce_id(info.get("parentID")), line=line)


def _parse_part(part: Fields) -> Iterator[Block]:
    match kind := coerce_text(part.get("type")) or "unknown":
        case "text":
            if text := coerce_text(part.get("text")):  # what the program adds (a file's content) nobody said
                added = part.get("synthetic") is True or part.get("ignored") is True
                yield Block("other", text, name="synthetic") if added else Block("text", text)
        case "reasoning":
            if thought := coerce_text(part.get("text")):
                yield Block("thinking", thought)
        case "tool":
            # A call, and its result once there is one.
            tool, call_id, state = (
                coerce_text(part.get("tool")),
                coerce_id(part.get("callID")),
                coerce_dict(part.get("state")),
            )
            yield Block("tool_call", encode_json(coerce_dict(state.get("input"))), name=tool, call_id=call_id)
            if (status := state.get("status")) in ("completed", "error"):
                output = coerce_text(state.get("output")) or coerce_text(state.get("error")) or ""
                exit_code = coerce_dict(state.get("metadata")).get("exit")
                failed = status == "error" or (isinstance(exit_code, int) and exit_code != 0)
                yield Block("tool_result", output, name=tool, call_id=call_id, is_error=failed)
        case "file":
            media, name = coerce_text(part.get("mime")), coerce_text(part.get("filename"))
            yield Block("image" if (media or "").startswith("image/") else "other", name, name="file", media=media)
        case _ if kind not in _NOISE:
            yield Block("other", encode_json(part), name=kind)


READER = Reader("opencode", 1, sniff, read, lies_below((".local/share/opencode",), "opencode*.db"))
