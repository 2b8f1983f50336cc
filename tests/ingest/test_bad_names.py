"""One bad name, id, stamp or title costs its file or its line, and no other: what no column holds ends no night."""

import json
import os
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from slowwave.cli.main import app
from slowwave.flows.nightly import run_night
from slowwave.flows.parts.report import RunReport
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import MESSAGES, QUARANTINE, SESSIONS
from slowwave.store import Store
from slowwave.tasks.ingest.formats.own.generic import COLUMNS_READER
from slowwave.tasks.ingest.parsing.records import Limits, Message, Rejected, Session
from slowwave.tasks.ingest.storable import find_shown, make_storable, show_path
from slowwave.tasks.ingest.transcripts import BAD_NAME

SAID = {
    "session_id": "good",
    "message_id": "m1",
    "role": "user",
    "content": "The crane is blue.",
}
LATIN = os.fsdecode(b"M\xfcller")
"""A name as an archive unpacked on another system has it: Latin-1, which is no UTF-8."""


def night(tmp_path: Path, *paths: Path) -> tuple[RunReport, Store]:
    report = run_night(
        [*paths],
        Settings(store=tmp_path / "store", encoder="hash-384", embeddings=False),
    )
    return report, Store.open(tmp_path / "store")


def put(path: Path, *rows: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def list_quarantined(store: Store) -> list[tuple[str, str]]:
    rows = store.read(QUARANTINE).to_pylist()
    return sorted(
        (Path(row["path"]).name, row["reason"]) for row in rows if not row["resolved"]
    )


def test_a_name_that_is_no_utf8_costs_its_file_until_it_is_renamed(
    tmp_path: Path,
) -> None:
    source = tmp_path / "in"
    put(source / "good.jsonl", SAID)
    bad = put(
        source / f"{LATIN}.jsonl", SAID | {"session_id": "bad", "message_id": "m2"}
    )
    put(source / LATIN / "sub" / "deep.jsonl", SAID)
    report, store = night(tmp_path, source)
    assert report.failures == []
    assert store.read(SESSIONS)["native_id"].to_pylist() == ["good"]
    assert list_quarantined(store) == [
        ("M\\xfcller.jsonl", BAD_NAME),
        ("deep.jsonl", BAD_NAME),
    ]
    bad.rename(source / "Müller.jsonl")
    _, store = night(tmp_path, source)
    assert sorted(store.read(SESSIONS)["native_id"].to_pylist()) == ["bad", "good"]
    # The other one is no longer there.
    assert list_quarantined(store) == [("deep.jsonl", BAD_NAME)]


def test_a_bad_name_that_a_person_named_is_told(tmp_path: Path) -> None:
    report, _ = night(tmp_path, put(tmp_path / f"{LATIN}.jsonl", SAID))
    assert [
        line.endswith(f"M\\xfcller.jsonl ({BAD_NAME})") for line in report.failures
    ] == [True]


def test_commands_go_on_after_a_night_with_a_bad_name(tmp_path: Path) -> None:
    put(tmp_path / "in" / "good.jsonl", SAID)
    put(tmp_path / "in" / f"{LATIN}.jsonl", SAID)
    night(tmp_path, tmp_path / "in")
    store = ("--store", str(tmp_path / "store"))
    for words in (
        ("inspect", "quarantine", "--json", *store),
        ("status", *store),
        ("export", str(tmp_path / "out"), "--format", "jsonl", *store),
        ("backup", str(tmp_path / "kept"), *store),
        ("forget", "--session", "good", "--yes", *store),
    ):
        done = CliRunner().invoke(app, words)
        # `status` says by 3 that something waits.
        assert done.exit_code in (0, 3), done.output
        assert "\udcfc" not in done.output
    assert Store.open(tmp_path / "store").read(MESSAGES)["text"].to_pylist() == [""]


def test_a_shown_path_leads_back_to_its_file() -> None:
    path = Path(f"/tmp/{LATIN}/a.jsonl")
    assert show_path(path) == "/tmp/M\\xfcller/a.jsonl"
    assert find_shown(show_path(path)) == path


ODD = [
    "\ud800",
    "a\udfffb",
    "",
    5,
    2**70,
    None,
    [],
    {},
    True,
    "nul\x00",
    "two\nlines",
    "x" * 70_000,
]


@pytest.mark.parametrize(
    "field", ["session_id", "message_id", "workspace", "speaker", "title", "ts"]
)
def test_whatever_stands_in_a_field_costs_no_other_file(
    field: str, tmp_path: Path
) -> None:
    put(tmp_path / "in" / "good.jsonl", SAID)
    for n, value in enumerate(ODD):
        put(
            tmp_path / "in" / f"odd{n}.jsonl",
            SAID | {"session_id": f"s{n}", field: value},
        )
    report, store = night(tmp_path, tmp_path / "in")
    assert report.failures == []
    assert "good" in store.read(SESSIONS)["native_id"].to_pylist()
    read = store.read(SESSIONS)["path"].to_pylist()
    # Each is read, or says why not.
    assert len({*read, *store.read(QUARANTINE)["path"].to_pylist()}) == 1 + len(ODD)


def test_what_no_column_holds_is_repaired_or_rejected() -> None:
    session = make_storable(
        Session("s\udcfc", workspace="w\ud800", title="cut \ud83d", parent_id=7)
    )  # type: ignore[arg-type]
    assert session == Session(
        "s\\udcfc", workspace="w\\ud800", title="cut \ufffd", parent_id="7"
    )
    message = make_storable(
        Message("s", "m\ud800", "user", "human", [], "half \ud83d", line=2**63)
    )
    assert message == Message(
        "s", "m\\ud800", "user", "human", [], "half \ufffd", line=0
    )
    for nameless in (
        Session(None),
        Session(b"\xff"),
        Message("s", None, "user", "human", [], "x"),
    ):  # type: ignore[arg-type]
        assert isinstance(make_storable(nameless), Rejected)


EVENT = {
    "type": "message",
    "timestamp": "2026-11-05T00:00:00Z",
    "message": {"role": "user", "content": "Mauve."},
}


def test_a_bad_session_of_a_database_costs_itself_alone(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "claw.sqlite")) as db, db:
        db.execute("CREATE TABLE transcript_events (session_id, seq, event_json)")
        db.execute(
            "CREATE TABLE session_windows (session_id, session_key, display_name)"
        )
        for n, name in enumerate([None, b"\xff", 5, "a", "b"]):
            db.execute(
                "INSERT INTO transcript_events VALUES (?, 1, ?)",
                (name, json.dumps(EVENT | {"id": f"e{n}"})),
            )
        # A key and a title that are no text.
        db.execute("INSERT INTO session_windows VALUES ('a', 5, x'ff')")
    with closing(sqlite3.connect(tmp_path / "pmm.sqlite")) as db, db:
        db.execute(
            "CREATE TABLE events (id, ts, kind, content, meta, prev_hash TEXT, hash TEXT)"
        )
        for name in (1, "two", b"\xff", True):
            row = (name, 1e308, "user_message", f"said {name!r}", "{}", "", repr(name))
            db.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    report, store = night(tmp_path, tmp_path / "claw.sqlite", tmp_path / "pmm.sqlite")
    assert report.failures == []
    said = store.read(MESSAGES, ["source", "text"]).to_pylist()
    assert sum(row["source"] == "pmm" for row in said) == 4
    reasons = " ".join(reason for _, reason in list_quarantined(store))
    assert "their session's id is None" in reasons
    assert "AttributeError" in reasons  # of the session whose key is a number
    # That of `b`.
    assert [row["text"] for row in said if row["source"] == "openclaw"] == ["Mauve."]


def test_a_time_that_no_calendar_has_costs_the_time_alone(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    times = pa.array(
        [1_793_000_000_000_000, 2**62, -(2**62)], pa.timestamp("us", "UTC")
    )
    pq.write_table(
        pa.table({"role": ["user"] * 3, "content": ["a", "b", "c"], "ts": times}),
        tmp_path / "t.parquet",
    )
    said = [
        one
        for one in COLUMNS_READER.read(tmp_path / "t.parquet", Limits())
        if isinstance(one, Message)
    ]
    assert [(one.text, one.ts) for one in said] == [
        ("a", datetime(2026, 10, 26, 7, 33, 20, tzinfo=UTC)),
        ("b", None),
        ("c", None),
    ]
