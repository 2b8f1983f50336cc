"""Active memory: which turns of a long conversation stay in mind.

A turn leaves a trace whose *strength* is what it was worth when it was heard: how new it was, how much it names, what
it does to long-term memory. Its *activation* starts full, falls by half every so many turns, and rises again when the
conversation comes back to it (a query like it). At capacity the traces with the lowest weighted sum of both go; the
latest stay. `select` gives the latest turns and the most activated older ones within a budget of tokens.

Decay and spreading activation after Anderson & Schooler (Reflections of the environment in memory, Psychological
Science 2, 1991); all weights are settings (`schemas/settings.py`).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from slowwave.context.tokens import Tokenizer
from slowwave.engines.encoders.protocol import Encoder, Vectors
from slowwave.schemas.settings import ActiveSettings

NAME = re.compile(r"(?<![.!?] )(?<!^)\b[A-Z][\w-]+")
THING = re.compile(r"`[^`]+`|\b\w*\d\w*\b|\b\w+_\w+\b|\b\w+[/.]\w+\b")


@dataclass(frozen=True, slots=True)
class Trace:
    """A turn that is in mind."""

    number: int
    """0, 1, … in the conversation."""
    speaker: str
    text: str
    strength: float
    """0 to 1; what it was worth when it was heard."""
    activation: float
    """0 to 1."""
    place: int
    """Its row among the vectors."""


class ActiveMemory:
    """The traces of one conversation."""

    def __init__(self, encoder: Encoder, settings: ActiveSettings | None = None) -> None:
        self.encoder, self.settings = encoder, settings or ActiveSettings()
        self.traces: list[Trace] = []
        """In order of the turns."""
        self.heard = 0
        """Turns so far, pruned ones too."""
        self._vectors: Vectors = np.zeros((0, encoder.dim), dtype=np.float32)

    def add_turn(self, speaker: str, text: str, effect: float = 0.0) -> Trace:
        """Return one more turn: the others fade, those like it are lifted, and at capacity the weakest goes.

        Args:
            speaker: who says it.
            text: the words.
            effect: what it does to long-term memory, 0 to 1: the share of its claims that are new or change one, as far
                as it can be told (`effect.estimate_effect`).

        Raises:
            ValueError: effect is not between 0 and 1.
        """
        if not 0.0 <= effect <= 1.0:
            raise ValueError(f"effect is {effect}; it is a share, 0 to 1")
        vector = self.encoder.encode([text])[0]
        strength = self._compute_strength(text, self._compute_novelty(vector), effect)
        fade = 0.5 ** (1.0 / self.settings.half_life)
        self.traces = [replace(trace, activation=trace.activation * fade) for trace in self.traces]
        self._boost_similar(vector)
        trace = Trace(self.heard, speaker, text, strength, 1.0, len(self._vectors))
        self._vectors = np.vstack([self._vectors, vector[None]])
        self.traces.append(trace)
        self.heard += 1
        self._prune()
        return trace

    def boost_by_query(self, query: str) -> None:
        """Lift the traces like the query, without a turn being heard."""
        self._boost_similar(self.encoder.encode([query])[0])

    def score(self, trace: Trace) -> float:
        """Return what pruning goes by: activation and strength, weighted."""
        return self.settings.keep_activation * trace.activation + self.settings.keep_strength * trace.strength

    def select(self, budget: int, count: Tokenizer) -> list[Trace]:
        """Return the latest turns, newest first while they fit, then the most activated older ones that fit; in order.

        Args:
            budget: tokens of all texts together, speakers included.
            count: tokens of a text.
        """
        recent = max(0, len(self.traces) - self.settings.recent)
        chosen: list[Trace] = []
        room = budget
        for trace in reversed(self.traces[recent:]):
            if (cost := count(format_trace(trace))) > room:
                break
            chosen.append(trace)
            room -= cost
        for trace in sorted(self.traces[:recent], key=lambda one: (-one.activation, -one.strength, -one.number)):
            if (cost := count(format_trace(trace))) <= room:
                chosen.append(trace)
                room -= cost
        return sorted(chosen, key=lambda one: one.number)

    def _compute_strength(self, text: str, novelty: float, effect: float) -> float:
        """Return weighted mean of novelty, entities and effect."""
        one = self.settings
        weights = one.novelty + one.entities + one.effect
        named = min(1.0, count_entities(text) / one.entities_full)
        return (one.novelty * novelty + one.entities * named + one.effect * effect) / weights if weights else 0.0

    def _compute_novelty(self, vector: Sequence[float]) -> float:
        """Return 1 - the best cosine to a turn in mind, 0 to 1."""
        if not self.traces:
            return 1.0
        return float(np.clip(1.0 - (self._vectors @ np.asarray(vector, dtype=np.float32)).max(), 0.0, 1.0))

    def _boost_similar(self, vector: Sequence[float]) -> None:
        """Raise each trace towards 1 by the boost, in proportion to how far its cosine is above the floor."""
        if not self.traces:
            return
        floor, boost = self.settings.boost_from, self.settings.boost
        cosines = self._vectors @ np.asarray(vector, dtype=np.float32)
        near = np.clip((cosines - floor) / (1.0 - floor), 0.0, 1.0).tolist()
        self.traces = [
            replace(one, activation=one.activation + boost * near[one.place] * (1.0 - one.activation))
            for one in self.traces
        ]

    def _prune(self) -> None:
        """Prune down to capacity: the lowest scores go, the latest turns last of all, the older of equals first."""
        over = len(self.traces) - self.settings.capacity
        if over <= 0:
            return
        latest = self.heard - self.settings.recent
        order = sorted(self.traces, key=lambda one: (one.number >= latest, self.score(one), one.number))
        kept = sorted(order[over:], key=lambda one: one.number)
        self._vectors = self._vectors[[one.place for one in kept]]
        self.traces = [replace(one, place=place) for place, one in enumerate(kept)]


def format_trace(trace: Trace) -> str:
    """Return a turn as it stands in a prompt."""
    return f"{trace.speaker}: {trace.text}"


def count_entities(text: str) -> int:
    """Return distinct names within sentences, numbers, and pieces of code."""
    return len(set(NAME.findall(text)) | set(THING.findall(text)))
