"""Choose the lines of a block within a budget of tokens, and cut long ones.

`pack_lines` shows lines whole, the likeliest first. Of a long line it shows as many consecutive sentences as fit. A
person's line stands before an assistant's line that repeats a sentence of it, and is never cut for what is shown.

A block also has an outline (`select_outline`): short lines of what persons said, in order of time. A question that one
message answers needs no outline. A question whose evidence is spread over many messages ("in what order …", "how many
…", "summarise …") is answered better by a part of each. The spread is computed from recall's scores, and not from the
question's words: as probabilities (softmax), the scores are worth a number of equal messages, their inverse Simpson
index.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain, pairwise, zip_longest
from typing import NamedTuple

import numpy as np

from slowwave.context.rendering import (
    Line,
    LineNote,
    LineSource,
    Measure,
    date_line,
)
from slowwave.recall.release.said import OMITTED, find_words, put_notes
from slowwave.recall.release.view import SINCE, THEN
from slowwave.text.sentences import split_sentences
from slowwave.text.spans import MIN_WORDS
from slowwave.text.words import extract_content_words, put_spaces

CLOSING = re.compile(r"[.!?…)\"”']*")
CLAUSE_END = re.compile(r"(?<=[,;])\s+|(?<=[–—，、；])\s*(?=\S)")
"""Where a clause ends. A comma within a number ends nothing."""
MESSAGE_SHARE = 0.18
"""Part of a block that one line may have, or half of the room left if that is more (`docs/decisions/003-blocks.md`)."""
ONE_SENTENCE = 1.5
"""Factor on a line's limit if its best sentence alone exceeds it."""
NEAREST = 50
"""Number of scores from which the spread is computed."""
SPREAD = 1 / 3
"""Least spread at which the outline gets all the room beside WHOLE."""
WHOLE = 800
"""Tokens that whole messages get before the outline (`docs/decisions/017-outline.md`)."""
OVERVIEW_WHOLE = 0.2
"""Part of a block that whole messages get before the outline, if the query asks for many messages at once."""
LINE_TOKENS = 60
"""Most tokens of a line of the outline: about 45 words."""
LEAST_TOKENS = 45
"""Most tokens of a line of the outline if there are many sessions."""
HEADING = 12
"""About the tokens of a heading."""
ASKED = 3.0
"""What a word of the query is worth more than another word as rare, in an outline."""
AGAIN = 0.3
"""Factor on a word's worth each time that the session's lines before said it."""
LIKELY = 0.5
"""Power of a line's likelihood, by which the worth of its words is multiplied within a session."""
REPLY = "(user"
"""Begins the note of a person's reply."""
NOTED_SINCE = ": "
"""Stands before the words of a note of what was said since."""
LINES = 4
"""Least number of lines that an outline must have room for."""


class LaterNote(NamedTuple):
    """What is later known of a message."""

    text: str
    """In brackets."""
    words: str = ""
    """The message's words that it is about; empty if it is about all of them."""


def make_line(
    text: str,
    source: LineSource,
    relevance: float = 1.0,
    *,
    notes: Iterable[LaterNote] = (),
    score: float | None = None,
    gist: str = "",
    within: str = "",
) -> Line:
    """Return a text as a line that can be cut between sentences.

    `within` is the whole message if the text is a part of it. A note about words of another part is left out.
    """
    before = [OMITTED] if within and not within.startswith(text) else []
    after = [OMITTED] if within and not within.endswith(text) else []
    pieces = split_pieces(text)
    others = split_pieces(within)
    placed = []
    for note in notes:
        about = find_pieces(pieces, note.words)
        if about or not find_pieces(others, note.words):
            placed.append(LineNote(note.text, about))
    line = Line(
        "",
        source,
        relevance,
        notes=tuple(placed),
        score=score,
        gist=gist,
    )
    return show_pieces(line, [*before, *pieces, *after])


def find_pieces(pieces: Sequence[str], words: str) -> frozenset[str]:
    """Return the pieces of a text in which some of its words stand."""
    spans = find_words(" ".join(pieces), words)
    about = set[str]()
    start = 0
    for piece in pieces:
        end = start + len(piece)
        if any(first < end and start < last for first, last in spans):
            about.add(piece)
        start = end + 1
    return frozenset(about)


