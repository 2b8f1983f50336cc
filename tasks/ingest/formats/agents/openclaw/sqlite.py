"""OpenClaw's sessions since 2026.7.2: `~/.openclaw/agents/<agent>/agent/openclaw-agent.sqlite`.

The database belongs to a running gateway: it is opened read-only, in one transaction, and nothing is written beside
it. Each row of `transcript_events` holds its event as JSON or as Zstandard; deleted, reset and cold sessions lie
whole in archive blobs. A damaged row goes to quarantine under its rowid, and its session goes on.
"""

import io
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import zstandard

from slowwave.tasks.ingest.formats.agents.openclaw.events import read_events
from slowwave.tasks.ingest.formats.agents.openclaw.reader import HOMES, OPENCLAW, parse_session_kind
from slowwave.tasks.ingest.parsing.lines import (
    CHUNK,
    DAMAGE,
    EXCERPT,
    BoundedUnpacking,
    decode_excerpt,
    iter_lines,
    parse_object,
)
from slowwave.tasks.ingest.parsing.records import Head, Limits, Location, Reader, Record, Rejected, Session, Skipped
from slowwave.tasks.ingest.parsing.sqlite_readonly import explain_long_cell, fetch_row, open_read_only

MAGIC = b"SQLite format 3\x00"

Item = tuple[int, dict[str, Any]] | Rejected


@dataclass(slots=True, frozen=True)
class Archive:
    """A session that was moved out of the events table into one blob."""

    table: str
    rowid: int
    session_id: str
    packed: bool


def sniff(head: Head) -> bool:
    """Return whether the file is a SQLite database with OpenClaw's transcript table."""
    if not head.data.startswith(MAGIC):
        return False
    try:
        with open_read_only(head.path) as db:
            return {"session_id", "seq", "event_json"} <= list_columns(db, "transcript_events")
    except (sqlite3.Error, OSError):
        return False


def read(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield records of every session in the database: its archives first, then its live events."""
    try:
        with open_read_only(path, limits) as db:
            db.execute("BEGIN")  # one snapshot, whatever the gateway writes meanwhile
            db.execute("SELECT count(*) FROM sqlite_master").fetchone()
            for part in (_read_archives(db, limits), _read_sessions(db, limits), _skip_external_archives(db)):
                yield from _catch_damage(part)
    except (sqlite3.Error, OSError) as error:
        yield Rejected(0, f"the database cannot be opened: {error}")


def _catch_damage(records: Iterator[Record]) -> Iterator[Record]:
    """Yield a damaged page ends what is read through it, and nothing else."""
    try:
        yield from records
    except sqlite3.DatabaseError as error:
        yield Rejected(0, f"SQLite cannot read on: {error}")


def _read_archives(db: sqlite3.Connection, limits: Limits) -> Iterator[Record]:
    for archive in _list_archives(db):
        yield from _catch_damage(_read_archive(db, archive, limits))


def _read_sessions(db: sqlite3.Connection, limits: Limits) -> Iterator[Record]:
    for session_id in _list_session_ids(db):
        items = _query_events(db, session_id, limits)
        yield from read_events(items, _load_session(db, session_id), OPENCLAW, pinned=True)


def list_locations(home: Path) -> list[Location]:
    """Return where OpenClaw keeps its agents' databases."""
    roots = [home / name for name in HOMES]
    return [Location(root, "agents/*/agent/openclaw-agent.sqlite", root.is_dir()) for root in roots]


def list_columns(db: sqlite3.Connection, table: str) -> set[str]:
    """Return column names of a table; none where it does not exist. Earlier versions of the schema lack some."""
    return {row[0] for row in db.execute("SELECT name FROM pragma_table_info(?)", (table,))}


def _query_events(db: sqlite3.Connection, session_id: str, limits: Limits) -> Iterator[Item]:
    """Yield numbered by rowid. Text is taken as bytes: one invalid character would else end the whole query."""
    packed = "event_zstd" if "event_zstd" in list_columns(db, "transcript_events") else "NULL"
    query = "SELECT rowid, seq FROM transcript_events WHERE session_id = ? ORDER BY seq"
    columns = ("CAST(event_json AS BLOB)", packed)
    try:
        with closing(db.execute(query, (session_id,))) as rows:
            for rowid, seq in rows:
                (plain, zstd), long = fetch_row(db, "transcript_events", columns, "rowid", rowid)
                item = _decode_event(rowid, plain, zstd, bool(long), limits)
                yield item if isinstance(item, Rejected) else _ensure_id(item, seq)
    except sqlite3.DatabaseError as error:
        yield Rejected(0, f"SQLite cannot read on in session {session_id}: {error}")


def _decode_event(rowid: int, plain: bytes | None, zstd: bytes | None, long: bool, limits: Limits) -> Item:
    if plain is not None:
        return parse_object(rowid, plain)
    if zstd is not None:
        return _decompress_event(rowid, zstd, limits)
    return Rejected(rowid, explain_long_cell(limits) if long else "neither event_json nor event_zstd holds the event")


def _decompress_event(rowid: int, raw: bytes, limits: Limits) -> Item:
    try:
        with zstandard.ZstdDecompressor().stream_reader(raw) as stream:
            data = stream.read(limits.max_line_bytes + 1)
    except zstandard.ZstdError as error:
        return Rejected(rowid, f"event_zstd does not decompress: {error}", raw[:EXCERPT].hex()[:EXCERPT])
    if len(data) > limits.max_line_bytes:
        return Rejected(rowid, f"event is over the limit of {limits.max_line_bytes} bytes", decode_excerpt(data))
    return parse_object(rowid, data)


def _ensure_id(item: tuple[int, dict[str, Any]], number: int) -> Item:
    """Return the event with its place in the session as id where it bears none: rowids change when a database is
    packed.
    """
    item[1].setdefault("id", str(number))
    return item


def _list_archives(db: sqlite3.Connection) -> list[Archive]:
    found: list[Archive] = []
    for table, packed, where, order in (
        ("session_transcript_archives", "encoding = 'zstd'", "1", "created_at, session_id, generation"),
        ("session_transcript_cold_archives", "1", "archive_blob IS NOT NULL", "archived_at, session_id"),
    ):
        if "archive_blob" in list_columns(db, table):
            rows = db.execute(f"SELECT rowid, session_id, {packed} FROM {table} WHERE {where} ORDER BY {order}")
            found += [Archive(table, rowid, session_id, bool(zstd)) for rowid, session_id, zstd in rows]
    return found


def _read_archive(db: sqlite3.Connection, archive: Archive, limits: Limits) -> Iterator[Record]:
    """Yield each line under the archive's rowid: the place where a person finds it."""
    with open_blob_stream(db, archive) as stream:
        session = _load_session(db, archive.session_id)
        yield from read_events(_read_archive_lines(stream, archive.rowid, limits), session, OPENCLAW, pinned=True)


def _read_archive_lines(stream: io.BufferedReader, rowid: int, limits: Limits) -> Iterator[Item]:
    number = 0
    try:
        for item in iter_lines(stream, limits):
            if isinstance(item, Rejected):
                yield Rejected(rowid, f"archive line {item.line}: {item.reason}", item.excerpt)
                continue
            number = item[0]
            if not item[1].strip():
                continue
            parsed = parse_object(rowid, item[1])
            yield _prefix_reason(parsed, number) if isinstance(parsed, Rejected) else _ensure_id(parsed, number)
    except (*DAMAGE, sqlite3.Error) as error:
        yield Rejected(rowid, f"archive is damaged after line {number}: {error}")


def _prefix_reason(rejected: Rejected, number: int) -> Rejected:
    return Rejected(rejected.line, f"archive line {number}: {rejected.reason}", rejected.excerpt)


@contextmanager
def open_blob_stream(db: sqlite3.Connection, archive: Archive) -> Iterator[io.BufferedReader]:
    """Open the archive's lines as a stream, read from the database piece by piece."""
    with db.blobopen(archive.table, "archive_blob", archive.rowid, readonly=True) as blob:
        stream: io.BufferedReader = io.BufferedReader(_BlobBytes(blob))
        if archive.packed:
            packed = zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True, closefd=False)
            stream = io.BufferedReader(BoundedUnpacking(cast(IO[bytes], packed), len(blob)), CHUNK)
        yield stream


