"""Which observations answer: a claim is found by itself, and through the message that it was made in.

A claim is terse ("approved, go with MessagePack"), and what it is about is said around it. So it is scored by what is
heard where it was said (the words of the query in that stretch of talk, the vector of its message) and by its own
vector; the named speaker's own words, a statement of some length and the later of two equals weigh a little. Where one
of these is missing (no encoder, no full text of passages) the claim's own words count instead.

`docs/decisions/001-claims.md` tells what each is worth on LoCoMo and on amended decisions.
"""

import numpy as np

from slowwave.recall.filters import mask_allowed_claims
from slowwave.recall.query import Query
from slowwave.recall.release.claims import ClaimLayout
from slowwave.recall.release.columns import Ints, Mask
from slowwave.recall.release.view import View
from slowwave.recall.retrieve.messages import (
    PassageEvidence,
    compute_cosines,
    compute_statement_length,
    compute_stored_cosines,
    select_top,
)
from slowwave.recall.retrieve.pools import (
    Candidates,
    Pool,
    Scores,
    Vector,
    find_nearest_rows,
    fuse_standardised,
    search_full_text,
)
from slowwave.schemas.settings import RecallSettings
from slowwave.schemas.tables import PASSAGES
from slowwave.text.words import compute_word_share

WEIGHTS = {"lexical": 1.0, "vector": 1.0, "message": 1.0, "words": 0.3, "speaker": 0.35, "length": 0.5}
"""Of each signal, after it has been standardised; `message` is the vector of the message a claim is made of."""


def retrieve_claim_candidates(
    view: View,
    pool: Pool,
    query: Query,
    limit: int,
    vector: Vector | None,
    said: PassageEvidence,
    full_text: bool,
    settings: RecallSettings,
    named: Vector | None = None,
) -> tuple[Candidates, Scores]:
    """Return candidates among the observations, and their scores.

    Args:
        limit: passages and rows that each kind of evidence brings.
        vector: of the query without names of speakers and workspaces; None without an encoder.
        said: what is heard at the passages.
        full_text: whether the observations' own full text may be asked; it is where something else is missing.
        settings: weights.
        named: of the query with the names; it ranks nothing, but tells how relevant a claim is.
    """
    layout = view.claims
    allowed = mask_allowed_claims(view, query)
    # candidates: the nearest by vector, those whose own words match, those made in passages that match
    near, cosine = _find_nearest_claims(view, pool, query, layout, allowed, limit, vector)
    words = (
        _search_claim_text(view, pool, query, layout, limit)
        if full_text and (vector is None or said.share is None)
        else None
    )
    through = layout.find_claims_at(np.concatenate(said.select_top_positions(limit)))
    claims = np.unique(np.concatenate([near, through[allowed[through]], *([] if words is None else [words[0]])]))
    if len(claims) == 0:
        return Candidates(pool), np.zeros(0)
    # what each signal says of them
    columns = [*pool.columns, "vector"] if vector is not None and cosine is None else list(pool.columns)
    rows = view.take(pool.table, claims, columns)
    signals = _compute_context_signals(view, layout, claims, query, said, vector)
    signals["length"] = compute_statement_length(rows["summary"])
    if words is not None:
        signals["words"] = _align_scores(claims, *words)
    if vector is not None:
        signals["vector"] = compute_cosines(rows["vector"], vector) if cosine is None else cosine[claims]
    # how relevant they are, with and without the names in the query
    found = Candidates(pool, rows.select(pool.columns).to_pylist(), signals, cosine=signals.get("vector"))
    found.covered = _compute_claim_coverage(layout, claims, query, said, found)
    if named is not None and found.cosine is not None:
        with_names = compute_stored_cosines(view, pool, claims, named)
        found.cosine = np.fmax(
            found.cosine, compute_cosines(rows["vector"], named) if with_names is None else with_names
        )
    found.weights = WEIGHTS
    return found, fuse_standardised(signals, WEIGHTS) + settings.later * layout.compute_recency(claims)


def _find_nearest_claims(
    view: View, pool: Pool, query: Query, layout: ClaimLayout, allowed: Mask, limit: int, vector: Vector | None
) -> tuple[Ints, Scores | None]:
    """Return offsets of the nearest claims, and every claim's cosine where the vectors are in memory."""
    if vector is None:
        return np.zeros(0, dtype=np.int64), None
    cosine = compute_stored_cosines(view, pool, np.arange(len(allowed)), vector)
    if cosine is None:
        found = find_nearest_rows(view, pool, query, limit, vector, [], row_ids=True)
        return layout.find_offsets(found["_rowid"].to_numpy()), None
    return select_top(np.where(allowed & ~np.isnan(cosine), cosine, -np.inf), limit, -np.inf), cosine


def _search_claim_text(view: View, pool: Pool, query: Query, layout: ClaimLayout, limit: int) -> tuple[Ints, Scores]:
    """Return offsets and BM25 of the claims that hold words of the query themselves."""
    found = search_full_text(view, pool, query, limit, [], row_ids=True)
    return layout.find_offsets(found["_rowid"].to_numpy()), found["_score"].to_numpy().astype(np.float64)


def _align_scores(claims: Ints, offsets: Ints, scores: Scores) -> Scores:
    held = np.zeros(len(claims))
    held[np.searchsorted(claims, offsets)] = scores
    return held


def _compute_context_signals(
    view: View, layout: ClaimLayout, claims: Ints, query: Query, said: PassageEvidence, vector: Vector | None
) -> dict[str, Scores]:
    """Return what is heard where each claim was made: the best of its passages.

    NaN for a claim whose passages are gone.
    """
    at, positions = layout.find_claim_positions(claims)
    signals = {"lexical": said.word_date_score, "speaker": said.layout.mask_speakers(query.text).astype(np.float64)}
    found = {name: _take_max_per_claim(at, every[positions], len(claims)) for name, every in signals.items()}
    if said.cosine is not None:
        found["message"] = _take_max_per_claim(at, said.cosine[positions], len(claims))
    elif vector is not None and len(positions):
        some, back = np.unique(positions, return_inverse=True)
        rows = view.take(PASSAGES, said.layout.offsets[some], ["vector"])
        found["message"] = _take_max_per_claim(at, compute_cosines(rows["vector"], vector)[back], len(claims))
    return found


def _take_max_per_claim(at: Ints, values: Scores, count: int) -> Scores:
    best = np.full(count, np.nan)
    np.fmax.at(best, at, values)
    return best


def _compute_claim_coverage(
    layout: ClaimLayout, claims: Ints, query: Query, said: PassageEvidence, found: Candidates
) -> Scores:
    """Return share of the query's words that is heard where a claim was made.

    That it holds itself, without full text.
    """
    if said.share is not None:
        at, positions = layout.find_claim_positions(claims)
        return np.nan_to_num(_take_max_per_claim(at, said.share[positions], len(claims)))
    words = query.index_terms
    texts = [f"{row['summary']} {row['speaker'] or ''}" for row in found.rows]
    return np.array([compute_word_share(words, text) for text in texts], dtype=np.float64)
