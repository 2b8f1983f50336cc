"""Locate a model's quote in a message, and return the message's own words at that place.

A quote is located by rapidfuzz's partial ratio. What is kept is the message's own text there, extended to whole words,
so every kept quote is verbatim. `slowwave.tasks.llm.grounding` checks whether the quote supports the claim.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from rapidfuzz import fuzz

from slowwave.text.languages import find_stop_words
from slowwave.text.times.dates import MONTH_NAMES, WEEKDAYS
from slowwave.text.words import (
    ENGLISH_STOP,
    find_text_language,
    is_content_word,
    stem,
)

FEWEST_WORDS = 3
FEWEST_CHARACTERS = 12
"""A shorter quote occurs in many messages and proves nothing, unless it is the whole message or its first sentence: an
answer stands first ("do both. 5 seconds is too slow"). A list's item may be as short: "rules: no unsafe, no async"."""
HEADER = re.compile(
    r"^\s*\[?\d{0,4}\]?\s*[^:\n]{1,60}, \w{3} \d{4}-\d\d-\d\d \d\d:\d\d:\s*"
)
"""A message's label in a prompt. Small models copy it into the quote."""
STEM = 5
"""Letters of a stem that are compared: two forms of a word share them, approximately."""
FEWEST_STEMS = 4
"""With fewer stems, their share is not computed."""
FEWEST_PAIRS = 8
"""A source with at least so many pairs of characters is in an unspaced script too."""
UNSPACED = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+"
)
EASTERN_DATE = re.compile(r"\d+\s*[年月日号號]")
WORD = re.compile(r"[^\W\d_]{3,}")
ELLIPSIS = re.compile(r"\s*(?:\.\.\.|…|\[…\]|\[\.\.\.\])\s*")
QUOTES = str.maketrans(
    {
        "’": "'",
        "‘": "'",
        "“": '"',
        "”": '"',
        "–": "-",
        "—": "-",
        "‹": "<",
        "›": ">",
        "`": "'",
    }
)
SENTENCE_END = re.compile(r"[.!?](?=\s|$)|[。！？]")
CLAUSE_END = re.compile(r"[.!?,;:](?=\s|$)|[。！？，、；：]|\s[-(]|\)")
"""Where a clause or an item of a list ends."""
WORDS = re.compile(r"\w+")
DIGITS = re.compile(r"\d[\d,]*(?:\.\d+)*")


@dataclass(frozen=True, slots=True)
class Anchor:
    """A place in a message."""

    start: int
    end: int
    score: float
    """Likeness of the quote to the words there, 0 to 100."""


def find_anchor(quote: str, text: str, floor: float = 90.0) -> Anchor | None:
    """Return the place in `text` where `quote` stands with a likeness of at least `floor`, or None if there is none.

    A quote with an ellipsis is located by its longest part.
    """
    part = max(
        ELLIPSIS.split(HEADER.sub("", quote).strip().strip("\"'“”")),
        key=len,
        default="",
    ).strip()
    if not part or not text.strip():
        return None
    normalised = normalise_text(part)
    there = normalise_text(text)
    is_short = len(part) < FEWEST_CHARACTERS and len(part.split()) < FEWEST_WORDS
    is_told = _is_first_sentence(normalised, there) or _is_item(normalised, there)
    if is_short and not is_told:
        return None
    at = there.find(normalised)
    if at >= 0:
        return _expand_to_words(
            text=text, start=at, end=at + len(normalised), score=100.0
        )
    if len(normalised) > len(there):
        score = fuzz.ratio(normalised, there)
        return (
            _expand_to_words(text=text, start=0, end=len(text), score=score)
            if score >= floor
            else None
        )
    best = fuzz.partial_ratio_alignment(normalised, there, score_cutoff=floor)
    return (
        None
        if best is None
        else _expand_to_words(
            text=text, start=best.dest_start, end=best.dest_end, score=best.score
        )
    )


def _is_first_sentence(quote: str, text: str) -> bool:
    """Return True if a quote is the whole text or its first sentence; both are normalised."""
    first = SENTENCE_END.split(text.strip(), maxsplit=1)[0]
    return quote.strip(" .!?") in (first.strip(" .!?"), text.strip(" .!?"))


