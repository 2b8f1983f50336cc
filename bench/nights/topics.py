"""Topics: how well claims gather, on a labelled set, beside leader clustering alone; and how far apart they stay.

    python -m bench.nights.topics data/labelled/topics.tsv [--json] [--encoder NAME] [--orders N]

Each line is `label⇥text`. Purity: the share of claims whose topic's commonest label is theirs. Rand: adjusted Rand
index. Alone: the share of claims that are a topic of their own. Largest: the largest topic's share. Overlap: the share
of claims that are nearer to another topic's centroid than to their own. Means over orders of arrival (the first is the
file's); the last rows are claims arriving in ten nights, and in nights of one claim.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.metrics import adjusted_rand_score

from bench.harness import ENCODER, Figures, average, run
from slowwave.engines.encoders.load import load_encoder
from slowwave.engines.encoders.protocol import Vectors
from slowwave.schemas.tables import BASE_TOPICS, CLAIMS, TOPICS
from slowwave.tasks.topics.assign import (
    assign,
    build_base_topics,
    find_oversized_topics,
    split_topic,
)
from slowwave.tasks.topics.cluster import LIMITS, cluster_by_leader, match_base_topic

START = datetime(2026, 11, 1, tzinfo=UTC)
THRESHOLDS = (0.25, 0.35, 0.45)


@dataclass(frozen=True)
class Labelled:
    """Claims with the label a person gave them."""

    labels: Sequence[str]
    texts: Sequence[str]
    vectors: Vectors


def measure(file: Path, *, orders: int = 5, encoder: str = ENCODER) -> Figures:
    """Return a row a method, means over orders of arrival."""
    said, rows = load_labelled_claims(file, encoder), []
    places = range(len(said.texts))
    for seed in range(orders):
        order = (
            random.Random(seed).sample(places, len(places)) if seed else list(places)
        )
        topics = {
            f"leader alone, {least}": cluster_leaders_only(said, order, least)
            for least in THRESHOLDS
        }
        for name, nights in (
            ("one night", 1),
            ("ten nights", 10),
            ("a claim a night", len(order)),
        ):
            topics[f"slowwave, {name}"] = assign_by_nights(said, order, nights)
        rows += [
            {"method": name, **compute_topic_scores(said, found)}
            for name, found in topics.items()
        ]
    right = sum(
        (match_base_topic(text) or "") == (label if label in BASE_TOPICS else "")
        for label, text in zip(said.labels, said.texts, strict=True)
    )
    note = f"{len(places)} claims; self, user and system told from the rest: {right / len(places):.1%} right."
    return Figures(average(rows, "method"), notes=[note])


def load_labelled_claims(path: Path, encoder: str) -> Labelled:
    """Return the labelled set with its vectors."""
    rows = (
        line.split("\t")
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.strip()
    )
    labels, texts = zip(*rows, strict=True)
    return Labelled(labels, texts, load_encoder(encoder).encode(texts))


def assign_by_nights(said: Labelled, order: Sequence[int], nights: int) -> list[str]:
    """Return topic of each claim, in the order of the set, when they arrive in so many nights."""
    placed: dict[int, str] = {}
    base = {row["topic_id"]: row for row in build_base_topics("k")}
    for part in np.array_split(np.array(order), nights):
        made = assign(
            _build_claims(said, part.tolist(), order),
            _build_topics(said, placed, base),
            LIMITS,
            "k",
        )
        placed = {
            n: made.merged.get(topic, topic) for n, topic in placed.items()
        } | _read_topics(made.claims)
        sizes = Counter(topic for topic in placed.values() if topic not in base)
        for largest in find_oversized_topics(sizes, len(placed), LIMITS)[:1]:
            members = [n for n, topic in placed.items() if topic == largest]
            moved = split_topic(_build_claims(said, members, order, largest), "k")
            placed |= _read_topics(moved) if moved else {}
    return [placed[n] for n in range(len(said.texts))]


def _read_topics(rows: pa.Table) -> dict[int, str]:
    return {int(row["claim_id"]): row["topic_id"] for row in rows.to_pylist()}


def _build_claims(
    said: Labelled, some: Iterable[int], order: Sequence[int], topic: str | None = None
) -> pa.Table:
    """Return rows of CLAIMS, a minute apart in an order."""
    at = {n: START + timedelta(minutes=place) for place, n in enumerate(order)}
    fixed: dict[str, Any] = dict.fromkeys(("quote", "observer", "step_key"), "")
    fixed |= {
        name: [] for name in ("files", "message_ids", "keywords", "evidence_sessions")
    }
    fixed |= {
        "session_id": "s",
        "category": "fact",
        "pack": "personal",
        "confidence": 1.0,
        "status": "active",
    }
    rows = [
        {**dict.fromkeys(CLAIMS.schema.names), **fixed, "claim_id": str(n), "summary": said.texts[n],
         "observed_at": at[n], "vector": said.vectors[n].tolist(), "topic_id": topic}
        for n in some
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=CLAIMS.schema)


def _build_topics(
    said: Labelled, placed: dict[int, str], base: dict[str, dict[str, Any]]
) -> pa.Table:
    """Return rows of TOPICS with the figures that the night's `refresh` would give them."""
    members = _group(placed.items())
    rows = []
    for topic in {*base, *members}:
        mean = said.vectors[members[topic]].mean(axis=0) if members[topic] else None
        length = float(np.linalg.norm(mean)) if mean is not None else None
        row = base.get(
            topic,
            {**next(iter(base.values())), "topic_id": topic, "base": False, "name": ""},
        )
        centre = (mean / length).tolist() if mean is not None and length else None
        rows.append(
            {**row, "size": len(members[topic]), "centroid": centre, "cohesion": length}
        )
    return pa.Table.from_pylist(
        sorted(rows, key=lambda row: str(row["topic_id"])), schema=TOPICS.schema
    )


def _group(placed: Iterable[tuple[int, str]]) -> defaultdict[str, list[int]]:
    members = defaultdict(list)
    for n, topic in placed:
        members[topic].append(n)
    return members


def cluster_leaders_only(
    said: Labelled, order: Sequence[int], threshold: float
) -> list[str]:
    """Return the topics of one pass of leader clustering, base topics by rule as ever."""
    found = {n: str(base) for n in order if (base := match_base_topic(said.texts[n]))}
    rest = [n for n in order if n not in found]
    for group in cluster_by_leader(said.vectors[rest], threshold):
        found |= {rest[at]: f"topic {group[0]}" for at in group}
    return [found[n] for n in range(len(said.texts))]


def compute_topic_scores(said: Labelled, topics: Sequence[str]) -> dict[str, float]:
    """Return the figures that are named above."""
    members, count = _group(enumerate(topics)), len(topics)
    common = sum(
        Counter(said.labels[n] for n in some).most_common(1)[0][1]
        for some in members.values()
    )
    centres = np.array([said.vectors[some].mean(axis=0) for some in members.values()])
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    nearest = np.array(list(members))[(said.vectors @ centres.T).argmax(axis=1)]
    return {
        "topics": len(members),
        "purity": common / count,
        "rand": float(adjusted_rand_score(said.labels, topics)),
        "alone": sum(len(some) == 1 for some in members.values()) / count,
        "largest": max(map(len, members.values())) / count,
        "overlap": float((nearest != np.array(topics)).mean()),
    }


if __name__ == "__main__":
    run(measure)
