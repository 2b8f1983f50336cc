"""The Persistent Mind Model's ledger: read-only, its own hash chain checked, by each of the three recipes."""

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from slowwave.tasks.ingest.formats import pmm
from slowwave.tasks.ingest.parsing.lines import read_head
from slowwave.tasks.ingest.parsing.records import Limits, Message, Record, Rejected, Session, Skipped

Recipe = Callable[[int, str, str, str, dict[str, object], str | None], str]
SAID = [
    ("config", '{"type": "policy"}', {"source": "system"}),
    ("user_message", "My name is Zoë and I grow tomatoes.", {"role": "user"}),
    ("assistant_message", "Nice to meet you, Zoë.", {"role": "assistant", "model": "m", "n": 1}),
    ("reflection", "She likes gardens.", {}),
    ("user_message", "   ", {}),
    ("assistant_message", "Anything else?", {}),
]


def canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def without_time(eid: int, ts: str, kind: str, content: str, meta: dict[str, object], prev: str | None) -> str:
    return sha(canonical({"kind": kind, "content": content, "meta": meta, "prev_hash": prev}))


def with_time(eid: int, ts: str, kind: str, content: str, meta: dict[str, object], prev: str | None) -> str:
    payload = {"id": eid, "ts": ts, "kind": kind, "content": content, "meta": meta, "prev_hash": prev}
    return sha(canonical(payload))


def joined(eid: int, ts: str, kind: str, content: str, meta: dict[str, object], prev: str | None) -> str:
    return sha(f"{prev or ''}|{kind}|{content}|{json.dumps(meta, ensure_ascii=False)}")


def ledger(path: Path, recipe: Recipe = without_time, unhashed: int = 0) -> Path:
    """A ledger as PMM writes it; the first rows may be from before it had hashes."""
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute(
            "CREATE TABLE events (id INTEGER PRIMARY KEY AUTOINCREMENT, ts TEXT NOT NULL, kind TEXT NOT NULL,"
            " content TEXT NOT NULL, meta TEXT NOT NULL, prev_hash TEXT, hash TEXT)"
        )
        prev = None
        for eid, (kind, content, meta) in enumerate(SAID, 1):
            ts = f"2026-02-03T04:05:0{eid}.000000Z"
            digest = None if eid <= unhashed else recipe(eid, ts, kind, content, dict(meta), prev)
            row = (ts, kind, content, json.dumps(meta, ensure_ascii=False), prev, digest)
            database.execute("INSERT INTO events (ts, kind, content, meta, prev_hash, hash) VALUES (?,?,?,?,?,?)", row)
            prev = digest
        database.commit()
    return path


def changed(path: Path, sql: str) -> Path:
    with closing(sqlite3.connect(path)) as database:
        database.execute(sql)
        database.commit()
    return path


def read(path: Path) -> list[Record]:
    assert pmm.READER.sniff(read_head(path))
    return list(pmm.READER.read(path, Limits()))


def breaks(records: list[Record]) -> Iterator[tuple[int, str]]:
    return ((r.line, r.reason.split(":")[0]) for r in records if isinstance(r, Rejected))


@pytest.mark.parametrize("recipe", [without_time, with_time, joined])
def test_what_was_said_is_read_and_a_whole_chain_is_silent(recipe: Recipe, tmp_path: Path) -> None:
    records = read(ledger(tmp_path / "pmm.db", recipe))
    messages = [r for r in records if isinstance(r, Message)]
    assert [(m.native_id, m.role, m.origin, m.text) for m in messages] == [
        ("2", "user", "human", "My name is Zoë and I grow tomatoes."),
        ("3", "assistant", "model", "Nice to meet you, Zoë."),
        ("6", "assistant", "model", "Anything else?"),
    ]
    assert messages[0].ts == datetime(2026, 2, 3, 4, 5, 2, tzinfo=UTC)
    assert [r.kind for r in records if isinstance(r, Skipped)] == ["config", "reflection", "empty message"]
    assert list(breaks(records)) == []


def test_reading_leaves_no_file_beside_the_ledger(tmp_path: Path) -> None:
    read(ledger(tmp_path / "pmm.db"))
    assert [file.name for file in tmp_path.iterdir()] == ["pmm.db"]


TAMPERED = [
    ("UPDATE events SET content = 'My name is Bob.' WHERE id = 2", 2),
    ("UPDATE events SET meta = '{}' WHERE id = 3", 3),
    ("DELETE FROM events WHERE id = 3", 4),
    ("UPDATE events SET hash = 'x' WHERE id = 6", 6),
    ("UPDATE events SET hash = NULL, prev_hash = NULL WHERE id = 5", 5),
    ("UPDATE events SET kind = 'assistant_message' WHERE id = 2", 2),
]


@pytest.mark.parametrize(("sql", "row"), TAMPERED)
def test_the_first_broken_row_is_named_once_and_the_rest_is_read(sql: str, row: int, tmp_path: Path) -> None:
    records = read(changed(ledger(tmp_path / "pmm.db"), sql))
    assert list(breaks(records)) == [(row, f"the hash chain breaks at row {row}")]
    assert [m.native_id for m in records if isinstance(m, Message)][-1] == "6"


def test_rows_from_before_the_ledger_had_hashes_are_no_break(tmp_path: Path) -> None:
    assert list(breaks(read(ledger(tmp_path / "pmm.db", unhashed=2)))) == []


def test_a_copy_holds_the_same_messages_and_another_mind_is_another_session(tmp_path: Path) -> None:
    def identities(path: Path) -> list[str | None]:
        return [record.identity for record in read(path) if isinstance(record, Message)]

    first = ledger(tmp_path / "pmm.db")
    copy = tmp_path / "copy" / "pmm.db"
    copy.parent.mkdir()
    copy.write_bytes(first.read_bytes())
    other = changed(ledger(tmp_path / "other.db"), "UPDATE events SET ts = '2027' || substr(ts, 5)")
    assert identities(first) == identities(copy)
    assert not set(identities(first)) & set(identities(other))
    sessions = [record.native_id for path in (first, copy) for record in read(path) if isinstance(record, Session)]
    assert len(set(sessions)) == 1


def test_bytes_that_are_no_text_are_rejected_and_other_databases_not_claimed(tmp_path: Path) -> None:
    path = changed(ledger(tmp_path / "pmm.db"), "UPDATE events SET content = CAST(x'ff41' AS TEXT) WHERE id = 6")
    assert [line for line, _ in breaks(read(path))] == [6, 6]
    with closing(sqlite3.connect(tmp_path / "other.db")) as database:
        database.execute("CREATE TABLE events (id INTEGER, name TEXT)")
    assert not pmm.READER.sniff(read_head(tmp_path / "other.db"))
    (tmp_path / "junk.db").write_bytes(b"SQLite format 3\0" + b"\7" * 4096)
    assert not pmm.READER.sniff(read_head(tmp_path / "junk.db"))
