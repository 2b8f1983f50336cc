"""What of a session matters to a query: its sentences, and for each of their words the probability that it does.

A sentence matters when its session does and it settles something, or when recall found its message for the query. That
it settles something is told by its signs (`signs.py`). A word matters when sentences that hold it do, more so if
several messages hold it, if it comes up late, and if it has a figure. What was superseded, or the session itself takes
back later, is left out.

Weights are log-odds, by `bench/fit_statements.py` from the sets of bug reports in `data/labelled`;
what they are worth on sets that the fit did not see stands in `docs/log.md`.
"""

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from itertools import pairwise

import numpy as np
import orjson

from slowwave.engines.blas import one_blas_thread
from slowwave.recall.signs import (
    RECOUNTS,
    SENTENCE_SIGNS,
    WORD_SIGNS,
    Claimed,
    Heard,
    NightVectors,
    Statement,
    Talk,
    word_signs,
)
from slowwave.recall.terms import Quantity, content_words, quantities, stems

HEDGES = re.compile(
    r"\b(?:could|would|might|may|maybe|perhaps|possibly|option|either|i['’]d|what about|i think|hm+|propose|suggest)\b",
    re.I,
)
CHANGES = re.compile(
    r"^(?:no\b|not\b|actually\b|hm+\b|wait\b|change\b|right, then|then\b)|\bthen$|"
    r"\b(?:instead|forget|no longer|any ?more|rather than|changed? (?:my|our) mind|scrap|on second thought|"
    r"too (?:\w+) *(?:[,;:]|$)|(?:not|isn['’]t) (?:enough|acceptable|the same))",
    re.I,
)
REFUSES = re.compile(
    r"\btoo (?:long|short|much|many|few|little|big|small|large|high|low|slow|fast|often|rare|rarely|late|early|strict|"
    r"loose|tight|coarse|fine|heavy|expensive|aggressive|generous)\b|\b(?:not|isn['’]t) (?:enough|acceptable)\b",
    re.I,
)
CHANGED = re.compile(r"\b(?:changed|now|updated|adjusted|instead|replaced)\b", re.I)


@dataclass(frozen=True, slots=True)
class Weights:
    """Log-odds for each sign, of a sentence to settle something and of a word to matter."""

    sentence_bias: float
    sentence: Mapping[str, float]
    """By the names of `SENTENCE_SIGNS`."""
    word_bias: float
    word: Mapping[str, float]
    """By the names of `WORD_SIGNS`."""
    encoder: str = ""
    """Whose dimensions `direction` has."""
    direction: tuple[float, ...] = ()
    """Of what settles something, among the vectors of a session; by each dimension of the encoder. Empty: meaning
    counts for nothing."""

    def to_json(self) -> bytes:
        """As `weights.json` keeps them."""
        return orjson.dumps(asdict(self), option=orjson.OPT_APPEND_NEWLINE)

    @classmethod
    def from_json(cls, text: bytes) -> "Weights":
        """As `to_json` wrote them."""
        told = orjson.loads(text)
        return cls(**told | {"direction": tuple(told["direction"])})


WEIGHTS = Weights.from_json(files("slowwave.recall").joinpath("weights.json").read_bytes())
"""Those that ship, by `python -m bench.fit_statements`."""
TAKEN_BACK = 0.4
"""Share of a sentence's words from which a message that changes something changes what it says."""
DIRECT_WORDS = 12
"""A query of up to so many words asks for what a message says; one of more tells a case, whose words are met all over:
then the sessions' ranking decides and what recall hits does not count."""
FIRST_HIT, NEXT_HIT = 0.6, 0.9
"""Relevance of the first hit's message, and what a place further down leaves."""


