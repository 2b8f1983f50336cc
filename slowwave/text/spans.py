"""Boilerplate: spans of text that stand in many sessions word for word, and messages without them.

Templates, pasted rules (CLAUDE.md, AGENTS.md), system prompts and tool banners come back session after session. What a
person typed is kept in the first sessions that hold it; later copies, and what no person typed, are masked. Method:
exact hashes of line- and sentence-sized shingles, counted by distinct session (as CCNet drops paragraphs: Wenzek et
al., LREC 2020). MinHash finds documents that are alike, but a mask needs places, and a body that was edited in one line
still shares its other lines; exact hashes give both, at a few MB/s.
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
"""Ends a sentence. It begins where a run of stops does, and keeps what it took: a line of stops alone is read once."""
MIN_SESSIONS = 5
"""Sessions that hold a shingle, from which on it recurs."""
MIN_WORDS = 8
"""Words of a line; shorter ones count together with their neighbours. Raise VERSION with it."""
DIGIT = re.compile(r"\d")
CHANGING = re.compile(
    r"\b\d{4}-\d\d-\d\d(?:[t ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:z|[+-]\d\d:?\d\d)?)?\b|\b\d{1,2}:\d\d(?::\d\d)?\b"
    r"|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b(?=[0-9a-f]*\d)[0-9a-f]{12,}\b"
)
"""Dates, times and ids of machines: all that differs between two copies of a banner."""


@dataclass(frozen=True, slots=True)
class Span:
    """A shingle: one line or sentence, with the next ones where it is short."""

    start: int
    end: int
    hash: int


@lru_cache(maxsize=8)
def extract_spans(text: str) -> tuple[Span, ...]:
    """Return the text's shingles in order: from each line or sentence on, the fewest that have MIN_WORDS words.

    The last ones, after which too little follows, reach back instead. A text of fewer words in all has none.
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
    # the units of each shingle: from each on, but of a run without words from one
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
    """Yield each line, or sentence where a line has several, without white space around it."""
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
    """Return first and last unit of the shingle that begins, or else ends, with this one.

    Args:
        words: how many there are before each unit, and in all.
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
    """Return hash of each shingle that at least `MIN_SESSIONS` sessions hold -> how many do.

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
    """Return the text with each shingle in `hashes` blanked by line breaks; all other characters keep their place."""
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
    quote: str, text: str, holders: Mapping[int, Collection[str]]
) -> set[str]:
    """Return the sessions that hold all of a quote from the text, by the sessions that hold each shingle's hash."""
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


def restore_quote(quote: str, masked_text: str, text: str) -> str:
    """Return a quote of the masked text as it stands in the original, with what was blanked inside it."""
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
    """Return the text of each wanted shingle where it first stands."""
    every = ((span, text) for text in texts for span in extract_spans(text))
    pairs = [
        (span.hash, text[span.start : span.end])
        for span, text in every
        if span.hash in hashes
    ]
    return dict(reversed(pairs))
