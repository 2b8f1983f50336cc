"""The Persistent Mind Model's ledger: read-only, its own hash chain checked, by each of the three recipes."""

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from slowwave import Memory
from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import GIST
from slowwave.tasks.ingest.formats import pmm
from slowwave.tasks.ingest.parsing.lines import read_head
from slowwave.tasks.ingest.parsing.records import Inactive, Limits, Message, Record, Rejected, Session, Skipped

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


Manager = Callable[[str, str, dict[str, object], str | None], str]


def by_manager(ts: str, content: str, meta: dict[str, object], prev: str | None) -> str:
    return sha(f"{ts}|event|{content}|{meta['event_id']}")


def by_table(ts: str, content: str, meta: dict[str, object], prev: str | None) -> str:
    """The recipe of a row that names no id of its own: the table's, which `managed` counts as the event's."""
    return sha(f"{ts}|event|{content}|{str(meta['event_id']).removeprefix('ev')}")


def by_later_manager(ts: str, content: str, meta: dict[str, object], prev: str | None) -> str:
    payload = {"ts": ts, "kind": "event", "summary": content, "id": meta["id"], "tags": meta["tags"]}
    payload |= {"effects": meta["effects"], "evidence": meta["evidence"], "prev_hash": prev}
    return sha(json.dumps(payload, sort_keys=True, ensure_ascii=False))


LONG = "I plant them in May, " * 20
TOLD = [
    ("conversation", "User said: I grow tomatoes in Zoë's garden.", {}),
    ("self_expression", "I responded: Lovely.", {"full_text": "Lovely. Which ones do you grow?"}),
    ("identity_update", "IDENTITY UPDATE: Agent name officially adopted as 'Echo'", {}),
    ("conversation", f"User said: {LONG[:200]}...", {}),
    ("conversation", f"User said: {LONG[:200]}...", {"full": LONG}),
    ("conversation", "You are an assistant.", {"role": "system"}),
]


def managed(path: Path, recipe: Manager = by_manager, hours: int = -7, late: int = 1) -> Path:
    """A ledger as PMM's memory manager writes it: kind event, the hash over UTC, the table in local time."""
    with closing(sqlite3.connect(path)) as database:
        database.execute(
            "CREATE TABLE events (id INTEGER PRIMARY KEY AUTOINCREMENT, ts TEXT NOT NULL, kind TEXT NOT NULL,"
            " content TEXT NOT NULL, meta TEXT NOT NULL, prev_hash TEXT, hash TEXT NOT NULL, summary TEXT)"
        )
        prev = None
        for n, (kind, content, more) in enumerate(TOLD, 1):
            at = datetime(2026, 2, 3, 4, 5, n, tzinfo=UTC)
            meta = {"id": f"ev{n}", "event_id": f"ev{n}", "type": kind, "tags": ["a"], "effects": [], "evidence": None}
            digest = recipe(f"{at:%Y-%m-%dT%H:%M:%SZ}", content, meta, prev)
            stored = f"{at + timedelta(hours=hours, seconds=late):%Y-%m-%d %H:%M:%S}"
            row = (stored, "event", content, json.dumps(meta | more, ensure_ascii=False), prev, digest)
            database.execute("INSERT INTO events (ts, kind, content, meta, prev_hash, hash) VALUES (?,?,?,?,?,?)", row)
            prev = digest
        database.commit()
    return path


def test_the_minds_own_summary_and_keywords_are_kept_and_are_the_gist(tmp_path: Path) -> None:
    path = ledger(tmp_path / "pmm.db")
    for column in ("summary", "keywords"):
        changed(path, f"ALTER TABLE events ADD COLUMN {column} TEXT")
    changed(
        path, """UPDATE events SET summary = 'Zoë grows  tomatoes', keywords = '["zoë", "tomatoes", 3]' WHERE id = 2"""
    )
    lines = tmp_path / "pmm.jsonl"
    lines.write_text(
        '{"id":1,"ts":"2026-05-02T09:00:00Z","kind":"user","content":"x","summary":"An x","keywords":["x"],'
        '"prev_hash":"","hash":"0"}\n'
    )
    for file, kept in ((path, ["Zoë grows tomatoes\nzoë\ntomatoes", None, None]), (lines, ["An x\nx"])):
        said = [one for one in read(file) if isinstance(one, Message)]
        gists = [next((block.text for block in one.blocks if block.name == GIST), None) for one in said]
        assert gists == kept
    run_night([path], Settings(store=tmp_path / "store", encoder="hash-384", gists="extractive"))
    turns = Memory.open(tmp_path / "store", encoder=HashEncoder()).recent(9)
    (told,) = (turn for turn in turns if turn.text == SAID[1][1])
    assert (told.gist, told.keywords[:2]) == ("Zoë grows tomatoes", ("zoë", "tomatoes"))


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


@pytest.mark.parametrize(
    ("recipe", "hours"), [(by_manager, -7), (by_table, -7), (by_later_manager, 2), (by_later_manager, 0)]
)
def test_rows_of_kind_event_are_what_was_said_and_their_hashes_fit(recipe: Manager, hours: int, tmp_path: Path) -> None:
    records = read(managed(tmp_path / "pmm.db", recipe, hours))
    assert list(breaks(records)) == []
    assert [(m.role, m.origin, m.text) for m in records if isinstance(m, Message)] == [
        ("user", "human", "I grow tomatoes in Zoë's garden."),
        ("assistant", "model", "Lovely. Which ones do you grow?"),
        ("user", "synthetic", f"{LONG[:200]}..."),
        ("user", "human", LONG.strip()),
        ("system", "synthetic", "You are an assistant."),
    ]
    assert [r.kind for r in records if isinstance(r, Skipped)] == ["event"]


