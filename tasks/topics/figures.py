"""What a topic is besides its claims: its text, how strong it is, how healthy, and where its centre lies."""

from collections import Counter
from collections.abc import Iterable, Set
from typing import Any

import numpy as np
import polars as pl

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import OBSERVATIONS
from slowwave.tasks.job import Job
from slowwave.tasks.topics.by_model import SAMPLES
from slowwave.text.summarise import pick_leading_sentences

UNCOUNTED = ["centroid", "text"]
"""Columns that follow from the others, or that a model writes later."""
AT_ONCE = 256
"""Topics that are compared with all others in one product."""
Row = dict[str, Any]


def measure_topic(claims: pl.DataFrame, everything: int) -> Row:
    """Return what is known of a topic without vectors, by its claims in order of time."""
    ids, sessions = claims["observation_id"].to_list(), claims["evidence_sessions"].to_list()
    places = claims["workspace"].unique().to_list()
    return {
        "size": len(ids),
        "strength": sum(map(len, sessions)),
        "sessions": len({one for some in sessions for one in some}),
        "share": round(len(ids) / max(1, everything), 4),
        "workspace": places[0] if len(places) == 1 else None,
        "first_at": claims["observed_at"].min(),
        "last_at": claims["observed_at"].max(),
        "samples": ids[-SAMPLES:],
        "member_hash": compute_content_id(*sorted(ids)),
    }


def count_uses(recalls: Iterable[Set[str]], claims: pl.DataFrame) -> Counter[str]:
    """Return how often a claim of each topic, or a message that one was made of, was among the ids handed out."""
    topics: dict[str, set[str]] = {}
    for claim, topic, messages in claims.select("observation_id", "topic_id", "message_ids").iter_rows():
        for key in (claim, *messages):
            topics.setdefault(key, set()).add(topic)
    uses: Counter[str] = Counter()
    for ids in recalls:
        uses.update(set().union(*(topics[key] for key in ids if key in topics)))
    return uses


def write_centre_and_text(job: Job, claims: pl.DataFrame) -> Row:
    """Return a topic's centroid and cohesion, by claims of which each counts `topics.alpha` of the next newer one; and
    for text the claims nearest to it, as many as a summary may have words.
    """
    settings, ids = job.settings, claims["observation_id"].to_list()
    found = job.store.read_ids(OBSERVATIONS, ids, ["observation_id", "vector"]).to_pylist()
    vectors = {one["observation_id"]: one["vector"] for one in found if one["vector"] is not None}
    told = [(key, text) for key, text in claims.select("observation_id", "summary").iter_rows() if key in vectors]
    matrix = np.array([vectors[key] for key, _ in told], dtype=np.float64)
    if not len(matrix):
        return {"centroid": None, "cohesion": None, "text": None}
    # the centre, in which later claims may count more
    mean = np.average(matrix, axis=0, weights=settings.topics.alpha ** np.arange(len(matrix) - 1.0, -1.0, -1.0))
    length = float(np.linalg.norm(mean))
    if length == 0.0:
        return {"centroid": None, "cohesion": None, "text": None}
    centre = mean / length
    # the sentences nearest to it, as far as they fit
    nearest = np.argsort(-np.round(matrix @ centre, 6), kind="stable").tolist()
    texts = dict.fromkeys(" ".join(told[at][1].split()) for at in nearest)
    sentences = pick_leading_sentences(texts, settings.pyramid.get_words(0))
    text = " ".join(sentences) if len(ids) >= settings.topics.small else None
    return {"centroid": centre.astype(np.float32).tolist(), "cohesion": length, "text": text}


def add_overlaps(rows: list[Row]) -> list[Row]:
    """Return the topics with the cosine of each to the nearest other one."""
    known = [row for row in rows if row["centroid"] is not None and row["size"]]
    if len(known) < 2:
        return [{**row, "overlap": None} for row in rows]
    centres = np.array([row["centroid"] for row in known], dtype=np.float32)
    nearest: dict[str, float] = {}
    for start in range(0, len(known), AT_ONCE):
        cosines = centres[start : start + AT_ONCE] @ centres.T
        np.fill_diagonal(cosines[:, start:], -1.0)
        best = cosines.max(axis=1).tolist()
        nearest |= {
            row["topic_id"]: round(one, 3) for row, one in zip(known[start : start + AT_ONCE], best, strict=True)
        }
    return [{**row, "overlap": nearest.get(row["topic_id"])} for row in rows]
