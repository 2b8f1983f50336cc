"""OpenClaw's sessions since 2026.7.2: `~/.openclaw/agents/<agent>/agent/openclaw-agent.sqlite`.

The database belongs to a running gateway: it is opened read-only, and nothing is written beside
it. Each row of `transcript_events` holds its event as JSON or as Zstandard; deleted, reset and cold sessions lie
whole in archive blobs. A damaged row goes to quarantine under its rowid, and its session goes on.
"""

import io
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import zstandard

from slowwave.tasks.ingest.formats.agents.openclaw.reader import (
    HOMES,
    OPENCLAW,
    parse_session_kind,
    read_events,
)
from slowwave.tasks.ingest.parsing.lines import (
    CHUNK,
    DAMAGE,
    EXCERPT,
    BoundedUnpacking,
    decode_excerpt,
    iter_lines,
    parse_object,
)
from slowwave.tasks.ingest.parsing.records import (
    Head,
    Limits,
    Reader,
    Record,
    Rejected,
    Session,
    lies_below,
    read_each,
)
from slowwave.tasks.ingest.parsing.sqlite_readonly import (
    TROUBLE,
    explain_long_cell,
    fetch_row,
    has_columns,
    list_columns,
    open_read_only,
)

Item = tuple[int, dict[str, Any]] | Rejected
_ARCHIVES = (
    (
        "session_transcript_archives",
        "encoding = 'zstd'",
        "1",
        "created_at, session_id, generation",
    ),
    (
        "session_transcript_cold_archives",
        "1",
        "archive_blob IS NOT NULL",
        "archived_at, session_id",
    ),
)
"""Tables of sessions that were moved from the events into one blob: table, and SQL for whether a blob is packed, which
rows to read, and their order."""


def sniff(head: Head) -> bool:
    """Return True if the file is a SQLite database with OpenClaw's transcript table."""
    return has_columns(head, "transcript_events", {"session_id", "seq", "event_json"})


