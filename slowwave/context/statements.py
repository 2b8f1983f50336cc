"""What of a session matters to a query: its sentences, and for each of their words the probability that it does.

A sentence matters when its session does and it settles something, or when recall found its message for the query. That
it settles something is told by its signs (`signs.py`). A word matters when sentences that hold it do, more so if
several messages hold it, if it comes up late, and if it has a figure. What was superseded, or the session itself takes
back later (`taken_back.py`), is left out. Beside a long report sentences come in clauses, each with its sentence's
log-odds; a direct question gets whole sentences, since the clause that answers need not have its words.

Weights are log-odds, by `bench/fit_statements.py` from the sets of bug reports in `data/labelled`;
what they are worth on sets that the fit did not see stands in `docs/log.md`.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.resources import files

import numpy as np
import orjson

from slowwave.context.features import (
    SENTENCE_SIGNS,
    WORD_SIGNS,
    Claimed,
    Heard,
    NightVectors,
    Statement,
    Talk,
    word_signs,
)
from slowwave.context.retractions import taken_back, without
from slowwave.engines.encoders.blas import one_blas_thread
from slowwave.text.clauses import clauses, leans
from slowwave.text.terms import content_words


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


WEIGHTS = Weights.from_json(files("slowwave.context").joinpath("weights.json").read_bytes())
"""Those that ship, by `python -m bench.fit_statements`."""
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
    """Sentences of one session's messages, or their clauses, in order, without what is superseded or taken back.

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
    direct = is_direct(asked)
    talk = Talk(messages, claims, closeness, rarity or {}, vectors)
    kept = standing_parts(talk, weights, whole=direct)
    matters = mattering([one for one, _ in kept], [logit for _, logit in kept], messages, weights)
    found: list[Statement] = []
    for one, logit in kept:
        key = one.message.message_id
        hit = FIRST_HIT * NEXT_HIT ** ranks[key] if key in ranks and direct else 0.0
        missed = 1 - hit * (0.5 + 0.5 * len(one.words & asked) / max(1, min(len(asked), len(one.words))))
        worths = {word: 1 - (1 - probability * matters[word]) * missed for word in sorted(one.words)}
        found.append(replace(one, relevance=1 - (1 - probability * _sigmoid(logit)) * missed, worths=worths))
    return found


def is_direct(asked: Collection[str]) -> bool:
    """Whether a query of these content words asks for what a message says."""
    return len(asked) <= DIRECT_WORDS


def standing_parts(talk: Talk, weights: Weights, *, whole: bool = False) -> list[tuple[Statement, float]]:
    """What the session does not take back, each part with its sentence's log-odds to settle something.

    Args:
        whole: sentences, which answer what is asked for directly; else clauses, of which a case needs some.
    """
    parts = [
        (part, logit)
        for one, logit in zip(talk.found, settled(talk, weights), strict=True)
        for part in ([one] if whole else in_clauses(one))
    ]
    back = taken_back([part for part, _ in parts])
    kept: list[tuple[Statement, float]] = []
    gone = False
    for n, (part, logit) in enumerate(parts):
        left = without(part, back[n]) if n in back else part
        gone = left is None or (gone and part.leans)
        if left is not None and not gone:
            kept.append((left, logit))
    return kept


def in_clauses(one: Statement) -> list[Statement]:
    """A sentence's clauses, each as a statement; a question stays whole, and one with a clause of idle words."""
    texts = [one.text] if one.asks else clauses(one.text)
    if len(texts) == 1:
        return [one]
    told = [frozenset(content_words(text)) for text in texts]
    if not all(told):
        return [one]
    found, start, last = [], one.start, len(texts) - 1
    for n, (text, words) in enumerate(zip(texts, told, strict=True)):
        leaning = n > 0 and leans(text)
        found.append(replace(one, start=start, text=text, words=words, clause=n, ends=n == last, leans=leaning))
        start += len(text) + 1
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


def _sigmoid(logit: float) -> float:
    return 1.0 / (1.0 + math.exp(-logit))
