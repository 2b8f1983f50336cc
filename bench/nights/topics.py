"""Topics: how well claims gather, on a labelled set, beside leader clustering alone; and how far apart they stay.

    python -m bench.nights.topics data/labelled/topics.tsv [--json] [--encoder NAME] [--orders N]

Each line is `label⇥text`. Purity: the share of claims whose topic's commonest label is theirs. Rand: adjusted Rand
index. Alone: the share of claims that are a topic of their own. Largest: the largest topic's share. Overlap: the share
of claims that are nearer to another topic's centroid than to their own. Means over orders of arrival (the first is the
file's); the last rows are claims arriving in ten nights, and in nights of one claim.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sklearn.metrics import adjusted_rand_score

from bench.harness import build_parser, print_rows
from slowwave.engines.encoders.load import load_encoder
from slowwave.schemas.settings import TopicSettings
from slowwave.schemas.tables import BASE_TOPICS, OBSERVATIONS, TOPICS
from slowwave.tasks.topics.assign import assign, build_base_topics, find_oversized_topics, split_topic
from slowwave.tasks.topics.cluster import cluster_by_leader, match_base_topic

Vectors = npt.NDArray[np.float32]
START = datetime(2026, 11, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Labelled:
    """Claims with the label a person gave them."""

    labels: list[str]
    texts: list[str]
    vectors: Vectors


def load_labelled_claims(path: Path, encoder: str) -> Labelled:
    """Return the labelled set with its vectors."""
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    texts = [text for _, text in rows]
    return Labelled([label for label, _ in rows], texts, load_encoder(encoder).encode(texts))


def assign_by_nights(said: Labelled, order: Sequence[int], nights: int) -> list[str]:
    """Return topic of each claim, in the order of the set, when they arrive in so many nights."""
    placed: dict[int, str] = {}
    for part in np.array_split(np.array(order), nights):
        rows = _build_observation_rows(said, part.tolist(), order)
        made = assign(rows, _build_topic_rows(said, placed), TopicSettings(), "k")
        placed = {n: made.merged.get(topic, topic) for n, topic in placed.items()}
        placed |= {int(r["observation_id"]): r["topic_id"] for r in made.observations.to_pylist()}
        _split_large_topics(said, placed, order)
    return [placed[n] for n in range(len(said.texts))]


def _split_large_topics(said: Labelled, placed: dict[int, str], order: Sequence[int]) -> None:
    base = {row["topic_id"] for row in build_base_topics("k")}
    sizes = Counter(topic for topic in placed.values() if topic not in base)
    for largest in find_oversized_topics(sizes, len(placed), TopicSettings())[:1]:
        rows = _build_observation_rows(said, [n for n, topic in placed.items() if topic == largest], order, largest)
        moved = split_topic(rows, "k")
        placed |= {int(r["observation_id"]): r["topic_id"] for r in moved.to_pylist()} if moved else {}


def _build_observation_rows(
    said: Labelled, some: Sequence[int], order: Sequence[int], topic: str | None = None
) -> pa.Table:
    at = {n: START + timedelta(minutes=place) for place, n in enumerate(order)}
    empty: dict[str, Any] = dict.fromkeys(OBSERVATIONS.schema.names)
    fixed = {"session_id": "s", "category": "fact", "pack": "personal", "files": [], "quote": "", "message_ids": []}
    more = {
        "confidence": 1.0,
        "observer": "",
        "keywords": [],
        "step_key": "",
        "status": "active",
        "evidence_sessions": [],
    }
    rows = [
        {**empty, **fixed, **more, "observation_id": str(n), "summary": said.texts[n], "observed_at": at[n],
         "vector": said.vectors[n].tolist(), "topic_id": topic}
        for n in some
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=OBSERVATIONS.schema)


def _build_topic_rows(said: Labelled, placed: dict[int, str]) -> pa.Table:
    """Return rows of TOPICS with the figures that the night's `refresh` would give them."""
    members = defaultdict(list)
    for n, topic in placed.items():
        members[topic].append(n)
    base = {row["topic_id"]: row for row in build_base_topics("k")}
    rows = []
    for topic in {*base, *members}:
        mean = said.vectors[members[topic]].mean(axis=0) if members[topic] else None
        length = float(np.linalg.norm(mean)) if mean is not None else None
        row = base.get(topic, {**next(iter(base.values())), "topic_id": topic, "base": False, "name": ""})
        centre = (mean / length).tolist() if mean is not None and length else None
        rows.append({**row, "size": len(members[topic]), "centroid": centre, "cohesion": length})
    return pa.Table.from_pylist(sorted(rows, key=lambda r: str(r["topic_id"])), schema=TOPICS.schema)


