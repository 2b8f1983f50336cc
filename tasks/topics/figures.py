"""Compute the figures of a topic from its claims: text, strength, health, and centre."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import TypedDict

import numpy as np
import polars as pl

from slowwave.engines.encoders.protocol import Vectors
from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import CLAIMS
from slowwave.tasks.job import Job
from slowwave.tasks.topics import cluster
from slowwave.tasks.vector_columns import build_vector_matrix
from slowwave.text.summarise import pick_leading_sentences

UNCOUNTED = ["centroid", "text"]
"""Columns that follow from the others or that a model writes later."""
SAMPLES = 5
"""Number of latest claims that a topic stores, and is shown with."""
AT_ONCE = 256
"""Topics in one batch, when computed or compared with all others."""
NO_CLAIMS = {
    "size": 0,
    "strength": 0,
    "sessions": 0,
    "share": 0.0,
    "samples": [],
    "member_hash": compute_content_id(),
}
"""The figures of a topic without claims."""


def measure_topics(claims: pl.DataFrame) -> pl.DataFrame:
    """Return the figures that need no vectors, for each topic with claims (in order of time)."""
    workspace = pl.col("workspace")
    sessions = pl.col("evidence_sessions")
    figures = claims.group_by("topic_id", maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("size"),
        sessions.list.len().sum().cast(pl.Int64).alias("strength"),
        sessions.explode().drop_nulls().n_unique().cast(pl.Int64).alias("sessions"),
        pl.when(workspace.n_unique() == 1).then(workspace.first()).alias("workspace"),
        pl.col("observed_at").min().alias("first_at"),
        pl.col("observed_at").max().alias("last_at"),
        pl.col("claim_id").tail(SAMPLES).alias("samples"),
        pl.col("claim_id").sort().alias("ids"),
    )
    hashes = [compute_content_id(*ids) for ids in figures["ids"].to_list()]
    share = (pl.col("size") / len(claims)).round(4)
    return figures.drop("ids").with_columns(
        pl.Series("member_hash", hashes, pl.String), share=share
    )


def count_uses(recalls: Iterable[Set[str]], claims: pl.DataFrame) -> Counter[str]:
    """Count, for each topic, the recalls that returned a claim of it or a message that such a claim was made from."""
    recall_log = [*recalls]
    if not recall_log:
        return Counter()
    topics = defaultdict[str, set[str]](set)
    keys = claims.select(
        "topic_id", key=pl.concat_list("claim_id", "message_ids")
    ).explode("key")
    for topic, key in keys.filter(
        pl.col("key").is_in(set().union(*recall_log))
    ).iter_rows():
        topics[key].add(topic)
    uses: Counter[str] = Counter()
    for ids in recall_log:
        uses.update(set().union(*(topics[key] for key in ids if key in topics)))
    return uses


class TopicFigures(TypedDict):
    """Figures from the vectors of a topic's claims; all None if no claim has a vector."""

    centroid: Vectors | None
    cohesion: float | None
    text: str | None


def find_centres_and_texts(
    job: Job, claims: pl.DataFrame, topics: Sequence[str]
) -> dict[str, TopicFigures]:
    """Return by topic its centroid, cohesion and text; vectors are read for one batch of topics at a time."""
    made = dict[str, TopicFigures]()
    for start in range(0, len(topics), AT_ONCE):
        batch = topics[start : start + AT_ONCE]
        own = claims.filter(pl.col("topic_id").is_in(batch))
        stored = job.store.read_ids(
            CLAIMS, own["claim_id"], ["claim_id", "vector"]
        ).drop_null()
        vectors = dict(
            zip(
                stored["claim_id"].to_pylist(),
                build_vector_matrix(stored["vector"]),
                strict=True,
            )
        )
        members = own.partition_by("topic_id", as_dict=True, maintain_order=True)
        for topic in batch:
            made[topic] = write_centre_and_text(
                job.settings, members.get((topic,), own.clear()), vectors
            )
    return made


def write_centre_and_text(
    settings: Settings, claims: pl.DataFrame, vectors: Mapping[str, Vectors]
) -> TopicFigures:
    """Return a topic's centroid, cohesion and text.

    In the centroid each claim weighs `alpha` times the next newer one. The text consists of the claims nearest to the
    centroid, up to the number of words of a summary.
    """
    spoken = [
        (key, text)
        for key, text in claims.select("claim_id", "summary").iter_rows()
        if key in vectors
    ]
    matrix = np.array([vectors[key] for key, _ in spoken], dtype=np.float64)
    if not len(matrix):
        return {"centroid": None, "cohesion": None, "text": None}
    mean = np.average(
        matrix,
        axis=0,
        weights=cluster.LIMITS.alpha ** np.arange(len(matrix) - 1.0, -1.0, -1.0),
    )
    length = float(np.linalg.norm(mean))
    if length == 0.0:
        return {"centroid": None, "cohesion": None, "text": None}
    centre = mean / length
    nearest = np.argsort(-np.round(matrix @ centre, 6), kind="stable").tolist()
    texts = dict.fromkeys(" ".join(spoken[at][1].split()) for at in nearest)
    sentences = pick_leading_sentences(texts, settings.pyramid.get_words(0))
    text = " ".join(sentences) if len(claims) >= cluster.LIMITS.small else None
    return {"centroid": centre.astype(np.float32), "cohesion": length, "text": text}


def measure_overlaps(
    claims: pl.DataFrame, centres: Mapping[str, Vectors | None]
) -> dict[str, float]:
    """Return by topic the cosine of its centre to the nearest other topic that it could be merged with.

    These are the topics of its project, or of everyday life. `claims` have topic_id, pack and workspace.
    """
    nearest = dict[str, float]()
    centred = claims.filter(
        pl.col("topic_id").is_in(
            [topic for topic in centres if centres[topic] is not None]
        )
    )
    place = pl.when(pl.col("pack") == "coding").then(pl.col("workspace").fill_null(""))
    places = centred.group_by("topic_id", maintain_order=True).agg(place=place.last())
    for ids in (
        places.group_by("place", maintain_order=True)
        .agg("topic_id")["topic_id"]
        .to_list()
    ):
        matrix = np.array([centres[topic] for topic in ids], dtype=np.float32)
        for start in range(0, len(ids) if len(ids) > 1 else 0, AT_ONCE):
            cosines = matrix[start : start + AT_ONCE] @ matrix.T
            np.fill_diagonal(cosines[:, start:], -1.0)
            best = (round(cosine, 3) for cosine in cosines.max(axis=1).tolist())
            nearest.update(zip(ids[start : start + AT_ONCE], best, strict=True))
    return nearest
