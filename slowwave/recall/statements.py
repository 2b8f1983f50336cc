"""What of a session matters to a query: its sentences, each with the probability that it does.

A sentence matters when its session does and it settles something, or when recall found its message for the query. What
settles something is told by how it is put (who says it, whether it binds, hedges, asks or recounts), by what the night
made of it (an active claim, a superseded one), and by what is said later: the last word on a matter stands at the end.
Weights are log-odds, fitted on `data/labelled`'s bug reports and rounded; a word of what is amended later counts for
little.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from slowwave.recall.terms import content_words
from slowwave.text.sentences import sentences

BINDS = re.compile(
    r"\b(?:let['’]s|go(?:es|ing)? with|we(?:['’]ll| will| use| keep| take| need| want)|must|should|shall|always|"
    r"never|only|instead|no longer|agreed|ok(?:ay)?|decided?|decision|settled?|chose|choose|switch(?:ed)?|default|rule|"
    r"plan|use|keep|take|put|make|do|store|add|drop|remove|raise|move|forget)\b",
    re.I,
)
HEDGES = re.compile(
    r"\b(?:could|would|might|may|maybe|perhaps|possibly|option|either|i['’]d|what about|i think|hm+|propose|suggest)\b",
    re.I,
)
RECOUNTS = re.compile(r"\b(?:was|were|had|yesterday|last (?:night|week|month|year)|currently|at the moment)\b", re.I)
CHANGES = re.compile(
    r"\b(?:instead|forget|no longer|rather than|changed? (?:my|our) mind|scrap|on second thought|wait|it is)\b|"
    r"^(?:no\b|not\b|actually\b|right, then|then\b)|\bthen$",
    re.I,
)
CODE = re.compile(r"`|\w_\w|[a-z][A-Z]|\w[/.]\w|\w\(\)")
DIGIT = re.compile(r"\d")
ASKS = re.compile(r"\?[\"'”’)*_]*\s*$")

BIAS, HUMAN, LATE, BIND, HEDGE, RECOUNT, ASK, SPECIFIC = -2.5, 1.5, 1.5, 1.0, -0.5, -1.0, -1.0, 0.4
CLOSE = 1.0
"""For each deviation that the message is nearer to the query than others."""
CLAIM = 1.0
"""For a sentence that the night made a claim of."""
AMENDED = 0.1
"""What is left of the relevance of a sentence that a later one amends."""
SAME_MATTER = 0.5
"""Share of the shorter sentence's words from which two are about one matter."""
CHANGED_MATTER = 0.2
"""Share of a sentence's words that a later message holds which says that it changes something."""
DIRECT_WORDS = 12
"""A query of more words tells a case; of fewer, it asks for what a message says."""
FIRST_HIT, NEXT_HIT = 0.6, 0.9
"""Relevance of the first hit's message, and what a place further down leaves."""


