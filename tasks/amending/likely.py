"""How likely a claim of a later session changes an earlier one: a logistic regression over `Evidence.traits`.

`likely.json` has its weights, fitted by `python -m bench.fit_amendments` on the conversations in `data/labelled`, where
every change is known.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

import orjson

from tasks.amending.evidence import Evidence
from tasks.amending.judge import LIKELY_RULE, PERHAPS_RULE, Verdict

LIKELY = 0.25
"""Probability from which a claim counts as changed though no plain rule says so."""
UNLIKELY = 0.1
"""Probability under which one does not, though a plain rule says so."""
PERHAPS = 0.15
"""Probability from which that is doubted: the claim stands, and whoever is told it is told of the later one too."""
NEAR = 5
"""A pair is weighed where fewer others of one of its claims are liker: ten a claim, however many there are."""

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

    def probability(self, traits: Mapping[str, float]) -> float:
        """0 to 1."""
        logit = self.bias + sum(self.weights.get(name, 0.0) * value for name, value in traits.items())
        return 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, logit))))


@cache
def fitted() -> Model:
    """The one that ships."""
    told = orjson.loads(files("tasks.amending").joinpath("likely.json").read_bytes())
    return Model(float(told["bias"]), {str(name): float(weight) for name, weight in told["weights"].items()})


def weighed(
    known: Evidence, old: int, new: int, cosine: float | None, alike: float, ruled: Verdict | None
) -> Verdict | None:
    """The verdict on a pair when everything is weighed: what the plain rules say, and what no rule sees.

    A rule stands, but is a doubt where that is most unlikely. Without one the pair is a change from LIKELY on, a doubt
    from PERHAPS on. Of two claims of one session, among a handful of claims, and without vectors rules decide alone.
    """
    if cosine is None or (old, new) not in known.company or len(known.rows) < FEWEST:
        return ruled
    if ruled is None and not worth_weighing(known, old, new, cosine):
        return None
    signs = known.traits(old, new, cosine, alike, ruled)
    probability = fitted().probability(signs)
    change = retires(probability, ruled=ruled is not None)
    if ruled is not None and change:
        return replace(ruled, scores=ruled.scores | {"likely": probability})
    if ruled is None and probability < PERHAPS:
        return None
    why = f"{'most likely' if change else 'perhaps'} told anew ({probability:.0%})"
    return Verdict(
        LIKELY_RULE if change else PERHAPS_RULE,
        {"shared": signs["shared"], "cosine": signs["cosine"], "likely": probability},
        f"{why}: {ruled.reason}" if ruled else why,
        instead=bool(signs["another value"]),
    )


def retires(probability: float, *, ruled: bool) -> bool:
    """Whether a claim counts as changed; `ruled`: whether a plain rule says so."""
    return probability >= (UNLIKELY if ruled else LIKELY)


def worth_weighing(known: Evidence, old: int, new: int, cosine: float) -> bool:
    """Whether the later claim states something, and the pair is near and among the likest of one of its two claims."""
    company = known.company[old, new]
    likest = min(company.nearer_before, company.nearer_after) < NEAR
    return likest and cosine >= LEAST_COSINE and not ASKS.search(known.said[new].text)
