"""The words of a query in a conversation: each may stand in a neighbouring passage, and names tell of whom and where.

Each word is looked up by itself. A passage gets, for each word, the best BM25 that it or a neighbour has for it, a
neighbour's faded by distance; so a word counts once in a stretch of talk, and a passage between two that hold half of
the query each gets all of it. A message also hears what a model wrote in the detail of a claim that rests on it. (A
plain sum over neighbours counts one frequent word many times: LoCoMo evidence recall @10 goes from 73 to 77 with the
sum, to 81 with the best.)

"Which linter does galeforce use?" is answered by "linting is flake8", said in a session of that workspace. The encoder
knows no such name, and takes the query for being about something else: so it compares the text without names.
"""

import re
from collections.abc import Set
from dataclasses import replace

import numpy as np

from slowwave.recall.query import Ints, Mask, Query, build_query
from slowwave.recall.release.view import View
from slowwave.recall.retrieve.rows import Scores, find_claims, find_passages
from slowwave.schemas.tables import BY_MODEL, OBSERVATIONS, PASSAGES
from slowwave.text.words import STOP, TERM, compute_idf, extract_content_words

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

SELDOM = 0.05
"""Share of a workspace's passages that name it up to which its name tells where, not what, is talked about."""

SHORTEST = 3
"""Letters of a name's form, at least."""
ROWS_A_NAME = 50
"""Passages in which it is looked at how a form is written."""


def hear_words(
    view: View, query: Query, allowed: Mask, of_time: Set[str] = frozenset(), *, fade: float = 0.75
) -> tuple[Scores, Scores]:
    """Return what every passage hears of the query's words, by position: the faded best BM25 of each word, summed; and
    the share of the telling words, by their worth, 0 to 1, in which a word that nobody ever said counts as the rarest.

    Telling are words that are neither idle ("what do we use") nor names of speakers or workspaces: what is asked about
    Ann is told by Ann, who does not name herself. Nor are words that tell of a time in which something was said
    (`of_time`). Where there is no other, the names are, or else the idle words. Of a word `fade` is left one passage
    further on.
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


def correct_names(view: View, query: Query, *, full_text: bool) -> Query:
    """Return a query in which a speaker is named as in memory: where nobody said the word as it is spelt, and where it
    is what others call them for short.
    """
    names = view.passages.speaker_words

    def correct(match: re.Match[str]) -> str:
        word = match[0].lower()
        if word in names:
            return match[0]
        short_for = find_short_form(view, word) if full_text else None
        return short_for or view.find_similar_word(word, names) or match[0]

    return replace(query, text=TERM.sub(correct, query.text))


def find_short_form(view: View, word: str) -> str | None:
    """Return the speaker's name that a word is the beginning of ("Mel" of "Melanie"): the only one, where the word is
    mostly said in that speaker's company, with a capital, and never by that speaker, as "May" is by a Maya.
    """
    names, layout = view.passages.speaker_words, view.passages
    alike = [name for name in names if name.startswith(word)] if len(word) >= SHORTEST else []
    if len(alike) != 1 or not extract_content_words(word):
        return None
    # how the word is written, and in whose company
    own = np.isin(layout.speaker, sorted(names[alike[0]]))
    for positions, _ in search_words(view, build_query(word, 1, "message")):
        there = positions[np.isin(layout.session[positions], layout.session[own])]
        texts = view.take(PASSAGES, layout.offsets[there[:ROWS_A_NAME]], ["text"])["text"].to_pylist()
        by = zip(texts, own[there], strict=False)
        written = [(form, is_own) for text, is_own in by for form in TERM.findall(text) if form.lower() == word]
        with_capital = 2 * sum(form[0].isupper() for form, _ in written) > len(written) > 1
        if 2 * len(there) > len(positions) and with_capital and not any(is_own for _, is_own in written):
            return alike[0]
    return None


def strip_names(view: View, query: Query, *, full_text: bool) -> str:
    """Return the part of a query that is compared with messages: its text without the names of speakers and workspaces.

    Args:
        full_text: whether the index of full text of the passages may be asked; else workspaces' names stay.
    """
    text, asked = view.passages.strip_speakers(query.text), query.text.lower()
    for place, folder in enumerate(view.passages.folders if full_text else ()):
        words = TERM.findall(folder.lower())
        if not words or not all(word in asked for word in words):
            continue
        # less the name, where something telling is left
        name = r"[\W_]+".join(map(re.escape, words))
        bare, removed = re.subn(rf"(?<!\w){name}(?!\w)(?:['’]s\b)?", " ", text, flags=re.I)
        if not removed or not extract_content_words(bare):
            continue
        # where hardly any passage of the workspace has it; what is said too often for all to be looked up is no name
        here = view.passages.workspace == place
        lookups = [positions for positions, _ in search_words(view, build_query(" ".join(words), 1, "message"))]
        seldom = min((int(here[positions].sum()) for positions in lookups), default=0) <= SELDOM * int(here.sum())
        if seldom and all(len(positions) < ROWS_A_WORD for positions in lookups):
            text = " ".join(bare.split())
    return text
