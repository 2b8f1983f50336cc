"""Claims gather into topics: three base topics by rule, the rest as they arise by likeness to a centroid.

Method: leader clustering in order of time (Hartigan, "Clustering Algorithms", 1975, ch. 3): a claim joins the topic
whose centroid is nearest, if it is near enough, and otherwise opens one. One pass, no topic is ever sent again, and
the same claims in the same order give the same topics.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from schemas.ids import content_id
from schemas.observations import OBSERVATIONS
from schemas.settings import TopicSettings
from schemas.table import VECTOR_DIM
from schemas.topics import BASE_TOPICS, TOPICS

BASE_PURPOSES = {
    "self": "What the agent is told about itself: its name, its manner, its standing instructions",
    "user": "Who the user is: name, home, work, language, and how they like to be dealt with",
    "system": "The machine and its tools: operating system, hardware, versions, accounts, services",
}
RULES = {
    "user": re.compile(
        r"\b(my name is|call me|i live in|i work (at|as|for)|i speak|i(?: a|')m (?:a|an) \w+(?:er|or|ist|ian|ent)\b"
        r"|my (?:home|job|birthday|email|time ?zone|pronouns|native language)"
        r"|i(?:'d)? prefer (?:short|brief|concise|long))",
        re.IGNORECASE,
    ),
    "self": re.compile(
        r"\b(your name is|you (?:should|must|are to) (?:always|never)|i(?: a|')m (?:an ai|your assistant)"
        r"|always answer (?:me )?in|never answer)\b",
        re.IGNORECASE,
    ),
    "system": re.compile(
        r"\b((?:this|the|my) (?:machine|laptop|desktop|server|box|workstation) (?:has|runs|is)"
        r"|(?:ubuntu|debian|fedora|macos|windows|arch linux) \d*|gb of (?:ram|memory)"
        r"|installed (?:with|via|from|under))",
        re.IGNORECASE,
    ),
}


@dataclass(frozen=True)
class Assigned:
    """Claims with their topic, and the topics that are new or grew."""

    observations: pa.Table
    topics: pa.Table


def base_topics(key: str) -> list[dict[str, Any]]:
    """Rows of TOPICS for self, user and system, without members."""
    return [_topic(content_id("topic", name), name, BASE_PURPOSES[name], key, base=True) for name in BASE_TOPICS]


def assign(pending: pa.Table, topics: pa.Table, settings: TopicSettings, key: str) -> Assigned:
    """Give each claim a topic.

    Args:
        pending: rows of OBSERVATIONS; `vector` may be null, and such a claim goes by workspace and category.
        topics: every row of TOPICS so far.
        settings: how near is near enough, and how many samples are kept.
        key: the step's key, written to `assign_key`.

    Returns:
        The same rows with `topic_id` and `assign_key`, and rows of TOPICS for every topic that took a claim.
    """
    board = _Board(topics.to_pylist() or base_topics(key), settings, key)
    rows = sorted(
        pending.to_pylist(), key=lambda r: (r["observed_at"] is None, r["observed_at"] or 0, r["observation_id"])
    )
    for row in rows:
        row["topic_id"], row["assign_key"] = board.place(row), key
    return Assigned(
        pa.Table.from_pylist(rows, schema=OBSERVATIONS.schema),
        pa.Table.from_pylist([t for t in board.topics if t["topic_id"] in board.touched], schema=TOPICS.schema),
    )


class _Board:
    """Topics and their centroids while claims are placed."""

    def __init__(self, topics: list[dict[str, Any]], settings: TopicSettings, key: str) -> None:
        self.topics, self.settings, self.key = topics, settings, key
        self.by_id = {t["topic_id"]: i for i, t in enumerate(topics)}
        self.touched = {t["topic_id"] for t in topics if t["base"] and t["size"] == 0}
        self.centroids = np.zeros((max(64, 2 * len(topics)), VECTOR_DIM), dtype=np.float32)
        for i, topic in enumerate(topics):
            if topic["centroid"] is not None and not topic["base"]:
                self.centroids[i] = topic["centroid"]

    def place(self, row: dict[str, Any]) -> str:
        """Id of the claim's topic, which is opened where none fits."""
        vector = None if row["vector"] is None else np.asarray(row["vector"], dtype=np.float32)
        base = base_of(row["summary"])
        at = self.by_id[content_id("topic", base)] if base else self._nearest(row, vector)
        self._join(at, row, vector)
        return str(self.topics[at]["topic_id"])

    def _nearest(self, row: dict[str, Any], vector: npt.NDArray[np.float32] | None) -> int:
        if vector is None:
            return self._open(content_id("topic", row["workspace"], row["category"]), row)
        likeness = self.centroids[: len(self.topics)] @ vector
        best = int(np.argmax(likeness))
        if likeness[best] >= self.settings.threshold and not self.topics[best]["base"]:
            return best
        return self._open(content_id("topic", row["observation_id"]), row)

    def _open(self, topic_id: str, row: dict[str, Any]) -> int:
        if topic_id not in self.by_id:
            self.by_id[topic_id] = len(self.topics)
            self.topics.append(_topic(topic_id, topic_name(row), topic_purpose(row), self.key, base=False))
            if len(self.topics) > len(self.centroids):
                self.centroids = np.vstack([self.centroids, np.zeros_like(self.centroids)])
        return self.by_id[topic_id]

    def _join(self, at: int, row: dict[str, Any], vector: npt.NDArray[np.float32] | None) -> None:
        topic = self.topics[at]
        self.touched.add(topic["topic_id"])
        topic["samples"] = [*topic["samples"], row["observation_id"]][-self.settings.samples :]
        topic["size"] += 1
        if vector is None:
            return
        old = (
            np.zeros(VECTOR_DIM, np.float32) if topic["centroid"] is None else np.asarray(topic["centroid"], np.float32)
        )
        mean = old * (topic["size"] - 1) + vector
        unit = mean / (float(np.linalg.norm(mean)) or 1.0)
        topic["centroid"] = unit.tolist()
        if not topic["base"]:
            self.centroids[at] = unit


def base_of(summary: str) -> str | None:
    """The base topic a claim belongs to by what it says, or None."""
    return next((name for name, rule in RULES.items() if rule.search(summary)), None)


def topic_name(row: dict[str, Any]) -> str:
    """A name from a topic's first claim: its first keywords, else where and what it is."""
    keywords: Sequence[str] = row["keywords"][:2]
    if keywords:
        return ", ".join(keywords)
    place = PurePosixPath(row["workspace"]).name if row["workspace"] else ""
    return f"{place} {row['category']}".strip()


def topic_purpose(row: dict[str, Any]) -> str:
    """What kind of thing belongs with a topic's first claim."""
    place = f" in {PurePosixPath(row['workspace']).name}" if row["workspace"] else ""
    return f"{row['category'].capitalize()}s{place} about {topic_name(row)}"


def _topic(topic_id: str, name: str, purpose: str, key: str, *, base: bool) -> dict[str, Any]:
    return {
        "topic_id": topic_id,
        "name": name,
        "purpose": purpose,
        "base": base,
        "samples": [],
        "size": 0,
        "centroid": None,
        "step_key": key,
    }
