"""What of a session matters to a query: its sentences, and for each of their words the probability that it does.

A sentence matters when its session does and it settles something, or when recall found its message for the query. That
it settles something is told by who says it, by whether it opens the talk or recounts, by figures and names in it, by
how near its message is to the query and by what the night made of it. A word matters when a sentence that holds it
does, more so if several messages hold it, the last of them late in the session, and other sessions do not. What the
night superseded, or the session itself takes back later, is left out.

Weights are log-odds, fitted by logistic regression on the two sets of bug reports in `data/labelled` and rounded;
fitted on one set alone they are much the same.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from slowwave.recall.terms import Quantity, content_words, quantities, stems
from slowwave.text.sentences import sentences

HEDGES = re.compile(
    r"\b(?:could|would|might|may|maybe|perhaps|possibly|option|either|i['’]d|what about|i think|hm+|propose|suggest)\b",
    re.I,
)
RECOUNTS = re.compile(r"\b(?:was|were|had|yesterday|last (?:night|week|month|year)|currently|at the moment)\b", re.I)
CHANGES = re.compile(
    r"^(?:no\b|not\b|actually\b|hm+\b|wait\b|change\b|right, then|then\b)|\bthen$|"
    r"\b(?:instead|forget|no longer|any ?more|rather than|changed? (?:my|our) mind|scrap|on second thought|"
    r"too (?:\w+) *(?:[,;:]|$)|(?:not|isn['’]t) (?:enough|acceptable|the same))",
    re.I,
)
CHANGED = re.compile(r"\b(?:changed|now|updated|adjusted|instead|replaced)\b", re.I)
CODE = re.compile(r"`|\w_\w|[a-z][A-Z]|\w[/.]\w|\w\(\)")
DIGIT = re.compile(r"\d")
ASKS = re.compile(r"\?[\"'”’)*_]*\s*$")

BIAS, HUMAN, OPENS, RECOUNT, CLAIM, SPECIFIC, LENGTH = -3.0, 1.4, -2.5, -1.25, 0.6, 0.4, 0.4
"""Of a sentence: said by a human, in the session's first message, recounting, made a claim by the night, with code and
with figures (each), and for the logarithm of its content words."""
CLOSE = 0.5
"""For each deviation that the message is nearer to the query than others."""
WORD, HELD, REPEATED, TELLING, LAST = -2.0, 1.25, 1.5, 0.65, 0.8
"""Of a word: for the log-odds of the best sentence that holds it, the logarithm of how many messages hold it, its
rarity among the sessions looked at, and for how late the last of them comes (0 to 1)."""
TAKEN_BACK = 0.4
"""Share of a sentence's words from which a message that changes something changes what it says."""
DIRECT_WORDS = 12
"""A query of up to so many words asks for what a message says; one of more tells a case, whose words are met all over:
then the sessions' ranking decides and what recall hits does not count."""
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
    asks: bool = False
    worths: Mapping[str, float] = field(default_factory=dict)
    """Its words, each with the probability that it matters."""


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
    rarity: Mapping[str, float] | None = None,
) -> list[Statement]:
    """Sentences of one session's messages, in order; what is superseded or taken back is left out.

    Args:
        messages: of one session, in order.
        probability: that the query is about this session.
        ranks: message_id -> place among recall's hits, 0 first.
        closeness: message_id -> how near its vector is to the query's, standardised over all messages looked at.
        claims: message_id -> what the night made of it.
        query: its text.
        rarity: word -> its inverse document frequency among the sessions looked at; 0 for one that isn't there.
    """
    asked = frozenset(content_words(query))
    weighed: list[tuple[Statement, float]] = []
    for place, message in enumerate(messages):
        near_by = CLOSE * closeness.get(message.message_id, 0.0)
        claimed = claims.get(message.message_id, Claimed())
        weighed += ((one, logit + near_by) for one, logit in _weighed(message, place == 0, claimed))
    gone = _taken_back([one for one, _ in weighed])
    held = _word_odds([pair for n, pair in enumerate(weighed) if n not in gone], messages, rarity or {})
    found: list[Statement] = []
    for n, (one, logit) in enumerate(weighed):
        if n in gone:
            continue
        key = one.message.message_id
        hit = FIRST_HIT * NEXT_HIT ** ranks[key] if key in ranks and len(asked) <= DIRECT_WORDS else 0.0
        missed = 1 - hit * (0.5 + 0.5 * len(one.words & asked) / max(1, min(len(asked), len(one.words))))
        worths = {word: 1 - (1 - probability * _sigmoid(held[word])) * missed for word in sorted(one.words)}
        found.append(replace(one, relevance=1 - (1 - probability * _sigmoid(logit)) * missed, worths=worths))
    return found