class _BlobBytes(io.RawIOBase):
    """A blob as a raw stream: sqlite3's own has `read` alone."""

    def __init__(self, blob: sqlite3.Blob) -> None:
        self._blob = blob

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._blob.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _list_session_ids(db: sqlite3.Connection) -> list[str]:
    return [row[0] for row in db.execute("SELECT DISTINCT session_id FROM transcript_events ORDER BY session_id")]


def _skip_external_archives(db: sqlite3.Connection) -> Iterator[Skipped]:
    """Yield cold sessions whose archive is a file: the reader of session files finds it in `sessions/cold/`."""
    if "storage" in list_columns(db, "session_transcript_cold_archives"):
        query = "SELECT rowid FROM session_transcript_cold_archives WHERE archive_blob IS NULL"
        yield from (Skipped("cold archive in a file of its own", rowid) for (rowid,) in db.execute(query))


def _load_session(db: sqlite3.Connection, session_id: str) -> Session:
    """Return title, kind and parent as `session_windows` and `session_nodes` have them.

    Only the id where they don't.
    """
    window = _fetch_row(db, "session_windows", "session_id", session_id)
    key = window.get("session_key")
    if not key:
        return Session(session_id)
    node = _fetch_row(db, "session_nodes", "session_key", key)
    title = node.get("label") or window.get("display_name") or node.get("display_name")
    return Session(session_id, title=title, kind=parse_session_kind(key), parent_id=_find_parent(db, window, node))


def _find_parent(db: sqlite3.Connection, window: dict[str, Any], node: dict[str, Any]) -> str | None:
    key = window.get("spawned_by") or window.get("parent_session_key") or node.get("spawned_by")
    key = key or node.get("parent_session_key")
    if key:
        found = _fetch_row(db, "session_nodes", "session_key", key).get("current_session_id")
        return str(found) if found else None
    if window.get("reason") in ("fork", "rewind", "compaction"):
        return window.get("previous_session_id") or node.get("fork_source_session_id")
    return None


def _fetch_row(db: sqlite3.Connection, table: str, key: str, value: str) -> dict[str, Any]:
    """Return one row by name; empty where there is none, or no such table. A cell over the limit is as a null one."""
    names = sorted(list_columns(db, table))
    return dict(zip(names, fetch_row(db, table, names, key, value)[0], strict=True)) if key in names else {}


READER = Reader("openclaw-sqlite", 1, sniff, read, list_locations, suffixes=("", "-wal"), tool="openclaw")
