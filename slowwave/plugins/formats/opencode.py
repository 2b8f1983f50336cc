"""opencode's sessions: its database (`~/.local/share/opencode/opencode.db`), and the output of `opencode export`.

Both hold the same objects: a session's `info`, and messages with their parts. The database belongs to a running
program, so it is opened read-only. A damaged row goes to quarantine under its rowid.

A fork begins with copies of the messages above it, with new ids and the old times. A message that is older than its
session is such a copy. It is inactive if the database has the original. An export of a fork alone is read completely.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from slowwave.plugins.formats.chats import (
    Chat,
    ChatFormat,
    Fields,
    get,
    get_id,
    get_objects,
    get_text,
)
from slowwave.tasks.ingest.parsing.lines import has_keys_in_head, parse_object
from slowwave.tasks.ingest.parsing.records import (
    Block,
    Head,
    Limits,
    Reader,
    Record,
    Rejected,
    Role,
    Session,
    lies_in,
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
from slowwave.tasks.ingest.parsing.values import coerce_dict, coerce_list, encode_json

_NOISE = frozenset(
    ("step-start", "step-finish", "snapshot", "patch", "agent", "retry", "compaction")
)
"""Parts about the program's own actions."""

_COPIES = "copies"
"""Field of a session from the database with the ids of its copied messages."""
_QUERY_COPIES = """
SELECT copy.id FROM session JOIN message AS copy ON copy.session_id = session.id
WHERE session.rowid = ? AND copy.time_created < session.time_created AND EXISTS (
  SELECT 1 FROM message AS original JOIN session AS first ON first.id = original.session_id
  WHERE original.time_created = copy.time_created AND first.time_created <= original.time_created)
"""
"""Selects the ids of a session's messages that are older than the session and have an original in another one."""


def sniff(head: Head) -> bool:
    """Return True if the file is opencode's database, or starts like an export of it."""
    is_export = not head.data.startswith(MAGIC) and has_keys_in_head(
        head, "info", "projectID", "directory"
    )
    return is_export or has_columns(head, "part", {"session_id", "message_id", "data"})


