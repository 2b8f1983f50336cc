"""Find where a message states a claim, put notes there, and hide what a person left out.

A claim's quote may span a neighbouring sentence that was taken as its reason. So its own words are looked up, and its
quote only if those do not stand in the message.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

from slowwave.schemas.rows import ClaimRow
from slowwave.schemas.vocabulary import EXCLUDED, WITHDRAWALS
from slowwave.text.words import SENTENCE_ENDS, UNSPACED

OMITTED = "…"
"""Something is left out here."""
PIECE = re.compile(r"[^\W_]+|[^\w\s*`~]")
"""A word, or a mark that is neither space nor emphasis."""
GAP = r"[\s*_`~]"
"""A space, a line break or a mark of emphasis, as it may stand between two words."""
BOUND = r"[!-/:-@\[-^`{-~]?[^\W_]"
"""What goes on with a word: "8080" with "80", and "80.5" and "80-a" too."""
LETTER = r"[^\W_]"
"""What goes on with a word, where a mark may follow."""
Span = tuple[int, int]


@lru_cache(maxsize=4_096)
def _compile_words(words: str, bound: str) -> re.Pattern[str] | None:
    """Return a pattern that finds some words, whatever their case and the breaks between them; None without words.

    `bound` is what may not follow. A script without spaces has no bounds.
    """
    pieces = PIECE.findall(words.rstrip(f"{SENTENCE_ENDS} "))
    if not any(map(str.isalnum, pieces)):
        return None
    pattern = re.escape(pieces[0])
    for before, piece in pairwise(pieces):
        are_words = before.isalnum() and piece.isalnum()
        pattern += f"{GAP}{'+' if are_words else '*'}{re.escape(piece)}"
    before = "" if UNSPACED.match(pieces[0]) else r"(?<![^\W_])"
    behind = "" if UNSPACED.match(pieces[-1][-1]) else f"(?!{bound})"
    return re.compile(f"{before}{pattern}{behind}", re.IGNORECASE)


def find_words(
    text: str,
    words: str,
    bound: str = BOUND,
) -> list[Span]:
    """Return where some words stand in a text, whatever their case and the line breaks and emphasis between them."""
    pattern = _compile_words(words, bound)
    return [found.span() for found in pattern.finditer(text)] if pattern else []


def find_statement(
    text: str,
    summary: str,
    quote: str,
) -> list[Span]:
    """Return where a text states a claim: each place of its own words, else of its quote."""
    return find_words(text, summary) or find_words(text, quote, LETTER)


def put_notes(text: str, notes: Iterable[tuple[int, str]]) -> str:
    """Return a text with notes in it, each behind the place that it names; of several at one place in their order."""
    shown = ""
    done = 0
    for at, note in sorted(notes, key=lambda one: one[0]):
        shown += f"{text[done:at]} {note}"
        done = at
    return shown + text[done:]


@dataclass
class Omissions:
    """The claims that were made of a message, or of a session: those that a person left out, and the others."""

    hidden: list[tuple[str, str]] = field(default_factory=list)
    """Summary and quote of those left out."""
    kept: list[str] = field(default_factory=list)
    """Summaries of the others."""

    def hide(self, text: str) -> str:
        """Return a text with an ellipsis in place of what was left out. What another claim states stays."""
        kept = [span for words in self.kept for span in find_words(text, words)]
        spans = sorted(
            span
            for summary, quote in self.hidden
            for span in find_statement(text, summary, quote)
        )
        done = 0
        shown = ""
        for begin, end in spans:
            for start, stop in _subtract((max(begin, done), end), kept):
                if not any(map(str.isalnum, text[start:stop])):
                    continue
                shown += f"{text[done:start]}{OMITTED}"
                done = stop
                while text[done : done + 1] and text[done] in SENTENCE_ENDS:
                    done += 1
        return shown + text[done:]


def _subtract(span: Span, others: Iterable[Span]) -> Iterator[Span]:
    """Yield the parts of a span that overlap no other one."""
    begin, end = span
    for start, stop in sorted(others):
        if stop > begin and start < end:
            if start > begin:
                yield begin, start
            begin = max(begin, stop)
    if begin < end:
        yield begin, end


def collect_left_out(claims: Iterable[ClaimRow]) -> dict[str, Omissions]:
    """Return the claims that a person left out, and the others, by message and by session.

    A claim that accepts a proposal has it in brackets; the proposal is hidden in the message that it was made in, and
    in the session.
    """
    places = defaultdict[str, Omissions](Omissions)
    for row in claims:
        first, *others = row["message_ids"] or [""]
        words = row["summary"], row["quote"]
        if row["reason"] == EXCLUDED:
            places[row["session_id"]].hidden.append(words)
            places[first].hidden.append(words)
            proposal = row["summary"].removeprefix(row["quote"]).strip()
            is_proposal = proposal.startswith("(") and others
            for place in (row["session_id"], *others) if is_proposal else ():
                places[place].hidden.append((proposal.strip("()"), ""))
        elif row["reason"] not in WITHDRAWALS:
            places[row["session_id"]].kept.append(row["summary"])
            places[first].kept.append(row["summary"])
    return {place: left_out for place, left_out in places.items() if left_out.hidden}
