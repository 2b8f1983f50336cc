"""The outline of a block: what persons brought up, a short line each, in the order of time.

A question that one message answers needs none. One whose evidence is spread over many ("in what order …", "how many …",
"summarise …") is better answered by a little of each. How far it is spread is read off recall's scores, not off the
question's words: as probabilities (softmax) they are worth as many equal messages as their inverse Simpson index says.
"""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime

import numpy as np

from slowwave.context.packing import shorten, show_pieces
from slowwave.context.rendering import Line, LineSource, Measure
from slowwave.text.words import extract_content_words

NEAREST = 50
"""Scores by which the spread is told."""
SPREAD = 1 / 3
"""From which spread on all that is left beside WHOLE is the outline's."""
WHOLE = 800
"""Tokens that whole messages have first (`docs/decisions/017-outline.md`)."""
LINE_TOKENS = 60
"""Of an outline's line, at most: some 45 words."""
LINES = 4
"""Lines for which there is room in an outline, at least."""


def allot_outline(lines: Sequence[Line], budget: int) -> int:
    """Return tokens of a block of `budget` tokens that its outline may have; 0 where it is to have none."""
    scores = sorted((line.score for line in lines if line.score is not None), reverse=True)[:NEAREST]
    if not scores:
        return 0
    likely = np.exp(np.asarray(scores) - scores[0])
    spread = float(likely.sum() ** 2 / (likely**2).sum() / NEAREST)
    tokens = int(min(1.0, spread / SPREAD) * (budget - WHOLE))
    return tokens if tokens >= LINES * LINE_TOKENS else 0


def select_outline(
    lines: Sequence[Line], shown: Collection[LineSource], query: str, budget: int, measure: Measure
) -> list[Line]:
    """Return persons' lines in short that have at most `budget` tokens by their prices, each session's likeliest before
    any session's next.

    Args:
        lines: what may be told, the likeliest first.
        shown: sources of the lines that stand in the block already.
        query: by whose words a sentence of a long message is chosen.
        budget: tokens.
        measure: what a line costs.
    """
    query_words = frozenset(extract_content_words(query))
    # number the lines of each session, so that all sessions take turns
    turns: dict[str | None, int] = {}
    numbered = list[tuple[int, Line]]()
    for line in lines:
        if line.source.by == "person" and line.source not in shown:
            turns[line.source.session] = turns.get(line.source.session, 0) + 1
            numbered.append((turns[line.source.session], line))
    # take what fits
    groups, chosen, room = {source.group for source in shown}, list[Line](), budget
    for _, line in sorted(numbered, key=lambda pair: pair[0]):
        # whole, else by its gist, unless a part of it has more of what is asked
        short = shorten(line, query_words, LINE_TOKENS, measure)
        if line.gist and short != line:
            gist = show_pieces(line, [line.gist])
            near, nearer = (
                len(query_words.intersection(extract_content_words(text.text))) if text else 0 for text in (gist, short)
            )
            short = gist if near >= nearer and measure.count_line(gist) <= LINE_TOKENS else short
        if short is None:
            continue
        cost = measure.count_line(short) + (0 if line.source.group in groups else measure.count_heading(line.source))
        if cost <= room:
            chosen.append(short)
            room -= cost
            groups.add(line.source.group)
    return chosen


def arrange_by_time(lines: Sequence[Line]) -> tuple[Line, ...]:
    """Return lines in the order in which they were said, session by session; those without a time first."""
    first: dict[object, datetime] = {}
    for line in lines:
        at = line.source.at or datetime.min.replace(tzinfo=UTC)
        first[line.source.group] = min(first.get(line.source.group, at), at)
    return tuple(
        sorted(lines, key=lambda line: (first[line.source.group], line.source.session or "", line.source.seq or 0))
    )