@dataclass(frozen=True, slots=True)
class Heard:
    """A message of a past session."""

    message_id: str
    session_id: str
    session: str
    """The transcript's own id."""
    native_id: str
    seq: int
    human: bool
    speaker: str | None
    text: str
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence of a message."""

    message: Heard
    start: int
    number: int
    """Of the sentence in its message."""
    text: str
    words: frozenset[str]
    relevance: float
    binds: bool = False


@dataclass(frozen=True, slots=True)
class Claimed:
    """Quotes that the night took from a message."""

    active: tuple[str, ...] = ()
    superseded: tuple[str, ...] = ()


def statements(
    messages: Sequence[Heard],
    probability: float,
    ranks: Mapping[str, int],
    closeness: Mapping[str, float],
    claims: Mapping[str, Claimed],
    query: str,
) -> list[Statement]:
    """Sentences of one session's messages, in order; superseded ones are left out.

    Args:
        messages: of one session, in order.
        probability: that the query is about this session.
        ranks: message_id -> place among recall's hits, 0 first.
        closeness: message_id -> how near its vector is to the query's, standardised over all messages looked at.
        claims: message_id -> what the night made of it.
        query: its text.
    """
    asked = frozenset(content_words(query))
    direct = min(1.0, DIRECT_WORDS / max(1, len(asked)))
    found: list[Statement] = []
    for place, message in enumerate(messages):
        late = place / max(1, len(messages) - 1)
        hit = direct * FIRST_HIT * NEXT_HIT ** ranks[message.message_id] if message.message_id in ranks else 0.0
        near_by = CLOSE * closeness.get(message.message_id, 0.0)
        for one, logit in _weighed(message, late, claims.get(message.message_id, Claimed())):
            near = 0.5 + 0.5 * len(one.words & asked) / max(1, min(len(asked), len(one.words)))
            relevance = 1 - (1 - probability * _sigmoid(logit + near_by)) * (1 - hit * near)
            found.append(replace(one, relevance=relevance))
    return _last_word(found)


def _weighed(message: Heard, late: float, claimed: Claimed) -> Iterator[tuple[Statement, float]]:
    """Sentences of a message that are not superseded, and the log-odds that each settles something."""
    for one in sentences(message.text):
        plain = " ".join(one.text.split())
        words = frozenset(content_words(plain))
        if not words or _holds(claimed.superseded, one.text):
            continue
        binds = bool(BINDS.search(plain))
        asks = bool(ASKS.search(message.text[one.start : one.end + 2].rstrip() or plain))
        logit = (
            BIAS
            + HUMAN * message.human
            + LATE * late
            + BIND * binds
            + HEDGE * bool(HEDGES.search(plain))
            + RECOUNT * bool(RECOUNTS.search(plain))
            + ASK * asks
            + SPECIFIC * (bool(CODE.search(plain)) + bool(DIGIT.search(plain)))
            + CLAIM * _holds(claimed.active, one.text)
        )
        yield Statement(message, one.start, one.position, plain, words, 0.0, binds and not asks), logit


def _holds(quotes: Sequence[str], sentence: str) -> bool:
    return any(sentence in quote or quote in sentence for quote in quotes)


def _last_word(found: list[Statement]) -> list[Statement]:
    """With what is settled otherwise later in the session counted for little."""
    binding = [one for one in found if one.binds]
    changing: dict[int, set[str]] = {}
    for one in found:
        if one.message.human and CHANGES.search(one.text):
            changing[one.message.seq] = {w for other in found if other.message is one.message for w in other.words}
    return [
        replace(one, relevance=one.relevance * AMENDED) if _amended(one, binding, changing) else one for one in found
    ]


def _amended(one: Statement, binding: Sequence[Statement], changing: Mapping[int, set[str]]) -> bool:
    """Whether a later sentence bears another figure on its matter, or a later message says that it changes it."""
    if not one.binds:
        return False
    changed = (len(one.words & words) for seq, words in changing.items() if seq > one.message.seq)
    return any(n >= 2 and n >= CHANGED_MATTER * len(one.words) for n in changed) or any(
        refigures(later, one) for later in binding
    )


def refigures(later: Statement, earlier: Statement) -> bool:
    """Whether a later message shares half of the shorter sentence's words and has another figure."""
    if later.message.seq <= earlier.message.seq:
        return False
    shared = len(later.words & earlier.words) / min(len(later.words), len(earlier.words))
    return shared >= SAME_MATTER and figures(later.words) != figures(earlier.words) and bool(figures(earlier.words))


NUMBERS = frozenset(
    content_words(
        "one two three four five six seven eight nine ten eleven twelve fifteen twenty thirty sixty hundred half"
    )
)


def figures(words: frozenset[str]) -> frozenset[str]:
    """Numbers among the words, in digits or spelt out."""
    return frozenset(word for word in words if DIGIT.match(word) or word in NUMBERS)


def _sigmoid(logit: float) -> float:
    return 1.0 / (1.0 + math.exp(-logit))
