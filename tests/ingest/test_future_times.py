"""A time over a day after the run's clock counts as unknown: its message is placed by its order, and that is told."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from slowwave.flows.nightly import run_night
from slowwave.flows.parts.report import RunReport
from slowwave.schemas.settings import RetentionSettings, Settings
from slowwave.schemas.tables import MESSAGES, QUARANTINE, SESSIONS
from slowwave.store import Store
from slowwave.tasks.ingest.parsing.records import Message
from slowwave.tasks.ingest.storable import Timeline

NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)
LATE = "2099-01-01T00:00:00Z"


def night(
    tmp_path: Path, *rows: dict[str, Any], now: datetime = NOW, **more: Any
) -> tuple[RunReport, Store]:
    path = tmp_path / "talk.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    # Its time of change lies in the future too.
    os.utime(path, (NOW.timestamp() + 10**9, NOW.timestamp() + 10**9))
    settings = Settings(
        store=tmp_path / "store", encoder="hash-384", embeddings=False, **more
    )
    return run_night([path], settings, now=now), Store.open(tmp_path / "store")


def said(n: int, ts: object, session: str = "s") -> dict[str, Any]:
    return {
        "session_id": session,
        "message_id": f"m{n}",
        "role": "user",
        "content": f"Said {n}.",
        "ts": ts,
    }


def list_times(store: Store) -> list[tuple[str, datetime | None]]:
    rows = sorted(store.read(MESSAGES).to_pylist(), key=lambda row: str(row["text"]))
    return [(row["text"], row["ts"]) for row in rows]


def test_a_message_of_2099_stands_between_its_neighbours_and_is_told(
    tmp_path: Path,
) -> None:
    report, store = night(
        tmp_path,
        said(0, "2026-11-01T09:00:00Z"),
        said(1, LATE),
        said(2, LATE),
        said(3, "2026-11-27T09:00:00Z"),
    )
    first = datetime(2026, 11, 1, 9, tzinfo=UTC)
    step = timedelta(microseconds=1)
    assert list_times(store) == [
        ("Said 0.", first),
        ("Said 1.", first + step),
        ("Said 2.", first + 2 * step),
        ("Said 3.", datetime(2026, 11, 27, 9, tzinfo=UTC)),
    ]
    assert store.read(SESSIONS)["ended_at"].to_pylist() == [
        datetime(2026, 11, 27, 9, tzinfo=UTC)
    ]
    (row,) = store.read(QUARANTINE).to_pylist()
    assert (
        row["line"],
        row["reason"].startswith(
            "2 messages are dated after this run (first: 2099-01-01"
        ),
    ) == (
        2,
        True,
    )
    assert (
        "messages dated after this run: 2; they are placed by their order in the file"
        in report.collect_notes()
    )
    assert report.failures == []


@pytest.mark.parametrize(("hours", "is_known"), [(23, True), (24, True), (25, False)])
def test_a_time_up_to_a_day_ahead_is_believed(
    hours: int, is_known: bool, tmp_path: Path
) -> None:
    ahead = NOW + timedelta(hours=hours)
    _, store = night(
        tmp_path, said(0, "2026-11-01T09:00:00Z"), said(1, ahead.isoformat())
    )
    assert (list_times(store)[1][1] == ahead) is is_known


def test_where_none_is_before_it_it_is_placed_before_the_next_and_alone_at_the_runs_time(
    tmp_path: Path,
) -> None:
    _, store = night(
        tmp_path, said(0, LATE), said(1, LATE), said(2, "2026-11-27T09:00:00Z")
    )
    step, known = timedelta(microseconds=1), datetime(2026, 11, 27, 9, tzinfo=UTC)
    assert [at for _, at in list_times(store)] == [
        known - 2 * step,
        known - step,
        known,
    ]
    (tmp_path / "alone").mkdir()
    _, alone = night(tmp_path / "alone", said(0, LATE))
    assert [at for _, at in list_times(alone)] == [NOW + step]


def test_what_claims_to_be_of_the_future_is_retained_no_longer_than_its_neighbours(
    tmp_path: Path,
) -> None:
    rows = (
        said(0, "2026-11-01T09:00:00Z"),
        said(1, LATE),
        said(2, "2026-11-27T09:00:00Z"),
    )
    night(tmp_path, *rows)
    _, store = night(tmp_path, *rows, retention=RetentionSettings(messages_days=7))
    assert [text for text, _ in list_times(store) if text] == ["Said 2."]


def test_neighbours_are_those_of_the_session() -> None:
    def message(session: str, day: int, year: int = 2026) -> Message:
        return Message(
            session, "m", "user", "human", [], "x", datetime(year, 11, day, tzinfo=UTC)
        )

    talk = [
        message("a", 1),
        message("b", 20),
        message("a", 5, 2099),
        message("b", 5, 2099),
        message("c", 5, 2099),
    ]
    times = Timeline(NOW, talk, 0)
    for one in talk:
        times.place(one)
    assert [(one.session, one.ts.day if one.ts else 0) for one in talk] == [
        ("a", 1),
        ("b", 20),
        ("a", 1),
        ("b", 20),
        ("c", 20),  # the one before it in the file
    ]
    assert times.count == 3