def read(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield records of each session; `line` is the session's or a bad row's rowid, or the export's number."""
    return (
        _read_database(path, limits)
        if is_database(path)
        else OPENCODE.read(path, limits)
    )


def _read_database(path: Path, limits: Limits) -> Iterator[Record]:
    try:
        with open_read_only(path, limits) as db:
            revert = "revert" if "revert" in list_columns(db, "session") else "NULL"
            columns = ("id", "parent_id", "directory", "title", revert)
            rows = db.execute(
                "SELECT rowid, rowid FROM session ORDER BY time_created, id"
            ).fetchall()
            # a session that can't be read, for example on a damaged page, does not stop the others
            yield from read_each(
                rows,
                lambda rowid, _: _read_session(
                    db=db, path=path, columns=columns, rowid=rowid, limits=limits
                ),
            )
    except TROUBLE as error:
        yield Rejected(0, f"the database cannot be read: {error}")


def _read_session(
    db: sqlite3.Connection,
    path: Path,
    columns: Sequence[str],
    rowid: int,
    limits: Limits,
) -> Iterator[Record]:
    """Yield the records of one session, whose rows are first put into the form of an export."""
    cells, long = fetch_row(
        db=db, table="session", columns=columns, key="rowid", value=rowid
    )
    yield from (
        Rejected(rowid, f"session's {name}: {explain_long_cell(limits)}")
        for name in long
    )
    info: Fields = dict(
        zip(("id", "parentID", "directory", "title"), cells, strict=False)
    )
    info["revert"] = _parse_data(cells[-1])
    items = list(_query_messages(db, cells[0], limits))
    yield from (item for item in items if isinstance(item, Rejected))
    messages = [item for item in items if not isinstance(item, Rejected)]
    yield from OPENCODE.read_document(
        path, rowid, {"info": info, **_drop_copies(db, rowid, messages)}
    )


def _drop_copies(
    db: sqlite3.Connection, rowid: int, messages: Sequence[Fields]
) -> Fields:
    """Return the fields `messages`, the session's own, and `copies`, the ids of the copied ones."""
    copies = {key for (key,) in db.execute(_QUERY_COPIES, (rowid,))}
    own = [message for message in messages if get_id(message, "info.id") not in copies]
    return {"messages": own, _COPIES: sorted(copies)}


def _query_messages(
    db: sqlite3.Connection, session: str, limits: Limits
) -> Iterator[Fields | Rejected]:
    """Yield the rejected parts, then each message with its parts in the form of an export."""
    parts: dict[str, list[object]] = {}
    for rowid, owner in db.execute(
        "SELECT rowid, message_id FROM part WHERE session_id = ? ORDER BY id",
        (session,),
    ):
        part = _fetch_data(
            db=db,
            table="part",
            what=f"part of message {owner}",
            rowid=rowid,
            limits=limits,
        )
        if isinstance(part, Rejected):
            yield part
        else:
            parts.setdefault(owner, []).append(part)
    messages = (
        "SELECT rowid, id FROM message WHERE session_id = ? ORDER BY time_created, id"
    )
    for rowid, key in db.execute(messages, (session,)):
        info = _fetch_data(
            db=db, table="message", what=f"message {key}", rowid=rowid, limits=limits
        )
        yield (
            info
            if isinstance(info, Rejected)
            else {"info": info | {"id": key}, "parts": parts.get(key, [])}
        )


def _fetch_data(
    db: sqlite3.Connection,
    table: str,
    what: str,
    rowid: int,
    limits: Limits,
) -> Fields | Rejected:
    (data,), long = fetch_row(
        db=db, table=table, columns=["data"], key="rowid", value=rowid
    )
    fields = _parse_data(data)
    if long:
        why = explain_long_cell(limits)
    elif fields is None:
        why = "it is not a JSON object"
    else:
        why = None
    return (
        Rejected(rowid, f"{what}: {why}", str(data or "")[:200])
        if why or fields is None
        else fields
    )


def _parse_data(data: object) -> Fields | None:
    item = parse_object(0, data.encode()) if isinstance(data, str) else None
    return None if item is None or isinstance(item, Rejected) else item[1]


def _open(path: Path, number: int, fields: Fields) -> Chat | None:
    """Return the session; None if it has no id. Messages from the one that `revert` names on are inactive."""
    info = coerce_dict(fields.get("info"))
    session = get_id(info, "id")
    parent = get_id(info, "parentID")
    if session is None:
        return None
    ids = [
        get_id(message, "info.id") or "" for message in get_objects(fields, "messages")
    ]
    back = get_id(info, "revert.messageID")
    about = Session(
        native_id=session,
        workspace=get_text(info, "directory"),
        title=get_text(info, "title"),
        kind="subagent" if parent else None,
        parent_id=parent,
    )
    gone = [
        *coerce_list(fields.get(_COPIES)),
        *(ids[ids.index(back) :] if back in ids else ()),
    ]
    return Chat(about, fields.get("messages"), inactive=list(map(str, gone)))


def _parse_parts(message: Fields, role: Role) -> list[Block] | None:
    if not isinstance(message.get("parts"), list):
        return None
    return [
        block for part in get_objects(message, "parts") for block in _parse_part(part)
    ]


def _is_synthetic(message: Fields) -> bool:
    """Return True if a message is a model's summary for itself, or a user's turn with nothing but the program's
    text.
    """
    if get(message, "info.role") != "user":
        return get(message, "info.summary") is True
    return not any(
        block.type == "text" for block in _parse_parts(message, "user") or ()
    )


def _parse_part(part: Fields) -> Iterator[Block]:
    match kind := get_text(part, "type") or "unknown":
        case "text":
            if text := get_text(part, "text"):
                # the program added this text, such as a file's content
                added = part.get("synthetic") is True or part.get("ignored") is True
                yield (
                    Block("other", text, name="synthetic")
                    if added
                    else Block("text", text)
                )
        case "reasoning":
            if thought := get_text(part, "text"):
                yield Block("thinking", thought)
        case "tool":
            # A call, and its result once there is one.
            tool = get_text(part, "tool")
            call_id = get_id(part, "callID")
            state = coerce_dict(part.get("state"))
            yield Block(
                "tool_call",
                encode_json(coerce_dict(state.get("input"))),
                name=tool,
                call_id=call_id,
            )
            if (status := state.get("status")) in ("completed", "error"):
                output = get_text(state, "output", "error") or ""
                exit_code = get(state, "metadata.exit")
                failed = status == "error" or (
                    isinstance(exit_code, int) and exit_code != 0
                )
                yield Block(
                    "tool_result", output, name=tool, call_id=call_id, is_error=failed
                )
        case "file":
            media = get_text(part, "mime")
            name = get_text(part, "filename")
            yield Block(
                "image" if (media or "").startswith("image/") else "other",
                name,
                name="file",
                media=media,
            )
        case _ if kind not in _NOISE:
            yield Block("other", encode_json(part), name=kind)


OPENCODE = ChatFormat(
    open=_open,
    parse=_parse_parts,
    id="info.id",
    role="info.role",
    time=("info.time.created",),
    parent="info.parentID",
    hides=_is_synthetic,
)
READER = Reader(
    name="opencode",
    sniff=sniff,
    read=read,
    locations=lies_in(
        "XDG_DATA_HOME",
        ".local/share",
        ("opencode", "kilo"),
        "opencode*.db",
        "kilo*.db",
    ),
    version=5,
)
