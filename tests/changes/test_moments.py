"""What is said for the moment, or of another thing, leaves a rule as it is: by readers, and through a night."""

from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from slowwave.engines.encoders.pair_reader import load_reader
from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import CLAIMS, MERGES
from slowwave.schemas.vocabulary import EXTRACTIVE
from slowwave.store import Store
from slowwave.tasks.changes.outcome import Known, supersede
from slowwave.tasks.dedupe.pairs import set_columns
from slowwave.tasks.observe.statements import is_of_moment
from tests.changes.test_decide import told
from tests.command_line import typed
from tests.talk_files import session

RULE = "We squash commits before merging"
ONCE = "For this commit only, don't squash"
HOLDING = (RULE, "The production database is db-prod-1")
OLD, NEW = (
    "The staging database is db-stage-1",
    "The staging database is db-stage-2 now",
)

read = partial(is_of_moment, in_layers=True)


def judge(
    later: str, confidence: float, session_id: str, observer: str = EXTRACTIVE
) -> list[tuple[str, str]]:
    """What is made of the rule and a later sentence of a person, of that confidence."""
    rows = set_columns(told(RULE, later), confidence=confidence, observer=observer)
    if session_id:
        rows = set_columns(rows, session_id=session_id)
    by_person = pa.array([False] * rows.num_rows)
    rows = rows.append_column("by_model", by_person)
    merges = supersede(
        rows, Known("k", reader=load_reader(), is_of_moment=read)
    ).merges.to_pylist()
    return [(m["kind"], m["rule"]) for m in merges if m["from_id"] == "o000"]


@pytest.mark.parametrize("session_id", ["", "s"])
@pytest.mark.parametrize("later", [ONCE, "Just for this commit, don't squash"])
def test_an_order_of_the_moment_is_of_a_narrower_case(
    later: str, session_id: str
) -> None:
    assert judge(later, 0.04, session_id) == [("agreement", "narrowed")]


def test_the_words_of_a_claim_that_a_model_made_are_not_read_again() -> None:
    asked: list[str] = []
    rows = set_columns(told(RULE, ONCE), confidence=0.04, observer="gpt")
    rows = rows.append_column("by_model", pa.array([False] * rows.num_rows))
    supersede(rows, Known("k", reader=load_reader(), is_of_moment=asked.append))
    assert asked == []
    assert ("agreement", "narrowed") not in judge(ONCE, 0.04, "", observer="gpt")


def test_what_holds_on_takes_the_rule_back_whatever_its_words_are() -> None:
    ((kind, rule),) = judge(ONCE, 0.9, "")
    assert (kind, rule) in {
        ("supersession", "retracted"),
        ("doubt", "perhaps retracted"),
    }


@pytest.mark.parametrize(
    "text",
    [
        "Forget the rule about German commit messages",
        "Forget what I said about French commit messages in cove",
        "I upgraded production to Node 22 this morning",
        "You may add packages without asking from now on",
        "",
    ],
)
def test_a_retraction_and_a_report_are_not_of_the_moment(text: str) -> None:
    assert not read(text)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("moments")
    nights = Settings(store=folder / "store")
    for name, day, said in (("a", 2, (*HOLDING, OLD)), ("b", 9, (ONCE, NEW))):
        turns = [
            turn
            for text in said
            for turn in (("user", f"{text}."), ("assistant", "Noted."))
        ]
        run_night([session(folder, name, day, turns, "reef")], nights)
    return nights.store


def test_nothing_but_the_thing_that_is_named_is_doubted(store: Path) -> None:
    claims = Store.open(store).read(CLAIMS).to_pylist()
    summaries = {row["claim_id"]: row["summary"] for row in claims}
    merges = Store.open(store).read(MERGES).to_pylist()
    found = {(m["kind"], summaries[m["from_id"]]) for m in merges}
    assert found == {("agreement", RULE), ("doubt", OLD)}


def test_the_skill_goes_on_telling_what_holds(store: Path) -> None:
    skill = typed("skill", "--project", "reef", "--store", str(store)).output
    assert [text in skill for text in (*HOLDING, NEW, ONCE, OLD)] == [
        *(True, True, True),
        *(False, False),
    ]
