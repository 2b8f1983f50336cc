"""Changes that nobody states: the company a pair is in, the model's arithmetic, and what it retires."""

import math
from datetime import timedelta

import pyarrow as pa
import pytest

from bench.fit_amendments import Labelled, Pair, evaluate_held_out, fit_model
from slowwave.engines.encoders.load import load_query_encoder
from slowwave.schemas.settings import DedupeSettings
from slowwave.schemas.tables import OBSERVATIONS
from slowwave.tasks.supersede.claims import build_candidate_claims
from slowwave.tasks.supersede.evidence import Evidence
from slowwave.tasks.supersede.features import PairRank, rank_pairs
from slowwave.tasks.supersede.model import (
    PERHAPS,
    Likelihood,
    Model,
    estimate_likelihoods,
    judge_doubt,
    load_likelihood_model,
)
from slowwave.tasks.supersede.rules import Verdict
from slowwave.tasks.supersede.supersede import supersede, unsupersede
from slowwave.tasks.supersede.surroundings import number_turns
from tests.claim_rows import DAY, observation

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
MORE = "The bundle for Marlow against Denholm has 240 pages"
NOTICE = "Marlow against Denholm: by the new notice the hearing is on 17 July at 10:30 in room 2"


def claims(*summaries: str, vectors: bool = True) -> pa.Table:
    encoder = load_query_encoder("all-MiniLM-L6-v2")
    encoded = list(encoder.encode(list(summaries))) if vectors else [None] * len(summaries)
    rows = [
        observation(n, text, category="fact", pack="personal", vector=vector)
        for n, (text, vector) in enumerate(zip(summaries, encoded, strict=True))
    ]
    return pa.Table.from_pylist(rows, schema=OBSERVATIONS.schema)


def evidence(*summaries: str) -> Evidence:
    return Evidence.from_candidates(build_candidate_claims(claims(*summaries), {}), DedupeSettings())


def test_a_pair_stands_among_the_others_of_its_claims() -> None:
    found = rank_pairs({(1, 9): 1.2, (2, 9): 0.7, (3, 9): 0.2, (1, 8): 1.5})
    assert found[2, 9] == PairRank(1, 0, pytest.approx(0.5), 0.0, pytest.approx(-0.5))  # type: ignore[arg-type]
    assert (found[1, 9].nearer_before, found[1, 9].nearer_after) == (0, 1)
    assert found[1, 9].lead == pytest.approx(0.5)


def test_the_model_is_a_logistic_regression() -> None:
    model = Model(-1.0, {"cosine": 2.0, "stated": 1.0}, 0.05)
    assert model.predict_probability({"cosine": 0.5, "stated": 1.0, "unheard": 9.0}) == pytest.approx(
        1 / (1 + math.exp(-1))
    )
    assert model.predict_probability({"cosine": -1e9}) == pytest.approx(0.0, abs=1e-12)


def test_the_weights_that_ship_are_of_traits_that_are_read() -> None:
    known = evidence(*EARLIER, NOTICE)
    assert set(load_likelihood_model().weights) == set(known.compute_features(0, 8, 0.6, 1.2))


