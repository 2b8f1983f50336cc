"""Active memory: which turns of a long conversation stay in mind, and which of them a question calls up.

A turn leaves a trace. Its *strength* is what it is worth: how much it says, how new it was, what it does to long-term
memory; it falls by half every so many turns, rises with each use, and is set by who says that it matters. Its
*activation* by a question is a weighted sum of its likeness to the question, by meaning
and by the question's rare words, of its likeness to the last exchanges, its strength, and how recent it is; a part of
it spreads to the turns beside it, since what is asked and what answers stand next to each other. Beyond capacity the
weakest traces go.

Decay and spreading activation after Anderson & Schooler (Reflections of the environment in memory, Psychological
Science 2, 1991). The weights are settings; no search found better ones than the defaults (decision 013).
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from slowwave.engines.encoders.protocol import Encoder, Vectors
from slowwave.schemas.settings import ActiveSettings
from slowwave.text.words import compute_smooth_idf, extract_content_words


@dataclass(slots=True, eq=False)
class Trace:
    """A turn that is in mind."""

    number: int
    """0, 1, … in the conversation."""
    words: frozenset[str]
    vector: Vectors
    strength: float
    """0 to 1, when it was last set."""
    set_at: int
    """Turns heard when it was."""


class ActiveMemory:
    """The traces of one conversation, each with its vector: a turn is encoded once."""

    def __init__(self, encoder: Encoder | None, settings: ActiveSettings | None = None) -> None:
        self.encoder, self.settings = encoder, settings or ActiveSettings()
        self.traces: list[Trace] = []
        """In order of the turns."""
        self.heard = 0
        """Turns so far, pruned ones too."""

    def add_turn(self, speaker: str, text: str, effect: float = 0.0) -> Trace:
        """Return the trace of one more turn; beyond capacity the weakest go.

        Args:
            speaker: who says it.
            text: the words.
            effect: what it does to long-term memory, 0 to 1: the share of its claims that are new or change one, as far
                as it can be told (`effect.estimate_effect`).
        """
        vector, words = self._encode(format_turn(speaker, text)), frozenset(extract_content_words(text))
        # its strength: the weighted mean of how much it says, how unlike the turns in mind it is, and its effect
        weights = self.settings
        says = min(1.0, len(words) / weights.says_full)
        nearest = float((self._stack_vectors() @ vector).max()) if self.traces and self.encoder else 0.0
        novelty = min(1.0, max(0.0, 1.0 - nearest))
        weighted = weights.says * says + weights.novelty * novelty + weights.effect * effect
        strength = weighted / (weights.says + weights.novelty + weights.effect)
        trace = Trace(self.heard, words, vector, strength, self.heard)
        self.traces.append(trace)
        self.heard += 1
        # beyond capacity the weakest go, the older of equals first; of the latest turns none, while there are others
        if len(self.traces) > weights.capacity:
            count = weights.capacity - int(weights.capacity * weights.pruned)
            latest = self.heard - self.settings.recent
            strongest = sorted(
                self.traces, key=lambda trace: (trace.number >= latest, self.compute_strength(trace), trace.number)
            )
            self.traces = sorted(strongest[-count:], key=lambda trace: trace.number)
        return trace

    def compute_strength(self, trace: Trace) -> float:
        """Return a trace's strength now, 0 to 1: what it was, faded since."""
        return float(trace.strength * 0.5 ** ((self.heard - trace.set_at) / self.settings.strength_half_life))

    def set_strength(self, number: int, strength: float) -> bool:
        """Set a turn's strength; False where it is not in mind.

        Raises:
            ValueError: strength is not between 0 and 1.
        """
        if not 0.0 <= strength <= 1.0:
            raise ValueError(f"strength is {strength}; it is 0 to 1")
        for trace in (trace for trace in self.traces if trace.number == number):
            trace.strength, trace.set_at = strength, self.heard
            return True
        return False

    def note_used(self, numbers: Iterable[int]) -> None:
        """Raise the strength of turns that were called up for an answer, by a share of the way to 1."""
        used = frozenset(numbers)
        for trace in (trace for trace in self.traces if trace.number in used):
            strength = self.compute_strength(trace)
            trace.strength, trace.set_at = strength + self.settings.used * (1.0 - strength), self.heard

    def _stack_vectors(self) -> Vectors:
        return np.stack([trace.vector for trace in self.traces])

    def compute_activations(self, query: str) -> list[float]:
        """Return the activation of each trace by the query, in their order."""
        if not self.traces:
            return []
        weights, vectors = self.settings, self._stack_vectors()
        # the share of the query's words that each trace holds, a rare one weighing more
        rarity = dict[str, float]()
        for word in set(extract_content_words(query)):
            if holding := sum(word in trace.words for trace in self.traces):
                rarity[word] = compute_smooth_idf(holding, len(self.traces))
        shared = np.array([sum(rarity[word] for word in trace.words & rarity.keys()) for trace in self.traces])
        latest = vectors[-weights.exchange_turns :].mean(axis=0)
        numbers = np.array([trace.number for trace in self.traces])
        # what a trace has of its own
        own = weights.likeness * (vectors @ self._encode(query))
        own = own + weights.words * shared / (sum(rarity.values()) or 1.0)
        own += weights.exchange * (vectors @ (latest / (np.linalg.norm(latest) or 1.0)))
        own += weights.strength * np.array([self.compute_strength(trace) for trace in self.traces])
        own += weights.recency * 0.5 ** ((self.heard - 1 - numbers) / weights.half_life)
        # and its part of the turns beside it; between others some were pruned
        spread, beside = own.copy(), np.diff(numbers) == 1
        spread[1:] += weights.neighbours * own[:-1] * beside
        spread[:-1] += weights.neighbours * own[1:] * beside
        return [float(value) for value in spread]

    def rank_older(self, query: str, older: int) -> list[tuple[Trace, float]]:
        """Return the traces of the first `older` turns that the query calls up, with their activation, the most
        activated first: at most so many, and none less activated, than the settings say.
        """
        activations = self.compute_activations(query)
        called = [
            (trace, value)
            for trace, value in zip(self.traces, activations, strict=True)
            if trace.number < older and value >= self.settings.least
        ]
        return sorted(called, key=lambda pair: (-pair[1], -pair[0].number))[: self.settings.older]

    def _encode(self, text: str) -> Vectors:
        """Return a text's vector; an empty one where there is no encoder: words and time tell alone."""
        if self.encoder is None:
            return np.zeros(0, dtype=np.float32)
        return np.asarray(self.encoder.encode([text])[0], dtype=np.float32)


def format_turn(speaker: str, text: str) -> str:
    """Return a turn as it stands in a prompt, and is encoded."""
    return f"{speaker}: {text}"
