"""From what several indexes say of the candidates to one score each. A ranker is a function; these ship."""

from collections.abc import Callable, Mapping

import numpy as np

from slowwave.recall.search import Candidates, Scores

Ranker = Callable[[Candidates], Scores]
"""Candidates in, one score a row out, aligned with the rows; higher is better."""


def reciprocal_rank(candidates: Candidates, k: int = 60) -> Scores:
    """Sum over the signals of 1 / (k + rank); a row a signal lacks gets nothing from it.

    Cormack, Clarke and Büttcher: Reciprocal rank fusion outperforms Condorcet, SIGIR 2009.
    """
    fused = np.zeros(len(candidates.rows))
    for signal in candidates.signals.values():
        order = [i for i in ranked(signal, candidates.ids) if not np.isnan(signal[i])]
        fused[order] += 1.0 / (k + 1 + np.arange(len(order)))
    return fused


def standardised_sum(signals: Mapping[str, Scores], weights: Mapping[str, float]) -> Scores:
    """Weighted sum of the signals, each brought to mean 0 and deviation 1 over the candidates.

    Unlike ranks, scores keep by how much one row beats the next. A row that a signal does not know (NaN) gets that
    signal's mean; a signal that is the same everywhere says nothing.
    """
    fused: Scores = np.sum([weights[name] * standardised(signal) for name, signal in signals.items()], axis=0)
    return fused


def standardised(signal: Scores) -> Scores:
    """Mean 0 and deviation 1 over the known values; 0 where unknown, or where all are equal."""
    known = ~np.isnan(signal)
    if not known.any() or (spread := float(signal[known].std())) < 1e-12:
        return np.zeros(len(signal))
    scaled: Scores = np.where(known, (signal - signal[known].mean()) / spread, 0.0)
    return scaled


def ranked(scores: Scores, ids: list[str]) -> list[int]:
    """Positions by falling score, equal ones by id, unknown ones (NaN) last."""
    order: list[int] = np.lexsort((np.array(ids, dtype=np.str_), -scores)).tolist()
    return order


def best_of_each(scores: Scores, owners: list[str], ids: list[str]) -> list[int]:
    """Positions of the best row of each owner, best first: several passages of a message are one hit."""
    seen: dict[str, int] = {}
    for i in ranked(scores, ids):
        seen.setdefault(owners[i], i)
    return list(seen.values())
