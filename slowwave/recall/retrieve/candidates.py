"""Which messages and claims answer: what words, dates and vectors say of every passage, and the candidates of both.

    words, each looked up in full text, heard over neighbouring passages (lexical.py)
    the nearest passages by vector                                        → candidates, each with every signal
    passages said on a date that the query names                          → standardised, weighted, summed

A claim is terse ("approved, go with MessagePack"), and what it is about is said around it. So it is scored by what is
heard where it was said (the words of the query in that stretch of talk, the vector of its message) and by its own
vector; the named speaker's own words, a statement of some length and the later of two equals weigh a little. Where one
of these is missing (no encoder, no full text of passages) the claim's own words count instead.

Weights were found on LoCoMo's open part and kept round; those that are settings `slowwave experiment` compares.
`docs/decisions/001-claims.md` tells what each signal of claims is worth.
"""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from slowwave.recall.filters import find_claims, find_passages
from slowwave.recall.query import Ints, Mask, Query
from slowwave.recall.release.indexes import PassageIndex
from slowwave.recall.release.view import View
from slowwave.recall.retrieve.lexical import compute_word_evidence
from slowwave.recall.retrieve.pools import POOLS, Candidates, fuse_standardised
from slowwave.recall.retrieve.rows import Nearness, Scores, Vector, select_top
from slowwave.text.words import QUESTION, TERM, compute_idf, compute_word_share

MESSAGE_WEIGHTS = {"lexical": 1.0, "speaker": 0.35, "length": 0.6}
"""Of each signal, after it has been standardised; the vector's is a setting."""
CLAIM_WEIGHTS = {"lexical": 1.0, "vector": 1.0, "message": 1.0, "words": 0.3, "speaker": 0.35, "length": 0.5}
"""Of each signal, after it has been standardised; `message` is the vector of the message a claim is made of."""

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
    # passages said on a date that the query names, the more the rarer it is
    layout, times, dated = view.passages, query.times, None
    masks = [mask & rows.allowed for mask in times.build_masks(layout.moment, layout.calendar)] if times else []
    if any(mask.any() for mask in masks):
        rarity = np.array([compute_idf(int(mask.sum()), int(rows.allowed.sum())) for mask in masks])
        dated = DATED * (rarity @ np.array(masks, dtype=np.float64))
    of_time = times.words if times and dated is not None else frozenset[str]()
    # passages that hear its words
    words = compute_word_evidence(view, query, rows.allowed, fade, of_time) if full_text else None
    lexical, share = (words.worth, words.share) if words else (np.zeros(len(rows.allowed)), None)
    return PassageEvidence(layout, rows.allowed, lexical, share, dated, Nearness(rows, vector))


def retrieve_message_candidates(
    view: View, query: Query, limit: int, evidence: PassageEvidence, weight: float, named: Vector | None
) -> tuple[Candidates, Scores]:
    """Return candidates for a query, and their scores.

    Args:
        limit: candidates each index brings.
        evidence: the evidence for the query.
        weight: of the vector.
        named: vector of the query with the names of speakers and workspaces in it. It ranks nothing: greetings are
            nearest to it. But it tells whether the memory knows whom the query names, and so how relevant a passage is.
    """
    # candidates: the best by words, dates and vector
    pool, positions = POOLS["message"], evidence.select_top_positions(limit)
    if not len(positions):
        return Candidates(pool), np.zeros(0)
    # what each signal says of them
    rows = view.take(pool.table, evidence.layout.offsets[positions], pool.columns)
    signals = {
        "length": compute_statement_length(rows["text"]),
        "speaker": evidence.layout.mask_speakers(query.text, positions).astype(np.float64),
        "lexical": evidence.word_date_score[positions],
        "vector": evidence.near.compute_cosines(positions),
    }
    kept = [row | {"position": int(at)} for row, at in zip(rows.to_pylist(), positions, strict=True)]
    candidates = Candidates(pool, kept, signals, cosine=None if evidence.near.vector is None else signals["vector"])
    # how relevant they are, with and without the names in the query
    candidates.covered = np.zeros(len(positions)) if evidence.share is None else evidence.share[positions]
    if named is not None:
        near = replace(evidence.near, vector=named)
        candidates.nearest = float(np.nanmax(near.compute_cosines(near.find_nearest(1)), initial=-1.0))
        candidates.cosine = np.fmax(signals["vector"], near.compute_cosines(positions))
    candidates.weights = {**MESSAGE_WEIGHTS, "vector": weight}
    return candidates, fuse_standardised(signals, candidates.weights)