def split_pieces(text: str) -> list[str]:
    """Return a text's sentences, each on one line. Text that is not prose (code, a table) is a piece of its own."""
    spans = [
        (0, 0),
        *((sentence.start, sentence.end) for sentence in split_sentences(text)),
        (len(text), len(text)),
    ]
    borders = {0, len(text)}
    for (_, end), (start, _) in pairwise(spans):
        between = text[end:start]
        is_inner = end > 0 and start < len(text)
        lines = [end + at for at, character in enumerate(between) if character == "\n"]
        borders.update(
            lines[:1] if end > 0 else (), lines[-1:] if start < len(text) else ()
        )
        if is_inner and not lines:
            # closing marks belong to the sentence before, opening ones to that behind
            marks = CLOSING.match(between)
            borders.add(end + (marks.end() if marks else 0))
    pieces = (
        " ".join(text[start:end].split()) for start, end in pairwise(sorted(borders))
    )
    return [piece for piece in pieces if piece]


def show_pieces(line: Line, pieces: Sequence[str]) -> Line:
    """Return a line that shows these pieces, each note behind the last piece that it is about; at the end if it is
    about all, and not at all if none of those is shown.
    """
    distinct = tuple(
        piece
        for before, piece in pairwise(("", *pieces))
        if not before == piece == OMITTED
    )
    places = [_find_place_of_note(distinct, note.about) for note in line.notes]
    placed = sorted(zip(places, line.notes, strict=True), key=lambda pair: pair[0])
    notes = tuple(note for place, note in placed if place)
    text = " ".join(distinct)
    ends = [len(" ".join(distinct[:place])) for place, _ in placed if place]
    thens = [_split_words(note)[1] for note in notes]
    own_words = (text, *thens) if notes else ()
    texts = (note.text for note in notes)
    return replace(
        line,
        text=put_notes(text, zip(ends, texts, strict=True)),
        own_words=tuple(filter(None, own_words)),
        pieces=distinct,
        notes=notes,
    )


def _find_place_of_note(pieces: Sequence[str], about: Collection[str]) -> int:
    """Return the place behind the last piece that a note is about; 0 if no such piece is shown."""
    if not about:
        return len(pieces)
    place = 0
    for at, piece in enumerate(pieces):
        if piece in about:
            place = at + 1
    return place


