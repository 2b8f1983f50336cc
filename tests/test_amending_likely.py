"""Changes that nobody states: the company a pair is in, the model's arithmetic, and what it retires."""

import math
from datetime import timedelta

import pyarrow as pa
import pytest

from bench.fit_amendments import Labelled, Pair, fit, judged
from schemas.observations import OBSERVATIONS
from schemas.settings import DedupeSettings
from slowwave.engines.query_encoder import load_query_encoder
from tasks.amending.judge import Weights, read_said
from tasks.amending.likely import Model, fitted, likely_change
from tasks.amending.traits import Company, companies, traits
from tasks.supersede import supersede, unsupersede
from tests.claim_rows import DAY, observation

LIKEST = Company(0, 0, 0.0, 0.0, 1.0)

EARLIER = (
    "The hearing of Marlow against Denholm is listed for 3 June in room 4 at Reading",
    "The bundle is due 14 days before a hearing",
    "Large sourdough loaves cost 4.20",
    "The office is closed on Fridays",
    "My sister plays the viola in Leeds",
    "We take the train at 7:40 from Paddington",
    "Invoices are sent by post to clients over seventy",
    "The kitchen will be painted sage green",
)
NOTICE = "Marlow against Denholm: by the new notice the hearing is on 17 July at 10:30 in room 2"


def claims(*summaries: str, vectors: bool = True) -> pa.Table:
    encoder = load_query_encoder("all-MiniLM-L6-v2")
    encoded = list(encoder.encode(list(summaries))) if vectors else [None] * len(summaries)
    rows = [
        observation(n, text, category="fact", pack="personal", vector=vector)
        for n, (text, vector) in enumerate(zip(summaries, encoded, strict=True))
    ]
    return pa.Table.from_pylist(rows, schema=OBSERVATIONS.schema)


def test_a_pair_stands_among_the_others_of_its_claims() -> None:
    found = companies({(1, 9): 1.2, (2, 9): 0.7, (3, 9): 0.2, (1, 8): 1.5})
    assert found[2, 9] == Company(1, 0, pytest.approx(0.5), 0.0, pytest.approx(-0.5))  # type: ignore[arg-type]
    assert (found[1, 9].nearer_before, found[1, 9].nearer_after) == (0, 1)
    assert found[1, 9].lead == pytest.approx(0.5)


def test_the_model_is_a_logistic_regression() -> None:
    model = Model(-1.0, {"cosine": 2.0, "stated": 1.0})
    assert model.probability({"cosine": 0.5, "stated": 1.0, "unheard": 9.0}) == pytest.approx(1 / (1 + math.exp(-1)))
    assert model.probability({"cosine": -1e9}) == pytest.approx(0.0, abs=1e-12)


def test_the_weights_that_ship_are_of_traits_that_are_read() -> None:
    pair = [read_said(text, None, "decision") for text in EARLIER[:2]]
    read = traits(*pair, {"shared": 0.5, "cosine": 0.5}, Weights(), LIKEST)
    assert set(fitted().weights) == set(read)


def test_a_new_date_that_nobody_calls_new_retires_the_old_one_alone() -> None:
    found = supersede(claims(*EARLIER, NOTICE), DedupeSettings(), "k").merges.to_pylist()
    assert [(m["loser_id"], m["winner_id"], m["rule"]) for m in found] == [("o000", "o008", "likely")]
    assert dict(found[0]["scores"])["likely"] > 0.4


@pytest.mark.parametrize(
    "later",
    [
        "I was glad about how the hearing of Marlow against Denholm went",
        "Should we ask for another hearing?",
    ],
)
def test_more_about_the_same_thing_retires_nothing(later: str) -> None:
    assert supersede(claims(*EARLIER, later), DedupeSettings(), "k").merges.num_rows == 0


def test_what_may_be_a_change_is_a_doubt_and_both_stand() -> None:
    found = supersede(claims(*EARLIER, "The bundle for Marlow against Denholm has 240 pages"), DedupeSettings(), "k")
    doubt = found.merges.to_pylist()[0]
    assert (doubt["kind"], doubt["rule"], doubt["loser_id"], doubt["winner_id"]) == ("doubt", "perhaps", "o000", "o008")
    assert 0.15 <= dict(doubt["scores"])["likely"] < 0.4
    assert found.observations.num_rows == 0
    undone = unsupersede(OBSERVATIONS.empty(), found.merges, doubt["merge_id"])
    assert undone.observations.num_rows == 0
    assert undone.merges["undone"].to_pylist() == [True]


def test_a_doubt_taken_back_is_never_raised_again() -> None:
    rows = claims(*EARLIER, "The bundle for Marlow against Denholm has 240 pages")
    again = supersede(rows, DedupeSettings(), "k", undone={("o000", "o008")})
    assert ("o000", "o008") not in [(m["loser_id"], m["winner_id"]) for m in again.merges.to_pylist()]


def test_a_guess_overturns_nothing_that_was_said_again_since() -> None:
    rows = claims(*EARLIER, NOTICE)
    assert supersede(rows, DedupeSettings(), "k").merges["kind"].to_pylist() == ["supersession"]
    again = supersede(rows, DedupeSettings(), "k", affirmed={"o000": DAY + timedelta(days=30)})
    assert (again.observations.num_rows, again.merges.num_rows) == (0, 0)


def test_among_a_handful_of_claims_the_likest_tells_nothing() -> None:
    assert supersede(claims(*EARLIER[:4], NOTICE), DedupeSettings(), "k").merges.num_rows == 0


def test_without_vectors_nothing_is_likely() -> None:
    old, new = (read_said(text, None, "fact") for text in (EARLIER[0], NOTICE))
    assert likely_change(old, new, None, Weights(), LIKEST) is None
    assert likely_change(old, new, 0.9, Weights(), Company(5, 5, 0.1, 0.1, -0.1)) is None  # others are liker


def test_a_fit_learns_what_tells_changes_from_others() -> None:
    pairs = [Pair(n, n + 100, {"stated": float(n % 2), "noise": float(n % 3)}, n % 2 == 1) for n in range(60)]
    model = fit([Labelled("a", 60, pairs, [[1], [3]])])
    assert model.weights["stated"] > 4 * abs(model.weights["noise"])
    assert model.probability({"stated": 1.0, "noise": 1.0}) > 0.5 > model.probability({"stated": 0.0, "noise": 1.0})


def test_a_file_is_judged_by_its_cases() -> None:
    model = Model(-2.0, {"stated": 4.0})
    told, silent = {"stated": 1.0}, {"stated": 0.0}
    pairs = [Pair(0, 9, told, True), Pair(1, 9, silent, True), Pair(2, 9, told, False), Pair(3, 9, told, None)]
    result = judged(Labelled("a", 10, pairs, [[0], [1], [3]]), model)
    assert (result.retired, result.by_the_right_one, result.others, result.changes) == (2, 1, 1, 2)
