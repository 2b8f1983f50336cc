"""How messages are found: the words of the query in a stretch of talk, and the passage's vector.

    words, each looked up in full text, heard over neighbouring passages (lexical.py)
    the nearest passages by vector                                        → candidates, each with every signal
    passages said on a date that the query names                          → standardised, weighted, summed

Weights were found on LoCoMo's open part and kept round; those that are settings `slowwave experiment` compares.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from slowwave.engines.encoders.protocol import limit_blas_threads
from slowwave.recall.filters import mask_allowed_passages
from slowwave.recall.query import Query
from slowwave.recall.release.columns import Ints, Mask
from slowwave.recall.release.passages import Layout
from slowwave.recall.release.view import View
from slowwave.recall.retrieve.lexical import compute_word_evidence
from slowwave.recall.retrieve.pools import Candidates, Pool, Scores, Vector, find_nearest_rows, fuse_standardised
from slowwave.schemas.settings import RecallSettings
from slowwave.schemas.tables import CHAIN
from slowwave.text.cues import QUESTION
from slowwave.text.words import TERM, compute_idf

WEIGHTS = {"lexical": 1.0, "speaker": 0.35, "length": 0.6}
"""Of each signal, after it has been standardised; the vector's is a setting."""

DATED = 2.0
"""What a date weighs against a word as rare."""

LONG = 40
"""Words from which a longer passage is no better: a short one is mostly phatic, a long one is not more to the point."""

COLUMNS = ["passage_id", "message_id", "session_id", "seq", "part", "speaker", "workspace", "text", "ts", *CHAIN]


@dataclass(frozen=True)
class PassageEvidence:
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
    def word_date_score(self) -> Scores:
        """Of words and dates together."""
        return self.lexical if self.dated is None else self.lexical + self.dated

    def select_top_positions(self, limit: int) -> list[Ints]:
        """Return the positions that each kind of evidence puts first."""
        found = [select_top(self.lexical, limit)]
        if self.dated is not None:
            found.append(select_top(self.dated, limit))
        if self.cosine is not None:
            found.append(
                select_top(np.where(self.allowed & ~np.isnan(self.cosine), self.cosine, -np.inf), limit, -np.inf)
            )
        return found


def compute_passage_evidence(
    view: View, pool: Pool, query: Query, vector: Vector | None, fade: float, full_text: bool
) -> PassageEvidence:
    """Return the evidence for a query over all passages.

    Args:
        vector: the query's; None without an encoder.
        fade: what is left of a word one passage further on.
        full_text: whether the index of full text may be asked.
    """
    layout = view.passages
    allowed = mask_allowed_passages(view, query)
    dated = _score_dates(query, layout, allowed)
    of_time = query.times.words if query.times and dated is not None else frozenset[str]()
    words = compute_word_evidence(view, pool, query, layout, allowed, fade, of_time) if full_text else None
    lexical, share = (words.worth, words.share) if words else (np.zeros(len(allowed)), None)
    cosine = None if vector is None else compute_stored_cosines(view, pool, layout.offsets, vector)
    return PassageEvidence(layout, allowed, lexical, share, dated, cosine)


def retrieve_message_candidates(
    view: View,
    pool: Pool,
    query: Query,
    limit: int,
    vector: Vector | None,
    said: PassageEvidence,
    settings: RecallSettings,
    named: Vector | None = None,
) -> tuple[Candidates, Scores]:
    """Return candidates for a query, and their scores.

    Args:
        limit: candidates each index brings.
        vector: the query's; None: full text alone.
        said: the evidence for the query.
        settings: weights.
        named: of the query with the names of speakers and workspaces in it. It ranks nothing: greetings are nearest to
            it. But it tells whether the memory knows whom the query names, and so how relevant a passage is.
    """
    # candidates: the best by words, dates and vector
    best = said.select_top_positions(limit)
    if vector is not None and said.cosine is None:
        near = find_nearest_rows(view, pool, query, limit, vector, [], row_ids=True)
        best.append(said.layout.find_positions(near["_rowid"].to_numpy()))
    positions = np.unique(np.concatenate(best))
    if len(positions) == 0:
        return Candidates(pool), np.zeros(0)
    # what each signal says of them
    rows = _read_candidate_rows(view, pool, said.layout, positions, vector is not None and said.cosine is None)
    signals = _compute_signals(rows, positions, said, query, vector)
    kept = [row | {"position": int(at)} for row, at in zip(rows.select(COLUMNS).to_pylist(), positions, strict=True)]
    found = Candidates(pool, kept, signals, cosine=signals.get("vector"))
    # how relevant they are, with and without the names in the query
    found.covered = np.zeros(len(positions)) if said.share is None else said.share[positions]
    if named is not None and found.cosine is not None:
        every = compute_stored_cosines(view, pool, said.layout.offsets, named)
        found.nearest = -1.0 if every is None else float(np.nanmax(every[said.allowed], initial=-1.0))
        with_names = compute_cosines(rows["vector"], named) if every is None else every[positions]
        found.cosine = np.fmax(found.cosine, with_names)
    found.weights = {**WEIGHTS, "vector": settings.vector}
    return found, fuse_standardised(signals, found.weights)


