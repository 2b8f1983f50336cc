"""Sessions left out: nothing of them is told, now or later; and taken in again all is as before."""

from pathlib import Path

import pytest

from slowwave import Memory
from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.flows.exclude import run_exclude, run_include
from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import OBSERVATIONS, PASSAGES
from slowwave.store import Store
from slowwave.store.manifest import compute_table_digest
from tests.command_line import typed
from tests.flows.test_gates import write_talk


@pytest.fixture
def settings(fifteen: Path) -> Settings:
    """A store of two nights: twelve sessions, then a poisoned file of three."""
    return Settings(store=fifteen / "store", encoder="hash-384", keywords={"top": 0})


def list_claims(settings: Settings) -> list[tuple[str, str]]:
    rows = Store.open(settings.store).read(OBSERVATIONS, ["observation_id", "status"]).to_pylist()
    return sorted((row["observation_id"], row["status"]) for row in rows)


def compute_passages_digest(settings: Settings) -> str:
    return compute_table_digest(PASSAGES, Store.open(settings.store).read(PASSAGES))


def find_claims(settings: Settings, word: str) -> list[str]:
    rows = Store.open(settings.store).read(OBSERVATIONS, ["summary", "status"]).to_pylist()
    return [row["summary"] for row in rows if word in row["summary"] and row["status"] == "active"]


@pytest.mark.parametrize("name", ["file", "r2"])
def test_nothing_of_it_is_told_and_a_later_night_does_not_bring_it_back(
    settings: Settings, fifteen: Path, name: str
) -> None:
    poison = fifteen / "poison.jsonl"
    assert find_claims(settings, "unit21x")
    run_exclude([str(poison) if name == "file" else name], "it was made up", settings).check_complete()
    write_talk(poison, 20, 4)  # it grows, by a session of its own
    run_night([poison], settings).check_complete()
    assert [find_claims(settings, f"unit{n}x") for n in (20, 21, 22)] == [[], [], []]
    assert find_claims(settings, "unit23x")
    assert find_claims(settings, "unit3x")
    memory = Memory.open(settings.store, encoder=HashEncoder())
    assert not any("unit21x" in hit.text for hit in memory.recall("which port does the unit21x service listen on", 20))


def test_taken_in_again_all_is_as_before(settings: Settings) -> None:
    claims, passages = list_claims(settings), compute_passages_digest(settings)
    run_exclude(["s20", "s21"], "they were made up", settings)
    assert list_claims(settings) != claims
    assert compute_passages_digest(settings) != passages
    run_include(["s20", "s21"], settings)
    assert list_claims(settings) == claims
    assert compute_passages_digest(settings) == passages


def test_the_commands_leave_out_list_and_take_in_and_refuse_what_is_no_name_or_was_done(settings: Settings) -> None:
    where = ("--store", settings.store)
    assert typed("inspect", "excluded", *where).stdout == "Nothing in excluded.\n"
    secret = "ghp_" + "a1B2c3D4e5" * 4  # a reason is kept as what is read is
    assert typed("exclude", "s20", "--why", f"made\x1b up with {secret[:40]}", *where).exit_code == 0
    listed = typed("inspect", "excluded", "--json", *where).stdout
    assert ('"s20"' in listed, "made up with [" in listed, secret[:40] in listed) == (True, True, False)
    for words, why in (
        (("exclude", "s99", "--why", "x"), "'s99' is no session, file, release"),
        (("exclude", "abc", "--why", "x"), "6 characters"),
        (("exclude", "s21", "--why", " "), "reason is needed"),
        (("exclude", "s20", "--why", "x"), "left out already"),
        (("exclude", "candidate", "--why", "x"), "nothing is held back"),
        (("include", "s21"), "not left out"),
    ):
        refused = typed(*words, *where)
        assert (refused.exit_code, why in refused.stderr) == (1, True), refused.output
    assert typed("include", "s20", *where).exit_code == 0
    assert typed("inspect", "excluded", *where).stdout == "Nothing in excluded.\n"


def test_all_that_there_is_may_be_left_out_and_the_next_night_goes_on(tmp_path: Path) -> None:
    settings = Settings(store=tmp_path / "store", encoder="hash-384", keywords={"top": 0})
    run_night([write_talk(tmp_path / "a.jsonl", 0, 1)], settings).check_complete()
    run_exclude([str(tmp_path / "a.jsonl")], "it was made up", settings).check_complete()
    assert [row for row in list_claims(settings) if row[1] == "active"] == []
    assert not Memory.open(settings.store, encoder=HashEncoder()).recall("which port does the unit0x service listen on")
    report = run_night([write_talk(tmp_path / "b.jsonl", 5, 1)], settings)
    assert report.release is not None
    assert find_claims(settings, "unit5x")
