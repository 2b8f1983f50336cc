"""Which lines to show within a budget of tokens, and how much of each.

Lines are shown whole, the likeliest first (`pack_lines`); of a long one stand as many sentences in a row as there is
room for.

A block has an outline too (`select_outline`): what persons brought up, a short line each, in the order of time. A
question that one message answers needs none. One whose evidence is spread over many ("in what order …", "how many …",
"summarise …") is better answered by a little of each. How far it is spread is read off recall's scores, not off the
question's words: as probabilities (softmax) they are worth as many equal messages as their inverse Simpson index says.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise

import numpy as np

from slowwave.context.rendering import OMITTED, Line, LineSource, Measure
from slowwave.recall.release.view import THEN
from slowwave.text.sentences import split_sentences
from slowwave.text.spans import MIN_WORDS
from slowwave.text.words import extract_content_words

CLOSING = re.compile(r"[.!?…)\"”']*")
MESSAGE_SHARE = 0.18
"""Part of a block that one line may have, or half of the room left if that is more (`docs/decisions/003-blocks.md`)."""
ONE_SENTENCE = 1.5
"""Times what a line may have, where its best sentence alone has more."""
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


def make_line(
    text: str,
    source: LineSource,
    relevance: float = 1.0,
    *,
    later: str = "",
    score: float | None = None,
    gist: str = "",
    within: str = "",
) -> Line:
    """Return a text as a line that can be cut between its sentences; `within` is what it is a passage of."""
    before = [OMITTED] if within and not within.startswith(text) else []
    after = [OMITTED] if within and not within.endswith(text) else []
    line = Line("", source, relevance, later=later, score=score, gist=gist)
    return show_pieces(line, [*before, *split_pieces(text), *after])


def split_pieces(text: str) -> list[str]:
    """Return a text's sentences, each in one line; what is no prose (code, a table) is a piece of its own."""
    spans = [(0, 0), *((sentence.start, sentence.end) for sentence in split_sentences(text)), (len(text), len(text))]
    borders = {0, len(text)}
    for (_, end), (start, _) in pairwise(spans):
        between, is_inner = text[end:start], end > 0 and start < len(text)
        lines = [end + at for at, character in enumerate(between) if character == "\n"]
        borders.update(lines[:1] if end > 0 else (), lines[-1:] if start < len(text) else ())
        if is_inner and not lines:  # a sentence lacks what opens and closes it idly
            marks = [end + mark.end() for mark in CLOSING.finditer(between)]
            borders.add(marks[-1] if marks else start)
    pieces = (" ".join(text[start:end].split()) for start, end in pairwise(sorted(borders)))
    return [piece for piece in pieces if piece]


def show_pieces(line: Line, pieces: Sequence[str]) -> Line:
    """Return a line that shows these pieces, and behind them what is later known of it."""
    distinct = tuple(piece for before, piece in pairwise(("", *pieces)) if not before == piece == OMITTED)
    text = " ".join(distinct)
    own_words = (text, line.later.partition(THEN)[2].removesuffix(")")) if line.later else ()
    with_later = " ".join(filter(None, (text, line.later)))
    return replace(line, text=with_later, own_words=tuple(filter(None, own_words)), pieces=distinct)


def pack_lines(lines: Sequence[Line], query: str, budget: int, measure: Measure) -> list[Line]:
    """Return lines that have at most `budget` tokens by their prices, the likeliest first.

    Args:
        lines: what may be shown, the likeliest first.
        query: by whose words a sentence of a long line is chosen.
        budget: tokens.
        measure: what a line costs.
    """
    query_words = frozenset(extract_content_words(query))
    groups, chosen, shown, room = set[object](), list[Line](), set[str](), budget
    for line in lines:
        # what stands there already is not said again
        repeated = [len(piece.split()) >= MIN_WORDS and piece.rstrip(".!?") in shown for piece in line.pieces]
        fresh = [OMITTED if repeats else piece for piece, repeats in zip(line.pieces, repeated, strict=True)]
        if all(piece == OMITTED for piece in fresh) or any(line.text in other.own_words[1:] for other in chosen):
            continue
        # as much of it as there is room for
        heading = 0 if line.source.group in groups else measure.count_heading(line.source)
        left = room - heading
        limit, whole = max(int(budget * MESSAGE_SHARE), left // 2), show_pieces(line, fresh)
        cut = shorten(whole, query_words, limit, measure) or shorten(
            whole, query_words, int(limit * ONE_SENTENCE), measure
        )
        if cut is None or measure.count_line(cut) > left:
            continue
        chosen.append(cut)
        room -= measure.count_line(cut) + heading
        groups.add(line.source.group)
        shown.update(piece.rstrip(".!?") for piece in cut.pieces)
    return chosen


def shorten(line: Line, query_words: Collection[str], limit: int, measure: Measure) -> Line | None:
    """Return a line as it is where it has at most so many tokens; else as many of its sentences in a row, from the one
    on that has most of the query's words; None where that one has more.
    """
    if measure.count_line(line) <= limit:
        return line
    pieces, words = line.pieces, frozenset(query_words)
    shared = [len(words.intersection(extract_content_words(piece))) for piece in pieces]
    # on from the first of the best sentences, then back from it
    first = max((at for at in range(len(pieces)) if pieces[at] != OMITTED), key=lambda at: (shared[at], -at))
    spans = [(first, stop) for stop in range(first + 1, len(pieces) + 1)]
    spans += [(start, len(pieces)) for start in reversed(range(first))]
    longest = None
    for start, stop in spans:
        before, after = [OMITTED] * (start > 0), [OMITTED] * (stop < len(pieces))
        cut = show_pieces(line, [*before, *pieces[start:stop], *after])
        if measure.count_line(cut) > limit:
            break
        longest = cut
    return longest


def arrange_lines(lines: Sequence[Line]) -> tuple[Line, ...]:
    """Return lines in display order: the best first, with those of its session and day; claims before messages."""
    groups = list(dict.fromkeys(line.source.group for line in lines))
    # in a session a model's claims, which are nobody's words, before the messages
    return tuple(
        sorted(
            lines,
            key=lambda line: (
                groups.index(line.source.group),
                bool(line.source.speaker or line.source.by),
                line.source.seq or 0,
            ),
        )
    )


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
