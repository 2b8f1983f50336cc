"""OpenClaw's two storages: files and the database; `transcripts/openclaw` has traps of the lines.

The events are written here as the tool writes them; the tables have the columns of its schema 23.
"""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

from slowwave.tasks.ingest.formats.agents.openclaw import reader as openclaw
from slowwave.tasks.ingest.formats.agents.openclaw import sqlite as openclaw_sqlite
from slowwave.tasks.ingest.parsing.lines import read_head
from slowwave.tasks.ingest.parsing.records import (
    Limits,
    Message,
    Record,
    Rejected,
    Session,
)

HEADER = {
    "type": "session",
    "version": 3,
    "id": "s1",
    "timestamp": "2026-03-08T13:00:00.000Z",
    "cwd": "C:\\Users\\ゆき",
}
SENDER = 'Sender (untrusted metadata):\n```json\n{\n  "label": "ゆき (42)",\n  "name": "ゆき"\n}\n```\n\n'


def event(
    eid: str,
    parent: str | None,
    role: str,
    content: object,
    second: int = 0,
    **more: Any,
) -> dict[str, Any]:
    stamp = f"2026-03-08T13:{second // 60:02d}:{second % 60:02d}.000Z"
    message = {
        "role": role,
        "content": content,
        "timestamp": 1772974800000 + second * 1000,
        **more,
    }
    return {
        "type": "message",
        "id": eid,
        "parentId": parent,
        "timestamp": stamp,
        "message": message,
    }


