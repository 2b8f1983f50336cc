"""What of a session matters to a query: its sentences, and for each of their words the probability that it does.

A sentence matters when its session does and it settles something. That
it settles something is told by its features (`features.py`). A word matters when sentences that hold it do, more so if
several messages hold it, if it comes up late, and if it has a figure. What was superseded is left out, and
so are figures that a person gives anew later in the session.

Weights are log-odds, by `bench/fit/statements.py` from the sets of bug reports in `data/labelled`;
what they are worth on sets that the fit did not see stands in `docs/decisions/`.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.resources import files

import numpy as np
import orjson

from slowwave.context.reports.features import (
    SENTENCE_SIGNS,
    WORD_SIGNS,
    ClaimQuotes,
    NightVectors,
    PastMessage,
    SessionFeatures,
    Statement,
    compute_word_features,
)
from slowwave.context.reports.snippets import OMITTED
from slowwave.engines.encoders.protocol import limit_blas_threads
from slowwave.recall.ranking.order import FIGURE
from slowwave.text.words import extract_content_words, stem_words

SAME_WORDS = 2
"""Words that two sentences share which give other figures of one thing."""
FIGURE_WORD = re.compile(r"\S*\d\w*")


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


WEIGHTS = Weights.from_json(files("slowwave.context.reports").joinpath("weights.json").read_bytes())
"""Those that ship, by `python -m bench.fit.statements`."""


def score_statements(
    messages: Sequence[PastMessage],
    probability: float,
    closeness: Mapping[str, float],
    claims: Mapping[str, ClaimQuotes],
    rarity: Mapping[str, float] | None = None,
    weights: Weights = WEIGHTS,
    vectors: NightVectors | None = None,
) -> list[Statement]:
    """Return sentences of one session's messages, in order, without what is superseded or figures given anew.

    Args:
        messages: of one session, in order.
        probability: that the query is about this session.
        closeness: message_id -> how near its vector is to the query's, standardised over all messages looked at.
        claims: message_id -> what the night made of it.
        rarity: stem -> its inverse document frequency among the sessions looked at; 1 for one that isn't there.
        weights: of the signs.
        vectors: what the night encoded, by the encoder that `weights` knows; None: meaning counts for nothing.
    """
    talk = SessionFeatures(messages, claims, closeness, rarity or {}, vectors)
    kept = hide_revised_figures(talk.found, compute_sentence_logits(talk, weights))
    matters = compute_word_probabilities([one for one, _ in kept], [logit for _, logit in kept], messages, weights)
    return [
        replace(
            one,
            relevance=probability * _sigmoid(logit),
            worths={word: probability * matters[word] for word in sorted(one.words)},
        )
        for one, logit in kept
    ]


def hide_revised_figures(found: Sequence[Statement], logits: Sequence[float]) -> list[tuple[Statement, float]]:
    """Return sentences with their log-odds; where a person later gives other figures beside two of a sentence's words,
    its own figures are left out, and of its words only those count that the later one lacks.
    """
    figures = [frozenset(FIGURE.findall(one.text)) for one in found]
    stems = [stem_words(word for word in one.words if not FIGURE.search(word)) for one in found]
    given = [n for n, one in enumerate(found) if figures[n] and one.message.human]
    kept = []
    for n, (one, logit) in enumerate(zip(found, logits, strict=True)):
        later = (m for m in given if figures[n] and found[m].message.seq > one.message.seq)
        anew = (m for m in later if not figures[n] & figures[m] and len(stems[n] & stems[m]) >= SAME_WORDS)
        if (m := next(anew, None)) is not None:
            text = FIGURE_WORD.sub(OMITTED, one.text)
            one = replace(one, text=text, words=frozenset(extract_content_words(text)) - found[m].words)
        kept += [(one, logit)] if one.words else []
    return kept


def compute_sentence_logits(talk: SessionFeatures, weights: Weights) -> list[float]:
    """Return the log-odds that each sentence settles something, if the query is about its session."""
    told = np.array([weights.sentence.get(name, 0.0) for name in SENTENCE_SIGNS])
    total = weights.sentence_bias + talk.compute_features() @ told
    meaning = talk.compute_centered_vectors() if weights.direction else None
    if meaning is not None:
        with limit_blas_threads():
            total = total + meaning @ np.array(weights.direction)
    logits: list[float] = total.tolist()
    return logits


def compute_word_probabilities(
    found: Sequence[Statement], logits: Sequence[float], messages: Sequence[PastMessage], weights: Weights
) -> dict[str, float]:
    """Return for each word of the sentences the probability that it matters, if the query is about their session."""
    words, signs = compute_word_features(found, logits, max((message.seq for message in messages), default=0))
    told = weights.word_bias + signs @ np.array([weights.word.get(name, 0.0) for name in WORD_SIGNS])
    return {word: _sigmoid(logit) for word, logit in zip(words, told.tolist(), strict=True)}


def _sigmoid(logit: float) -> float:
    return 1.0 / (1.0 + math.exp(-logit))