def pack_lines(
    lines: Sequence[Line],
    query: str,
    budget: int,
    measure: Measure,
) -> list[Line]:
    """Return the lines that fit `budget` tokens, by their costs one by one, the likeliest first.

    Args:
        lines: candidates, the likeliest first.
        query: sentences of long lines are chosen by its words.
        budget: tokens.
        measure: the cost of lines.
    """
    query_words = frozenset(extract_content_words(query))
    groups = set[object]()
    chosen = ChosenLines()
    room = budget
    for line in put_echoes_after(lines):
        pieces = chosen.find_new_pieces(line)
        if pieces is None:
            continue
        heading = (
            0 if line.source.group in groups else measure.count_heading(line.source)
        )
        left = room - heading
        limit = max(int(budget * MESSAGE_SHARE), left // 2)
        cut = _shorten_to_sentence(
            line=show_pieces(line, pieces),
            query_words=query_words,
            limit=limit,
            measure=measure,
        )
        if cut is None and not chosen.lines:
            # else a lesser line would stand for the likeliest
            clauses = show_pieces(
                replace(line, notes=tuple(map(_split_note, line.notes))),
                _split_into_clauses(pieces),
            )
            cut = shorten(
                line=clauses, query_words=query_words, limit=left, measure=measure
            )
        cost = measure.count_line(cut) if cut else 0
        if cut is None or cost > left:
            continue
        chosen.add(cut)
        room -= cost + heading
        groups.add(line.source.group)
    return chosen.lines


def _split_note(note: LineNote) -> LineNote:
    """Return a note about the clauses of its pieces."""
    return replace(note, about=frozenset(_split_into_clauses(note.about)))


def _split_into_clauses(pieces: Iterable[str]) -> list[str]:
    """Return the clauses of a line's sentences."""
    return [clause for piece in pieces for clause in CLAUSE_END.split(piece)]


@dataclass
class ChosenLines:
    """The lines of a block, and the sentences that they show."""

    lines: list[Line] = field(default_factory=list)
    shown: set[str] = field(default_factory=set)
    said: set[str] = field(default_factory=set)
    """Those of `shown` that a person said."""

    def find_new_pieces(self, line: Line) -> Sequence[str] | None:
        """Return a line's pieces without those that are shown already; None if it tells nothing new.

        A person's line is cut for what a person said alone, never for an assistant's echo of it.
        """
        is_of_person = line.source.by == "person"
        if is_of_person and self.shown.issuperset(map(strip_end, line.pieces)):
            return None
        pieces = _omit_shown_pieces(
            line.pieces, self.said if is_of_person else self.shown
        )
        if all(piece == OMITTED for piece in pieces):
            return None
        if any(date_line(line) in other.own_words[1:] for other in self.lines):
            return None
        return pieces

    def add(self, line: Line) -> None:
        """Add a line as it is shown."""
        self.lines.append(line)
        pieces = [strip_end(piece) for piece in line.pieces]
        self.shown.update(pieces)
        if line.source.by == "person":
            self.said.update(pieces)


def put_echoes_after(lines: Sequence[Line]) -> list[Line]:
    """Return the lines with each person's line before the first assistant's line that repeats a sentence of it."""
    said = dict[str, Line]()
    for line in lines:
        if line.source.by == "person":
            for piece in map(strip_end, filter(is_long, line.pieces)):
                said.setdefault(piece, line)
    ordered = dict[int, Line]()
    for line in lines:
        pieces = map(strip_end, line.pieces) if line.source.by == "model" else ()
        for piece in pieces:
            if piece in said:
                ordered.setdefault(id(said[piece]), said[piece])
        ordered.setdefault(id(line), line)
    return list(ordered.values())


def is_long(piece: str) -> bool:
    """Return True if a sentence is long enough that nobody says it again by chance."""
    return len(put_spaces(piece).split()) >= MIN_WORDS


def strip_end(piece: str) -> str:
    """Return a sentence without the marks that close it, as sentences are compared."""
    return piece.rstrip(".!?。！？")


def _omit_shown_pieces(pieces: Sequence[str], shown: Collection[str]) -> list[str]:
    """Return the pieces of a line, with an ellipsis in place of long ones that are shown already."""
    return [
        OMITTED if is_long(piece) and strip_end(piece) in shown else piece
        for piece in pieces
    ]


def _shorten_to_sentence(
    line: Line,
    query_words: Collection[str],
    limit: int,
    measure: Measure,
) -> Line | None:
    """Return a line cut to a limit of tokens. If its best sentence alone is longer, the limit is ONE_SENTENCE times
    higher.
    """
    cut = shorten(line=line, query_words=query_words, limit=limit, measure=measure)
    return cut or shorten(
        line=line,
        query_words=query_words,
        limit=int(limit * ONE_SENTENCE),
        measure=measure,
    )


def shorten(
    line: Line,
    query_words: Collection[str],
    limit: int,
    measure: Measure,
) -> Line | None:
    """Return a line of at most `limit` tokens, or None if its best sentence alone has more.

    A longer line is cut to consecutive sentences: from the one with most of the query's words on, then backwards from
    it.
    """
    if measure.count_line(line) <= limit:
        return line
    pieces = line.pieces
    words = frozenset(query_words)
    shared = [len(words.intersection(extract_content_words(piece))) for piece in pieces]
    first = max(
        (at for at in range(len(pieces)) if pieces[at] != OMITTED),
        key=lambda at: (shared[at], -at),
    )
    spans = [(first, stop) for stop in range(first + 1, len(pieces) + 1)]
    spans += [(start, len(pieces)) for start in reversed(range(first))]
    longest = None
    for start, stop in spans:
        before = [OMITTED] * (start > 0)
        after = [OMITTED] * (stop < len(pieces))
        cut = show_pieces(line, [*before, *pieces[start:stop], *after])
        if measure.count_line(cut) > limit:
            break
        longest = cut
    return longest


def arrange_lines(lines: Sequence[Line]) -> tuple[Line, ...]:
    """Return lines in display order: rules, then the best with the lines of its session and day. Claims stand before
    messages.
    """
    groups = list(dict.fromkeys(line.source.group for line in lines))
    # a model's claims have no speaker
    return tuple(
        sorted(
            lines,
            key=lambda line: (
                not line.rule,
                groups.index(line.source.group),
                bool(line.source.speaker or line.source.by),
                line.source.seq or 0,
            ),
        )
    )


def allot_outline(
    lines: Sequence[Line],
    budget: int,
    *,
    overview: bool = False,
) -> int:
    """Return the tokens of the outline in a block of `budget` tokens, or 0 for no outline."""
    if overview:
        tokens = budget - int(budget * OVERVIEW_WHOLE)
        return tokens if tokens >= LINES * LINE_TOKENS else 0
    scores = sorted(
        (line.score for line in lines if line.score is not None), reverse=True
    )[:NEAREST]
    if not scores:
        return 0
    likely = np.exp(np.asarray(scores) - scores[0])
    spread = float(likely.sum() ** 2 / (likely**2).sum() / NEAREST)
    tokens = int(min(1.0, spread / SPREAD) * (budget - WHOLE))
    return tokens if tokens >= LINES * LINE_TOKENS else 0


def select_outline(
    lines: Sequence[Line],
    shown: Sequence[Line],
    query: str,
    budget: int,
    measure: Measure,
) -> list[Line]:
    """Return short lines of persons that fit `budget` tokens, by their costs one by one.

    All sessions take turns: the first line of each comes before the second of any. Within a session the line comes
    first whose words are worth most and that is likely to answer. What the session's earlier lines said is worth less,
    so the outline names each of its subjects before it repeats one.

    Args:
        lines: candidates, the likeliest first.
        shown: the lines that the block has already. No sentence of them is shown again.
        query: its words are worth more.
        budget: tokens.
        measure: the cost of lines.
    """
    worth = weigh_words(lines, query)
    chosen = ChosenLines()
    for line in shown:
        chosen.add(line)
    groups = {line.source.group for line in shown}
    persons = _select_persons(lines, shown)
    named = [line for line in persons if names_project(query, line)]
    limit = _limit_lines(named or persons, budget)
    short = [
        _shorten_for_outline(
            line=line,
            pieces=pieces,
            query=query,
            limit=limit,
            worth=worth,
            measure=measure,
        )
        for line in persons
        if (pieces := chosen.find_new_pieces(line)) is not None
    ]
    room = budget
    for line in _take_turns(filter(None, short), query, worth):
        heading = (
            0 if line.source.group in groups else measure.count_heading(line.source)
        )
        cost = measure.count_line(line) + heading
        if cost <= room and chosen.find_new_pieces(line) is not None:
            chosen.add(line)
            room -= cost
            groups.add(line.source.group)
    return chosen.lines[len(shown) :]


def lengthen_lines(
    whole: Sequence[Line],
    outline: Sequence[Line],
    lines: Sequence[Line],
    budget: int,
    measure: Measure,
) -> list[Line]:
    """Return the lines of a block, as many of the persons' cut ones uncut as fit `budget` tokens more, the likeliest
    first.

    Args:
        whole: lines of `pack_lines`.
        outline: lines of `select_outline`.
        lines: the candidates that both were chosen from, uncut.
        budget: tokens.
        measure: the cost of lines.
    """
    uncut = {
        line.source: line
        for line in lines
        if line.source.by == "person" and line.source.message is not None
    }
    dated = (_date_notes(uncut[line.source]) for line in outline)
    uncut.update({line.source: line for line in dated})
    shown = [*whole, *outline]
    for at in sorted(range(len(shown)), key=lambda at: -shown[at].relevance):
        line = shown[at]
        full = uncut.get(line.source, line)
        if full.pieces == line.pieces:
            continue
        chosen = ChosenLines()
        for other in (*shown[:at], *shown[at + 1 :]):
            chosen.add(other)
        longer = show_pieces(full, chosen.find_new_pieces(full) or line.pieces)
        cost = measure.count_line(longer) - measure.count_line(line)
        if 0 < cost <= budget:
            shown[at] = longer
            budget -= cost
    return shown


def _take_turns(
    lines: Iterable[Line],
    query: str,
    worth: Mapping[str, float],
) -> Iterator[Line]:
    """Yield the lines of sessions in turns: those of the projects that the query names, then the others."""
    named: dict[str | None, list[Line]] = {}
    others: dict[str | None, list[Line]] = {}
    for line in lines:
        by_session = named if names_project(query, line) else others
        by_session.setdefault(line.source.session, []).append(line)
    for by_session in (named, others):
        ranked = (_rank_by_news(own, worth) for own in by_session.values())
        yield from filter(None, chain.from_iterable(zip_longest(*ranked)))


def names_project(query: str, line: Line) -> bool:
    """Return True if a query names the project of a line, in a block that may hold several."""
    project = line.source.project
    if not project:
        return False
    name = re.escape(project.casefold())
    return bool(re.search(rf"(?<!\w){name}(?!\w)", query.casefold()))


def tell_replies_once(lines: Sequence[Line]) -> list[Line]:
    """Return the lines without the words of a note that are a line of their own, the beginning of one, or those of a
    note before.
    """
    told = [" ".join(line.pieces) for line in lines]
    once = []
    for line in lines:
        notes = []
        for note in line.notes:
            words = _read_words(note, line)
            if words and any(one.startswith(words) for one in told):
                notes += _shorten_note(note)
            else:
                notes.append(note)
                told += [words] if words else []
        is_same = tuple(notes) == line.notes
        once.append(line if is_same else _show_notes(line, notes))
    return once


def _split_words(note: LineNote) -> tuple[str, str]:
    """Split a note into the text before the later words and these words, which are empty if it has none."""
    is_since = note.text.startswith(f"({SINCE}")
    head, _, words = note.text.partition(NOTED_SINCE if is_since else THEN)
    return head, words.removesuffix(")")


def _read_words(note: LineNote, line: Line) -> str:
    """Return the words of a line's note; empty if it has none. If they accept what the line proposes, and repeat it in
    brackets, that is left out.
    """
    _, told = _split_words(note)
    words = told.rstrip(f" {OMITTED}")
    reply, _, proposal = words.partition(" (")
    is_repeated = proposal.endswith(")") and proposal[:-1] in " ".join(line.pieces)
    return reply if is_repeated else words


def _shorten_note(note: LineNote) -> list[LineNote]:
    """Return a note without words: the date of a change, and nothing of a reply or of what was said since."""
    head, words = _split_words(note)
    if head == REPLY or note.text.startswith(f"({SINCE}"):
        return []
    return [replace(note, text=f"{head})" if words else head)]


def _show_notes(line: Line, notes: Iterable[LineNote]) -> Line:
    """Return a line with other notes."""
    return show_pieces(replace(line, notes=tuple(notes)), line.pieces)


def _date_notes(line: Line) -> Line:
    """Return a line with its notes as an outline has them: without words."""
    return _show_notes(line, chain.from_iterable(map(_shorten_note, line.notes)))


def _select_persons(lines: Sequence[Line], shown: Sequence[Line]) -> list[Line]:
    """Return the persons' lines of which the message is not shown."""
    messages = {line.source for line in shown}
    return [
        line
        for line in lines
        if line.source.by == "person" and line.source not in messages
    ]


def _limit_lines(lines: Sequence[Line], budget: int) -> int:
    """Return the most tokens of a line, so that there is room for a line of each session; more if there is room for
    all lines.
    """
    sessions = max(1, len({line.source.session for line in lines}))
    for_all = (budget - HEADING * sessions) // max(1, len(lines))
    for_sessions = max(LEAST_TOKENS, budget // sessions - HEADING)
    return max(for_all, min(LINE_TOKENS, for_sessions))


def weigh_words(lines: Sequence[Line], query: str) -> dict[str, float]:
    """Return the worth of each word of some lines: its inverse document frequency, more if it is the query's."""
    holding = Counter(word for line in lines for word in _list_words(line.text))
    asked = frozenset(extract_content_words(query))
    return {
        word: math.log1p(len(lines) / count) + ASKED * (word in asked)
        for word, count in holding.items()
    }


def _list_words(text: str) -> frozenset[str]:
    """Return the content words of a text, among them figures and names."""
    return frozenset(extract_content_words(text))


def _rank_by_news(
    lines: Sequence[Line],
    worth: Mapping[str, float],
) -> list[Line]:
    """Return the lines of one session, each time the one whose words are worth most, the more the likelier it answers;
    a word is worth less each time that it was said.
    """
    said = Counter[str]()
    words = {id(line): _list_words(line.text) for line in lines}
    left = list(lines)
    ranked = list[Line]()
    while left:
        best = max(
            left,
            key=lambda line: (
                line.relevance**LIKELY
                * sum(
                    worth.get(word, 0.0) * AGAIN ** said[word]
                    for word in words[id(line)]
                )
            ),
        )
        left.remove(best)
        ranked.append(best)
        said.update(words[id(best)])
    return ranked


def _shorten_for_outline(
    line: Line,
    pieces: Sequence[str],
    query: str,
    limit: int,
    worth: Mapping[str, float],
    measure: Measure,
) -> Line | None:
    """Return a line of at most `limit` tokens: whole, else the sentences that are worth most for their length, or its
    gist unless they have more of the query's words. None if no sentence is short enough.

    A change is shown without the later words.
    """
    line = _date_notes(line)
    whole = show_pieces(line, pieces)
    if measure.count_line(whole) <= limit:
        return whole
    room = limit - measure.count_line(show_pieces(line, [OMITTED, OMITTED]))
    kept = _choose_sentences(pieces=pieces, room=room, worth=worth, measure=measure)
    of_all = tuple(replace(note, about=frozenset()) for note in line.notes)
    gist = show_pieces(replace(line, notes=of_all), [line.gist])
    if line.gist and measure.count_line(gist) <= limit:
        told = frozenset[str]().union(*(_list_words(pieces[at]) for at in kept))
        asked = _list_words(query)
        if len(asked & _list_words(line.gist)) >= len(asked & told):
            return gist
    if not kept:
        return None
    return show_pieces(
        line, [piece if at in kept else OMITTED for at, piece in enumerate(pieces)]
    )


def _choose_sentences(
    pieces: Sequence[str],
    room: int,
    worth: Mapping[str, float],
    measure: Measure,
) -> set[int]:
    """Return the places of the sentences that are worth most for their length and fit `room` tokens. The best one may
    have ONE_SENTENCE times as many.
    """
    costs = {
        at: measure.count(piece) + 1
        for at, piece in enumerate(pieces)
        if piece != OMITTED
    }
    values = {
        at: sum(worth.get(word, 0.0) for word in _list_words(pieces[at]))
        for at in costs
    }
    ranked = sorted(costs, key=lambda at: -values[at] / math.sqrt(costs[at]))
    kept = set[int]()
    for at in ranked:
        if costs[at] <= (room if kept else int(room * ONE_SENTENCE)):
            kept.add(at)
            room -= costs[at]
    return kept


def arrange_by_time(lines: Sequence[Line]) -> tuple[Line, ...]:
    """Return lines in order of time, session by session, with their times of day. Lines without a time come first, and
    rules before all others.
    """
    first: dict[object, datetime] = {}
    for line in lines:
        at = line.source.at or datetime.min.replace(tzinfo=UTC)
        first[line.source.group] = min(first.get(line.source.group, at), at)
    return tuple(
        sorted(
            (replace(line, clock=not line.rule) for line in lines),
            key=lambda line: (
                not line.rule,
                first[line.source.group],
                line.source.session or "",
                line.source.seq or 0,
            ),
        )
    )
