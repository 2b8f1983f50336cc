"""Topics that are one though a model keeps them apart, and how well topics stand apart at all. Pure.

A model that is shown thirty topics opens "recipes" beside "cooking". Two topics are one where their names and purposes
say the same and their claims are alike: either alone joins what only sounds or only looks alike.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from slowwave.tasks.topics.cluster import Limits

Floats = npt.NDArray[np.float32]


def find_same_topics(topics: Sequence[Mapping[str, Any]], purposes: Floats, limits: Limits) -> dict[str, str]:
    """Return topic that goes -> the one it goes into, which is the larger, the likest pairs first.

    Args:
        topics: rows of TOPICS with figures; base topics and those without a centroid take no part.
        purposes: unit vectors of what each is called and for, shape (topics, dim).
        limits: the cosines of two topics' claims and purposes that make them one, and the share one may reach.
    """
    rows = [n for n, t in enumerate(topics) if t["centroid"] is not None and not t["base"]]
    if len(rows) < 2:
        return {}
    means = np.array([topics[n]["centroid"] for n in rows]) * np.array([[topics[n]["cohesion"]] for n in rows])
    claims, words = np.round(means @ means.T, 6), np.round(purposes[rows] @ purposes[rows].T, 6)
    sizes = {topics[n]["topic_id"]: int(topics[n]["size"]) for n in rows}
    everything = sum(int(t["size"]) for t in topics)
    most = limits.compute_largest(everything)
    ids = [topics[n]["topic_id"] for n in rows]
    pairs = np.argwhere(np.triu((claims >= limits.merge_at) & (words >= limits.same_purpose), 1))
    into: dict[str, str] = {}
    for a, b in sorted(pairs.tolist(), key=lambda pair: (-words[pair[0], pair[1]], ids[pair[0]], ids[pair[1]])):
        one, other = (resolve_topic(ids[n], into) for n in (a, b))
        if one != other and sizes[one] + sizes[other] <= most:
            keeps, goes = sorted((one, other), key=lambda topic: (-sizes[topic], topic))
            into[goes] = keeps
            sizes[keeps] += sizes[goes]
    return {topic: resolve_topic(topic, into) for topic in into}


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
