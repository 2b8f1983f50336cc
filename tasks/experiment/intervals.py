"""Figures with what chance may do to them: bootstrap over clusters, a paired test by flipped signs, Holm's correction.

Questions about one session stand or fall together, so sessions are drawn, not questions.
"""

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, BeforeValidator

DRAWS = 4_000
Figure = Annotated[float, BeforeValidator(lambda one: float("nan") if one is None else one)]
"""NaN, which JSON has as null, where nothing was measured."""


class Interval(BaseModel, frozen=True):
    """A mean, and the bounds that hold 95% of what other draws of sessions give."""

    mean: Figure = float("nan")
    low: Figure = float("nan")
    high: Figure = float("nan")
    asked: int = 0
    """Questions that it is the mean of."""


def compute_interval(values: Sequence[float], clusters: Sequence[str]) -> Interval:
    """Return the mean of values, of which NaN counts for nothing, with its interval by bootstrap over clusters."""
    from scipy.stats import bootstrap

    sums, counts = _sum_clusters(values, clusters)
    if not len(sums):
        return Interval()
    mean = low = high = float(sums.sum() / counts.sum())
    if len(sums) > 1:
        low, high = bootstrap(
            (sums, counts),
            lambda some, asked, axis: some.sum(axis) / asked.sum(axis),
            **{"paired": True, "vectorized": True, "method": "percentile", "n_resamples": DRAWS, "rng": 0},
        ).confidence_interval
    return Interval(mean=mean, low=float(low), high=float(high), asked=int(counts.sum()))


def compute_chance(differences: Sequence[float], clusters: Sequence[str]) -> float:
    """Return the chance that paired differences as large come of nothing, two-sided: each cluster's sign is flipped."""
    from scipy.stats import permutation_test

    sums, _ = _sum_clusters(differences, clusters)
    if len(sums) < 2 or not np.any(sums):
        return 1.0
    return float(permutation_test((sums,), np.sum, permutation_type="samples", n_resamples=DRAWS, rng=0).pvalue)


def correct_by_holm(chances: Sequence[float]) -> list[float]:
    """Return chances corrected for how many were looked at (Holm 1979), in their order."""
    order = np.argsort(chances, kind="stable")
    factors = np.arange(len(chances), 0, -1)
    corrected = np.empty(len(chances))
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(np.asarray(chances)[order] * factors))
    return corrected.tolist()


def compute_calibration(said: Sequence[float], true: Sequence[float], bins: int = 8) -> list[tuple[float, float, int]]:
    """Return what was said and what was true on average, and how many, in bins of as many each; NaN is left out."""
    pairs = np.array([pair for pair in zip(said, true, strict=True) if not np.isnan(pair).any()]).reshape(-1, 2)
    pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
    some: list[Any] = [part for part in np.array_split(pairs, bins) if len(part)]
    return [(float(part[:, 0].mean()), float(part[:, 1].mean()), len(part)) for part in some]


def _sum_clusters(values: Sequence[float], clusters: Sequence[str]) -> tuple[Any, Any]:
    """Return each cluster's sum and count of what is no NaN; clusters without any are left out."""
    every = np.asarray(values, dtype=np.float64)
    known = ~np.isnan(every)
    _, at = np.unique(np.asarray(clusters, dtype=str)[known], return_inverse=True)
    return np.bincount(at, every[known]), np.bincount(at).astype(np.float64)
