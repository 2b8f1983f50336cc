"""What is taken back without a new value, refused, or said again after a change: through whole nights."""

from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from slowwave import Memory
from slowwave.engines.encoders.pair_reader import load_reader
from slowwave.flows.exclude import run_exclude
from slowwave.flows.nightly import run_night
from slowwave.recall.hits import Successor
from slowwave.recall.release.view import format_later
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import MERGES
from slowwave.schemas.vocabulary import LedgerKind
from slowwave.store import Store
from slowwave.tasks.changes.outcome import Known, supersede
from slowwave.tasks.observe.statements import is_retraction
from tests.changes.test_decide import claim, told, told_by
from tests.command_line import typed
from tests.talk_files import session

RULE = "In cove we write commit messages in French."
BACK = "Forget what I said about French commit messages in cove."
ASKED = "In which language are the commit messages of cove?"


@pytest.mark.parametrize(
    ("earlier", "later", "rules"),
    [
        (
            "Every pull request in birch needs two reviewers",
            "Scrap the rule about two reviewers",
            ["perhaps retracted"],
        ),
        (
            "I prefer tabs over spaces in elm",
            "Disregard what I told you about tabs",
            ["perhaps retracted"],
        ),
        # by the pair none: the trees alone doubt it
        (
            "Commit messages in alder are written in French",
            "Remember what I said about French commit messages",
            ["perhaps"],
        ),
        # it negates
        ("I prefer tabs over spaces in elm", "Never forget that I prefer tabs", []),
    ],
)
def test_two_readers_find_a_retraction_in_few_words(
    earlier: str, later: str, rules: list[str]
) -> None:
    rows = told_by(claim(0, earlier), claim(30, later, confidence=0.01))
    rows = rows.append_column("by_model", pa.array([False] * rows.num_rows))
    known = Known(
        "k",
        reader=load_reader(),
        is_retraction=partial(is_retraction, in_layers=True),
    )
    rows_of = [
        row
        for row in supersede(rows, known).merges.to_pylist()
        if row["from_id"] == "o000"
    ]
    assert [row["rule"] for row in rows_of if row["rule"] != "leads"] == rules


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("back")
    nights = Settings(store=folder / "store")
    run_night(
        [
            session(
                folder, "a", 2, [("user", RULE), ("assistant", "D'accord.")], "cove"
            ),
            session(
                folder, "b", 9, [("user", BACK), ("assistant", "Forgotten.")], "cove"
            ),
        ],
        nights,
    )
    return nights.store


def test_what_was_taken_back_is_marked_where_it_is_told(store: Path) -> None:
    memory = Memory.open(store)
    hits = {hit.text: hit for hit in memory.recall(ASKED, 3)}
    assert hits[RULE].successor is not None
    assert hits[RULE].successor.text == BACK[:-1]
    assert "perhaps" in memory.context(ASKED).text


@pytest.mark.parametrize(
    ("earlier", "later", "rules"),
    [
        (
            "Commit messages are written in German",
            "Forget the rule about German commit messages",
            ["perhaps retracted"],
        ),
        (
            "Always ask me before you add a package",
            "You may add packages without asking from now on",
            ["perhaps retracted"],
        ),
        (
            "We use Celery for the background jobs",
            "We switched from Celery to Dramatiq for the background jobs",
            ["perhaps"],  # another value
        ),
    ],
)
def test_the_ledger_tells_what_is_taken_back_from_what_has_another_value(
    earlier: str, later: str, rules: list[str]
) -> None:
    found = supersede(told(earlier, later), Known("k", reader=load_reader()))
    assert found.merges["rule"].to_pylist() == rules


def test_a_retraction_is_shown_with_its_day_and_not_as_a_new_value() -> None:
    back = Successor("Forget the French rule", datetime(2026, 3, 9, tzinfo=UTC), True)
    sure = format_later(back, 1.0, "")
    assert sure == "(taken back on 9 Mar 2026, then: Forget the French rule)"
    # the words stand beside it already
    assert format_later(back, 0.5, back.text) == "(perhaps taken back on 9 Mar 2026)"


def test_no_hand_out_states_it_and_what_takes_it_back_is_no_rule(store: Path) -> None:
    for words in (["skill"], ["project", "--out", "-"]):
        done = typed(*words, "--project", "cove", "--store", str(store))
        assert "French" not in done.output


def test_it_is_listed_and_stands_again_once_that_is_taken_back(store: Path) -> None:
    done = typed("inspect", "changes", "--store", str(store))
    assert "perhaps" in done.output
    merge = next(
        row
        for row in Store.open(store).read(MERGES).to_pylist()
        if row["kind"] == LedgerKind.DOUBT
    )
    run_exclude([merge["merge_id"]], "still French", Settings(store=store))
    hits = {hit.text: hit for hit in Memory.open(store).recall(ASKED, 3)}
    assert hits[RULE].successor is None
    assert "French" in typed("skill", "--project", "cove", "--store", str(store)).output
