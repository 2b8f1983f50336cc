"""Which prompts ask the memory something, and which only drive the running session ("run the tests", "go on").

A prompt asks the memory if it names what a past session was about. The evidence is counted in the store, so that no
language is favoured: in how many sessions a word was said, and in how many messages of one session. A word that is said
once in each of several sessions ("continue", "danke") is an everyday word there. A word that a session comes back to
("Redis", "Mailhobel") is what that session was about (Church, Empirical estimates of two words, 2000).

- A word that SUBJECT messages of a session share is a subject of it. It is enough if it is rare, or in a question.
- In a question (a question mark of any script) it is enough too that a rare word was said in a message of some length,
  one at least as long as half of all passages: short ones mostly drive a session. Or that rare words of it were said
  together in a session, or again.
- A word is rare if few of all sessions hold it: at most the square root of their number, and at most half of them.
- Where there are fewer than FEWEST sessions nothing can be told by counting: a question with any known word passes.

Scripts that put no space between words, whose letters are wide, are counted by pairs of letters.
"""

import math
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.recall.query import Ints, Query, build_query
from slowwave.recall.release.view import View
from slowwave.recall.retrieve.rows import (
    MAX_WORDS,
    ROWS_A_WORD,
    find_passages,
    mask_allowed_passages,
    place_query,
)
from slowwave.schemas.errors import READ_TROUBLE
from slowwave.schemas.tables import PASSAGES
from slowwave.text.words import TERM, compute_word_shares

SUBJECT = 3
"""Messages of one session that a subject of it is said in, at least."""
TOGETHER = 2
"""Times that rare words of a question were said in one session, each once a message, at least."""
SAMPLE = 2_000
"""Passages, spread evenly, whose lengths are looked at."""
FEWEST = 4
"""Sessions from which it is counted how rare a word is."""
MAX_PAIRS = 64
"""Pairs of wide letters of a prompt that are looked up; later ones are left out."""


def is_for_memory(view: View | None, prompt: str, workspace: str | None = None, written: Sequence[str] = ()) -> bool:
    """Return True if a prompt asks the memory something, rather than drives the session that it is typed in.

    Args:
        view: the release; None before the first.
        prompt: with at least one word.
        workspace: where the past sessions must have been; None for anywhere. Words are rare or not in the whole memory.
        written: what was said since the release. A question passes that has a word of it, since little can be counted.
    """
    query = build_query(prompt, 1, ("message",), workspace=workspace)
    if is_question(query.text) and _is_any_said(query, written):
        return True
    if view is None:
        return False
    allowed = mask_allowed_passages(view, place_query(view, query))
    sessions, asks = int(view.passages.session.max(initial=-1)) + 1, is_question(query.text)
    counts = not asks or sessions >= FEWEST
    few, usual = min(math.sqrt(sessions), sessions / 2), _compute_usual_length(view) if asks and counts else 0.0
    rare_said = np.zeros(sessions, dtype=np.int64)
    for positions in _find_words(view, replace(query, workspace=None, places=())):
        here = positions[allowed[positions]]
        is_rare = not counts or len(np.unique(view.passages.session[positions])) <= few
        messages = _count_messages(view, here, sessions)
        if (asks or is_rare) and messages.max(initial=0) >= SUBJECT:
            return True
        if asks and is_rare and len(here) and _measure_lengths(view, here).max() >= usual:
            return True
        rare_said += messages * is_rare
    return asks and bool(rare_said.max(initial=0) >= TOGETHER)


def is_question(text: str) -> bool:
    """Return True if the text has a question mark, of any script."""
    return any(unicodedata.name(letter, "").endswith("QUESTION MARK") for letter in text)


def split_wide_pairs(text: str) -> list[str]:
    """Return each pair of neighbouring wide letters (Chinese, Japanese, Korean) of a text, in order, each once."""
    pairs = list[str]()
    for run in TERM.findall(text):
        wide = "".join(letter if unicodedata.east_asian_width(letter) in "WF" else " " for letter in run)
        for part in wide.split():
            pairs += [part[at : at + 2] for at in range(len(part) - 1)]
    return list(dict.fromkeys(pairs))


def _is_any_said(query: Query, texts: Sequence[str]) -> bool:
    """Return True if one of some texts holds a word of a query, or a pair of its wide letters."""
    pairs = split_wide_pairs(query.text)
    return any(compute_word_shares(query.content_words, texts)) or any(pair in text for pair in pairs for text in texts)


def _find_words(view: View, query: Query) -> Iterator[Ints]:
    """Yield for each word of a query, and each pair of wide letters, the positions of the passages that hold it."""
    passages, content = find_passages(view, query), set(query.content_words)
    try:
        known = [word for word in query.index_terms if word in content] if view.has_full_text(PASSAGES) else []
        for word in known[:MAX_WORDS]:
            yield passages.locate(passages.search_text([word], ROWS_A_WORD))
    except READ_TROUBLE:  # the answer tells of it
        pass
    if pairs := split_wide_pairs(query.text)[:MAX_PAIRS]:
        texts = view.read(PASSAGES, ["text"])["text"].take(pa.array(view.passages.offsets))
        for pair in pairs:
            yield np.flatnonzero(pc.match_substring(texts, pair).to_numpy())


def _count_messages(view: View, positions: Ints, sessions: int) -> Ints:
    """Return for each session, by number, how many of its messages some passages are of."""
    layout = view.passages
    said = np.unique(np.column_stack([layout.session[positions], layout.message[positions]]), axis=0)
    counted: Ints = np.bincount(said[:, 0], minlength=sessions)
    return counted


def _compute_usual_length(view: View) -> float:
    """Return the median length of the passages of the memory, in bytes."""
    count = len(view.passages.session)
    return float(np.median(_measure_lengths(view, np.linspace(0, count - 1, min(count, SAMPLE)).astype(np.int64))))


def _measure_lengths(view: View, positions: Ints) -> Ints:
    """Return the length of each passage, in bytes: a Chinese letter says more than a Latin one."""
    texts = view.take(PASSAGES, view.passages.offsets[positions], ["text"])["text"]
    lengths: Ints = pc.binary_length(texts).to_numpy().astype(np.int64)
    return lengths
