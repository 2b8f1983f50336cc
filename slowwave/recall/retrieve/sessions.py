"""Which past sessions a query is about: the words of a whole session, and its nearest passages.

A report of a bug and the talk that settled the matter share words all over the session, seldom within one message. So
sessions are ranked as documents (BM25 over how many passages hold each word) and by the mean cosine of their five
nearest passages; both are standardised and summed. Where a matter was taken up again, the earlier talk is told by the
same words: a later session that changed what it had settled goes before it.

Where sessions are asked for as such, what its best turn says for a session weighs as much as these two together
(`docs/decisions/002-ranking-and-silence.md`).
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.recall.query import Query
from slowwave.recall.release.chains import Chains, is_superseded
from slowwave.recall.release.columns import Ints
from slowwave.recall.release.passage_index import PassageIndex
from slowwave.recall.release.view import View
from slowwave.recall.retrieve.lexical import search_words
from slowwave.recall.retrieve.pools import find_passages
from slowwave.recall.retrieve.rows import Nearness, Scores, Vector
from slowwave.schemas.tables import PASSAGES, Table
from slowwave.schemas.vocabulary import Status
from slowwave.text.words import compute_idf

NEAREST = 500
"""Passages by vector that are looked at."""
BEST = 5
"""Nearest passages of a session whose mean counts."""
K1 = 1.2
TELLING = 12
"""A query of more content words tells a case."""
MEANING = 1.0
"""Weight of the cosines against the words."""
FOLLOWING = 5
"""Likeliest sessions among which a later one may take an earlier one's place."""
CHANGES = 2
"""Claims of the earlier session that the later one's superseded, at least."""
TEMPERATURE = 0.75
"""Of the softmax that turns scores into probabilities; found by likelihood on `data/labelled`'s bug reports."""
WHOLE = 0.5
"""Weight of a session's words, and of its nearest passages, against its best turn."""
TURN_TEMPERATURE = 1.0
"""As `TEMPERATURE`, where the best turn counts too: between .75 (bug reports, LoCoMo) and 1.95 (commit subjects)."""


@dataclass(frozen=True, slots=True)
class RankedSession:
    """A session, and the probability that the query is about it."""

    session_id: str
    probability: float


def rank_sessions(
    view: View, query: Query, vector: Vector | None, limit: int, full_text: bool = True
) -> list[RankedSession]:
    """Return the sessions that the query is likeliest about, likeliest first.

    Args:
        view: the release.
        query: what is asked, and of which passages.
        vector: the query's; None: words alone.
        limit: how many.
        full_text: whether the index of full text may be asked.
    """
    layout = view.passages
    if not len(layout.session):
        return []
    words = score_sessions_by_words(view, query, layout) if full_text else {}
    meaning = {} if vector is None else score_sessions_by_cosine(view, query, layout, vector)
    numbers = sorted({*words, *meaning})
    if not numbers:
        return []
    total = standardise_scores(words, numbers) + MEANING * standardise_scores(meaning, numbers)
    shares = np.exp((total - total.max()) / TEMPERATURE)
    best = np.argsort(-shares, kind="stable")[:limit]
    names = read_session_ids(view, layout, [numbers[i] for i in best])
    first = order_sessions_by_chains(view.chains, names[:FOLLOWING], query.as_of) + names[FOLLOWING:]
    return [RankedSession(name, float(shares[i] / shares.sum())) for name, i in zip(first, best, strict=True)]


def rank_sessions_by_turns(
    view: View, query: Query, vector: Vector | None, turns: Mapping[int, float], full_text: bool, turns_alone: bool
) -> list[tuple[int, float]]:
    """Return sessions' numbers with the probability that the query is about each, likeliest first.

    That one of them is it is taken for granted: whether the memory knows of the matter, `Answer.confident` says.

    Args:
        view: the release.
        query: what is asked, and of which passages.
        vector: the query's, with all its names; None: words alone.
        turns: session's number -> score of its best turn.
        full_text: whether the index of full text may be asked.
        turns_alone: leave the session as a whole aside: the query names a time and nothing else.
    """
    layout, whole = view.passages, not turns_alone
    words = score_sessions_by_words(view, query, layout) if whole and full_text else {}
    meaning = score_sessions_by_cosine(view, query, layout, vector) if whole and vector is not None else {}
    numbers = sorted({*turns, *words, *meaning})
    total = standardise_scores(turns, numbers)
    total += WHOLE * (standardise_scores(words, numbers) + standardise_scores(meaning, numbers))
    shares = np.exp((total - total.max()) / TURN_TEMPERATURE)
    order = np.argsort(-shares, kind="stable").tolist()
    return [(numbers[i], float(shares[i] / shares.sum())) for i in order]


