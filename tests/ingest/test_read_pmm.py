"""The Persistent Mind Model's ledgers in SQLite; `transcripts/pmm` has them as JSON lines, of each recipe for hashes.

Its hashes were computed by the minds' own recipes, and in `forged-…` and `tampered-…` a row was changed afterwards.
"""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from slowwave import Memory
from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.flows.nightly import run_night
from slowwave.plugins.formats import pmm
from slowwave.schemas.settings import Settings
from slowwave.tasks.ingest.parsing.records import (
    Inactive,
    Limits,
    Message,
    Rejected,
    Session,
)
from tests.transcript_rows import put, read, read_messages

LEDGERS = Path(__file__).parent / "transcripts" / "pmm"
NAMES = sorted(path.stem for path in LEDGERS.glob("*.jsonl"))


def make_database(path: Path, name: str) -> Path:
    """The ledger of that name as PMM keeps it, in WAL mode."""
    rows = [
        json.loads(line)
        for line in (LEDGERS / f"{name}.jsonl").read_text().splitlines()
    ]
    columns = list(dict.fromkeys(key for row in rows for key in row))
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute(f"CREATE TABLE events ({', '.join(columns)})")
        for row in rows:
            cells = [
                json.dumps(cell) if isinstance(cell, dict) else cell
                for cell in map(row.get, columns)
            ]
            database.execute(
                f"INSERT INTO events VALUES ({', '.join('?' * len(columns))})", cells
            )
    return path


@pytest.mark.parametrize("name", NAMES)
def test_a_database_gives_the_records_of_its_lines(name: str, tmp_path: Path) -> None:
    path = make_database(tmp_path / f"{name}.db", name)
    assert read(path) == read(LEDGERS / f"{name}.jsonl")
    # And nothing is left beside it.
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_what_is_no_row_among_json_lines_is_rejected_and_the_rest_read(
    tmp_path: Path,
) -> None:
    whole = LEDGERS / "without-time.jsonl"
    path = put(tmp_path / "ledger.jsonl", whole.read_text() + "[]\n")
    records = list(pmm.READER.read(path, Limits()))
    assert sum(isinstance(record, Rejected) for record in records) == 1
    assert [m.native_id for m in records if isinstance(m, Message)] == [
        m.native_id for m in read_messages(whole)
    ]


def test_bytes_that_are_no_text_break_the_chain(tmp_path: Path) -> None:
    path = make_database(tmp_path / "pmm.db", "without-time")
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(
            "UPDATE events SET content = CAST(x'ff41' AS TEXT) WHERE id = 6"
        )
    records = read(path)
    assert [record.line for record in records if isinstance(record, Rejected)] == [6]
    assert [record.native_id for record in records if isinstance(record, Inactive)] == [
        "6"
    ]


def test_a_copy_holds_the_same_messages_and_another_mind_is_another_session(
    tmp_path: Path,
) -> None:
    first, copy = (
        make_database(put(tmp_path / name / "pmm.db", ""), "without-time")
        for name in "ab"
    )
    other = make_database(tmp_path / "pmm.db", "without-time")
    with closing(sqlite3.connect(other)) as database, database:
        database.execute("UPDATE events SET ts = '2027' || substr(ts, 5)")
    said = [
        {message.identity for message in read_messages(path)}
        for path in (first, copy, other)
    ]
    assert said[0] == said[1]
    assert not said[0] & said[2]
    sessions = [
        record.native_id
        for path in (first, copy, other)
        for record in read(path)
        if isinstance(record, Session)
    ]
    assert sessions[0] == sessions[1] != sessions[2]


def test_the_minds_own_summary_and_keywords_are_the_gist(tmp_path: Path) -> None:
    path = make_database(tmp_path / "pmm.db", "gist")
    run_night(
        [path],
        Settings(store=tmp_path / "store", encoder="hash-384", gists="extractive"),
    )
    turns = Memory.open(tmp_path / "store", encoder=HashEncoder()).recent(9)
    (turn,) = (
        turn for turn in turns if turn.text == "My name is Zoë and I grow tomatoes."
    )
    assert (turn.gist, turn.keywords[:2]) == ("Zoë grows tomatoes", ("zoë", "tomatoes"))
