"""A query as one release is asked it: which kinds can answer, and its text without the names of whom and where.

"Which linter does galeforce use?" is answered by "linting is flake8", said in a session of that workspace. The encoder
knows no such name, and takes the query for being about something else.
"""

import re
from dataclasses import replace

import numpy as np

from slowwave.recall.hits import GROUPS
from slowwave.recall.query import Query, QueryPlan, build_query
from slowwave.recall.release.calibration import SEARCHED
from slowwave.recall.release.view import View
from slowwave.recall.retrieve.lexical import ROWS_A_WORD, search_words
from slowwave.schemas.errors import READ_TROUBLE
from slowwave.schemas.tables import PASSAGES
from slowwave.text.words import TERM, extract_content_words

SELDOM = 0.05
"""Share of a workspace's passages that name it up to which its name tells where, not what, is talked about."""

SHORTEST = 3
"""Letters of a name's form, at least."""
ROWS_A_NAME = 50
"""Passages in which it is looked at how a form is written."""


def plan_query(view: View, query: Query) -> QueryPlan:
    """Return the plan, still without vectors: those of many queries are made in one call."""
    of_claims, narrowed = query.is_of_claims, query.is_narrowed
    able = [
        kind for kind in query.kinds if not (of_claims and kind != "observation") and not (narrowed and kind in GROUPS)
    ]
    kinds = tuple(kind for kind in able if view.count(SEARCHED[kind]))
    if not kinds:
        return QueryPlan(query, kinds, query.text, False)
    try:
        full_text = view.has_full_text(PASSAGES)
        query = correct_names(view, query, full_text=full_text)
        text = strip_names(view, query, full_text=full_text)
    except READ_TROUBLE:  # told of when its words are looked up
        query = correct_names(view, query, full_text=False)
        text = strip_names(view, query, full_text=False)
    timed = query.times is not None and view.passages.is_time_only(query)
    return QueryPlan(query, kinds, text, timed)


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
