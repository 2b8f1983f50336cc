"""Files that are made to harm, or change while they are read: each is read as far as it goes, in bounded memory."""

import json
import sqlite3
import tracemalloc
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import FILES, MESSAGES, QUARANTINE
from slowwave.store import Store
from slowwave.store.publishing import read_releases
from slowwave.tasks.ingest.formats.registry import load_readers
from slowwave.tasks.ingest.parsing.records import Limits, Message, Rejected

READ = {reader.name: reader.read for reader in load_readers()}
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT "
EVENT = json.dumps(
    {"type": "message", "id": "m", "message": {"role": "user", "content": "hello"}}
)


def line(n: int, **more: object) -> str:
    said = {
        "session_id": "s",
        "message_id": f"m{n}",
        "role": "user",
        "content": f"The gauge reads {n} cm.",
    }
    return json.dumps(said | more) + "\n"


@pytest.mark.parametrize(
    ("reader", "view"),
    [
        (
            "openclaw-sqlite",
            "transcript_events AS "
            + ENDLESS
            + f"'s' session_id, i seq, '{EVENT}' event_json FROM n",
        ),
        (
            "pmm",
            "events AS "
            + ENDLESS
            + "i id, '' ts, 'user_message' kind, 'x' content, '{}' meta FROM n",
        ),
        (
            "opencode",
            "session AS "
            + ENDLESS
            + "i id, '' parent_id, '' directory, '' title, i time_created FROM n",
        ),
    ],
)
def test_a_view_in_the_place_of_a_table_is_not_read(
    reader: str, view: str, tmp_path: Path
) -> None:
    path = tmp_path / "openclaw-agent.sqlite"
    with sqlite3.connect(path) as db:
        db.execute(f"CREATE VIEW {view}")
    db.close()
    found = list(READ[reader](path, Limits()))
    assert not [one for one in found if isinstance(one, Message)]


def test_a_database_with_any_byte_altered_raises_nothing(tmp_path: Path) -> None:
    path = tmp_path / "events.sqlite"
    with sqlite3.connect(path) as db:
        db.execute(
            "CREATE TABLE events (id INTEGER PRIMARY KEY, ts TEXT, kind TEXT, content TEXT, meta TEXT)"
        )
        rows = [
            (n, "2026-11-03T10:00:00Z", "user_message", f"said {n} " * 40, "{}")
            for n in range(60)
        ]
        db.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?)", rows)
    db.close()
    whole = bytearray(path.read_bytes())
    for at in [*range(0, 120), *range(4096, 8192, 61)]:
        spoilt = whole.copy()
        spoilt[at] ^= 0xFF
        path.write_bytes(spoilt)
        assert isinstance(list(READ["pmm"](path, Limits())), list)


