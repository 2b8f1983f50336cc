"""Which sentences to show within a budget of tokens, those that cover most of what is likely to matter; and the lines
that those chosen make.

Each word of a piece matters with some probability, which is its worth. What is maximised is the worth of the words
shown, each counted once, as where it is worth most; so a sentence that says again what another said is worth little:
weighted maximum coverage under a budget, greedy by worth per token (Lin & Bilmes: Multi-document summarization via
budgeted maximization of submodular functions, NAACL 2010), with its guarantee kept by the comparison with the best
single piece.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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


def build_snippet_lines(snippets: Sequence[Snippet], chosen: Sequence[int]) -> tuple[Line, ...]:
    """Return lines of the sentences chosen, those of one message on one line, an ellipsis where one is left out."""
    lines = []
    for _, group in groupby((snippets[i] for i in sorted(chosen)), key=lambda snippet: snippet.place[:2]):
        some = list(group)
        text = _append_full_stop(some[0].text)
        for before, snippet in pairwise(some):
            gap = " " if snippet.start == before.start + 1 else GAP
            text = AGAIN.sub(OMITTED, f"{text}{gap}{_append_full_stop(snippet.text)}")
        lines.append(Line(text, some[0].source, max(snippet.relevance for snippet in some)))
    return tuple(lines)


def _append_full_stop(text: str) -> str:
    """Append the full stop that a sentence lacks, since it is cut off with what closes it idly."""
    return text if text[-1:] in ".!?…:;" else text + "."


Counter = Callable[[Sequence[int]], int]
"""Tokens of the block that shows these pieces (their indices, ascending)."""


@dataclass(frozen=True, slots=True)
class Piece:
    """What may be shown: a sentence, a claim, a line."""

    worths: Mapping[str, float]
    """Its words, each with the probability that it matters to the query, 0 to 1."""
    cost: int
    """Tokens of its text alone."""
    line: int
    """Pieces of one line share its source tag."""
    tag: int = 0
    """Tokens of the line's tag, paid with the first of its pieces."""
    group: int = 0
    """Lines of one group share its heading."""
    heading: int = 0
    """Tokens of the group's heading, paid with the first of its lines."""

    def compute_price(self, lines: Collection[int] = (), groups: Collection[int] = ()) -> int:
        """Return its tokens beside some lines and groups that stand there already."""
        tag, heading = 0 if self.line in lines else self.tag, 0 if self.group in groups else self.heading
        return max(1, self.cost + tag + heading)


def pack(pieces: Sequence[Piece], budget: int, count: Counter) -> list[int]:
    """Return indices of the pieces shown, ascending; the block they make has at most `budget` tokens by `count`.

    Prices of single pieces guide the choice; the whole block is what is counted in the end, since a tokenizer need not
    count a text as its parts. What the prices overstate is given out once more.
    """
    chosen = _select_covering_pieces(pieces, budget)
    slack = budget - count(sorted(chosen))
    if chosen and slack > 0:
        more = _drop_until_fit(_select_covering_pieces(pieces, budget + slack), budget, count)
        chosen = more if _compute_coverage(pieces, more) > _compute_coverage(pieces, chosen) else chosen
    return _drop_until_fit(chosen, budget, count)


def _select_covering_pieces(pieces: Sequence[Piece], budget: int) -> list[int]:
    """Return the greedy choice in its order, or the best single piece where that is worth more."""
    # the piece with most new worth per token first, while any fits
    chosen: list[int] = []
    shown: dict[str, float] = {}
    left, room = set(range(len(pieces))), budget
    while left:
        lines, groups = {pieces[i].line for i in chosen}, {pieces[i].group for i in chosen}
        prices = {i: pieces[i].compute_price(lines, groups) for i in left}
        left = {i for i in left if prices[i] <= room}
        gains = {
            i: sum(max(worth - shown.get(word, 0.0), 0.0) for word, worth in pieces[i].worths.items()) for i in left
        }
        best = max(left, key=lambda i: (gains[i] / prices[i], -i), default=None)
        if best is None or gains[best] <= 0:
            break
        chosen.append(best)
        left.discard(best)
        _update_coverage(pieces[best], shown)
        room -= prices[best]
    # or the best that fits alone
    fitting = [i for i, piece in enumerate(pieces) if piece.compute_price() <= budget]
    single = max(fitting, key=lambda i: (_compute_coverage(pieces, [i]), -i), default=None)
    if single is not None and _compute_coverage(pieces, [single]) > _compute_coverage(pieces, chosen):
        return [single]
    return chosen


def _drop_until_fit(chosen: list[int], budget: int, count: Counter) -> list[int]:
    """Return the choice without what came last, until the block fits."""
    while chosen and count(sorted(chosen)) > budget:
        chosen = chosen[:-1]
    return sorted(chosen)


def _compute_coverage(pieces: Sequence[Piece], chosen: Iterable[int]) -> float:
    shown: dict[str, float] = {}
    for i in chosen:
        _update_coverage(pieces[i], shown)
    return sum(shown.values())


def _update_coverage(piece: Piece, shown: dict[str, float]) -> None:
    for word, worth in piece.worths.items():
        shown[word] = max(shown.get(word, 0.0), worth)
