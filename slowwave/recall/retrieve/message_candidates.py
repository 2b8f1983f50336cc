"""How messages are found: the words of the query in a stretch of talk, and the passage's vector.

    words, each looked up in full text, heard over neighbouring passages (lexical.py)
    the nearest passages by vector                                        → candidates, each with every signal
    passages said on a date that the query names                          → standardised, weighted, summed

Weights were found on LoCoMo's open part and kept round; those that are settings `slowwave experiment` compares.
"""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from slowwave.recall.query import Query
from slowwave.recall.release.columns import Ints, Mask
from slowwave.recall.release.passage_index import PassageIndex
from slowwave.recall.release.view import View
from slowwave.recall.retrieve.lexical import compute_word_evidence
from slowwave.recall.retrieve.pools import POOLS, Candidates, find_passages, fuse_standardised
from slowwave.recall.retrieve.rows import Nearness, Scores, Vector, select_top
from slowwave.text.cues import QUESTION
from slowwave.text.words import TERM, compute_idf

WEIGHTS = {"lexical": 1.0, "speaker": 0.35, "length": 0.6}
"""Of each signal, after it has been standardised; the vector's is a setting."""

DATED = 2.0
"""What a date weighs against a word as rare."""

LONG = 40
"""Words from which a longer passage is no better: a short one is mostly phatic, a long one is not more to the point."""


@dataclass(frozen=True)
class PassageEvidence:
    """What words, dates and vectors say of every passage, by position; made once a query, for messages and claims."""

    layout: PassageIndex
    allowed: Mask
    lexical: Scores
    """Worth of the query's words; all 0 when full text can't be read."""
    share: Scores | None
    """Share of the query's telling words, 0 to 1; None when full text can't be read."""
    dated: Scores | None
    """Worth of the dates that the query names; None when it names none."""
    near: Nearness

    @property
    def word_date_score(self) -> Scores:
        """Of words and dates together."""
        return self.lexical if self.dated is None else self.lexical + self.dated

    def select_top_positions(self, limit: int) -> Ints:
        """Return the positions that some kind of evidence puts among its first."""
        dated = [] if self.dated is None else [select_top(self.dated, limit)]
        return np.unique(np.concatenate([select_top(self.lexical, limit), *dated, self.near.find_nearest(limit)]))


def compute_passage_evidence(
    view: View, query: Query, vector: Vector | None, fade: float, full_text: bool
) -> PassageEvidence:
    """Return the evidence for a query over all passages.

    Args:
        vector: the query's; None without an encoder.
        fade: what is left of a word one passage further on.
        full_text: whether the index of full text may be asked.
    """
    rows = find_passages(view, query)
    dated = _score_dates(query, view.passages, rows.allowed)
    of_time = query.times.words if query.times and dated is not None else frozenset[str]()
    words = compute_word_evidence(view, query, rows.allowed, fade, of_time) if full_text else None
    lexical, share = (words.worth, words.share) if words else (np.zeros(len(rows.allowed)), None)
    return PassageEvidence(view.passages, rows.allowed, lexical, share, dated, Nearness(rows, vector))


def retrieve_message_candidates(
    view: View, query: Query, limit: int, heard: PassageEvidence, weight: float, named: Vector | None
) -> tuple[Candidates, Scores]:
    """Return candidates for a query, and their scores.

    Args:
        limit: candidates each index brings.
        heard: the evidence for the query.
        weight: of the vector.
        named: vector of the query with the names of speakers and workspaces in it. It ranks nothing: greetings are
            nearest to it. But it tells whether the memory knows whom the query names, and so how relevant a passage is.
    """
    # candidates: the best by words, dates and vector
    pool, positions = POOLS["message"], heard.select_top_positions(limit)
    if not len(positions):
        return Candidates(pool), np.zeros(0)
    # what each signal says of them
    rows = view.take(pool.table, heard.layout.offsets[positions], pool.columns)
    signals = {
        "length": compute_statement_length(rows["text"]),
        "speaker": heard.layout.mask_speakers(query.text, positions).astype(np.float64),
        "lexical": heard.word_date_score[positions],
        "vector": heard.near.compute_cosines(positions),
    }
    kept = [row | {"position": int(at)} for row, at in zip(rows.to_pylist(), positions, strict=True)]
    found = Candidates(pool, kept, signals, cosine=None if heard.near.vector is None else signals["vector"])
    # how relevant they are, with and without the names in the query
    found.covered = np.zeros(len(positions)) if heard.share is None else heard.share[positions]
    if named is not None:
        near = replace(heard.near, vector=named)
        found.nearest = float(np.nanmax(near.compute_cosines(near.find_nearest(1)), initial=-1.0))
        found.cosine = np.fmax(signals["vector"], near.compute_cosines(positions))
    found.weights = {**WEIGHTS, "vector": weight}
    return found, fuse_standardised(signals, found.weights)


def _score_dates(query: Query, layout: PassageIndex, allowed: Mask) -> Scores | None:
    asked = query.times
    masks = [mask & allowed for mask in asked.build_masks(layout.moment, layout.calendar)] if asked else []
    if not any(mask.any() for mask in masks):
        return None
    idf = np.array([compute_idf(int(mask.sum()), int(allowed.sum())) for mask in masks])
    worth: Scores = idf @ np.array(masks, dtype=np.float64)
    return DATED * worth


def compute_statement_length(texts: pa.ChunkedArray) -> Scores:
    """Return logarithm of the words of each text, its questions left out."""
    stated = (QUESTION.sub(" ", text) if "?" in text else text for text in texts.to_pylist())
    words = [min(len(TERM.findall(text)), LONG) for text in stated]
    return np.log1p(np.array(words, dtype=np.float64))
