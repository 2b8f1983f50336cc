"""Recall stops where the next hit is of another matter, and says so; whoever asks for everything gets it."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from slowwave.flows.nightly import run_night
from slowwave.memory import Memory
from slowwave.recall.hits import STOPPED
from slowwave.recall.matter import find_changed_since, find_clear_answer, find_matter
from slowwave.recall.retrieve.candidates import Candidate
from slowwave.schemas.settings import Settings
from tests.command_line import typed

STATEMENTS = Path(__file__).parents[2] / "data" / "labelled" / "precision.jsonl"


def rows(*given: tuple[float, float, float]) -> list[Candidate]:
    """Return messages m0, m1, … of these scores, relevances and shares of heard words."""
    return [
        Candidate("message", f"m{n}", {"text": "", "ts": None}, *values)
        for n, values in enumerate(given)
    ]


@pytest.mark.parametrize(
    ("given", "matter"),
    [
        # one row is sure and the next scores 3 less
        ([(6.0, 1.0, 1.0), (3.0, 0.5, 0.4)], {"m0"}),
        # the next scores only .5 less: it may be of the same matter
        ([(6.0, 1.0, 1.0), (5.5, 0.5, 0.4)], {"m0", "m1"}),
        # four are sure: the evidence is spread, and only what hears nothing is left out
        (
            [*[(6.0, 1.0, 1.0)] * 4, (3.0, 0.5, 0.4), (2.0, 0.0, 0.1)],
            {"m0", "m1", "m2", "m3", "m4"},
        ),
        # none reaches the floor of .9: no clear answer
        ([(6.0, 0.8, 1.0), (3.0, 0.5, 0.4)], {"m0", "m1"}),
        # the sure row hears a quarter of the query: what answers may be said in other words
        ([(6.0, 1.0, 0.25), (3.0, 0.5, 0.2)], {"m0", "m1"}),
        # nobody said a word of the query, and nothing is sure: nothing tells the rows apart
        ([(2.0, 0.5, 0.0), (1.5, 0.2, 0.0), (0.5, 0.1, 0.0)], {"m0", "m1", "m2"}),
        # some words are heard: what scores 1 less and hears none is left out
        ([(2.0, 0.5, 0.5), (1.5, 0.2, 0.0), (0.5, 0.1, 0.0)], {"m0", "m1"}),
    ],
)
def test_an_answer_is_what_stands_clear_of_the_rest(
    given: list[tuple[float, float, float]], matter: set[str]
) -> None:
    assert find_matter([rows(*given)], frozenset(), 0.9) == matter


def test_a_message_close_in_meaning_is_of_the_matter_whatever_words_it_hears() -> None:
    spread = [
        Candidate(
            "message",
            key,
            {"text": "", "ts": None},
            score,
            0.5,
            covered,
            contributions={"vector": vector},
        )
        for key, score, covered, vector in (
            ("best", 4.0, 0.5, 2.0),
            ("near", 2.0, 0.0, 1.5),
            ("far", 2.0, 0.0, 1.0),
        )
    ]
    assert find_matter([spread], frozenset(), 0.9) == {"best", "near"}


def test_without_an_index_of_full_text_nothing_is_left_out_for_its_words() -> None:
    unheard = [rows((2.0, 0.5, 0.0), (0.5, 0.1, 0.0))]
    assert find_matter(unheard, frozenset(), 0.9, hears=False) == {"m0", "m1"}


def test_after_twenty_rows_only_what_is_sure_is_left_unless_a_time_is_named() -> None:
    spread = rows(*[(5.0, 0.5, 0.5)] * 21, (5.0, 0.8, 0.5))
    matter = find_matter([spread], frozenset(), 0.9)
    assert {row.id for row in spread} - matter == {"m20"}
    timed = find_matter([spread], frozenset(), 0.9, timed=True)
    assert len(timed) == 22


def test_a_message_that_asks_the_same_is_no_answer() -> None:
    asked = rows((7.0, 1.0, 1.0), (4.0, 0.6, 0.5), (3.5, 0.5, 0.5))
    assert find_clear_answer(asked, {"m0"}, 0.9) == []


def test_the_command_stops_and_all_prints_the_rest(tmp_path: Path) -> None:
    run_night([STATEMENTS], Settings(store=tmp_path / "store"))
    memory = Memory.open(tmp_path / "store")
    asked = "How many approvals does a pull request need?"
    few, everything = memory.recall(asked), memory.recall(asked, everything=True)
    assert [hit.text for hit in few] == [
        "Pull requests need two approvals, one of them from Ines."
    ]
    assert (few[0], len(everything)) == (everything[0], 10)
    assert (few.stopped, everything.stopped) == (STOPPED, None)
    assert few.as_dict()["stopped"] == STOPPED
    where = ("--store", tmp_path / "store")
    assert f"{STOPPED}; --all prints it too" in typed("recall", asked, *where).stdout
    assert STOPPED not in typed("recall", asked, "--all", *where).stdout
    block, filled = memory.context(asked), memory.context(asked, everything=True)
    assert len(block.parts[0].lines) == 1 < len(filled.parts[0].lines)
    # a correction since the night stops it too
    claim = next(one for one in memory.claims(limit=None) if "Typesense" in one.summary)
    memory.correct(claim.id, "Kittiwake keeps its index in OpenSearch.")
    assert memory.recall(asked).stopped == STOPPED


def test_what_a_later_session_said_stays_beside_a_clear_answer() -> None:
    """The old value answers clearly; the new one, of another session, is said in words that the query lacks."""
    days = (2, 9, 1, 9)
    sessions = ("a", "b", "c", "a")
    heard = (1.0, 0.4, 0.4, 0.4)
    given = [
        Candidate(
            "message",
            f"m{n}",
            {
                "text": "",
                "ts": datetime(2026, 3, day, tzinfo=UTC),
                "session_id": session,
            },
            score,
            relevance,
            covered,
        )
        for n, (day, session, score, relevance, covered) in enumerate(
            zip(
                days,
                sessions,
                (6.0, 3.0, 2.9, 2.8),
                (1.0, 0.5, 0.5, 0.5),
                heard,
                strict=True,
            )
        )
    ]
    # m2 is earlier, m3 of the answer's own session
    assert find_matter([given], frozenset(), 0.9) == {"m0", "m1"}


@pytest.mark.parametrize(
    ("given", "since"),
    [
        # surely about the query and said later
        ([(2, 7.0, 1.0, 1.0), (9, 3.0, 0.8, 0.0)], {"m1"}),
        # the same, said before
        ([(9, 7.0, 1.0, 1.0), (2, 3.0, 0.8, 0.0)], set()),
        # hardly relevant, but it hears the words of the query and scores as well
        ([(2, 5.0, 1.0, 1.0), (9, 4.5, 0.3, 0.4)], {"m1"}),
        # the same, far below
        ([(2, 5.0, 1.0, 1.0), (9, 3.5, 0.3, 0.4)], set()),
        # nothing reaches the floor
        ([(2, 5.0, 0.8, 1.0), (9, 4.5, 0.8, 0.4)], set()),
    ],
)
def test_unasked_an_answer_is_not_told_without_what_may_have_changed_it(
    given: list[tuple[int, float, float, float]], since: set[str]
) -> None:
    found = [
        Candidate(
            "message",
            f"m{n}",
            {
                "text": "",
                "ts": datetime(2026, 3, day, tzinfo=UTC),
                "session_id": str(n),
            },
            *values,
        )
        for n, (day, *values) in enumerate(given)
    ]
    assert find_changed_since(found, 0.9) == since