def _is_item(quote: str, text: str) -> bool:
    """Return True if a quote is all between two marks of a text, once, and has a content word beside another word."""
    items = [item.strip(" .!?") for item in CLAUSE_END.split(text)]
    words = WORDS.findall(quote)
    has_content = len(words) > 1 and any(map(is_content_word, words))
    return has_content and items.count(quote.strip(" .!?")) == 1


def find_best_anchor(
    quote: str, texts: Iterable[tuple[int, str]], floor: float = 90.0
) -> tuple[int, Anchor] | None:
    """Return the number of the text that matches a quote best, and the place. Of equals, the first is returned."""
    anchors = (
        (number, anchor)
        for number, text in texts
        if (anchor := find_anchor(quote, text, floor))
    )
    return max(anchors, key=lambda pair: pair[1].score, default=None)


def compute_support(claim: str, source: str) -> float:
    """Return the share of a claim's content words whose stems occur in the source, from 0 to 1. For a claim with few
    stems, return 1 if one stem or number occurs, else 0.

    Days, months and numbers do not count as content words: `grounding.explain_unfounded` checks them, and a model may
    compute them. In a script without spaces, pairs of neighbouring characters replace stems. A paraphrase shares fewer
    pairs, so their share is doubled. If only the claim is in such a script, the words cannot be compared: 1.

    Of 619 sentences an LLM distilled from LoCoMo's sessions 99.8% have half or more of theirs in their own session, and
    4.8% in one of other people (medians .90 and .17).
    """
    if is_unspaced(claim):
        pairs = _extract_bigrams(claim)
        comparable = pairs and is_comparable(claim, source)
        return (
            min(1.0, 2 * len(pairs & _extract_bigrams(source)) / len(pairs))
            if comparable
            else 1.0
        )
    stems = _extract_prefixes(claim)
    there = len(stems & _extract_prefixes(source))
    if len(stems) < FEWEST_STEMS:
        return float(
            not stems
            or there > 0
            or not set(DIGITS.findall(claim)).isdisjoint(DIGITS.findall(source))
        )
    return there / len(stems)


def is_comparable(claim: str, source: str) -> bool:
    """Return False if the claim is in an unspaced script and the source is not: their words cannot be compared."""
    return not is_unspaced(claim) or len(_extract_bigrams(source)) >= FEWEST_PAIRS


def is_unspaced(text: str) -> bool:
    """Return True if most letters are of a script without spaces between words: Chinese, Japanese, Thai …"""
    letters = sum(c.isalpha() for c in text)
    return letters > 0 and sum(len(run) for run in UNSPACED.findall(text)) > letters / 2


def _extract_bigrams(text: str) -> set[str]:
    """Return the pairs of neighbouring characters in unspaced scripts."""
    return {
        run[n : n + 2] for run in UNSPACED.findall(text) for n in range(len(run) - 1)
    }


def _extract_prefixes(text: str) -> set[str]:
    """Return the first letters of the stems of a text's content words, without the stop words of its language."""
    words = {word.lower() for word in WORD.findall(text)}
    words -= {*MONTH_NAMES, *WEEKDAYS, *ENGLISH_STOP}
    words -= find_stop_words(words, find_text_language(text))
    return {stem(word)[:STEM] for word in words}


def normalise_text(text: str) -> str:
    """Return a text of the same length in lower case, with one form of blanks, quotation marks and dashes."""
    lowered = "".join(low if len(low := c.lower()) == 1 else c for c in text)
    return re.sub(r"\s", " ", lowered.translate(QUOTES))


def _expand_to_words(
    text: str,
    start: int,
    end: int,
    score: float,
) -> Anchor:
    """Return the place extended to whole words, without blanks at its ends."""
    while 0 < start < len(text) and text[start].isalnum() and text[start - 1].isalnum():
        start -= 1
    while 0 < end < len(text) and text[end - 1].isalnum() and text[end].isalnum():
        end += 1
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return Anchor(start, end, score)