def compute_statement_length(texts: pa.ChunkedArray) -> Scores:
    """Return the logarithm of the words of each text, its questions left out."""
    stated = (QUESTION.sub(" ", text) if "?" in text else text for text in texts.to_pylist())
    words = [min(len(TERM.findall(text)), LONG) for text in stated]
    return np.log1p(np.array(words, dtype=np.float64))


def retrieve_claim_candidates(
    view: View,
    query: Query,
    limit: int,
    evidence: PassageEvidence,
    later: float,
    named: Vector | None,
    full_text: bool,
) -> tuple[Candidates, Scores]:
    """Return candidates among the observations, and their scores.

    Args:
        limit: passages and rows that each kind of evidence brings.
        evidence: what is heard at the passages.
        later: weight of how late a claim was made.
        named: vector of the query with the names; it ranks nothing, but tells how relevant a claim is.
        full_text: whether the observations' own full text may be asked; it is where something else is missing.
    """
    pool, index, rows = POOLS["observation"], view.claims, find_claims(view, query)
    near = Nearness(rows, evidence.near.vector)
    # candidates: the nearest by vector, those whose own words match, those made in passages that match
    through = index.find_claims_at(evidence.select_top_positions(limit))
    parts, words = [near.find_nearest(limit), through[rows.allowed[through]]], None
    if full_text and (near.vector is None or evidence.share is None):
        words = rows.search_text(query.terms, limit)
        parts.append(rows.locate(words))
    claims = np.unique(np.concatenate(parts))
    if not len(claims):
        return Candidates(pool), np.zeros(0)
    # what each signal says of them
    table = view.take(pool.table, claims, pool.columns)
    at, positions = index.find_claim_positions(claims)

    def take_best(values: Scores) -> Scores:
        """Return for each claim the best of the values at its passages; NaN for one whose passages are gone."""
        best = np.full(len(claims), np.nan)
        np.fmax.at(best, at, values)
        return best

    signals = {
        "lexical": take_best(evidence.word_date_score[positions]),
        "speaker": take_best(evidence.layout.mask_speakers(query.text, positions).astype(np.float64)),
        "message": take_best(evidence.near.compute_cosines(positions)),
        "length": compute_statement_length(table["summary"]),
        "vector": near.compute_cosines(claims),
    }
    if words is not None:
        signals["words"] = np.zeros(len(claims))
        signals["words"][np.searchsorted(claims, rows.locate(words))] = words["_score"].to_numpy()
    # how relevant they are, with and without the names in the query
    candidates = Candidates(
        pool,
        table.to_pylist(),
        signals,
        cosine=None if near.vector is None else signals["vector"],
        weights=CLAIM_WEIGHTS,
    )
    if evidence.share is not None:
        candidates.covered = np.nan_to_num(take_best(evidence.share[positions]))
    else:
        texts = (f"{row['summary']} {row['speaker'] or ''}" for row in candidates.rows)
        candidates.covered = np.array([compute_word_share(query.index_terms, text) for text in texts], dtype=np.float64)
    if named is not None:
        candidates.cosine = np.fmax(signals["vector"], replace(near, vector=named).compute_cosines(claims))
    return candidates, fuse_standardised(signals, CLAIM_WEIGHTS) + later * index.compute_recency(claims)
