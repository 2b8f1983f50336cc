"""How messages are found: the words of the query in a stretch of talk, and the passage's vector.

    words, each looked up in full text, heard over neighbouring passages (lexical.py)
    the nearest passages by vector                                        → candidates, each with every signal
    passages said on a date that the query names                          → standardised, weighted, summed

Weights were found on LoCoMo's open part and kept round; `bench/locomo.py` measures them.
"""

from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa

from slowwave.recall.dates import date_masks
from slowwave.recall.fusion import standardised_sum
from slowwave.recall.layout import Layout
from slowwave.recall.lexical import lexical_scores, rarity
from slowwave.recall.query import WORD, Query
from slowwave.recall.search import Candidates, Pool, Scores, Vector, nearest_rows
from slowwave.recall.view import Ints, Mask, View

WEIGHTS = {"lexical": 1.0, "vector": 0.5, "speaker": 0.35, "length": 0.5}
"""Of each signal, after it has been standardised."""

LONG = 40
"""Words from which a longer passage is no better: a short one is mostly phatic, a long one is not more to the point."""

COLUMNS = ["passage_id", "message_id", "session_id", "seq", "part", "text", "ts"]


@dataclass(frozen=True)
class Evidence:
    """What the indexes say of the passages, by position."""

    lexical: Scores
    """Worth of the query's words, for every passage; all 0 when full text can't be read."""
    near: Ints
    """The nearest by vector, best first; empty without an encoder."""
    cosine: Scores | None
    """Cosine of every passage, NaN where it has no vector; None where only the candidates' are known."""
    dated: Scores | None
    """Worth of the dates that the query names, for every passage; None when it names none."""


def message_candidates(
    view: View,
    pool: Pool,
    query: Query,
    limit: int,
    vector: Vector | None,
    full_text: bool,
    whole: Vector | None = None,
) -> tuple[Candidates, Scores]:
    """Candidates for a query, and their scores.

    Args:
        limit: candidates each index brings.
        vector: the query's; None: full text alone.
        full_text: whether the index of full text may be asked.
        whole: of the query with the names of speakers in it. It ranks nothing: greetings are nearest to it. But it
            tells whether the memory knows whom the query names (`Candidates.nearest`).
    """
    layout = Layout.of(view)
    allowed = layout.allowed(query)
    lexical, bound = np.zeros(len(allowed)), 0.0
    if full_text:
        lexical, bound = lexical_scores(view, pool, query, layout, allowed)
    near, cosine = _nearest(view, pool, query, layout, allowed, limit, vector)
    evidence = Evidence(lexical, near, cosine, _dated(query, layout, allowed))
    positions = _chosen(evidence, limit)
    if len(positions) == 0:
        return Candidates(pool), np.zeros(0)
    rows = _rows(view, pool, layout, positions, vector is not None and cosine is None)
    signals = _signals(rows, positions, evidence, query, layout, vector)
    kept = [row | {"position": int(at)} for row, at in zip(rows.select(COLUMNS).to_pylist(), positions, strict=True)]
    covered = lexical[positions] / bound if bound else np.zeros(len(positions))
    nearest = _nearest_of_all(view, pool, layout, allowed, whole) if whole is not None else -1.0
    found = Candidates(pool, kept, signals, covered, signals.get("vector"), nearest)
    return found, standardised_sum(signals, WEIGHTS)


def _nearest(
    view: View, pool: Pool, query: Query, layout: Layout, allowed: Mask, limit: int, vector: Vector | None
) -> tuple[Ints, Scores | None]:
    """Positions of the nearest passages, best first, and every passage's cosine where the vectors are in memory."""
    if vector is None:
        return np.zeros(0, dtype=np.int64), None
    held = view.vectors(pool.table)
    if held is None:
        found = nearest_rows(view, pool, query, limit, vector, [], row_ids=True)
        return layout.positions(found["_rowid"].to_numpy()), None
    matrix, known = held
    cosine = np.where(known, matrix @ vector, np.nan)[layout.offsets].astype(np.float64)
    return top(np.where(allowed & ~np.isnan(cosine), cosine, -np.inf), limit, -np.inf), cosine


def _nearest_of_all(view: View, pool: Pool, layout: Layout, allowed: Mask, vector: Vector) -> float:
    held = view.vectors(pool.table)
    if held is None:
        return -1.0
    matrix, known = held
    heard = (matrix @ vector)[layout.offsets][allowed & known[layout.offsets]]
    return float(heard.max()) if len(heard) else -1.0


def _dated(query: Query, layout: Layout, allowed: Mask) -> Scores | None:
    masks = [mask & allowed for mask in date_masks(query.text, layout.moment, query.now or datetime.now().astimezone())]
    if not any(mask.any() for mask in masks):
        return None
    worth: Scores = rarity(masks, int(allowed.sum())) @ np.array(masks, dtype=np.float64)
    return worth


def _chosen(evidence: Evidence, limit: int) -> Ints:
    """Positions that are scored: the best of each kind of evidence, ascending."""
    best = [evidence.near, top(evidence.lexical, limit)]
    return np.unique(np.concatenate(best if evidence.dated is None else [*best, top(evidence.dated, limit)]))


def top(scores: Scores, n: int, above: float = 0.0) -> Ints:
    """Positions of the n highest scores above `above`, best first, equal ones in order of position."""
    some = np.flatnonzero(scores > above)
    if len(some) > n:  # leave out what is below the n-th best, then sort the rest
        least = np.partition(scores[some], len(some) - n)[len(some) - n]
        some = some[scores[some] >= least]
    return some[np.argsort(-scores[some], kind="stable")[:n]]


def _rows(view: View, pool: Pool, layout: Layout, positions: Ints, vectors: bool) -> pa.Table:
    """The candidates' columns, and their vectors where they are asked for, in order of position."""
    return view.take(pool.table, layout.offsets[positions], [*COLUMNS, "vector"] if vectors else COLUMNS)


def _signals(
    rows: pa.Table, positions: Ints, evidence: Evidence, query: Query, layout: Layout, vector: Vector | None
) -> dict[str, Scores]:
    """Each signal over the candidates."""
    signals = {"length": _length(rows["text"])}
    signals["speaker"] = layout.said_by(query.text, positions).astype(np.float64)
    signals["lexical"] = evidence.lexical[positions]
    if evidence.dated is not None:
        signals["lexical"] = signals["lexical"] + evidence.dated[positions]
    if evidence.cosine is not None:
        signals["vector"] = evidence.cosine[positions]
    elif vector is not None:
        signals["vector"] = cosines(rows["vector"], vector)
    return signals


def _length(texts: pa.ChunkedArray) -> Scores:
    words = [min(len(WORD.findall(text)), LONG) for text in texts.to_pylist()]
    return np.log1p(np.array(words, dtype=np.float64))


def cosines(vectors: pa.ChunkedArray, query: Vector) -> Scores:
    """Dot product of each unit vector with the query's; NaN for null."""
    column = vectors.combine_chunks()
    known = ~column.is_null().to_numpy(zero_copy_only=False)
    dots = np.full(len(column), np.nan)
    if known.any():
        flat = column.drop_null().flatten().to_numpy().reshape(-1, len(query))
        dots[known] = flat @ query
    return dots