def order_sessions_by_chains(chains: Chains, sessions: Sequence[str], as_of: datetime | None = None) -> list[str]:
    """Return the sessions in their order, but each whose claims had by then superseded CHANGES of one before it before
    that one.
    """
    changed = Counter(
        (str(row["session_id"]), str(later["session_id"]))
        for row in chains.claims.values()
        if row["status"] == Status.SUPERSEDED and is_superseded(row, as_of)
        if (later := chains.find_successor(row, as_of)) is not None
    )
    ordered: list[str] = []
    for one in sessions:
        place = next((n for n, other in enumerate(ordered) if changed[other, one] >= CHANGES), len(ordered))
        ordered.insert(place, one)
    return ordered


def is_visible_as_of(at: object, as_of: datetime | None) -> bool:
    """Return whether something was said by a moment; what has no time only where no moment is given."""
    return as_of is None or (isinstance(at, datetime) and at <= as_of)


def read_rows_where(
    view: View, table: Table, columns: list[str], key: str, wanted: Collection[str]
) -> list[dict[str, object]]:
    """Return rows whose `key` is one of those wanted."""
    if not wanted or not view.count(table):
        return []
    found = view.read(table, columns, pc.field(key).isin(pa.array(sorted(set(wanted)), pa.string())))
    rows: list[dict[str, object]] = found.to_pylist()
    return rows


def score_sessions_by_words(view: View, query: Query, layout: PassageIndex) -> dict[int, float]:
    """Return BM25 of each session that holds a word of the query, by the session's number."""
    asked = replace(query, text=" ".join(query.content_words) or query.text)
    lanes = search_words(view, asked)
    return _compute_bm25([layout.session[positions] for positions, _ in lanes], int(layout.session.max()) + 1)


def _compute_bm25(lookups: Sequence[Ints], sessions: int) -> dict[int, float]:
    """Return BM25 (Robertson & Zaragoza, 2009), but for a constant factor, from the sessions of the passages that hold
    each word; lengths taken as equal.

    A long session holds more words by chance; the cosines of its five best passages hold that in check.
    """
    total = np.zeros(sessions)
    for lookup in lookups:
        held = np.bincount(lookup, minlength=sessions).astype(np.float64)
        rare = compute_idf(int((held > 0).sum()), sessions)
        total += rare * held / (held + K1)
    return {int(n): float(total[n]) for n in np.flatnonzero(total)}


def score_sessions_by_cosine(view: View, query: Query, layout: PassageIndex, vector: Vector) -> dict[int, float]:
    """Return mean cosine of each session's nearest passages; those not among the nearest count as the last of them."""
    near = Nearness(find_passages(view, query), vector)
    positions = near.find_nearest(NEAREST)
    if not len(positions):
        return {}
    cosines = near.compute_cosines(positions)
    by_session: dict[int, list[float]] = {}
    for session, cosine in zip(layout.session[positions].tolist(), cosines.tolist(), strict=True):
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
    best = score_sessions_by_cosine(view, query, view.passages, vector).values()
    return max(best, default=-1.0) >= scale.median


def read_session_ids(view: View, layout: PassageIndex, numbers: Sequence[int]) -> list[str]:
    """Return the sessions' ids: each read from one of its passages."""
    first = np.array([int(np.argmax(layout.session == number)) for number in numbers], dtype=np.int64)
    names: list[str] = view.take(PASSAGES, layout.offsets[first], ["session_id"])["session_id"].to_pylist()
    return names


def standardise_scores(scores: Mapping[int, float], keys: Sequence[int]) -> Scores:
    """Bring scores to mean 0 and deviation 1 over the keys.

    One without a score counts as the lowest. All 0 where nothing differs.
    """
    if not scores:
        return np.zeros(len(keys))
    low = min(scores.values())
    values = np.array([scores.get(key, low) for key in keys])
    spread = float(values.std())
    return np.zeros(len(keys)) if spread < 1e-12 else (values - values.mean()) / spread