def statements(
    messages: Sequence[Heard],
    probability: float,
    ranks: Mapping[str, int],
    closeness: Mapping[str, float],
    claims: Mapping[str, Claimed],
    query: str,
    rarity: Mapping[str, float] | None = None,
    weights: Weights = WEIGHTS,
    vectors: NightVectors | None = None,
) -> list[Statement]:
    """Sentences of one session's messages, in order; what is superseded or taken back is left out.

    Args:
        messages: of one session, in order.
        probability: that the query is about this session.
        ranks: message_id -> place among recall's hits, 0 first.
        closeness: message_id -> how near its vector is to the query's, standardised over all messages looked at.
        claims: message_id -> what the night made of it.
        query: its text.
        rarity: stem -> its inverse document frequency among the sessions looked at; 1 for one that isn't there.
        weights: of the signs.
        vectors: what the night encoded, by the encoder that `weights` knows; None: meaning counts for nothing.
    """
    asked = frozenset(content_words(query))
    talk = Talk(messages, claims, closeness, rarity or {}, vectors)
    logits = settled(talk, weights)
    gone = _taken_back(talk.found)
    kept = [(one, logit) for n, (one, logit) in enumerate(zip(talk.found, logits, strict=True)) if n not in gone]
    matters = mattering([one for one, _ in kept], [logit for _, logit in kept], messages, weights)
    found: list[Statement] = []
    for one, logit in kept:
        key = one.message.message_id
        hit = FIRST_HIT * NEXT_HIT ** ranks[key] if key in ranks and len(asked) <= DIRECT_WORDS else 0.0
        missed = 1 - hit * (0.5 + 0.5 * len(one.words & asked) / max(1, min(len(asked), len(one.words))))
        worths = {word: 1 - (1 - probability * matters[word]) * missed for word in sorted(one.words)}
        found.append(replace(one, relevance=1 - (1 - probability * _sigmoid(logit)) * missed, worths=worths))
    return found


def settled(talk: Talk, weights: Weights) -> list[float]:
    """The log-odds that each sentence settles something, if the query is about its session."""
    told = np.array([weights.sentence.get(name, 0.0) for name in SENTENCE_SIGNS])
    total = weights.sentence_bias + talk.signs() @ told
    meaning = talk.meaning() if weights.direction else None
    if meaning is not None:
        with one_blas_thread():
            total = total + meaning @ np.array(weights.direction)
    logits: list[float] = total.tolist()
    return logits


def mattering(
    found: Sequence[Statement], logits: Sequence[float], messages: Sequence[Heard], weights: Weights
) -> dict[str, float]:
    """For each word of the sentences the probability that it matters, if the query is about their session."""
    words, signs = word_signs(found, logits, max((message.seq for message in messages), default=0))
    told = weights.word_bias + signs @ np.array([weights.word.get(name, 0.0) for name in WORD_SIGNS])
    return {word: _sigmoid(logit) for word, logit in zip(words, told.tolist(), strict=True)}


def _taken_back(found: Sequence[Statement]) -> set[int]:
    """Places of the sentences that the session takes back: with another figure, or with words that say so."""
    told = [quantities(one.text) for one in found]
    settled = [n for n, one in enumerate(found) if told[n] and _settles(one)]
    refused = _refused(found, told)
    changing = _changing(found)
    gone = set()
    for n, one in enumerate(found):
        later = (told[m] for m in settled if found[m].message.seq > one.message.seq) if told[n] else ()
        if n in refused or _changed(one, changing) or any(_refigured(told[n], some) for some in later):
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


def _refused(found: Sequence[Statement], told: Sequence[Sequence[Quantity]]) -> set[int]:
    """Places of sentences with a figure that the next message, a person's, finds too much or too little."""
    seqs = sorted({one.message.seq for one in found})
    after = dict(pairwise(seqs))
    refusing: dict[int, set[tuple[float, str | None]]] = defaultdict(set)
    for one in found:
        too = REFUSES.search(one.text) if one.message.human and not one.asks else None
        meant = quantities(one.text[: too.start()])[-1:] if too else []
        refusing[one.message.seq] |= {(figure.value, figure.scale) for figure in meant}
    return {
        n
        for n, one in enumerate(found)
        for old in told[n]
        if (old.value, old.scale) in refusing.get(after.get(one.message.seq, -1), ())
    }


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
