"""Sentences that a block may show, and the lines that those chosen make."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from slowwave.context.rendering import Line, LineSource

OMITTED = "…"
"""Something is left out here."""
GAP = f" {OMITTED} "
AGAIN = re.compile(rf"{OMITTED}(?: {OMITTED})+")


@dataclass(frozen=True, slots=True)
class Snippet:
    """A sentence that may be shown, with where it comes from."""

    text: str
    worths: Mapping[str, float]
    """What each of its words is worth."""
    relevance: float
    source: LineSource
    place: tuple[float, int, int]
    """Where it stands in its part: the group's worth, the line, the place in it."""
    start: int = 0
    """Number of the sentence in its text: those that don't follow each other are joined by an ellipsis."""


def build_snippet_lines(said: Sequence[Snippet], chosen: Sequence[int]) -> tuple[Line, ...]:
    """Return lines of the sentences chosen, those of one message on one line, an ellipsis where one is left out."""
    lines = []
    for _, group in groupby((said[i] for i in sorted(chosen)), key=lambda one: one.place[:2]):
        some = list(group)
        text = _append_full_stop(some[0].text)
        for before, one in pairwise(some):
            gap = " " if one.start == before.start + 1 else GAP
            text = AGAIN.sub(OMITTED, f"{text}{gap}{_append_full_stop(one.text)}")
        lines.append(Line(text, some[0].source, max(one.relevance for one in some)))
    return tuple(lines)


def _append_full_stop(text: str) -> str:
    """Append the full stop that a sentence lacks, since it is cut off with what closes it idly."""
    return text if text[-1:] in ".!?…:;" else text + "."
