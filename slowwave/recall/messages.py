"""How messages are found: the words of the query in a stretch of talk, and the passage's vector.

    words, each looked up in full text, heard over neighbouring passages (lexical.py)
    the nearest passages by vector                                        → candidates, each with every signal
    passages said on a date that the query names                          → standardised, weighted, summed

Weights were found on LoCoMo's open part and kept round; `bench/locomo.py` measures them.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from lancedb.table import LanceTable

from slowwave.recall.dates import date_masks, named_dates
from slowwave.recall.fusion import standardised_sum
from slowwave.recall.layout import Ints, Layout, Mask
from slowwave.recall.lexical import lexical_scores, rarity
from slowwave.recall.query import WORD, Query
from slowwave.recall.search import Candidates, Pool, Scores, nearest

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
    dated: Scores
    """Worth of the dates that the query names, for every passage."""


def message_candidates(
    table: LanceTable,
    pool: Pool,
    query: Query,
    layout: Layout,
    limit: int,
    vector: npt.NDArray[np.float32] | None,
    full_text: bool,
) -> tuple[Candidates, Scores]:
    """Candidates for a query, and their scores.

    Args:
        limit: candidates each index brings.
        vector: the query's; None: full text alone.
        full_text: whether the index of full text may be asked.
    """
    allowed = layout.allowed(query)
    lexical = np.zeros(len(allowed))
    if full_text:
        lexical = lexical_scores(table, pool, query, layout, allowed)
    near = np.zeros(0, dtype=np.int64)
    if vector is not None:
        near = layout.positions(nearest(table, pool, query, limit, vector))
    evidence = Evidence(lexical, near, _dated(query, layout, allowed))
    positions = _chosen(evidence, limit)
    if len(positions) == 0:
        return Candidates(pool), np.zeros(0)
    rows = _rows(table, layout, positions)
    signals = _signals(rows, positions, evidence, query, layout, vector)
    kept = [{name: row[name] for name in COLUMNS} for row in rows.select(COLUMNS).to_pylist()]
    return Candidates(pool, kept, signals), standardised_sum(signals, WEIGHTS)


def _dated(query: Query, layout: Layout, allowed: Mask) -> Scores:
    masks = [mask & allowed for mask in date_masks(named_dates(query.text), layout.moment)]
    if not any(mask.any() for mask in masks):
        return np.zeros(len(allowed))
    worth: Scores = rarity(masks, int(allowed.sum())) @ np.array(masks, dtype=np.float64)
    return worth


def _chosen(evidence: Evidence, limit: int) -> Ints:
    """Positions that are scored: the best of each kind of evidence, ascending."""
    return np.unique(np.concatenate([evidence.near, _top(evidence.lexical, limit), _top(evidence.dated, limit)]))


def _top(scores: Scores, n: int) -> Ints:
    """Positions of the n highest scores above 0."""
    some = np.flatnonzero(scores)
    return some[np.argsort(-scores[some], kind="stable")[:n]]


def _rows(table: LanceTable, layout: Layout, positions: Ints) -> pa.Table:
    """The candidates' columns and vectors, in order of position."""
    query = table.take_row_ids(layout.row_ids[positions].tolist()).with_row_id()
    rows = query.select([*COLUMNS, "vector"]).to_arrow()
    order = np.argsort(layout.positions(rows["_rowid"].to_numpy()))
    return rows.take(pa.array(order))


def _signals(
    rows: pa.Table,
    positions: Ints,
    evidence: Evidence,
    query: Query,
    layout: Layout,
    vector: npt.NDArray[np.float32] | None,
) -> dict[str, Scores]:
    """Each signal over the candidates."""
    signals = {"length": _length(rows["text"])}
    said_by = layout.said_by(query.text)
    signals["speaker"] = said_by[positions].astype(np.float64)
    signals["lexical"] = evidence.lexical[positions] + evidence.dated[positions]
    if vector is not None:
        signals["vector"] = cosines(rows["vector"], vector)
    return signals


def _length(texts: pa.ChunkedArray) -> Scores:
    words = [min(len(WORD.findall(text)), LONG) for text in texts.to_pylist()]
    return np.log1p(np.array(words, dtype=np.float64))


def cosines(vectors: pa.ChunkedArray, query: npt.NDArray[np.float32]) -> Scores:
    """Dot product of each unit vector with the query's; NaN for null."""
    column = vectors.combine_chunks()
    known = ~column.is_null().to_numpy(zero_copy_only=False)
    dots = np.full(len(column), np.nan)
    if known.any():
        flat = column.drop_null().flatten().to_numpy().reshape(-1, len(query))
        dots[known] = flat @ query
    return dots
