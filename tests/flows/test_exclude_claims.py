"""One claim taken back, for good; a night that is held back rejected; and what by hand makes nothing of it live."""

import re
from pathlib import Path

import pytest

from slowwave.flows.exclude import promote_candidate, run_exclude, run_include
from slowwave.flows.forget import run_forget
from slowwave.flows.nightly import run_night
from slowwave.flows.parts.run import is_held
from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import OBSERVATIONS
from slowwave.store import Store
from slowwave.store.publishing import read_releases
from slowwave.tasks.forget.select import Wanted
from slowwave.tasks.publish import gates
from slowwave.tasks.publish.gates import Bounds
from tests.command_line import typed
from tests.flows.test_gates import lose, write_talk


@pytest.fixture
def settings(twelve: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A store of one night whose shares are looked at from ten claims on."""
    monkeypatch.setattr(gates, "BOUNDS", Bounds(claims=10))
    return Settings(store=twelve / "store", encoder="hash-384", keywords={"top": 0}, gates={"max_lost": 0.2})


def find_claims(settings: Settings, word: str) -> list[str]:
    rows = Store.open(settings.store).read(OBSERVATIONS, ["observation_id", "summary", "status"]).to_pylist()
    return [row["observation_id"] for row in rows if word in row["summary"] and row["status"] == "active"]


def test_a_claim_taken_back_comes_back_neither_by_its_session_nor_by_anothers_words(
    settings: Settings, twelve: Path
) -> None:
    wanted = find_claims(settings, "unit3x service")[0]
    run_exclude([wanted[:10]], "it was made up", settings).check_complete()
    again = write_talk(twelve / "a.jsonl", 0, 12).read_text()
    (twelve / "b.jsonl").write_text(again.replace('"s3', '"other3'))
    changed = settings.model_copy(update={"keywords": settings.keywords.model_copy(update={"top": 1})})  # all pending
    run_night([twelve / "b.jsonl"], changed).check_complete()
    assert find_claims(settings, "unit3x service") == []
    assert find_claims(settings, "unit4x service")
    where = ["--store", str(settings.store)]
    assert "it was made up" in typed("inspect", "excluded", *where).stdout
    with pytest.raises(UsageError, match="left out already"):
        run_exclude([wanted], "again", settings)
    run_include([wanted], settings).check_complete()
    assert len(find_claims(settings, "unit3x service")) == 1


def hold(settings: Settings, twelve: Path) -> Path:
    """A night held back: it loses claims, and brings sessions of its own."""
    lose(settings, 0.5)
    poison = write_talk(twelve / "poison.jsonl", 20, 3)
    assert run_night([poison], settings).held
    return poison


def test_nothing_by_hand_makes_live_what_is_held_back(settings: Settings, twelve: Path) -> None:
    hold(settings, twelve)
    run_exclude([find_claims(settings, "unit2")[0]], "wrong", settings)
    assert [one.name for one in read_releases(Store.open(settings.store))] == ["r1"]


def test_a_forgetting_waits_for_no_decision_and_sets_aside_what_came_with_the_night(
    settings: Settings, twelve: Path
) -> None:
    hold(settings, twelve)
    notes = run_forget(Wanted(matches=("unit5x",)), settings)[0].notes
    assert any(note.startswith("a night was held back: what came with it is set aside") for note in notes)
    store = Store.open(settings.store)
    assert not is_held(store)
    assert find_claims(settings, "unit5x") == find_claims(settings, "unit21x") == []
    assert find_claims(settings, "unit9x") != []


def test_a_rejected_night_leaves_nothing_of_what_came_with_it(settings: Settings, twelve: Path) -> None:
    store = Store.open(settings.store)
    probes = {"which port does the unit3x service listen on": "port 1021"}
    settings = settings.model_copy(update={"gates": settings.gates.model_copy(update={"probes": probes})})
    poison = write_talk(twelve / "poison.jsonl", 20, 40)
    poison.write_text(re.sub(r"unit\d+x", "unit3x", poison.read_text()))
    assert run_night([poison], settings).held
    run_exclude(["candidate"], "it is no transcript", settings).check_complete()
    assert len(find_claims(settings, "unit3x")) == 3
    assert len(read_releases(store)) == 2
    assert run_night([poison], settings).held == []
    lose(settings, 0.5)  # no session comes with this
    assert run_night([poison], settings).held
    assert any(note.startswith("no session came with") for note in run_exclude(["candidate"], "x", settings).notes)


def test_what_a_roll_back_took_away_did_not_come_with_a_night_that_is_rejected_and_its_end_is_said(
    fifteen: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gates, "BOUNDS", Bounds(claims=10))
    settings = Settings(store=fifteen / "store", encoder="hash-384", keywords={"top": 0}, gates={"max_lost": 0.2})
    assert typed("rollback", "r1", "--store", settings.store).exit_code == 0
    assert run_night([], settings).release is None
    lose(settings, 0.4)
    held = run_night([write_talk(fifteen / "c.jsonl", 30, 3)], settings)
    assert held.held
    report = run_exclude(["candidate"], "it was made up", settings)
    assert find_claims(settings, "unit31x") == []
    assert find_claims(settings, "unit21x")
    assert report.held  # what was lost is lost without it too
    promoted = promote_candidate("it was lost before", settings)
    assert any("the roll-back to r1 ends with r4" in note for note in promoted.collect_notes())


def test_a_diff_says_why_a_person_took_a_claim_back_and_left_a_session_out(settings: Settings) -> None:
    run_exclude([find_claims(settings, "unit3x service")[0]], "it was a joke", settings).check_complete()
    run_exclude(["s5"], "a test of Ann's", settings).check_complete()
    told = typed("diff", "r1", "r3", "--store", settings.store).stdout
    assert told.startswith("r1 to r3: 4 withdrawn\n")
    assert told.count("\n    left out: it was a joke\n") == 1
    assert told.count("\n    its session was left out: a test of Ann's\n") == 3