def text(words: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": words}]


def jsonl(events: list[Any]) -> bytes:
    return b"".join(json.dumps(e, ensure_ascii=False).encode() + b"\n" for e in events)


def read(path: Path) -> list[Record]:
    return list(openclaw.READER.read(path, Limits()))


def read_events(
    tmp_path: Path, events: list[Any], name: str = "s1.jsonl"
) -> list[Record]:
    path = tmp_path / name
    path.write_bytes(jsonl([HEADER, *events]))
    return read(path)


def messages(records: list[Record]) -> dict[str, Message]:
    return {r.native_id: r for r in records if isinstance(r, Message)}


def test_pi_and_openclaw_are_told_apart(tmp_path: Path) -> None:
    # The events are the same: a wrapped user text is OpenClaw's, a file named by time and id is pi's.
    ours, theirs = (
        tmp_path / "any.jsonl",
        tmp_path / "2026-03-08T13-00-00-000Z_s1.jsonl",
    )
    ours.write_bytes(jsonl([HEADER, event("a1", None, "user", text(SENDER + "hello"))]))
    theirs.write_bytes(
        jsonl([HEADER, event("a1", None, "user", text("hello about OpenClaw"))])
    )
    assert openclaw.READER.sniff(read_head(ours))
    assert not openclaw.READER.sniff(read_head(theirs))
    assert openclaw.PI_READER.sniff(read_head(theirs))


@pytest.mark.parametrize(
    "name",
    [
        "s1.jsonl",
        "s1.jsonl.deleted.2026-03-09T10-00-00.000Z",
        "s1.jsonl.reset.2026-03-09T10-00-00.000Z",
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_deleted_reset_and_cold_files_are_the_same_session(
    tmp_path: Path, name: str, packed: bool
) -> None:
    data = jsonl([HEADER, event("a1", None, "user", text("keep me"))])
    path = tmp_path / (name + ".zst" * packed)
    path.write_bytes(zstandard.compress(data) if packed else data)
    assert openclaw.READER.sniff(read_head(path))
    (kept,) = messages(read(path)).values()
    assert (kept.session, kept.text) == ("s1", "keep me")


# --- the database ---------------------------------------------------------------------------------------------------

TABLES = """
CREATE TABLE session_nodes (session_key PRIMARY KEY, current_session_id, entry_json, updated_at, parent_session_key,
  spawned_by, fork_source_session_id, label, display_name);
CREATE TABLE session_windows (session_id PRIMARY KEY, session_key, previous_session_id, reason, created_at, updated_at,
  chat_type, channel, model, parent_session_key, spawned_by, display_name);
CREATE TABLE transcript_events (session_id TEXT, seq INTEGER, event_json TEXT, created_at, event_zstd BLOB,
  event_utf8_bytes, navigation_json, PRIMARY KEY (session_id, seq));
CREATE TABLE session_transcript_archives (session_id, generation, session_key, reason, encoding, archive_blob BLOB,
  archive_sha256, archive_name, created_at);
CREATE TABLE session_transcript_cold_archives (session_id, generation, archive_name, archive_sha256, event_count,
  raw_bytes, archive_bytes, last_seq, archived_at, storage, archive_blob BLOB);
"""


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A gateway's own connection: WAL, open for as long as the test runs."""
    path = tmp_path / "agent"
    path.mkdir()
    db = sqlite3.connect(path / "openclaw-agent.sqlite", isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA wal_autocheckpoint = 0")
    db.executescript(TABLES)
    for key, sid in (
        ("agent:main:main", "s1"),
        ("agent:main:subagent:9", "s2"),
        ("cron:news", "s3"),
    ):
        db.execute(
            "INSERT INTO session_nodes(session_key, current_session_id, entry_json, updated_at) VALUES (?,?,'{}',0)",
            (key, sid),
        )
        db.execute(
            "INSERT INTO session_windows(session_id, session_key, created_at, updated_at) VALUES (?,?,0,0)",
            (sid, key),
        )
    yield db
    db.close()


def put(
    db: sqlite3.Connection, sid: str, seq: int, value: object, packed: bool = False
) -> int:
    raw = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    zstd = zstandard.compress(raw.encode()) if packed else None
    row = (
        sid,
        seq,
        None if packed else raw,
        zstd,
        len(raw.encode()),
        "{}" if packed else None,
    )
    rows = db.execute(
        "INSERT INTO transcript_events(session_id, seq, event_json, created_at, event_zstd, event_utf8_bytes,"
        " navigation_json) VALUES (?,?,?,0,?,?,?)",
        row,
    )
    assert rows.lastrowid is not None
    return rows.lastrowid


def database(db: sqlite3.Connection) -> Path:
    return Path(db.execute("PRAGMA database_list").fetchone()[2])


def read_database(db: sqlite3.Connection) -> list[Record]:
    return list(openclaw_sqlite.READER.read(database(db), Limits()))


def test_both_kinds_of_rows_are_read_under_a_live_writer(
    gateway: sqlite3.Connection,
) -> None:
    events = [
        HEADER,
        event("a1", None, "user", text("日本語の質問")),
        event("a2", "a1", "assistant", text("答え"), 1),
    ]
    for seq, value in enumerate(events):
        put(gateway, "s1", seq, value, packed=seq == 2)
    gateway.execute("BEGIN IMMEDIATE")  # the gateway is in the middle of a write
    put(gateway, "s1", 3, event("a3", "a2", "user", text("not committed"), 2))
    folder = database(gateway).parent
    before = sorted(folder.iterdir())
    assert openclaw_sqlite.READER.sniff(read_head(database(gateway)))
    records = read_database(gateway)
    assert [m.text for m in messages(records).values()] == ["日本語の質問", "答え"]
    assert next(r for r in records if isinstance(r, Session)).kind == "chat"
    assert sorted(folder.iterdir()) == before
    gateway.execute("ROLLBACK")


def test_an_event_is_the_same_message_in_both_storages(
    gateway: sqlite3.Connection, tmp_path: Path
) -> None:
    events = [
        event("a1", None, "user", text(SENDER + "hello")),
        event("a2", "a1", "assistant", text("hi"), 1),
    ]
    for seq, value in enumerate([HEADER, *events]):
        put(gateway, "s1", seq, value, packed=seq == 1)
    ours, theirs = (
        messages(read_database(gateway)),
        messages(read_events(tmp_path, events)),
    )
    assert [(m.session, m.native_id, m.identity) for m in ours.values()] == [
        (m.session, m.native_id, m.identity) for m in theirs.values()
    ]


def test_damaged_rows_go_to_quarantine_by_rowid(gateway: sqlite3.Connection) -> None:
    put(gateway, "s1", 0, HEADER)
    torn = put(gateway, "s1", 1, '{"type":"message"')
    number = put(gateway, "s1", 2, "42")
    cut = put(gateway, "s1", 3, event("a1", None, "user", text("x" * 400)), packed=True)
    gateway.execute(
        "UPDATE transcript_events SET event_zstd = x'28b52ffd00' WHERE rowid = ?",
        (cut,),
    )
    noise = put(gateway, "s1", 4, event("a2", None, "user", text("y")), packed=True)
    gateway.execute(
        "UPDATE transcript_events SET event_zstd = x'00010203' WHERE rowid = ?",
        (noise,),
    )
    bad_text = put(gateway, "s1", 5, HEADER)
    gateway.execute(
        "UPDATE transcript_events SET event_json = CAST(x'7b22ff227d' AS TEXT) WHERE rowid = ?",
        (bad_text,),
    )
    put(gateway, "s1", 6, event("a3", None, "user", text("still here")))
    records = read_database(gateway)
    assert {r.line for r in records if isinstance(r, Rejected)} == {
        torn,
        number,
        cut,
        noise,
        bad_text,
    }
    assert [m.text for m in messages(records).values()] == ["still here"]


def test_an_oversized_row_is_not_unpacked(gateway: sqlite3.Connection) -> None:
    bomb = put(
        gateway, "s1", 0, event("a1", None, "user", text("0" * 3_000_000)), packed=True
    )
    plain = put(gateway, "s1", 1, event("a2", None, "user", text("1" * 3_000_000)))
    records = list(
        openclaw_sqlite.READER.read(database(gateway), Limits(max_line_bytes=100_000))
    )
    assert [r.line for r in records if isinstance(r, Rejected)] == [bomb, plain]


def test_archives_in_the_database_are_read(gateway: sqlite3.Connection) -> None:
    gone = (
        jsonl(
            [{**HEADER, "id": "old"}, event("a1", None, "user", text("deleted talk"))]
        )
        + b"{torn\n"
    )
    cold = [
        event("b1", None, "user", text("cold talk")),
        event("b2", "b1", "assistant", text("cold answer"), 1),
    ]
    insert = "INSERT INTO session_transcript_archives VALUES (?,?,?,?,?,?,?,?,?)"
    archive = (
        "old",
        "g1",
        "agent:main:main",
        "deleted",
        "zstd",
        zstandard.compress(gone),
        "0" * 64,
        "old.zst",
        1,
    )
    gateway.execute(insert, archive)
    gateway.execute(
        insert,
        (
            "raw",
            "g1",
            "agent:main:main",
            "reset",
            "identity",
            jsonl([cold[0]]),
            "0" * 64,
            "r",
            2,
        ),
    )
    frames = zstandard.compress(jsonl([HEADER, cold[0]])) + zstandard.compress(
        jsonl([cold[1]])
    )
    row = (
        "INSERT INTO session_transcript_cold_archives VALUES (?,'g',?,?,2,9,9,2,3,?,?)"
    )
    gateway.execute(row, ("s1", "cold-1", "0" * 64, "sqlite", frames))
    gateway.execute(row, ("s3", "cold-2", "0" * 64, "file", None))
    records = read_database(gateway)
    assert [(m.session, m.text) for m in records if isinstance(m, Message)] == [
        ("old", "deleted talk"),
        ("raw", "cold talk"),
        ("s1", "cold talk"),
        ("s1", "cold answer"),
    ]
    assert [(r.line, r.reason[:14]) for r in records if isinstance(r, Rejected)] == [
        (1, "archive line 3")
    ]


def test_windows_and_nodes_give_kind_title_and_parent(
    gateway: sqlite3.Connection,
) -> None:
    gateway.execute(
        "UPDATE session_nodes SET label = 'Ports', display_name = 'x' WHERE session_key = 'agent:main:main'"
    )
    gateway.execute(
        "UPDATE session_windows SET spawned_by = 'agent:main:main', display_name = 'Survey' WHERE session_id = 's2'"
    )
    for sid in ("s1", "s2", "s3"):
        put(gateway, sid, 0, {**HEADER, "id": sid, "cwd": f"/w/{sid}"})
        put(gateway, sid, 1, event(f"{sid}a", None, "user", text("do it")))
    records = read_database(gateway)
    assert [r for r in records if isinstance(r, Session)] == [
        Session("s1", "/w/s1", "Ports", "chat", None),
        Session("s2", "/w/s2", "Survey", "subagent", "s1"),
        Session("s3", "/w/s3", None, "scheduled", None),
    ]
    assert [m.origin for m in messages(records).values()] == [
        "human",
        "model",
        "synthetic",
    ]


@pytest.mark.parametrize("leftover", ["nothing", "log", "log and index"])
def test_nothing_is_written_beside_the_database(
    gateway: sqlite3.Connection, tmp_path: Path, leftover: str
) -> None:
    # Closed cleanly there is no log; copied, or after a crash, there may be one, with or without its index.
    put(gateway, "s1", 0, event("a1", None, "user", text("hello")))
    source = database(gateway)
    if leftover == "nothing":
        gateway.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    suffixes = {
        "nothing": [""],
        "log": ["", "-wal"],
        "log and index": ["", "-wal", "-shm"],
    }[leftover]
    folder = tmp_path / "copy"
    folder.mkdir()
    for suffix in suffixes:
        (folder / f"a.sqlite{suffix}").write_bytes(
            source.with_name(source.name + suffix).read_bytes()
        )
    before = {
        p.name: p.read_bytes() for p in folder.iterdir() if not p.name.endswith("-shm")
    }
    names = sorted(p.name for p in folder.iterdir())
    records = list(openclaw_sqlite.READER.read(folder / "a.sqlite", Limits()))
    assert [m.text for m in messages(records).values()] == ["hello"]
    assert sorted(p.name for p in folder.iterdir()) == names
    assert {
        p.name: p.read_bytes() for p in folder.iterdir() if not p.name.endswith("-shm")
    } == before


def test_a_database_without_the_newer_columns_is_read(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite"
    db = sqlite3.connect(path)
    db.execute(
        "CREATE TABLE transcript_events (session_id TEXT, seq INTEGER, event_json TEXT, created_at INTEGER)"
    )
    db.execute(
        "INSERT INTO transcript_events VALUES ('s1', 0, ?, 0)",
        (json.dumps(event("a1", None, "user", "hello")),),
    )
    db.commit()
    db.close()
    records = list(openclaw_sqlite.READER.read(path, Limits()))
    assert [(m.session, m.text) for m in records if isinstance(m, Message)] == [
        ("s1", "hello")
    ]
