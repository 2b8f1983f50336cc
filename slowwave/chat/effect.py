"""What a turn does to long-term memory: a cheap estimate, before any night has read it.

The night will know which of a turn's claims are new and which change one; a running conversation can't wait for it. So
each statement of the turn counts by the share of its words that stand in nothing memory just told: all of what is new,
little of what is known, and of a change the value that is another. Questions state nothing.
"""

import re

from slowwave.text.sentences import split_sentences
from slowwave.text.words import ASKS, extract_content_words

LEAST_WORDS = 2
"""Content words of a statement: a thanks or a yes is none."""


def estimate_effect(text: str, told: str | None) -> float:
    """Return mean over the statements of a turn, 0 to 1; 0 where it has none.

    Args:
        text: the turn.
        told: what memory tells of it (`Context.text`), empty where it knows nothing; None where it was not asked.
    """
    if told is None:
        return 0.0
    known = frozenset(extract_content_words(told))
    said = [one.text for one in split_sentences(text) if not ASKS.search(one.text + get_closing_marks(text, one.end))]
    stated = [words for one in said if len(words := frozenset(extract_content_words(one))) >= LEAST_WORDS]
    return sum(len(words - known) / len(words) for words in stated) / len(stated) if stated else 0.0


def get_closing_marks(text: str, end: int) -> str:
    """Return the marks that close the sentence whose span ends there: a span leaves some out."""
    marks = re.match(r"[^\w\s]*", text[end:])
    return marks[0] if marks else ""