def rarities(messages: Sequence[Heard]) -> dict[str, float]:
    """Inverse document frequency of each word among the messages' sessions."""
    sessions: dict[str, set[str]] = defaultdict(set)
    for message in messages:
        sessions[message.session_id].update(content_words(message.text))
    held = Counter(word for words in sessions.values() for word in words)
    return {word: math.log(len(sessions) / n) for word, n in held.items()}


def _weighed(message: Heard, opens: bool, claimed: Claimed) -> Iterator[tuple[Statement, float]]:
    """Sentences of a message that are not superseded, and the log-odds that each settles something."""
    for one in sentences(message.text):
        plain = " ".join(one.text.split())
        words = frozenset(content_words(plain))
        if not words or _holds(claimed.superseded, one.text):
            continue
        asks = bool(ASKS.search(message.text[one.start : one.end + 2].rstrip() or plain))
        logit = (
            BIAS
            + HUMAN * message.human
            + OPENS * opens
            + RECOUNT * bool(RECOUNTS.search(plain))
            + CLAIM * _holds(claimed.active, one.text)
            + SPECIFIC * (bool(CODE.search(plain)) + bool(DIGIT.search(plain)))
            + LENGTH * math.log(len(words))
        )
        yield Statement(message, one.start, one.position, plain, words, 0.0, asks), logit


def _holds(quotes: Sequence[str], sentence: str) -> bool:
    return any(sentence in quote or quote in sentence for quote in quotes)


def _word_odds(
    weighed: Sequence[tuple[Statement, float]], messages: Sequence[Heard], rarity: Mapping[str, float]
) -> dict[str, float]:
    """For each word of the sentences the log-odds that it matters, if the session does."""
    best: dict[str, float] = {}
    places: dict[str, set[int]] = defaultdict(set)
    for one, logit in weighed:
        for word in one.words:
            best[word] = max(best.get(word, logit), logit)
            places[word].add(one.message.seq)
    last = max((message.seq for message in messages), default=0) or 1
    return {
        word: WORD
        + HELD * logit
        + REPEATED * math.log(len(places[word]))
        + TELLING * rarity.get(word, 0.0)
        + LAST * max(places[word]) / last
        for word, logit in best.items()
    }


def _taken_back(found: Sequence[Statement]) -> set[int]:
    """Places of the sentences that the session takes back: with another figure, or with words that say so."""
    told = [quantities(one.text) for one in found]
    settled = [n for n, one in enumerate(found) if told[n] and _settles(one)]
    changing = _changing(found)
    gone = set()
    for n, one in enumerate(found):
        later = (told[m] for m in settled if found[m].message.seq > one.message.seq) if told[n] else ()
        if _changed(one, changing) or any(_refigured(told[n], others) for others in later):
            gone.add(n)
    return gone


def _settles(one: Statement) -> bool:
    """Whether a sentence may change what was said: a human's that doesn't ask, or one that reports a change."""
    if one.asks or RECOUNTS.search(one.text) or HEDGES.search(one.text):
        return False
    return one.message.human or bool(CHANGED.search(one.text))


def _refigured(earlier: Sequence[Quantity], later: Sequence[Quantity]) -> bool:
    """Whether a quantity of the earlier sentence has another value in the later one, which does not keep the first."""
    kept = {(one.value, one.scale) for one in later}
    return any((old.value, old.scale) not in kept and any(old.rivals(new) for new in later) for old in earlier)


def _changing(found: Sequence[Statement]) -> list[tuple[int, frozenset[str]]]:
    """Number and words of the human's messages that say that they change something."""
    words: dict[int, set[str]] = defaultdict(set)
    for one in found:
        words[one.message.seq] |= one.words
    says = (one for one in found if one.message.human)
    seqs = sorted({one.message.seq for one in says if CHANGES.search(one.text) or CHANGES.search(one.message.text)})
    return [(seq, stems(words[seq])) for seq in seqs]


def _changed(one: Statement, changing: Sequence[tuple[int, frozenset[str]]]) -> bool:
    """Whether the next message that changes something is about what the sentence says."""
    said = stems(one.words)
    after = next((words for seq, words in changing if seq > one.message.seq), frozenset())
    return len(said & after) >= max(2.0, TAKEN_BACK * len(said))


def _sigmoid(logit: float) -> float:
    return 1.0 / (1.0 + math.exp(-logit))