def test_talk_around_two_claims_is_compared_by_turns_and_sessions() -> None:
    rows = claims(*EARLIER, NOTICE).to_pylist()
    for n, row in enumerate(rows[:8]):
        row |= {"session_id": "before", "observed_at": DAY + timedelta(minutes=n // 2)}
    table = pa.Table.from_pylist(rows, schema=OBSERVATIONS.schema)
    around = Evidence.from_candidates(build_candidate_claims(table, {}), DedupeSettings()).around
    assert around.turns == [0, 0, 1, 1, 2, 2, 3, 3, 0]
    found = around.compute_features(0, 8)
    assert found["earlier in the later's talk"] == found["earlier in the later's session"]  # one claim, one session
    assert found["talk alike"] < found["turns alike"] < 1  # more of the bakery, less of the hearing
    assert found["later's words around the earlier"] > 0  # "hearing" stands beside it in "before a hearing"
    assert found["days"] == pytest.approx(math.log1p(8))


def test_turns_are_counted_by_session() -> None:
    times = [DAY, DAY + timedelta(1), DAY, DAY + timedelta(1)]
    assert number_turns(times, ["a", "a", "b", "a"]) == [0, 1, 0, 1]


def test_a_doubt_is_what_is_rather_so_than_not_whatever_a_rule_says() -> None:
    ruled = Verdict("none", {"shared": 0.1, "cosine": 0.1}, "number 14 → 10:30", instead=True)
    assert judge_doubt(ruled, Likelihood(0.49, 0.3, 0.44)) is None
    scores = {"shared": 0.3, "cosine": 0.44, "likely": PERHAPS}
    found = Verdict("perhaps", scores, f"perhaps told anew (50%): {ruled.reason}")
    assert judge_doubt(ruled, Likelihood(PERHAPS, 0.3, 0.44)) == found


def test_where_nothing_is_weighed_a_rule_is_enough_for_a_doubt() -> None:
    ruled = Verdict("stated", {"shared": 0.5}, "moved")
    assert judge_doubt(ruled, None) == Verdict("perhaps", {"shared": 0.5}, "perhaps: moved")
    assert judge_doubt(None, None) is None


def test_pairs_of_two_sessions_are_weighed_where_they_stand_out() -> None:
    known = evidence(*EARLIER, NOTICE)
    found = estimate_likelihoods(known)
    assert (0, 8) in found
    assert found.keys() <= known.company.keys()
    assert found[0, 8].probability == max(likelihood.probability for likelihood in found.values())
    assert estimate_likelihoods(evidence(*EARLIER[:4], NOTICE)) == {}
    without = Evidence.from_candidates(
        build_candidate_claims(claims(*EARLIER, NOTICE, vectors=False), {}), DedupeSettings()
    )
    assert estimate_likelihoods(without) == {}


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
    found = supersede(claims(*EARLIER, NOTICE), DedupeSettings(), "k")
    (merge,) = found.merges.to_pylist()
    assert (merge["kind"], merge["rule"], merge["loser_id"], merge["winner_id"]) == ("doubt", "perhaps", "o000", "o008")
    assert dict(merge["scores"])["likely"] >= PERHAPS
    assert found.observations.num_rows == 0
    undone = unsupersede(OBSERVATIONS.make_empty_table(), found.merges, merge["merge_id"])
    assert undone.observations.num_rows == 0
    assert undone.merges["undone"].to_pylist() == [True]


def test_a_word_of_a_handful_of_claims_is_not_seldom() -> None:
    assert supersede(claims(*EARLIER, MORE), DedupeSettings(), "k").merges.num_rows == 0


def test_a_doubt_taken_back_is_never_raised_again() -> None:
    rows = claims(*EARLIER, NOTICE)
    again = supersede(rows, DedupeSettings(), "k", undone={("o000", "o008")})
    assert ("o000", "o008") not in [(m["loser_id"], m["winner_id"]) for m in again.merges.to_pylist()]


def test_a_guess_speaks_against_nothing_that_was_said_again_since() -> None:
    rows = claims(*EARLIER, NOTICE)
    assert supersede(rows, DedupeSettings(), "k").merges["kind"].to_pylist() == ["doubt"]
    again = supersede(rows, DedupeSettings(), "k", affirmed={"o000": DAY + timedelta(days=30)})
    assert (again.observations.num_rows, again.merges.num_rows) == (0, 0)


def test_among_a_handful_of_claims_the_likest_tells_nothing() -> None:
    assert supersede(claims(*EARLIER[:4], NOTICE), DedupeSettings(), "k").merges.num_rows == 0


def test_without_vectors_rules_decide_alone() -> None:
    assert supersede(claims(*EARLIER, NOTICE, vectors=False), DedupeSettings(), "k").merges.num_rows == 0


def test_a_fit_learns_what_tells_changes_from_others() -> None:
    pairs = [Pair(n, n + 100, {"stated": float(n % 2), "noise": float(n % 3)}, n % 2 == 1) for n in range(60)]
    model = fit_model([Labelled("a", 60, pairs, [[1], [3]])])
    assert model.share == 0.5
    assert model.weights["stated"] > 4 * abs(model.weights["noise"])
    assert (
        model.predict_probability({"stated": 1.0, "noise": 1.0})
        > 0.5
        > model.predict_probability({"stated": 0.0, "noise": 1.0})
    )


def test_a_file_is_judged_by_its_cases() -> None:
    model = Model(-2.0, {"stated": 4.0}, 0.4)
    told, silent = {"stated": 1.0}, {"stated": 0.0}
    pairs = [
        Pair(0, 9, told, True),
        Pair(1, 9, silent, True),
        Pair(2, 9, told, False),
        Pair(3, 9, told, None),
        Pair(4, 9, silent, True, stated=True),
    ]
    result = evaluate_held_out(Labelled("a", 10, pairs, [[0], [1], [3], [4]]), model)
    assert (result.retired, result.told, result.by_the_right_one) == (1, 3, 2)
    assert (result.others_retired, result.others_told, result.changes) == (0, 1, 3)
