"""How likely a later claim changes an earlier one: a logistic regression, and the store's own share of changes.

The weights are fitted by `bench.fit_amendments`. A classifier learns, along with what tells changes, how many there
were in what it was fitted on. In a store in which little changes its probabilities are too high, in one where much
does too low. The share of this store's is found by expectation maximisation over the probabilities themselves: M.
Saerens, P. Latinne and C. Decaestecker, "Adjusting the outputs of a classifier to new a priori probabilities: a simple
procedure", Neural Computation 14 (2002).
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

import numpy as np
import numpy.typing as npt
import orjson

from slowwave.tasks.supersede.evidence import Evidence
from slowwave.tasks.supersede.rules import Verdict

ASSUMED = 200
"""Pairs of the share that was fitted which every store is taken to have besides its own: a small one tells little."""
FURTHEST = 3.0
"""How many times the share that was fitted a store's may be, and the other way round: what somebody plainly states is a
change however little changes in a big store."""
ROUNDS = 200
"""At most; a few dozen reach SETTLED."""
SETTLED = 1e-9
EDGE = 1e-12
"""Probabilities are kept as far from 0 and 1."""


def adjust_probabilities(probabilities: Sequence[float], fitted: float) -> list[float]:
    """Return the probabilities of one store's pairs under its own share of changes; `fitted`: the share where they are
    from.

    The order of the pairs stays. Raises ValueError unless 0 < fitted < 1, and for a probability that is none.
    """
    if not 0 < fitted < 1:
        raise ValueError(f"a share of changes between 0 and 1 is needed, not {fitted}")
    told = np.asarray(probabilities, dtype=np.float64)
    if not ((told >= 0) & (told <= 1)).all():
        raise ValueError("probabilities from 0 to 1 are needed")
    told = np.clip(told, EDGE, 1 - EDGE)
    odds = told / (1 - told) / _compute_odds(fitted)
    share = fitted
    for _ in range(ROUNDS):
        counted = (_apply_prior(odds, share).sum() + ASSUMED * fitted) / (told.size + ASSUMED)
        last, share = share, float(np.clip(counted, fitted / FURTHEST, min(fitted * FURTHEST, 1 - EDGE)))
        if abs(share - last) < SETTLED:
            break
    found: list[float] = _apply_prior(odds, share).tolist()
    return found


def _apply_prior(odds: npt.NDArray[np.float64], share: float) -> npt.NDArray[np.float64]:
    """Return probabilities under a share, from how many times likelier than by the share alone each is."""
    posterior = odds * _compute_odds(share)
    return posterior / (1 + posterior)


def _compute_odds(share: float) -> float:
    return share / (1 - share)


PERHAPS = 0.5
"""Probability, adjusted as all of these, from which a claim may be changed: rather so than not."""
PERHAPS_RULE = "perhaps"
NEAR = 5
"""A pair that no rule names is weighed where fewer others of one of its claims are liker: ten a claim at most."""

LEAST_COSINE = 0.15
"""Under it two claims are of two matters, whatever words they share."""
ASKS = re.compile(r"\?")
FEWEST = 8
"""Claims from which being the likest tells something: of two in all each is the other's likest."""


@dataclass(frozen=True)
class Model:
    """Weights by the name of the trait; a trait without one says nothing."""

    bias: float
    weights: Mapping[str, float]
    share: float
    """Of changes among the pairs that it was fitted on."""

    def predict_probability(self, traits: Mapping[str, float]) -> float:
        """Return the probability, 0 to 1."""
        logit = self.bias + sum(self.weights.get(name, 0.0) * value for name, value in traits.items())
        return 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, logit))))


@cache
def load_likelihood_model() -> Model:
    """Return the one that ships."""
    told = orjson.loads(files("slowwave.tasks.supersede").joinpath("likely.json").read_bytes())
    weights = {str(name): float(weight) for name, weight in told["weights"].items()}
    return Model(float(told["bias"]), weights, float(told["share"]))


@dataclass(frozen=True)
class Likelihood:
    """What is thought of two claims of two sessions when everything is weighed."""

    probability: float
    """That the later one changes the earlier."""
    shared: float
    cosine: float


def estimate_likelihoods(known: Evidence) -> dict[tuple[int, int], Likelihood]:
    """Return (earlier row, later row) -> what is thought of them, under the share of changes of these claims
    (`adjust_probabilities`).

    Of the pairs that are weighed, those that are settled or taken back too, so that what a night writes moves no share;
    none among a handful of claims.
    """
    if len(known.rows) < FEWEST:
        return {}
    found = {}
    for old, new, signs in select_scorable_pairs(known):
        probability = load_likelihood_model().predict_probability(signs)
        found[old, new] = Likelihood(probability, signs["shared"], signs["cosine"])
    told = adjust_probabilities(
        [likelihood.probability for likelihood in found.values()], load_likelihood_model().share
    )
    return {pair: replace(found[pair], probability=p) for pair, p in zip(found, told, strict=True)}


def select_scorable_pairs(known: Evidence) -> Iterator[tuple[int, int, dict[str, float]]]:
    """Yield (earlier row, later row, traits) of the pairs of two sessions that a rule names, or that may be a change
    anyhow.

    Such a later claim states something, and the pair is near and among the likest of one of its two claims.
    """
    for a, b, cosine, alike in known.pairs:
        pair = old, new = known.held.order_by_time(a, b)
        if cosine is None or pair not in known.company:
            continue
        if pair in known.by_rule or (cosine >= LEAST_COSINE and _is_salient(known, old, new)):
            yield old, new, known.compute_features(old, new, cosine, alike)


def judge_doubt(ruled: Verdict | None, likelihood: Likelihood | None) -> Verdict | None:
    """Return the doubt that the later of two claims may change the earlier, None where that is not likely.

    Where nothing is weighed (among a handful of claims, without vectors) a plain rule's word is enough.
    """
    if likelihood is None:
        return None if ruled is None else replace(ruled, rule=PERHAPS_RULE, reason=f"perhaps: {ruled.reason}")
    if likelihood.probability < PERHAPS:
        return None
    scores = {"shared": likelihood.shared, "cosine": likelihood.cosine, "likely": likelihood.probability}
    why = f"perhaps told anew ({likelihood.probability:.0%})"
    return Verdict(PERHAPS_RULE, scores, f"{why}: {ruled.reason}" if ruled else why)


def _is_salient(known: Evidence, old: int, new: int) -> bool:
    company = known.company[old, new]
    return min(company.nearer_before, company.nearer_after) < NEAR and not ASKS.search(known.said[new].text)