def read(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield records of every session in the database: its archives first, then its live events."""
    try:
        with open_read_only(path, limits) as db:
            for part in (_read_archives(db, limits), _read_events(db, limits)):
                yield from _catch_damage(part)
    except TROUBLE as error:
        yield Rejected(0, f"the database cannot be opened: {error}")


def _catch_damage(records: Iterator[Record]) -> Iterator[Record]:
    """Yield the records; if a page is damaged, yield those before it and then a rejection."""
    try:
        yield from records
    except sqlite3.DatabaseError as error:
        yield Rejected(0, f"SQLite cannot read on: {error}")


# Live events.


def _read_events(db: sqlite3.Connection, limits: Limits) -> Iterator[Record]:
    query = "SELECT session_id, count(*), min(rowid) FROM transcript_events GROUP BY session_id ORDER BY session_id"
    for session_id, count, rowid in db.execute(query).fetchall():
        if isinstance(session_id, str) and session_id:
            yield from read_each([(rowid, session_id)], partial(_read_live, db, limits))
        else:
            yield Rejected(
                rowid,
                f"events without a session, {count:,}: their session's id is {session_id!r:.60}",
            )


def _read_live(
    db: sqlite3.Connection,
    limits: Limits,
    rowid: int,
    session_id: str,
) -> Iterator[Record]:
    return _catch_damage(
        _read_session(db, session_id, _query_events(db, session_id, limits))
    )


def _read_session(
    db: sqlite3.Connection, session_id: str, items: Iterator[Item]
) -> Iterator[Record]:
    # Title, kind and parent are in `session_windows` and `session_nodes`.
    window = _fetch_row(
        db=db, table="session_windows", key="session_id", value=session_id
    )
    session = Session(session_id)
    if key := window.get("session_key"):
        node = _fetch_row(db=db, table="session_nodes", key="session_key", value=key)
        parent_key = (
            window.get("spawned_by")
            or window.get("parent_session_key")
            or node.get("spawned_by")
        )
        parent = None
        if parent_key := parent_key or node.get("parent_session_key"):
            parent = _fetch_row(
                db=db, table="session_nodes", key="session_key", value=parent_key
            ).get("current_session_id")
        elif window.get("reason") in ("fork", "rewind", "compaction"):
            parent = window.get("previous_session_id") or node.get(
                "fork_source_session_id"
            )
        title = (
            node.get("label") or window.get("display_name") or node.get("display_name")
        )
        session = Session(
            session_id,
            title=title,
            kind=parse_session_kind(key),
            parent_id=parent and str(parent),
        )
    return read_events(items, session, OPENCLAW, pinned=True)


def _query_events(
    db: sqlite3.Connection, session_id: str, limits: Limits
) -> Iterator[Item]:
    """Yield a session's events, numbered by rowid. Text is read as bytes, since an invalid character would end the
    query.
    """
    packed = (
        "event_zstd"
        if "event_zstd" in list_columns(db, "transcript_events")
        else "NULL"
    )
    query = "SELECT rowid, seq FROM transcript_events WHERE session_id = ? ORDER BY seq"
    columns = ("CAST(event_json AS BLOB)", packed)
    try:
        with closing(db.execute(query, (session_id,))) as rows:
            for rowid, seq in rows:
                (plain, zstd), long = fetch_row(
                    db=db,
                    table="transcript_events",
                    columns=columns,
                    key="rowid",
                    value=rowid,
                )
                if plain is not None:
                    yield _parse_event(rowid, plain, seq)
                elif zstd is not None:
                    yield _decompress_event(
                        rowid=rowid, raw=zstd, seq=seq, limits=limits
                    )
                else:
                    missing = "neither event_json nor event_zstd holds the event"
                    yield Rejected(
                        rowid, explain_long_cell(limits) if long else missing
                    )
    except sqlite3.DatabaseError as error:
        yield Rejected(0, f"SQLite cannot read on in session {session_id}: {error}")


def _decompress_event(
    rowid: int,
    raw: bytes,
    seq: int,
    limits: Limits,
) -> Item:
    try:
        with zstandard.ZstdDecompressor().stream_reader(raw) as stream:
            data = stream.read(limits.max_line_bytes + 1)
    except zstandard.ZstdError as error:
        return Rejected(
            rowid,
            f"event_zstd does not decompress: {error}",
            raw[:EXCERPT].hex()[:EXCERPT],
        )
    if len(data) > limits.max_line_bytes:
        return Rejected(
            rowid,
            f"event is over the limit of {limits.max_line_bytes} bytes",
            decode_excerpt(data),
        )
    return _parse_event(rowid, data, seq)


def _parse_event(rowid: int, raw: bytes, seq: int) -> Item:
    """Return the event. Without an id it gets its place in the session, since packing a database changes rowids."""
    item = parse_object(rowid, raw)
    if not isinstance(item, Rejected):
        item[1].setdefault("id", str(seq))
    return item


# Archives.


def _read_archives(db: sqlite3.Connection, limits: Limits) -> Iterator[Record]:
    archives = []
    for table, packed, where, order in _ARCHIVES:
        if "archive_blob" in list_columns(db, table):
            rows = db.execute(
                f"SELECT rowid, session_id, {packed} FROM {table} WHERE {where} ORDER BY {order}"
            )
            archives += [(table, *row) for row in rows]
    for table, rowid, session_id, zstd in archives:
        if not isinstance(session_id, str) or not session_id:
            yield Rejected(
                rowid,
                f"archive without a session: its session's id is {session_id!r:.60}",
            )
            continue
        read_one = partial(_read_archive, db, table, limits=limits, packed=bool(zstd))
        yield from read_each(
            [(rowid, session_id)],
            lambda *place, read=read_one: _catch_damage(read(*place)),
        )


def _read_archive(
    db: sqlite3.Connection,
    table: str,
    rowid: int,
    session_id: str,
    *,
    packed: bool,
    limits: Limits,
) -> Iterator[Record]:
    """Yield the records of an archived session. Their line is the archive's rowid, where a person finds it."""
    with db.blobopen(table, "archive_blob", rowid, readonly=True) as blob:
        # Read piece by piece.
        source: Any = blob
        if packed:
            source = zstandard.ZstdDecompressor().stream_reader(
                source, read_across_frames=True, closefd=False
            )
        stream: io.BufferedReader = io.BufferedReader(
            BoundedUnpacking(source, len(blob)), CHUNK
        )
        yield from _read_session(
            db, session_id, _read_archive_lines(stream, rowid, limits)
        )


def _read_archive_lines(
    stream: io.BufferedReader, rowid: int, limits: Limits
) -> Iterator[Item]:
    number = 0
    try:
        for line in iter_lines(stream, limits):
            number = line.line if isinstance(line, Rejected) else line[0]
            if not isinstance(line, Rejected) and not line[1].strip():
                continue
            item = (
                line
                if isinstance(line, Rejected)
                else _parse_event(rowid, line[1], number)
            )
            if isinstance(item, Rejected):
                item = Rejected(
                    rowid, f"archive line {number}: {item.reason}", item.excerpt
                )
            yield item
    except (*DAMAGE, sqlite3.Error) as error:
        yield Rejected(rowid, f"archive is damaged after line {number}: {error}")


def _fetch_row(
    db: sqlite3.Connection,
    table: str,
    key: str,
    value: str,
) -> dict[str, Any]:
    """Return one row by the column names; an empty one without such a row or table. A cell over the limit is null."""
    names = sorted(list_columns(db, table))
    return (
        dict(
            zip(
                names,
                fetch_row(db=db, table=table, columns=names, key=key, value=value)[0],
                strict=True,
            )
        )
        if key in names
        else {}
    )


PLACES = lies_below(HOMES, "agents/*/agent/openclaw-agent.sqlite")
READER = Reader(
    name="openclaw-sqlite",
    sniff=sniff,
    read=read,
    locations=PLACES,
    suffixes=("", "-wal"),
    tool="openclaw",
    version=6,
)
