"""Where a topic's claims are once topics were merged, and how well topics stand apart. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class TopicFigures:
    """How topics stand apart, as shares of all claims."""

    largest: float
    """Of the largest topic, the base ones left out."""
    base: float
    """Of the largest base topic."""
    overlap: float
    """Of the claims that another topic is nearer to."""


def measure_topics(topics: Sequence[Mapping[str, Any]], claims: Sequence[str], vectors: Floats) -> TopicFigures | None:
    """Return how large the largest topics are, and how many claims another topic is nearer to; None without any.

    Args:
        topics: rows of TOPICS with figures.
        claims: of each claim its topic_id.
        vectors: of each claim, unit length, shape (claims, dim).
    """
    everything = sum(int(t["size"]) for t in topics)
    known = [t for t in topics if t["centroid"] is not None]
    if not everything or not known or not len(claims):
        return None
    ids = np.array([t["topic_id"] for t in known])
    centres = np.array([t["centroid"] for t in known], dtype=np.float32)
    nearest = np.concatenate(
        [np.argmax(part @ centres.T, axis=1) for part in np.array_split(vectors, -(-len(claims) // 10_000))]
    )
    largest = max((int(t["size"]) for t in topics if not t["base"]), default=0)
    base = max((int(t["size"]) for t in topics if t["base"]), default=0)
    overlap = float((ids[nearest] != np.array(claims)).mean())
    return TopicFigures(largest / everything, base / everything, overlap)


def resolve_topic(topic: str, into: Mapping[str, str]) -> str:
    """Return where a topic's claims are in the end."""
    while topic in into:
        topic = into[topic]
    return topic
