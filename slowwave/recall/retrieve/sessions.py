"""Which past sessions a query is about: the words of a whole session, and its nearest passages.

A report of a bug and the talk that settled the matter share words all over the session, seldom within one message. So
sessions are ranked as documents (BM25 over how many passages hold each word) and by the mean cosine of their five
nearest passages; both are standardised and summed.

Where sessions are asked for as such, what its best turn says for a session weighs as much as these two together
(`docs/decisions/002-ranking-and-silence.md`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import numpy as np

from slowwave.recall.query import Query
from slowwave.recall.release.view import View
from slowwave.recall.retrieve.lexical import search_words
from slowwave.recall.retrieve.pools import find_passages, standardise_signal
from slowwave.recall.retrieve.rows import Nearness, Scores, Vector
from slowwave.schemas.tables import PASSAGES
from slowwave.text.words import compute_idf

NEAREST = 500
"""Passages by vector that are looked at."""
BEST = 5
"""Nearest passages of a session whose mean counts."""
K1 = 1.2
TELLING = 12
"""A query of more content words tells a case."""
TEMPERATURE = 0.75
"""Found by likelihood on `data/labelled`'s bug reports."""


def rank_sessions(
    view: View,
    query: Query,
    vector: Vector | None,
    full_text: bool,
    turns: Mapping[int, float] | None = None,
    whole: float = 1.0,
    temperature: float = TEMPERATURE,
) -> list[tuple[int, float]]:
    """Return sessions' numbers with the probability that the query is about each, likeliest first.

    That one of them is it is taken for granted: whether the memory knows of the matter, `Answer.confident` says.

    Args:
        view: the release.
        query: what is asked, and of which passages.
        vector: the query's, with all its names; None: words alone.
        full_text: whether the index of full text may be asked.
        turns: session's number -> score of its best turn.
        whole: weight of a session's words, and of its nearest passages, against its best turn; with 0 neither is read.
        temperature: of the softmax that turns scores into probabilities.
    """
    words = score_sessions_by_words(view, query) if whole and full_text else {}
    meaning = score_sessions_by_cosine(view, query, vector) if whole and vector is not None else {}
    numbers = sorted({*(turns or ()), *words, *meaning})
    if not numbers:
        return []
    total = _standardise(turns or {}, numbers)
    total += whole * (_standardise(words, numbers) + _standardise(meaning, numbers))
    shares = np.exp((total - total.max()) / temperature)
    order = np.argsort(-shares, kind="stable").tolist()
    return [(numbers[i], float(shares[i] / shares.sum())) for i in order]


def _standardise(scores: Mapping[int, float], keys: Sequence[int]) -> Scores:
    """Return scores brought to mean 0 and deviation 1 over the keys; one without a score counts as the lowest."""
    low = min(scores.values(), default=0.0)
    return standardise_signal(np.array([scores.get(key, low) for key in keys]))


def is_visible_as_of(at: object, as_of: datetime | None) -> bool:
    """Return whether something was said by a moment; what has no time only where no moment is given."""
    return as_of is None or (isinstance(at, datetime) and at <= as_of)


def score_sessions_by_words(view: View, query: Query) -> dict[int, float]:
    """Return BM25 of each session that holds a word of the query, by the session's number."""
    asked, session = replace(query, text=" ".join(query.content_words) or query.text), view.passages.session
    # BM25 (Robertson & Zaragoza, 2009), but for a constant factor, with all lengths equal: a long session holds more
    # words by chance, but the cosines of its five best passages hold that in check
    sessions = int(session.max(initial=-1)) + 1
    total = np.zeros(sessions)
    for positions, _ in search_words(view, asked):
        held = np.bincount(session[positions], minlength=sessions).astype(np.float64)
        rare = compute_idf(int((held > 0).sum()), sessions)
        total += rare * held / (held + K1)
    return {int(n): float(total[n]) for n in np.flatnonzero(total)}


def score_sessions_by_cosine(view: View, query: Query, vector: Vector) -> dict[int, float]:
    """Return mean cosine of each session's nearest passages; those not among the nearest count as the last of them."""
    near = Nearness(find_passages(view, query), vector)
    positions = near.find_nearest(NEAREST)
    if not len(positions):
        return {}
    cosines = near.compute_cosines(positions)
    by_session: dict[int, list[float]] = {}
    for session, cosine in zip(view.passages.session[positions].tolist(), cosines.tolist(), strict=True):
        by_session.setdefault(session, []).append(cosine)
    last = float(cosines.min())
    return {key: sum((sorted(some, reverse=True) + [last] * BEST)[:BEST]) / BEST for key, some in by_session.items()}


def has_similar_session(view: View, query: Query, vector: Vector | None) -> bool:
    """Return whether some session is about what a long query tells, though no single message stands out.

    It is, where the mean of its five best cosines reaches what the best single hit of unrelated queries does (the
    median of the release's calibration). In `data/labelled` the lowest report has .30, that median is .26, and long
    unrelated questions have .13 to .18.
    """
    scale = view.calibration.scales.get("message") if view.calibration else None
    if scale is None or vector is None or len(query.content_words) <= TELLING:
        return False
    best = score_sessions_by_cosine(view, query, vector).values()
    return max(best, default=-1.0) >= scale.median


def read_session_ids(view: View, numbers: Sequence[int]) -> list[str]:
    """Return the sessions' ids: each read from one of its passages."""
    first = np.array([int(np.argmax(view.passages.session == number)) for number in numbers], dtype=np.int64)
    names: list[str] = view.take(PASSAGES, view.passages.offsets[first], ["session_id"])["session_id"].to_pylist()
    return names
