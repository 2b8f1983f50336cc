"""What a later claim affirms or narrows is recorded, changes nothing, and is evidence: through whole nights."""

from pathlib import Path

import pytest

from slowwave import Memory
from slowwave.context.projects.skill import collect_skill_lines
from slowwave.engines.encoders.pair_reader import load_reader
from slowwave.flows.exclude import run_exclude
from slowwave.flows.ledgers import LEDGERS
from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from slowwave.tasks.changes.outcome import Known, supersede
from slowwave.tasks.llm.fence import has_injection
from tests.changes.test_decide import told
from tests.talk_files import session

CLASS = "My Spanish class is Thursdays 18:30."
AGAIN = "I have Spanish on Thursdays at 18:30."


@pytest.mark.parametrize(
    ("earlier", "later", "rule"),
    [
        ("My Spanish class is Thursdays 18:30", AGAIN, "affirmed"),
        (
            "The nightly compliance run moves to 03:30",
            "Got it, the compliance run is at 03:30",
            "affirmed",
        ),
        (
            "No running on Mondays",
            "This Monday I'll run because of the race on Thursday",
            "narrowed",
        ),
    ],
)
@pytest.mark.parametrize("values", [{}, {"session_id": "s"}])
def test_what_plainly_changes_nothing_is_recorded_and_both_stand(
    earlier: str, later: str, rule: str, values: dict[str, str]
) -> None:
    rows = told(earlier, later, **values)
    outcome = supersede(rows, Known("k", reader=load_reader()))
    of_pair = [row for row in outcome.merges.to_pylist() if row["from_id"] == "o000"]
    assert [(row["kind"], row["rule"]) for row in of_pair] == [("agreement", rule)]
    assert outcome.claims.num_rows == 0


def test_another_value_is_no_agreement() -> None:
    rows = told(
        "My Spanish class is Thursdays 18:30", "I have Spanish on Mondays at 17:00"
    )
    merges = supersede(rows, Known("k", reader=load_reader())).merges
    assert "agreement" not in merges["kind"].to_pylist()


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    folder = tmp_path_factory.mktemp("again")
    nights = Settings(store=folder / "store")
    said = {"a": (2, CLASS), "b": (9, AGAIN)}
    talks = [
        session(folder, name, day, [("user", text), ("assistant", "Noted.")], "kay")
        for name, (day, text) in said.items()
    ]
    run_night(talks, nights)
    return nights


def test_an_affirmation_bears_the_earlier_claim_out_until_it_is_undone(
    settings: Settings,
) -> None:
    listing = LEDGERS["changes"](settings, True)
    (row,) = [row for row in listing.rows if row["rule"] == "affirmed"]
    assert (row["from"], row["into"]) == (CLASS[:-1], AGAIN[:-1])
    short = LEDGERS["changes"](settings, False)
    assert row["merge_id"] not in [other["merge_id"] for other in short.rows]
    assert (
        "1 affirmed by a later claim, which changes nothing: `--all` lists them."
        in short.notes
    )
    memory = Memory.open(settings.store)
    claims = {claim.summary: claim for claim in memory.claims()}
    assert claims[CLASS[:-1]].sessions == 2
    assert claims[AGAIN[:-1]].sessions == 1
    alone = claims[CLASS[:-1]].confidence
    run_exclude([row["merge_id"]], "another class", settings)
    run_night([], settings)
    after = {claim.summary: claim for claim in Memory.open(settings.store).claims()}
    assert after[CLASS[:-1]].sessions == 1
    assert after[CLASS[:-1]].confidence < alone


def test_what_is_plainly_taken_back_in_its_own_session_is_not_handed_out(
    tmp_path: Path,
) -> None:
    turns = [
        (
            "user",
            "From now on every endpoint in moor returns JSON with a trailing newline.",
        ),
        ("assistant", "Understood."),
        ("user", "Actually never mind the trailing newline."),
        ("assistant", "OK."),
        ("user", "Keep functions below 40 lines in moor."),
        ("assistant", "OK."),
    ]
    nights = Settings(store=tmp_path / "store")
    run_night([session(tmp_path, "d", 20, turns, "moor")], nights)
    view = Memory.open(nights.store).get_view()
    lines = collect_skill_lines(view, ("moor",), has_injection)
    assert [line.own_words for line in lines] == [turns[4][1][:-1]]
