"""What was answered last to a query, told while the store is away; and that an answer carries its own notes."""

import json
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bench.recall.checks import measure_nearest_recall, recall_while_swapping
from slowwave.cli.main import app
from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.memory import Memory
from slowwave.recall.hits import Hit, Hits
from slowwave.recall.last_answers import NEVER, NOT_NEAR, AnswerCache, LastAnswers
from slowwave.recall.query import Query
from tests.recall_store import START, build

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def last(tmp_path: Path) -> LastAnswers:
    return LastAnswers(AnswerCache(tmp_path, "default", size=9), None, automatic_floor=0.5)


def hit(key: str, relevance: float | None) -> Hit:
    return Hit("message", key, "The tide.", 1.0, START, "active", (), relevance=relevance)


def asked(text: str = "tide gauge", now: datetime | None = None) -> Query:
    return Query(text, 5, ("message",), now=now)


def test_nobody_who_asks_is_told_what_is_near_enough_of_the_answer_to_who_did(last: LastAnswers) -> None:
    assert last.get_hits(asked(), automatic=True).reason == NEVER
    last.put_hits(asked(), False, Hits([hit("near", 0.7), hit("far", 0.3), hit("unknown", None)]))
    told = last.get_hits(asked(), automatic=True)
    assert ([one.id for one in told], told.stale, told.reason) == (["near"], True, None)
    last.put_hits(asked("ferry"), False, Hits([hit("far", 0.3)]))
    silent = last.get_hits(asked("ferry"), automatic=True)
    assert (silent, silent.stale, silent.reason) == ([], True, NOT_NEAR)
    last.put_hits(asked(), True, Hits([hit("own", 0.9)]))
    assert [one.id for one in last.get_hits(asked(), automatic=True)] == ["own"]
    assert [one.id for one in last.get_hits(asked(), automatic=False)] == ["near", "far", "unknown"]


def test_when_it_is_asked_counts_where_a_time_is_counted_back_from_there(last: LastAnswers) -> None:
    last.put_hits(asked(now=NOW), False, Hits([hit("tide", 0.7)]))
    for now in (NOW + timedelta(minutes=5), None):
        assert [one.id for one in last.get_hits(asked(now=now), automatic=False)] == ["tide"]
    last.put_hits(asked("tide gauge yesterday", NOW), False, Hits([hit("then", 0.7)]))
    assert last.get_hits(asked("tide gauge yesterday", NOW), automatic=False)
    assert last.get_hits(asked("tide gauge yesterday", NOW + timedelta(days=1)), automatic=False).reason == NEVER


def test_an_answer_carries_its_own_notes(tmp_path: Path) -> None:
    root = tmp_path / "store"
    build(root)
    memory = Memory.open(root, encoder=HashEncoder())
    fine, block = memory.recall("Redis cache"), memory.context("Redis cache", 200)
    briefing = memory.briefing(200)
    assert fine.notes == block.notes == briefing.notes == ()
    there = root.rename(tmp_path / "elsewhere")
    away = Memory.open(root)
    stale = away.recall("Redis cache")
    assert (stale, len(stale.notes)) == (fine, 1)
    assert "answered from the last answers" in stale.notes[0]
    assert stale.as_dict()["notes"] == list(stale.notes) == away.notes
    old_block, old_briefing = away.context("Redis cache", 200), away.briefing(200)
    assert old_block.notes == stale.notes
    assert "answered from the last briefing" in old_briefing.notes[0]
    assert [one.notes for one in away.recall_many(["Redis", "Nina"])] == [stale.notes] * 2
    printed = CliRunner().invoke(app, ["recall", "Redis cache", "--json", "--store", str(root)])
    assert json.loads(printed.stdout)["notes"] == list(stale.notes)
    there.rename(root)
    away.recall("Redis cache")
    assert (away.notes, len(stale.notes)) == ([], 1)


def test_another_threads_answer_leaves_the_notes_of_this_one(tmp_path: Path) -> None:
    build(tmp_path / "store", vectors=False)
    memory = Memory.open(tmp_path / "store")
    noted = memory.recall("Nina Lisbon")
    other = threading.Thread(target=memory.briefing)  # which has nothing to note
    other.start()
    other.join()
    assert memory.notes == []
    assert noted.notes == ("this release has no vectors: answered by full text alone",)


def test_the_benchs_checks_hold_on_a_small_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(tmp_path / "store")
    memory = Memory.open(tmp_path / "store", encoder=HashEncoder())
    assert (
        measure_nearest_recall(memory, HashEncoder(), ["Redis cache", "Nina moved to Lisbon"]) == 0.9
    )  # of nine passages all
    monkeypatch.setattr("bench.recall.checks.PAUSE", 0.05)
    monkeypatch.setattr("bench.recall.checks.READERS", 2)  # eight of them: tests/recall/test_recall_live.py
    met = recall_while_swapping(tmp_path / "store", HashEncoder(), ["Redis cache", "Nina moved to Lisbon"])
    assert (met.errors, met.queries > 0) == ([], True)