@pytest.mark.parametrize("kept", [100, 200])
@pytest.mark.parametrize(
    ("type_", "lead"),
    [("conversation", "User said: "), ("self_expression", "I responded: "), ("response", "I responded: ")],
)
def test_a_text_that_pmm_cut_is_nobodys_words(kept: int, type_: str, lead: str, tmp_path: Path) -> None:
    texts = [f"{LONG[:kept]}...", f"{LONG[: kept - 1]}...", LONG[:kept]]
    path = tmp_path / "ledger.jsonl"
    rows = (
        {"id": n, "kind": "event", "content": lead + text, "meta": {"type": type_}, "prev_hash": None, "hash": None}
        for n, text in enumerate(texts)
    )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    origins = [record.origin for record in read(path) if isinstance(record, Message)]
    said = "human" if type_ == "conversation" else "model"
    assert origins == ["synthetic", said, said]


def test_tags_and_what_else_a_row_holds_stay_with_the_message(tmp_path: Path) -> None:
    first = next(record for record in read(managed(tmp_path / "pmm.db")) if isinstance(record, Message))
    kept = {block.name: block.text for block in first.blocks if block.type == "other"}
    assert kept["tags"] == "a"
    assert json.loads(kept["meta"] or "")["id"] == "ev1"
    assert "full" not in json.loads(kept["meta"] or "")
    assert first.text == "".join(block.text or "" for block in first.blocks if block.type == "text")


@pytest.mark.parametrize("recipe", [by_manager, by_table, by_later_manager])
def test_a_forged_row_among_events_is_named(recipe: Manager, tmp_path: Path) -> None:
    forged = changed(
        managed(tmp_path / "pmm.db", recipe), "UPDATE events SET content = 'User said: I hate it.' WHERE id IN (1, 4)"
    )
    records = read(forged)
    assert [line for line, why in breaks(records) if why.startswith("the hash chain breaks")] == [1, 4]
    assert [one.native_id for one in records if isinstance(one, Inactive)] == ["1", "4"]  # nobody's words: no claim


def test_of_a_recipe_that_is_not_known_the_links_are_checked_and_that_is_said(tmp_path: Path) -> None:
    path = managed(tmp_path / "pmm.db", lambda ts, content, meta, prev: sha(f"another {ts}"))
    (told,) = (r for r in read(path) if isinstance(r, Rejected))
    assert (told.line, "only their links are checked" in told.reason) == (1, True)
    assert "6 rows" in told.reason
    cut = changed(path, "DELETE FROM events WHERE id = 3")
    assert (4, "the hash chain breaks at row 4") in breaks(read(cut))


def test_what_is_told_as_an_event_and_as_a_message_is_read_once(tmp_path: Path) -> None:
    path = ledger(tmp_path / "pmm.db")
    with closing(sqlite3.connect(path)) as database:
        said = ("User said: My name is Zoë and I grow tomatoes.", json.dumps({"type": "conversation"}))
        database.execute("UPDATE events SET kind = 'event', content = ?, meta = ? WHERE id = 4", said)
        database.commit()
    records = read(path)
    assert [m.native_id for m in records if isinstance(m, Message)] == ["2", "3", "6"]
    assert "message told twice" in [r.kind for r in records if isinstance(r, Skipped)]


@pytest.mark.parametrize("forged", [False, True])
def test_json_lines_of_a_ledger_are_read_and_checked_too(forged: bool, tmp_path: Path) -> None:
    with closing(sqlite3.connect(ledger(tmp_path / "pmm.db"))) as database:
        database.row_factory = sqlite3.Row
        rows = [dict(row) for row in database.execute("SELECT * FROM events")]
    for row in rows:
        row["meta"] = json.loads(row["meta"])
    if forged:
        rows[2]["content"] = "I never said that."
    path = tmp_path / "ledger.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + "[]\n")
    records = list(pmm.READER.read(path, Limits()))
    assert [m.native_id for m in records if isinstance(m, Message)] == ["2", "3", "6"]
    assert [line for line, why in breaks(records) if "chain breaks" in why] == ([3] if forged else [])
    assert sum(isinstance(r, Rejected) for r in records) == 1 + forged


TAMPERED = [
    ("UPDATE events SET content = 'My name is Bob.' WHERE id = 2", 2),
    ("UPDATE events SET meta = '{}' WHERE id = 3", 3),
    ("DELETE FROM events WHERE id = 3", 4),
    ("UPDATE events SET hash = 'x' WHERE id = 6", 6),
    ("UPDATE events SET hash = NULL, prev_hash = NULL WHERE id = 5", 5),
    ("UPDATE events SET kind = 'assistant_message' WHERE id = 2", 2),
]


@pytest.mark.parametrize(("sql", "row"), TAMPERED)
def test_a_broken_row_is_named_and_the_rest_is_read(sql: str, row: int, tmp_path: Path) -> None:
    records = read(changed(ledger(tmp_path / "pmm.db"), sql))
    assert next(breaks(records)) == (row, f"the hash chain breaks at row {row}")
    assert {line for line, _ in breaks(records)} <= {row, row + 1}
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


def test_bytes_that_are_no_text_break_the_chain(tmp_path: Path) -> None:
    path = changed(ledger(tmp_path / "pmm.db"), "UPDATE events SET content = CAST(x'ff41' AS TEXT) WHERE id = 6")
    records = read(path)
    assert [line for line, _ in breaks(records)] == [6]
    assert [record.native_id for record in records if isinstance(record, Inactive)] == ["6"]
