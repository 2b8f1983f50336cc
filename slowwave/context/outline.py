"""The outline of a block: what persons brought up, a short line each, in the order of time.

A question that one message answers needs none. One whose evidence is spread over many ("in what order …", "how many …",
"summarise …") is better answered by a little of each. How far it is spread is read off recall's scores, not off the
question's words: as probabilities (softmax) they are worth as many equal messages as their inverse Simpson index says.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np

from slowwave.context.direct import MessageLine, shorten
from slowwave.context.rendering import Line, LineSource
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


def allot_outline(messages: Sequence[MessageLine], budget: int) -> int:
    """Return tokens of a block of `budget` tokens that its outline may have; 0 where it is to have none."""
    scores = sorted((message.score for message in messages if message.score is not None), reverse=True)[:NEAREST]
    if not scores:
        return 0
    likely = np.exp(np.asarray(scores) - scores[0])
    spread = float(likely.sum() ** 2 / (likely**2).sum() / NEAREST)
    tokens = int(min(1.0, spread / SPREAD) * (budget - WHOLE))
    return tokens if tokens >= LINES * LINE_TOKENS else 0


def select_outline(
    messages: Sequence[MessageLine],
    shown: Collection[LineSource],
    query_words: Collection[str],
    budget: int,
    price: Callable[[Line], int],
    head: Callable[[LineSource], int],
) -> list[Line]:
    """Return lines that have at most `budget` tokens by their prices, each session's likeliest before any session's
    next.

    Args:
        messages: what may be told, the likeliest first; a person's words are.
        shown: sources of the lines that stand in the block already.
        query_words: content words of the query, by which a sentence of a long message is chosen.
        budget: tokens.
        price: of a line.
        head: price of the heading over the first line of a group.
    """
    # Number the messages of each session, so that all sessions take turns.
    turns: dict[str | None, int] = {}
    numbered = []
    for message in messages:
        if message.source.by == "person" and message.source not in shown:
            turns[message.source.session] = turns.get(message.source.session, 0) + 1
            numbered.append((turns[message.source.session], message))
    # Take what fits.
    groups, chosen, room = {source.group for source in shown}, list[Line](), budget
    for _, message in sorted(numbered, key=lambda pair: pair[0]):
        # whole, else by its gist, unless a part of it has more of what is asked
        line = shorten(message, query_words, LINE_TOKENS, price)
        if message.gist and line != message.line:
            by_gist = replace(message, text=message.gist, opens=True, closes=True).line
            near, nearer = (
                len(set(query_words) & set(extract_content_words(candidate.text))) if candidate else 0
                for candidate in (by_gist, line)
            )
            line = by_gist if near >= nearer and price(by_gist) <= LINE_TOKENS else line
        if line is None:
            continue
        cost = price(line) + (0 if message.source.group in groups else head(message.source))
        if cost <= room:
            chosen.append(line)
            room -= cost
            groups.add(message.source.group)
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
