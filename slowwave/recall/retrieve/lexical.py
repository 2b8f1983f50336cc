"""Full text read as a conversation: a query's words may stand in neighbouring passages.

Each word is looked up by itself. A passage gets, for each word, the best BM25 that it or a neighbour has for it, a
neighbour's faded by distance; so a word counts once in a stretch of talk, and a passage between two that hold half of
the query each gets all of it. A message also hears what a model wrote in the detail of a claim that rests on it. (A
plain sum over neighbours counts one frequent word many times: LoCoMo evidence recall @10 goes from 73 to 77 with the
sum, to 81 with the best.)
"""

from collections.abc import Set
from dataclasses import replace

import numpy as np

from slowwave.recall.filters import find_claims, find_passages
from slowwave.recall.query import Ints, Mask, Query
from slowwave.recall.release.view import View
from slowwave.recall.retrieve.rows import Scores
from slowwave.schemas.tables import BY_MODEL, OBSERVATIONS
from slowwave.text.words import STOP, compute_idf

MAX_WORDS = 64
"""Words of a query that are looked up; later ones are left out."""

ROWS_A_WORD = 1_000
"""Passages a word brings, at most: a word in more of them tells little."""

REACH = 6
"""How far a passage hears its neighbours."""

SIMILAR = 0.3
"""What a word weighs that stands for another spelling."""

SATURATED = 2.2
"""What BM25 gives at most, in units of a word's rarity, to a passage that names it again and again (k1 + 1)."""


def hear_words(
    view: View, query: Query, allowed: Mask, fade: float, of_time: Set[str] = frozenset()
) -> tuple[Scores, Scores]:
    """Return what every passage hears of the query's words, by position: the faded best BM25 of each word, summed; and
    the share of the telling words, by their worth, 0 to 1, in which a word that nobody ever said counts as the rarest.

    Telling are words that are neither idle ("what do we use") nor names of speakers or workspaces: what is asked about
    Ann is told by Ann, who does not name herself. Nor are words that tell of a time in which something was said
    (`of_time`). Where there is no other, the names are, or else the idle words.
    """
    layout, words, lookups = view.passages, query.index_terms[:MAX_WORDS], search_words(view, query)
    if query.is_narrowed:  # to one speaker or file: what answers Ben is heard by him, and so everybody's words count
        others = search_words(view, replace(query, speaker=None, files=()))
        lookups = [
            (np.concatenate(positions), np.concatenate(scores))
            for positions, scores in (zip(*pair, strict=True) for pair in zip(lookups, others, strict=True))
        ]
    # telling words, and what is heard of each
    content = set(query.content_words).intersection(words)
    telling = content - layout.speaker_words.keys() - layout.workspace_words.keys() - of_time or content or set(words)
    total, telling_total, best = (np.zeros(len(layout.row_ids)) for _ in range(3))
    rarest, bound = compute_idf(0, len(total)), 0.0
    for word, (positions, scores) in zip(words, lookups, strict=True):
        # neighbours hear it, faded by distance
        touched = []
        for offset in range(-REACH, REACH + 1):
            moved = positions + offset
            inside = (moved >= 0) & (moved < len(total))
            moved = np.where(inside, moved, positions)
            same = inside & (layout.session[moved] == layout.session[positions])
            np.maximum.at(best, moved[same], scores[same] * fade ** abs(offset))
            touched.append(moved[same])
        heard = np.concatenate(touched)
        if word in layout.workspace_words:  # nobody names the place where they are, so all hear it there
            here = np.flatnonzero(np.isin(layout.workspace, sorted(layout.workspace_words[word])))
            best[here] = np.maximum(best[here], compute_idf(len(here), len(total)) * SATURATED)
            heard = np.concatenate([heard, here])
        total[heard] += best[heard]  # once a position, however often it is named
        if word in telling:
            telling_total[heard] += best[heard]
            bound += float(best[heard].max()) if len(heard) else rarest
        best[heard] = 0.0
    total[~allowed] = telling_total[~allowed] = 0.0
    return total, np.divide(telling_total, bound or 1.0, out=telling_total)


def search_words(view: View, query: Query) -> list[tuple[Ints, Scores]]:
    """Return positions and BM25 of the passages that hold a word of the query, or of which a model's detail does, word
    by word; empty for a word never said.

    A word that nobody said is looked up as the one that it is likely a spelling of, for SIMILAR of the worth. Words
    that the index leaves out are left out here too. A word's passages are remembered while the release is read.
    """
    # words that were looked up before, under the same conditions
    scope = (query.places, query.since, query.until, query.speaker, query.files)
    words = query.index_terms[:MAX_WORDS]
    lookups = {word: view.words.get((word, scope)) for word in words}
    missing = [word for word in words if lookups[word] is None]
    if not missing:
        return [lookup for lookup in lookups.values() if lookup is not None]
    # the others, several at once
    query = replace(query, category=None, min_confidence=None)  # passages have neither
    detail, index = OBSERVATIONS.model_text or "", view.passages
    passages = find_passages(view, query)
    of_model = find_claims(view, query, BY_MODEL) if view.has_full_text(OBSERVATIONS, detail) else None

    def look_up(word: str) -> tuple[Ints, Scores]:
        rows = passages.search_text([word], ROWS_A_WORD)
        positions, scores = passages.locate(rows), rows["_score"].to_numpy().astype(np.float64)
        if of_model is None:
            return positions, scores
        rows = of_model.search_text([word], ROWS_A_WORD, detail)
        claim, cited = view.claims.find_claim_positions(of_model.locate(rows))
        claim_scores = rows["_score"].to_numpy().astype(np.float64)
        return np.concatenate([positions, cited]), np.concatenate([scores, claim_scores[claim]])

    def look_up_likely(word: str) -> tuple[Ints, Scores]:
        positions, scores = look_up(word)
        if len(positions) or word in STOP or word in index.speaker_words or word in index.workspace_words:
            return positions, scores
        similar = view.find_similar_word(word)
        if similar is not None:
            positions, scores = look_up(similar)
        return positions, scores * SIMILAR

    for word, lookup in zip(missing, view.lookups.map(look_up_likely, missing), strict=True):
        view.words.put((word, scope), lookup)
        lookups[word] = lookup
    return [lookup for lookup in lookups.values() if lookup is not None]
