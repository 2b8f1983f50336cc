"""How likely a claim of a later session changes an earlier one: a logistic regression over `Evidence.traits`.

`likely.json` has its weights, fitted by `python -m bench.fit_amendments` on the conversations in `data/labelled`, where
every change is known.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

import orjson

from tasks.amending.evidence import Evidence
from tasks.amending.judge import Verdict
from tasks.amending.prior import adjusted

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

    def probability(self, traits: Mapping[str, float]) -> float:
        """0 to 1."""
        logit = self.bias + sum(self.weights.get(name, 0.0) * value for name, value in traits.items())
        return 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, logit))))


@cache
def fitted() -> Model:
    """The one that ships."""
    told = orjson.loads(files("tasks.amending").joinpath("likely.json").read_bytes())
    weights = {str(name): float(weight) for name, weight in told["weights"].items()}
    return Model(float(told["bias"]), weights, float(told["share"]))


@dataclass(frozen=True)
class Likelihood:
    """What is thought of two claims of two sessions when everything is weighed."""

    probability: float
    """That the later one changes the earlier."""
    shared: float
    cosine: float


def likelihoods(known: Evidence) -> dict[tuple[int, int], Likelihood]:
    """(earlier row, later row) -> what is thought of them, under the share of changes of these claims (`prior.py`).

    Of the pairs that are weighed, those that are settled or taken back too, so that what a night writes moves no share;
    none among a handful of claims.
    """
    if len(known.rows) < FEWEST:
        return {}
    found = {}
    for old, new, signs in weighable(known):
        probability = fitted().probability(signs)
        found[old, new] = Likelihood(probability, signs["shared"], signs["cosine"])
    told = adjusted([likelihood.probability for likelihood in found.values()], fitted().share)
    return {pair: replace(found[pair], probability=p) for pair, p in zip(found, told, strict=True)}


def weighable(known: Evidence) -> Iterator[tuple[int, int, dict[str, float]]]:
    """(earlier row, later row, traits) of the pairs of two sessions that a rule names, or that may be a change anyhow.

    Such a later claim states something, and the pair is near and among the likest of one of its two claims.
    """
    for a, b, cosine, alike in known.pairs:
        pair = old, new = known.held.in_order(a, b)
        if cosine is None or pair not in known.company:
            continue
        if pair in known.by_rule or (cosine >= LEAST_COSINE and _stands_out(known, old, new)):
            yield old, new, known.traits(old, new, cosine, alike)


def doubt(ruled: Verdict | None, likelihood: Likelihood | None) -> Verdict | None:
    """That the later of two claims may change the earlier, None where that is not likely.

    Where nothing is weighed (among a handful of claims, without vectors) a plain rule's word is enough.
    """
    if likelihood is None:
        return None if ruled is None else replace(ruled, rule=PERHAPS_RULE, reason=f"perhaps: {ruled.reason}")
    if likelihood.probability < PERHAPS:
        return None
    scores = {"shared": likelihood.shared, "cosine": likelihood.cosine, "likely": likelihood.probability}
    why = f"perhaps told anew ({likelihood.probability:.0%})"
    return Verdict(PERHAPS_RULE, scores, f"{why}: {ruled.reason}" if ruled else why)


def _stands_out(known: Evidence, old: int, new: int) -> bool:
    company = known.company[old, new]
    return min(company.nearer_before, company.nearer_after) < NEAR and not ASKS.search(known.said[new].text)
