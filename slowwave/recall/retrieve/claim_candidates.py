"""Which observations answer: a claim is found by itself, and through the message that it was made in.

A claim is terse ("approved, go with MessagePack"), and what it is about is said around it. So it is scored by what is
heard where it was said (the words of the query in that stretch of talk, the vector of its message) and by its own
vector; the named speaker's own words, a statement of some length and the later of two equals weigh a little. Where one
of these is missing (no encoder, no full text of passages) the claim's own words count instead.

`docs/decisions/001-claims.md` tells what each is worth on LoCoMo and on amended decisions.
"""

from dataclasses import replace

import numpy as np

from slowwave.recall.query import Query
from slowwave.recall.release.view import View
from slowwave.recall.retrieve.message_candidates import PassageEvidence, compute_statement_length
from slowwave.recall.retrieve.pools import POOLS, Candidates, find_claims, fuse_standardised
from slowwave.recall.retrieve.rows import Nearness, Scores, Vector
from slowwave.text.words import compute_word_share

WEIGHTS = {"lexical": 1.0, "vector": 1.0, "message": 1.0, "words": 0.3, "speaker": 0.35, "length": 0.5}
"""Of each signal, after it has been standardised; `message` is the vector of the message a claim is made of."""


def retrieve_claim_candidates(
    view: View,
    query: Query,
    limit: int,
    heard: PassageEvidence,
    later: float,
    named: Vector | None,
    full_text: bool,
) -> tuple[Candidates, Scores]:
    """Return candidates among the observations, and their scores.

    Args:
        limit: passages and rows that each kind of evidence brings.
        heard: what is heard at the passages.
        later: weight of how late a claim was made.
        named: vector of the query with the names; it ranks nothing, but tells how relevant a claim is.
        full_text: whether the observations' own full text may be asked; it is where something else is missing.
    """
    pool, index, rows = POOLS["observation"], view.claims, find_claims(view, query)
    near = Nearness(rows, heard.near.vector)
    # candidates: the nearest by vector, those whose own words match, those made in passages that match
    through = index.find_claims_at(heard.select_top_positions(limit))
    parts, words = [near.find_nearest(limit), through[rows.allowed[through]]], None
    if full_text and (near.vector is None or heard.share is None):
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
        "lexical": take_best(heard.word_date_score[positions]),
        "speaker": take_best(heard.layout.mask_speakers(query.text, positions).astype(np.float64)),
        "message": take_best(heard.near.compute_cosines(positions)),
        "length": compute_statement_length(table["summary"]),
        "vector": near.compute_cosines(claims),
    }
    if words is not None:
        signals["words"] = np.zeros(len(claims))
        signals["words"][np.searchsorted(claims, rows.locate(words))] = words["_score"].to_numpy()
    # how relevant they are, with and without the names in the query
    found = Candidates(
        pool, table.to_pylist(), signals, cosine=None if near.vector is None else signals["vector"], weights=WEIGHTS
    )
    if heard.share is not None:
        found.covered = np.nan_to_num(take_best(heard.share[positions]))
    else:
        texts = (f"{row['summary']} {row['speaker'] or ''}" for row in found.rows)
        found.covered = np.array([compute_word_share(query.index_terms, text) for text in texts], dtype=np.float64)
    if named is not None:
        found.cosine = np.fmax(signals["vector"], replace(near, vector=named).compute_cosines(claims))
    return found, fuse_standardised(signals, WEIGHTS) + later * index.compute_recency(claims)
