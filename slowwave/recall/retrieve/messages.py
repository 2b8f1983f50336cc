"""How messages are found: the words of the query in a stretch of talk, and the passage's vector.

    words, each looked up in full text, heard over neighbouring passages (lexical.py)
    the nearest passages by vector                                        → candidates, each with every signal
    passages said on a date that the query names                          → standardised, weighted, summed

Weights were found on LoCoMo's open part and kept round; `bench/locomo.py` measures them.
"""

import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from slowwave.engines.encoders.blas import one_blas_thread
from slowwave.recall.filters import passages_allowed
from slowwave.recall.query import WORD, Query
from slowwave.recall.release.passages import Layout
from slowwave.recall.release.view import Ints, Mask, View
from slowwave.recall.retrieve.lexical import heard_words, rarity
from slowwave.recall.retrieve.pools import Candidates, Pool, Scores, Vector, nearest_rows, standardised_sum
from slowwave.recall.times import asked_time, date_masks

WEIGHTS = {"lexical": 1.0, "vector": 0.6, "speaker": 0.35, "length": 0.6}
"""Of each signal, after it has been standardised."""

DATED = 2.0
"""What a date weighs against a word as rare."""

LONG = 40
"""Words from which a longer passage is no better: a short one is mostly phatic, a long one is not more to the point."""

QUESTION = re.compile(r"(?<![^.!?\n])[^.!?\n]*\?+")
"""What is asked states nothing: it does not count for a passage's length."""

COLUMNS = ["passage_id", "message_id", "session_id", "seq", "part", "speaker", "workspace", "text", "ts"]


@dataclass(frozen=True)
class Heard:
    """What words, dates and vectors say of every passage, by position; made once a query, for messages and claims."""

    layout: Layout
    allowed: Mask
    lexical: Scores
    """Worth of the query's words; all 0 when full text can't be read."""
    share: Scores | None
    """Share of the query's telling words, 0 to 1; None when full text can't be read."""
    dated: Scores | None
    """Worth of the dates that the query names; None when it names none."""
    cosine: Scores | None
    """NaN where a passage has no vector; None without an encoder, or where the vectors are too many to hold."""

    @property
    def worth(self) -> Scores:
        """Of words and dates together."""
        return self.lexical if self.dated is None else self.lexical + self.dated

    def best(self, limit: int) -> list[Ints]:
        """The positions that each kind of evidence puts first."""
        found = [top(self.lexical, limit)]
        if self.dated is not None:
            found.append(top(self.dated, limit))
        if self.cosine is not None:
            found.append(top(np.where(self.allowed & ~np.isnan(self.cosine), self.cosine, -np.inf), limit, -np.inf))
        return found


def heard(view: View, pool: Pool, query: Query, vector: Vector | None, full_text: bool) -> Heard:
    """The evidence for a query over all passages.

    Args:
        vector: the query's; None without an encoder.
        full_text: whether the index of full text may be asked.
    """
    layout = Layout.of(view)
    allowed = passages_allowed(view, query)
    dated = _dated(view, query, layout, allowed)
    of_time = asked_time(query).words if dated is not None else frozenset[str]()
    words = heard_words(view, pool, query, layout, allowed, of_time) if full_text else None
    lexical, share = (words.worth, words.share) if words else (np.zeros(len(allowed)), None)
    cosine = None if vector is None else cosines_to(view, pool, layout.offsets, vector)
    return Heard(layout, allowed, lexical, share, dated, cosine)


def message_candidates(
    view: View, pool: Pool, query: Query, limit: int, vector: Vector | None, said: Heard, whole: Vector | None = None
) -> tuple[Candidates, Scores]:
    """Candidates for a query, and their scores.

    Args:
        limit: candidates each index brings.
        vector: the query's; None: full text alone.
        said: the evidence for the query.
        whole: of the query with the names of speakers and workspaces in it. It ranks nothing: greetings are nearest to
            it. But it tells whether the memory knows whom the query names, and so how relevant a passage is.
    """
    best = said.best(limit)
    if vector is not None and said.cosine is None:
        near = nearest_rows(view, pool, query, limit, vector, [], row_ids=True)
        best.append(said.layout.positions(near["_rowid"].to_numpy()))
    positions = np.unique(np.concatenate(best))
    if len(positions) == 0:
        return Candidates(pool), np.zeros(0)
    rows = _rows(view, pool, said.layout, positions, vector is not None and said.cosine is None)
    signals = _signals(rows, positions, said, query, vector)
    kept = [row | {"position": int(at)} for row, at in zip(rows.select(COLUMNS).to_pylist(), positions, strict=True)]
    found = Candidates(pool, kept, signals, cosine=signals.get("vector"))
    found.covered = np.zeros(len(positions)) if said.share is None else said.share[positions]
    if whole is not None and found.cosine is not None:
        every = cosines_to(view, pool, said.layout.offsets, whole)
        found.nearest = -1.0 if every is None else float(np.nanmax(every[said.allowed], initial=-1.0))
        named = cosines(rows["vector"], whole) if every is None else every[positions]
        found.cosine = np.fmax(found.cosine, named)
    return found, standardised_sum(signals, WEIGHTS)


def cosines_to(view: View, pool: Pool, offsets: Ints, vector: Vector) -> Scores | None:
    """Cosine of each row with the query, NaN where it has no vector; None where the vectors are too many to hold."""
    held = view.vectors(pool.table)
    if held is None:
        return None
    matrix, known = held
    with one_blas_thread():
        near = matrix @ vector
    return np.where(known, near, np.nan)[offsets].astype(np.float64)


def _dated(view: View, query: Query, layout: Layout, allowed: Mask) -> Scores | None:
    masks = [mask & allowed for mask in date_masks(view, layout, query)]
    if not any(mask.any() for mask in masks):
        return None
    worth: Scores = rarity(masks, int(allowed.sum())) @ np.array(masks, dtype=np.float64)
    return DATED * worth


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


def _signals(rows: pa.Table, positions: Ints, said: Heard, query: Query, vector: Vector | None) -> dict[str, Scores]:
    """Each signal over the candidates."""
    signals = {"length": stated_length(rows["text"])}
    signals["speaker"] = said.layout.said_by(query.text, positions).astype(np.float64)
    signals["lexical"] = said.worth[positions]
    if said.cosine is not None:
        signals["vector"] = said.cosine[positions]
    elif vector is not None:
        signals["vector"] = cosines(rows["vector"], vector)
    return signals


def stated_length(texts: pa.ChunkedArray) -> Scores:
    """Logarithm of the words of each text, its questions left out."""
    stated = (QUESTION.sub(" ", text) if "?" in text else text for text in texts.to_pylist())
    words = [min(len(WORD.findall(text)), LONG) for text in stated]
    return np.log1p(np.array(words, dtype=np.float64))


def cosines(vectors: pa.ChunkedArray, query: Vector) -> Scores:
    """Dot product of each unit vector with the query's; NaN for null."""
    column = vectors.combine_chunks()
    known = ~column.is_null().to_numpy(zero_copy_only=False)
    dots = np.full(len(column), np.nan)
    if known.any():
        flat = column.drop_null().flatten().to_numpy().reshape(-1, len(query))
        with one_blas_thread():
            dots[known] = flat @ query
    return dots
