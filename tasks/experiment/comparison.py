"""How sure a difference is: bootstrap over clusters, a paired test by flipped signs, and Holm's correction.

Questions about one session stand or fall together, so sessions are drawn, not questions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

DRAWS = 4_000


@dataclass(frozen=True)
class Interval:
    """A mean, and the bounds that hold 95% of what other draws of sessions give; NaN where nothing was measured."""

    mean: float = float("nan")
    low: float = float("nan")
    high: float = float("nan")

    def __str__(self) -> str:
        if self.mean != self.mean:
            return "–"
        digits = 0 if abs(self.mean) >= 20 else 3
        return f"{self.mean:.{digits}f} ({self.low:.{digits}f} to {self.high:.{digits}f})"


def compute_interval(values: Sequence[float], clusters: Sequence[str]) -> Interval:
    """Return the mean of the values that are no NaN, with its interval by bootstrap over clusters."""
    from scipy.stats import bootstrap

    sums, counts = _sum_clusters(values, clusters)
    if not len(sums):
        return Interval()
    mean = low = high = float(sums.sum() / counts.sum())
    if len(sums) > 1:
        low, high = bootstrap(
            (sums, counts),
            lambda some, counted, axis: some.sum(axis) / counted.sum(axis),
            **{"paired": True, "vectorized": True, "method": "percentile", "n_resamples": DRAWS, "rng": 0},
        ).confidence_interval
    return Interval(mean, float(low), float(high))


def compute_p_value(differences: Sequence[float], clusters: Sequence[str]) -> float:
    """Return the chance that paired differences as large come of nothing, two-sided: each cluster's sign is flipped."""
    from scipy.stats import permutation_test

    sums, _ = _sum_clusters(differences, clusters)
    if len(sums) < 2 or not np.any(sums):
        return 1.0
    return float(permutation_test((sums,), np.sum, permutation_type="samples", n_resamples=DRAWS, rng=0).pvalue)


def correct_by_holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for how many were looked at (Holm 1979), in their order."""
    order = np.argsort(p_values, kind="stable")
    factors = np.arange(len(p_values), 0, -1)
    corrected = np.empty(len(p_values))
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(np.asarray(p_values)[order] * factors))
    return corrected.tolist()


def _sum_clusters(values: Sequence[float], clusters: Sequence[str]) -> tuple[Any, Any]:
    """Return each cluster's sum and count of the values that are no NaN; clusters without any are left out."""
    every = np.asarray(values, dtype=np.float64)
    is_number = ~np.isnan(every)
    _, at = np.unique(np.asarray(clusters, dtype=str)[is_number], return_inverse=True)
    return np.bincount(at, every[is_number]), np.bincount(at).astype(np.float64)