def cluster_leaders_only(said: Labelled, order: Sequence[int], threshold: float) -> list[str]:
    """Return what one pass of leader clustering gives, base topics by rule as ever."""
    rest = [n for n in order if match_base_topic(said.texts[n]) is None]
    found = {n: str(match_base_topic(said.texts[n])) for n in order if match_base_topic(said.texts[n])}
    for group in cluster_by_leader(said.vectors[rest], threshold):
        found |= {rest[i]: f"topic {group[0]}" for i in group}
    return [found[n] for n in range(len(said.texts))]


def compute_topic_scores(said: Labelled, topics: Sequence[str]) -> dict[str, float]:
    """Return the figures that are named above, by method."""
    members = defaultdict(list)
    for n, topic in enumerate(topics):
        members[topic].append(n)
    count = len(topics)
    common = sum(Counter(said.labels[n] for n in some).most_common(1)[0][1] for some in members.values())
    centres = np.array([said.vectors[some].mean(axis=0) for some in members.values()])
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    own = {topic: at for at, topic in enumerate(members)}
    nearest = (said.vectors @ centres.T).argmax(axis=1)
    return {
        "topics": len(members),
        "purity": common / count,
        "rand": float(adjusted_rand_score(said.labels, topics)),
        "alone": sum(len(some) == 1 for some in members.values()) / count,
        "largest": max(len(some) for some in members.values()) / count,
        "overlap": sum(int(nearest[n]) != own[topic] for n, topic in enumerate(topics)) / count,
    }


def compute_base_accuracy(said: Labelled) -> float:
    """Return share of claims that the rules of self, user and system place as the labels say."""
    right = [
        (match_base_topic(t) or "") == (lab if lab in BASE_TOPICS else "")
        for lab, t in zip(said.labels, said.texts, strict=True)
    ]
    return sum(right) / len(right)


def measure_topic_methods(said: Labelled, orders: int) -> dict[str, dict[str, float]]:
    """Return figures by method, means over orders of arrival."""
    some = [list(range(len(said.texts)))]
    some += [random.Random(seed).sample(some[0], len(some[0])) for seed in range(1, orders)]
    found = {
        f"leader alone, {t}": _average_dicts(
            [compute_topic_scores(said, cluster_leaders_only(said, o, t)) for o in some]
        )
        for t in (0.25, 0.35, 0.45)
    }
    found["slowwave, one night"] = _average_dicts(
        [compute_topic_scores(said, assign_by_nights(said, o, 1)) for o in some]
    )
    found["slowwave, ten nights"] = _average_dicts(
        [compute_topic_scores(said, assign_by_nights(said, o, 10)) for o in some]
    )
    found["slowwave, a claim a night"] = _average_dicts(
        [compute_topic_scores(said, assign_by_nights(said, o, len(o))) for o in some]
    )
    return found


def _average_dicts(rows: list[dict[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


def main() -> None:
    """Measure and print."""
    parser = build_parser(__doc__, "file")
    parser.add_argument("--orders", type=int, default=5)
    given = parser.parse_args()
    said = load_labelled_claims(given.file, given.encoder)
    rows = [{"method": name, **figures} for name, figures in measure_topic_methods(said, given.orders).items()]
    right = compute_base_accuracy(said)
    note = f"{len(said.texts)} claims; self, user and system told from the rest: {right:.1%} right."
    print_rows(rows, given.as_json, notes=[note])


if __name__ == "__main__":
    main()
