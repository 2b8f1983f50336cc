"""Find boilerplate, spans of text that occur word for word in many sessions, and mask it in messages.

Templates, pasted rules (CLAUDE.md, AGENTS.md), system prompts and tool banners recur in session after session. A
person's typed text is kept in the first sessions that have it. Later copies, and text that no person typed, are masked.
Method: exact hashes of line- and sentence-sized shingles, counted by distinct session (as CCNet drops paragraphs:
Wenzek et al., LREC 2020). MinHash finds similar documents, but a mask needs places, and a document that was edited in
one line still shares the others. Exact hashes give both, at a few MB/s.
"""

import hashlib
import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

import numpy as np

from slowwave.text.words import TERM

VERSION = 2
LINE = re.compile(r"\S[^\n]*")
STOP = re.compile(r"(?<![.!?…])(?P<stops>[.!?…]++)[\"'”’)\]*]*+(?=\s)")
"""The end of a sentence. It begins with a run of stops and does not backtrack, so a line of stops takes linear time."""
MIN_SESSIONS = 5
"""Sessions with a shingle from which on it counts as recurring."""
MIN_WORDS = 8
"""Least words of a shingle: shorter lines are joined with their neighbours. Raise VERSION if you change it."""
DIGIT = re.compile(r"\d")
CHANGING = re.compile(
    r"\b\d{4}-\d\d-\d\d(?:[t ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:z|[+-]\d\d:?\d\d)?)?\b|\b\d{1,2}:\d\d(?::\d\d)?\b"
    r"|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b(?=[0-9a-f]*\d)[0-9a-f]{12,}\b"
)
"""Dates, times and machine-made ids, which differ between two copies of a banner."""


@dataclass(frozen=True, slots=True)
class Span:
    """A shingle: one line or sentence, with its neighbours if it is short."""

    start: int
    end: int
    hash: int


@lru_cache(maxsize=8)
def extract_spans(text: str) -> tuple[Span, ...]:
    """Return the text's shingles in order: from each line or sentence on, the fewest units with MIN_WORDS words in all.

    A unit with too few words after it begins no shingle, but ends one. A text with fewer words has no shingle.
    """
    # the words of each unit
    units: list[tuple[int, int, list[str]]] = []
    for start, end in _find_units(text):
        folded = text[start:end].casefold()
        units.append(
            (
                start,
                end,
                TERM.findall(
                    CHANGING.sub("0", folded) if DIGIT.search(folded) else folded
                ),
            )
        )
    # the units of each shingle; of several units without words in a row, only the first begins one
    before = [0, *accumulate(len(words) for _, _, words in units)]
    starts = (
        at for at in range(len(units)) if units[at][2] or not at or units[at - 1][2]
    )
    bounds = dict.fromkeys(_find_span_bounds(before, at) for at in starts)
    # and their hashes
    spans: list[Span] = []
    for first, last in (pair for pair in bounds if pair):
        joined = " ".join(
            word for _, _, words in units[first : last + 1] for word in words
        )
        digest = hashlib.blake2b(
            joined.encode("utf-8", "surrogatepass"), digest_size=8
        ).digest()
        spans.append(
            Span(units[first][0], units[last][1], int.from_bytes(digest, signed=True))
        )
    return tuple(spans)


def _find_units(text: str) -> Iterator[tuple[int, int]]:
    """Yield the bounds of each line, or of each sentence in a line with several, without white space around it."""
    for line in LINE.finditer(text):
        at = line.start()
        end = line.start() + len(line[0].rstrip())
        for stop in STOP.finditer(text, at, end):
            if stop.start() == at and len(stop["stops"]) == 1:
                continue  # a mark that opens a line ends nothing
            yield at, stop.end()
            at = next((n for n in range(stop.end(), end) if not text[n].isspace()), end)
        if at < end:
            yield at, end


def _find_span_bounds(words: list[int], at: int) -> tuple[int, int] | None:
    """Return the first and last unit of the shingle that begins, or else ends, with a unit; None if there is none.

    Args:
        words: the number of words before each unit, and then that of all words.
        at: the unit.
    """
    last = bisect_left(words, words[at] + MIN_WORDS) - 1
    if last < len(words) - 1:
        return at, max(last, at)
    first = bisect_right(words, words[at + 1] - MIN_WORDS) - 1
    return (min(first, at), at) if first >= 0 else None


def hash_session_spans(texts: Iterable[str]) -> set[int]:
    """Return the hashes of the shingles in a session's texts."""
    return {span.hash for text in texts for span in extract_spans(text)}


def find_recurring_spans(sessions: Iterable[Collection[int]]) -> dict[int, int]:
    """Return the hash of each shingle that at least `MIN_SESSIONS` sessions have, with the number of these sessions.

    Args:
        sessions: the distinct hashes of each session.
    """
    hashes_of = [
        np.fromiter(hashes, dtype=np.int64, count=len(hashes)) for hashes in sessions
    ]
    if not hashes_of:
        return {}
    values, counts = np.unique(np.concatenate(hashes_of), return_counts=True)
    often = counts >= MIN_SESSIONS
    return dict(zip(values[often].tolist(), counts[often].tolist(), strict=True))


def mask_spans(text: str, hashes: Collection[int]) -> str:
    """Return the text with each shingle in `hashes` replaced by line breaks. All offsets stay the same."""
    if not hashes:
        return text
    gone = [span for span in extract_spans(text) if span.hash in hashes]
    if not gone:
        return text
    characters = list(text)
    for span in gone:
        characters[span.start : span.end] = "\n" * (span.end - span.start)
    return "".join(characters)


def find_repeating_sessions(
    quote: str,
    text: str,
    holders: Mapping[int, Collection[str]],
) -> set[str]:
    """Return the sessions that have all of a quote from the text.

    Args:
        quote: a piece of the text.
        text: the text.
        holders: the sessions that have each shingle, by its hash.
    """
    start = text.find(quote)
    end = start + len(quote)
    near = [
        span
        for span in extract_spans(text)
        if start >= 0 and span.start < end and start < span.end
    ]
    around = [span for span in near if span.start <= start and end <= span.end]
    sessions = [set(holders.get(span.hash, ())) for span in around or near]
    return (
        set().union(*sessions)
        if around or not sessions
        else sessions[0].intersection(*sessions)
    )


def restore_quote(
    quote: str,
    masked_text: str,
    text: str,
) -> str:
    """Return a quote of the masked text as it is in the original text, with the masked parts inside it."""
    if quote in text:
        return quote
    at = masked_text.find(quote)
    return text[at : at + len(quote)] if at >= 0 else quote


def format_span_id(number: int) -> str:
    """Return a shingle's hash as 16 hex digits."""
    return f"{number & 0xFFFFFFFFFFFFFFFF:016x}"


def parse_span_id(span_id: str) -> int:
    """Return the hash of a shingle from its 16 hex digits."""
    return int.from_bytes(bytes.fromhex(span_id), signed=True)


def find_span_texts(texts: Iterable[str], hashes: Collection[int]) -> Mapping[int, str]:
    """Return the text of each shingle in `hashes`, from its first occurrence."""
    every = ((span, text) for text in texts for span in extract_spans(text))
    pairs = [
        (span.hash, text[span.start : span.end])
        for span, text in every
        if span.hash in hashes
    ]
    return dict(reversed(pairs))
