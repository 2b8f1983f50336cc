"""How likely a later claim changes an earlier one: a logistic regression over `tasks.amending.traits`.

`likely.json` has its weights, fitted by `python -m bench.fit_amendments` on the conversations in `data/labelled`, where
every change is known.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import orjson

from tasks.amending.judge import LIKELY_RULE, PERHAPS_RULE, Said, Verdict, Weights, likeness
from tasks.amending.traits import Company, traits

LIKELY = 0.4
"""Probability from which a claim counts as changed though no plain rule says so."""
PERHAPS = 0.15
"""Probability from which that is doubted: the claim stands, and whoever is told it is told of the later one too."""
NEAR = 3
"""A pair is weighed where fewer others of one of its claims are liker: six a claim, however many there are."""

LEAST_COSINE = 0.2
"""Under it two claims are of two matters, whatever words they share."""
ASKS = re.compile(r"\?")
FEWEST = 8
"""Claims from which being the likest tells something: of two in all each is the other's likest."""


@dataclass(frozen=True)
class Model:
    """Weights by the name of the trait; a trait without one says nothing."""

    bias: float
    weights: Mapping[str, float]

    def probability(self, traits: Mapping[str, float]) -> float:
        """0 to 1."""
        logit = self.bias + sum(self.weights.get(name, 0.0) * value for name, value in traits.items())
        return 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, logit))))


@cache
def fitted() -> Model:
    """The one that ships."""
    told = orjson.loads(files("tasks.amending").joinpath("likely.json").read_bytes())
    return Model(float(told["bias"]), {str(name): float(weight) for name, weight in told["weights"].items()})


def weighed(new: Said, cosine: float | None, company: Company) -> bool:
    """Whether the later claim states something, and the pair is near and among the likest of one of its two claims."""
    near = cosine is not None and cosine >= LEAST_COSINE
    return near and min(company.nearer_before, company.nearer_after) < NEAR and not ASKS.search(new.text)


def likely_change(old: Said, new: Said, cosine: float | None, weights: Weights, company: Company) -> Verdict | None:
    """The verdict that a claim of a later session most likely changes `old`, or perhaps does; None without vectors."""
    if not weighed(new, cosine, company):
        return None
    scores = likeness(old.claim, new.claim, cosine, weights)
    signs = traits(old, new, scores, weights, company)
    probability = fitted().probability(signs)
    if probability < PERHAPS:
        return None
    rule, how = (LIKELY_RULE, "most likely") if probability >= LIKELY else (PERHAPS_RULE, "perhaps")
    why = f"{how} told anew ({probability:.0%})"
    return Verdict(rule, scores | {"likely": probability}, why, instead=bool(signs["another value"]))