@pytest.mark.parametrize("becomes", ["shorter", "longer"])
def test_a_file_may_change_while_it_is_read(becomes: str, tmp_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    lines = [line(n) for n in range(30_000)]  # over two pieces of what is read at once
    path.write_text("".join(lines))
    records = READ["generic"](path, Limits())
    first = [next(records) for _ in range(3)]
    with path.open("r+") as file:
        if becomes == "longer":
            file.seek(0, 2)
            file.write(line(30_000))
        else:
            file.truncate(1_500_000)
    found = [*first, *records]
    kept = [one for one in found if isinstance(one, Message)]
    assert len(kept) == 30_001 if becomes == "longer" else 3 < len(kept) < 30_000
    assert [one.native_id for one in kept] == [f"m{n}" for n in range(len(kept))]
    assert sum(isinstance(one, Rejected) for one in found) <= 1  # the line that was cut


PART = json.dumps({"type": "text", "text": "hello"})
CELLS = {
    "openclaw-sqlite": (
        "CREATE TABLE transcript_events (session_id, seq, event_json)",
        "INSERT INTO transcript_events VALUES ('s', :n, coalesce(:big, :said))",
    ),
    "pmm": (
        "CREATE TABLE events (id INTEGER PRIMARY KEY, ts, kind, content, meta, prev_hash TEXT, hash TEXT)",
        "INSERT INTO events VALUES (:n, '', 'user_message', coalesce(:big, 'hello ' || :n), '{}', :n - 1, :n)",
    ),
    "opencode": (
        "CREATE TABLE session (id, parent_id, directory, title, revert, time_created);"
        "CREATE TABLE message (id TEXT, session_id, time_created, data);"
        "CREATE TABLE part (id TEXT, message_id TEXT, session_id, data)",
        "INSERT INTO session SELECT 's', NULL, '/srv/a', zeroblob(20000000), NULL, 1 WHERE :n = 0;"
        "INSERT INTO message VALUES (:n, 's', :n, coalesce(:big, '{\"role\": \"user\"}'));"
        f"INSERT INTO part VALUES (:n, :n, 's', '{PART}')",
    ),
}
"""By reader its tables, and what puts a message into them, or one huge cell in its place."""


@pytest.mark.parametrize("reader", CELLS)
@pytest.mark.parametrize(
    "big", ["x" * 20_000_000, bytes(20_000_000)], ids=["text", "blob"]
)
def test_a_cell_of_twenty_megabytes_is_not_loaded_and_its_row_alone_is_left_out(
    reader: str, big: str | bytes, tmp_path: Path
) -> None:
    path, (tables, puts) = tmp_path / "talk.sqlite", CELLS[reader]
    with closing(sqlite3.connect(path)) as db, db:
        db.executescript(tables)
        for n in range(5):
            given = {
                "n": n,
                "big": big if n == 3 else None,
                "said": EVENT.replace('"m"', f'"m{n}"'),
            }
            for put in puts.split(";"):
                db.execute(put, given)
    tracemalloc.start()
    found = list(READ[reader](path, Limits(max_line_bytes=1_000_000)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(isinstance(one, Message) for one in found) == 4
    assert any(
        isinstance(one, Rejected) and "over the limit of 1000000 bytes" in one.reason
        for one in found
    )
    assert peak < 4_000_000


# The hour that is there twice.
STAMPS: list[object] = [
    *(
        "2026-10-25T02:30:00+02:00",
        "2026-10-25T02:30:00+01:00",
    ),
    *("2026-11-03T10:00:00Z", "2026-11-01T10:00:00Z"),  # a clock that went back
    *(
        "9999-12-31T23:59:59Z",
        "2126-01-01",
        None,
        "",
        "soon",
        -1,
        1e300,
        {},
        [],
        True,
        "2026-02-30T25:61:00Z",
    ),
]


def test_whatever_its_stamps_say_a_night_takes_in_every_line_once(
    tmp_path: Path,
) -> None:
    path = tmp_path / "talk.jsonl"
    path.write_text("".join(line(n, ts=stamp) for n, stamp in enumerate(STAMPS)))
    settings = Settings(
        store=tmp_path / "store", encoder="hash-384", keywords={"top": 0}
    )
    assert run_night([path], settings).failures == []
    store = Store.open(settings.store)
    assert store.count(MESSAGES) == len(STAMPS)
    assert store.count(QUARANTINE) == 1  # of the two that lie in the future
    assert run_night([path], settings).release is None  # and no news is made of it


def test_a_clock_set_back_hides_no_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Earlier(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            return datetime(2020, 1, 1, tzinfo=UTC)

    settings = Settings(
        store=tmp_path / "store", encoder="hash-384", keywords={"top": 0}
    )
    path = tmp_path / "talk.jsonl"
    path.write_text(line(1))
    run_night([path], settings)
    monkeypatch.setattr("slowwave.store.publishing.datetime", Earlier)
    monkeypatch.setattr("slowwave.flows.parts.run.datetime", Earlier)
    path.write_text(line(1) + line(2))
    report = run_night([path], settings)
    assert report.release is not None
    live = read_releases(Store.open(settings.store))[-1]
    assert (live.name, live.created_at.year, live.counts["messages"]) == ("r2", 2020, 2)
    assert Store.open(settings.store).count(FILES) == 1
