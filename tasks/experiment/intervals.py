"""Figures with what chance may do to them: bootstrap over clusters, a paired test by flipped signs, Holm's correction.

Questions about one session stand or fall together, so sessions are drawn, not questions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
DRAWS = 4_000


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean, and the bounds that hold 95% of what other draws of sessions give; NaN where nothing was measured."""

    mean: float
    low: float
    high: float
    asked: int
    """Questions that it is the mean of."""


def compute_interval(values: Sequence[float], clusters: Sequence[str], seed: int = 0) -> Interval:
    """Return the mean of values, of which NaN counts for nothing, with its interval by bootstrap over clusters."""
    sums, counts = _sum_clusters(values, clusters)
    if not len(sums):
        return Interval(float("nan"), float("nan"), float("nan"), 0)
    drawn = np.random.default_rng(seed).integers(len(sums), size=(DRAWS, len(sums)))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return Interval(float(sums.sum() / counts.sum()), float(low), float(high), int(counts.sum()))


def compute_chance(differences: Sequence[float], clusters: Sequence[str], seed: int = 0) -> float:
    """Return the chance that paired differences as large come of nothing, two-sided: each cluster's sign is flipped."""
    sums, _ = _sum_clusters(differences, clusters)
    if not len(sums) or not np.any(sums):
        return 1.0
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], size=(DRAWS, len(sums)))
    return float((1 + np.sum(np.abs(signs @ sums) >= abs(sums.sum()) - 1e-12)) / (1 + DRAWS))


def correct_by_holm(chances: Sequence[float]) -> list[float]:
    """Return chances corrected for how many were looked at (Holm 1979), in their order."""
    corrected, least = [0.0] * len(chances), 0.0
    for rank, at in enumerate(sorted(range(len(chances)), key=lambda at: chances[at])):
        least = max(least, min(1.0, (len(chances) - rank) * chances[at]))
        corrected[at] = least
    return corrected


def compute_calibration(said: Sequence[float], true: Sequence[float], bins: int = 8) -> list[tuple[float, float, int]]:
    """Return what was said and what was true on average, and how many, in bins of as many each; NaN is left out."""
    pairs = np.array([pair for pair in zip(said, true, strict=True) if not np.isnan(pair).any()]).reshape(-1, 2)
    pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
    some: list[Any] = [part for part in np.array_split(pairs, bins) if len(part)]
    return [(float(part[:, 0].mean()), float(part[:, 1].mean()), len(part)) for part in some]


def _sum_clusters(values: Sequence[float], clusters: Sequence[str]) -> tuple[Floats, Floats]:
    """Return each cluster's sum and count of what is no NaN; clusters without any are left out."""
    known = ~np.isnan(np.asarray(values, dtype=np.float64))
    names, at = np.unique(np.asarray(clusters, dtype=object)[known].astype(str), return_inverse=True)
    kept = np.asarray(values, dtype=np.float64)[known]
    counts = np.bincount(at, minlength=len(names))
    return np.bincount(at, kept, len(names)).astype(np.float64), counts.astype(np.float64)
