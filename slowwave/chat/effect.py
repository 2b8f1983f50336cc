"""What a turn does to long-term memory: a cheap estimate, before any night has read it.

The night will know which of a turn's claims are new and which change one; a running conversation can't wait for it. It
counts for each statement of the turn 1 where it says itself that something changes, is decided or preferred, else how
far the turn is from what memory holds: 1 - the relevance of the nearest memory, which recall has just told. Questions
state nothing, and a request ("replace foo with bar") changes nothing yet, unless it is meant to stand ("from now on").
"""

import re

from slowwave.text.cues import ASKS, CHANGES
from slowwave.text.sentences import split_sentences
from slowwave.text.words import extract_content_words

SETTLES = re.compile(
    r"\b(?:decid(?:e|ed)|agreed (?:on|to)|chose|settled (?:on|for)|prefers?|preferred|from now on|as of (?:now|today)|"
    r"(?:switch(?:ed|ing)?|migrat(?:e|ed|ing)|mov(?:e|ed|ing)) (?!\w+ to tears)(?:[\w-]+ ){0,4}(?:to|from)|"
    r"(?:is|are) now|replac(?:e|ed|es|ing)|remember that)\b",
    re.I,
)
"""A change, a decision or a preference in its own words."""
REQUESTS = re.compile(
    r"^\W*(?:(?:ok(?:ay)?|now|and|then|so|next|also|just)\b[\s,]*)*"
    r"(?:(?:please|pls|kindly|(?:can|could|would|will) you)\b|"
    r"(?:replace|switch|migrate|move|rename)\b)|[\s,]please\W*$",
    re.I,
)
"""Asks for something to be done: a courtesy, or a verb of change in the imperative."""
STANDS = re.compile(r"\b(?:remember|from now on|as of (?:now|today)|prefers?)\b", re.I)
"""A request that is meant to be kept."""
LEAST_WORDS = 2
"""Content words of a statement: a thanks or a yes is none."""


def estimate_effect(text: str, relevance: float | None) -> float:
    """Return mean over the statements of a turn, 0 to 1; 0 where it has none.

    Args:
        text: the turn.
        relevance: of the memory nearest to it, 0 to 1 (`Context.relevance`); None where it is not known: then only
            what a statement says of itself counts.
    """
    said = [one.text for one in split_sentences(text) if not ASKS.search(_get_sentence_ending(text, one.end))]
    stated = [one for one in said if len(extract_content_words(one)) >= LEAST_WORDS]
    far = 0.0 if relevance is None else min(1.0, max(0.0, 1.0 - relevance))
    each = [1.0 if _is_change(one) else far for one in stated]
    return sum(each) / len(each) if each else 0.0


def _is_change(sentence: str) -> bool:
    """Return whether a statement says itself that something changes, is decided or preferred."""
    if REQUESTS.search(sentence) and not STANDS.search(sentence):
        return False
    return bool(CHANGES.search(sentence) or SETTLES.search(sentence))


def _get_sentence_ending(text: str, end: int) -> str:
    """Return a sentence's last characters with the marks that close it: a sentence's span leaves some out."""
    marks = re.match(r"[^\w\s]*", text[end:])
    return text[max(0, end - 1) : end] + (marks[0] if marks else "")
