"""Sentences and clauses that a block may show, and the lines that those chosen make."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from slowwave.context.rendering import Line, LineSource

OMITTED = "…"
"""Something is left out here."""
GAP = f" {OMITTED} "
LEADS_ON = re.compile(r"(?:[,;]|\s[–—-])$")
AGAIN = re.compile(rf"{OMITTED}(?: {OMITTED})+")


@dataclass(frozen=True, slots=True)
class Snippet:
    """A sentence that may be shown, or a clause of one, with where it comes from."""

    text: str
    words: frozenset[str]
    relevance: float
    source: LineSource
    place: tuple[float, int, int]
    """Where it stands in its part: the group's worth, the line, the place in it."""
    start: int = 0
    """Number of the sentence in its text: those that don't follow each other are joined by an ellipsis."""
    clause: int = 0
    """Of a clause of a sentence, its number in it."""
    ends: bool = True
    """Whether its sentence ends with it."""
    leans: bool = False
    """Whether it is shown only after the clause before it."""
    worths: Mapping[str, float] | None = None
    """What each of its words is worth; by default all its relevance."""


def build_snippet_lines(said: Sequence[Snippet], chosen: Sequence[int]) -> tuple[Line, ...]:
    """Return lines of the pieces chosen, those of one message on one line.

    An ellipsis says where something is left out.
    """
    lines = []
    for _, group in groupby((said[i] for i in sorted(chosen)), key=lambda one: one.place[:2]):
        some = list(group)
        text = (OMITTED + " " if some[0].clause else "") + some[0].text
        for before, one in pairwise(some):
            text = _append_joint(text, before, one) + one.text
        last = _append_full_stop(text) if some[-1].ends else _append_ellipsis(text)
        last = AGAIN.sub(OMITTED, last)
        lines.append(Line(last, some[0].source, max(one.relevance for one in some)))
    return tuple(lines)


def _append_joint(text: str, before: Snippet, after: Snippet) -> str:
    """Return a line's text up to the piece `before`, and what joins the next one: an ellipsis where something is left
    out.
    """
    if is_next_clause(before, after):
        return text + " "
    if after.start == before.start + 1 and before.ends and not after.clause:
        return _append_full_stop(text) + " "
    return _append_ellipsis(text) + " "


def is_next_clause(before: Snippet, after: Snippet) -> bool:
    """Return whether a clause is the next one of the sentence."""
    same = before.place[:2] == after.place[:2] and before.start == after.start
    return same and after.clause == before.clause + 1


def _append_ellipsis(text: str) -> str:
    """Append an ellipsis for the mark that leads on to what is left out."""
    cut = LEADS_ON.sub("", text)
    return cut if cut.endswith(OMITTED) else f"{cut} {OMITTED}"


def _append_full_stop(text: str) -> str:
    """Append the full stop that a sentence lacks, since it is cut off with what closes it idly."""
    return text if text[-1:] in ".!?…:;" else text + "."