def compute_stored_cosines(view: View, pool: Pool, offsets: Ints, vector: Vector) -> Scores | None:
    """Return cosine of each row with the query, NaN where it has no vector.

    None where the vectors are too many to hold.
    """
    held = view.load_vectors(pool.table)
    if held is None:
        return None
    matrix, known = held
    with limit_blas_threads():
        near = matrix @ vector
    return np.where(known, near, np.nan)[offsets].astype(np.float64)


def _score_dates(query: Query, layout: Layout, allowed: Mask) -> Scores | None:
    asked = query.times
    masks = [mask & allowed for mask in asked.build_masks(layout.moment, layout.calendar)] if asked else []
    if not any(mask.any() for mask in masks):
        return None
    idf = np.array([compute_idf(int(mask.sum()), int(allowed.sum())) for mask in masks])
    worth: Scores = idf @ np.array(masks, dtype=np.float64)
    return DATED * worth


def select_top(scores: Scores, n: int, above: float = 0.0) -> Ints:
    """Return positions of the n highest scores above `above`, best first, equal ones in order of position."""
    some = np.flatnonzero(scores > above)
    if len(some) > n:  # leave out what is below the n-th best, then sort the rest
        least = np.partition(scores[some], len(some) - n)[len(some) - n]
        some = some[scores[some] >= least]
    return some[np.argsort(-scores[some], kind="stable")[:n]]


def _read_candidate_rows(view: View, pool: Pool, layout: Layout, positions: Ints, vectors: bool) -> pa.Table:
    """Return the candidates' columns, and their vectors where they are asked for, in order of position."""
    return view.take(pool.table, layout.offsets[positions], [*COLUMNS, "vector"] if vectors else COLUMNS)


def _compute_signals(
    rows: pa.Table, positions: Ints, said: PassageEvidence, query: Query, vector: Vector | None
) -> dict[str, Scores]:
    """Return each signal over the candidates."""
    signals = {"length": compute_statement_length(rows["text"])}
    signals["speaker"] = said.layout.mask_speakers(query.text, positions).astype(np.float64)
    signals["lexical"] = said.word_date_score[positions]
    if said.cosine is not None:
        signals["vector"] = said.cosine[positions]
    elif vector is not None:
        signals["vector"] = compute_cosines(rows["vector"], vector)
    return signals


def compute_statement_length(texts: pa.ChunkedArray) -> Scores:
    """Return logarithm of the words of each text, its questions left out."""
    stated = (QUESTION.sub(" ", text) if "?" in text else text for text in texts.to_pylist())
    words = [min(len(TERM.findall(text)), LONG) for text in stated]
    return np.log1p(np.array(words, dtype=np.float64))


def compute_cosines(vectors: pa.ChunkedArray, query: Vector) -> Scores:
    """Return dot product of each unit vector with the query's; NaN for null."""
    column = vectors.combine_chunks()
    known = ~column.is_null().to_numpy(zero_copy_only=False)
    dots = np.full(len(column), np.nan)
    if known.any():
        flat = column.drop_null().flatten().to_numpy().reshape(-1, len(query))
        with limit_blas_threads():
            dots[known] = flat @ query
    return dots
