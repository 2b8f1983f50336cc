"""What an answer takes, for the journal of answers: seconds, and how many of them the encoder had."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from slowwave.recall.retrieve.encoding import QueryVectors


@dataclass(frozen=True, slots=True)
class Cost:
    """What an answer took."""

    kind: str
    """recall, sessions, context, automatic (a context that nobody asked for) or briefing."""
    seconds: float
    encoding: float
    """Of the seconds those in which the encoder was loaded or run."""
    budget: int = 0
    """Tokens that a block might have; 0 of hits."""


def start_clock(kind: str, vectors: QueryVectors, budget: int = 0) -> Callable[[], Cost]:
    """Return what tells the cost of an answer that this thread begins now."""
    start, before = time.perf_counter(), vectors.seconds
    return lambda: Cost(kind, time.perf_counter() - start, vectors.seconds - before, budget)
