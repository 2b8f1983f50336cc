"""Active memory: select which turns of a long conversation to keep, and which of them a question recalls.

Each turn leaves a trace with a *strength*: a weighted mean of its length, its novelty and its effect on long-term
memory. The strength halves after a number of turns, rises with each use, and can be set. The *activation* of a trace by
a question is a weighted sum of its likeness to the question by meaning and by rare words, its likeness to the last
exchanges, its strength, and its recency. A part of the activation spreads to adjacent turns, since a question and its
answer are adjacent. Beyond capacity, the weakest traces are removed.

Decay and spreading activation after Anderson & Schooler (Reflections of the environment in memory, Psychological
Science 2, 1991). The weights are settings. A search found none better than the defaults (decision 013).
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slowwave.engines.encoders.protocol import Encoder, Vectors
from slowwave.schemas.settings import ActiveSettings
from slowwave.text.words import compute_smooth_idf, extract_content_words


@dataclass(slots=True, eq=False)
class Trace:
    """The trace of one turn."""

    number: int
    """Index of the turn in the conversation, from 0."""
    words: frozenset[str]
    vector: Vectors
    strength: float
    """0 to 1, at the time it was last set."""
    set_at: int
    """Number of turns in the conversation at that time."""


class ActiveMemory:
    """The traces of one conversation. Each turn is encoded once."""

    def __init__(
        self, encoder: Encoder | None, settings: ActiveSettings | None = None
    ) -> None:
        self.encoder = encoder
        self.settings = settings or ActiveSettings()
        self.traces: list[Trace] = []
        """In order of the turns."""
        self.heard = 0
        """Number of turns so far, including pruned ones."""

    def add_turn(
        self,
        speaker: str,
        text: str,
        effect: float = 0.0,
    ) -> Trace:
        """Add a turn and return its trace. Beyond capacity, the weakest traces are removed.

        Args:
            speaker: who says it.
            text: the words.
            effect: its effect on long-term memory, 0 to 1: an estimate of the share of its claims that are new or
                change another (`effect.estimate_effect`).
        """
        vector = self._encode(format_turn(speaker, text))
        words = frozenset(extract_content_words(text))
        strength = self._compute_initial_strength(vector, words, effect)
        trace = Trace(
            number=self.heard,
            words=words,
            vector=vector,
            strength=strength,
            set_at=self.heard,
        )
        self.traces.append(trace)
        self.heard += 1
        if len(self.traces) > self.settings.capacity:
            self._prune()
        return trace

    def _compute_initial_strength(
        self,
        vector: Vectors,
        words: frozenset[str],
        effect: float,
    ) -> float:
        """Return the weighted mean of a turn's length, its novelty (unlikeness to the other traces) and its effect."""
        weights = self.settings
        says = min(1.0, len(words) / weights.says_full)
        nearest = (
            float((self._stack_vectors() @ vector).max())
            if self.traces and self.encoder
            else 0.0
        )
        novelty = min(1.0, max(0.0, 1.0 - nearest))
        weighted = (
            weights.says * says + weights.novelty * novelty + weights.effect * effect
        )
        return weighted / (weights.says + weights.novelty + weights.effect)

    def _prune(self) -> None:
        """Remove traces until the capacity less the share `pruned` is left: the weakest first, of equals the older.

        The latest `recent` turns go last.
        """
        count = self.settings.capacity - int(
            self.settings.capacity * self.settings.pruned
        )
        latest = self.heard - self.settings.recent
        strongest = sorted(
            self.traces,
            key=lambda trace: (
                trace.number >= latest,
                self.compute_strength(trace),
                trace.number,
            ),
        )
        self.traces = sorted(strongest[-count:], key=lambda trace: trace.number)

    def compute_strength(self, trace: Trace) -> float:
        """Return a trace's strength now, 0 to 1, after its decay."""
        return float(
            trace.strength
            * 0.5 ** ((self.heard - trace.set_at) / self.settings.strength_half_life)
        )

    def set_strength(self, number: int, strength: float) -> bool:
        """Set a turn's strength. Return False if the turn has no trace.

        Raises:
            ValueError: strength is not between 0 and 1.
        """
        if not 0.0 <= strength <= 1.0:
            raise ValueError(f"strength is {strength}; it is 0 to 1")
        for trace in (trace for trace in self.traces if trace.number == number):
            trace.strength = strength
            trace.set_at = self.heard
            return True
        return False

    def note_used(self, numbers: Iterable[int]) -> None:
        """Raise the strength of turns that were used for an answer, by a share of the distance to 1."""
        used = frozenset(numbers)
        for trace in (trace for trace in self.traces if trace.number in used):
            strength = self.compute_strength(trace)
            trace.strength = strength + self.settings.used * (1.0 - strength)
            trace.set_at = self.heard

    def _stack_vectors(self) -> Vectors:
        """Return the vectors of all traces, a row each."""
        return np.stack([trace.vector for trace in self.traces])

    def compute_activations(self, query: str) -> list[float]:
        """Return the activation of each trace by the query, in the order of the traces."""
        if not self.traces:
            return []
        weights = self.settings
        vectors = self._stack_vectors()
        latest = vectors[-weights.exchange_turns :].mean(axis=0)
        numbers = np.array([trace.number for trace in self.traces])
        own = weights.likeness * (vectors @ self._encode(query))
        shared, most = self._weigh_shared_words(query)
        own = own + weights.words * shared / most
        own += weights.exchange * (vectors @ (latest / (np.linalg.norm(latest) or 1.0)))
        own += weights.strength * np.array(
            [self.compute_strength(trace) for trace in self.traces]
        )
        own += weights.recency * 0.5 ** ((self.heard - 1 - numbers) / weights.half_life)
        # A part of it spreads to the adjacent turns. Turns are not adjacent if one between them was removed.
        spread = own.copy()
        adjacent = np.diff(numbers) == 1
        spread[1:] += weights.neighbours * own[:-1] * adjacent
        spread[:-1] += weights.neighbours * own[1:] * adjacent
        return [float(value) for value in spread]

    def _weigh_shared_words(self, query: str) -> tuple[NDArray[np.float64], float]:
        """Return for each trace the summed rarity of the query's words in it, and the sum of all that any trace has.

        The second is 1 if no trace has a word of the query.
        """
        rarity = dict[str, float]()
        for word in set(extract_content_words(query)):
            holding = sum(word in trace.words for trace in self.traces)
            if holding:
                rarity[word] = compute_smooth_idf(holding, len(self.traces))
        shared = np.array(
            [
                sum(rarity[word] for word in trace.words & rarity.keys())
                for trace in self.traces
            ]
        )
        return shared, sum(rarity.values()) or 1.0

    def rank_older(self, query: str, older: int) -> list[tuple[Trace, float]]:
        """Return the traces of the first `older` turns that the query activates, with their activation, the highest
        first.

        The settings limit their number and the least activation.
        """
        activations = self.compute_activations(query)
        called = [
            (trace, value)
            for trace, value in zip(self.traces, activations, strict=True)
            if trace.number < older and value >= self.settings.least
        ]
        return sorted(called, key=lambda pair: (-pair[1], -pair[0].number))[
            : self.settings.older
        ]

    def _encode(self, text: str) -> Vectors:
        """Return a text's vector. Without an encoder it is empty, and only words and time count."""
        if self.encoder is None:
            return np.zeros(0, dtype=np.float32)
        return np.asarray(self.encoder.encode([text])[0], dtype=np.float32)


def format_turn(speaker: str, text: str) -> str:
    """Return a turn as a prompt shows it. The same text is encoded."""
    return f"{speaker}: {text}"
