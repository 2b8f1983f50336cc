"""A topic for every active claim. A topic's figures are made from its claims, so a crash between the two is mended."""

from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from lancedb.expr import col, lit
from prefect import task
from prefect.cache_policies import NO_CACHE

from schemas.observations import OBSERVATIONS
from schemas.topics import TOPICS
from slowwave.store.store import Store
from tasks.assign import assign, base_topics
from tasks.job import Job, StepReport, reporting, step_key


@task(name="assign", cache_policy=NO_CACHE)
def assign_topics(job: Job) -> StepReport:
    """Place the claims that have no topic under these settings; new topics are written before their claims."""
    with reporting("assign") as report:
        encoder = job.settings.encoder if job.settings.embeddings else "no vectors"
        key = step_key("assign", 1, job.settings.topics, encoder)
        samples = job.settings.topics.samples
        rows = job.store.read(OBSERVATIONS, where=col("status") == lit("active"))
        pending = rows.filter(pc.fill_null(pc.not_equal(rows["assign_key"], key), True))
        report.rows_in = pending.num_rows
        if pending.num_rows:
            refresh(job.store, key, samples)
            placed = assign(pending, _settled(job.store, rows, key), job.settings.topics, key)
            _add_missing(job.store, placed.topics)
            report.rows_out = job.store.merge(OBSERVATIONS, placed.observations)
            report.counts["topics"] = placed.topics.num_rows
        refresh(job.store, key, samples)
    return report


def _settled(store: Store, active: pa.Table, key: str) -> pa.Table:
    """The topics that hold a claim under this key, and the base topics: what a run that never crashed would see."""
    used = active.filter(pc.fill_null(pc.equal(active["assign_key"], key), False))["topic_id"]
    topics = store.read(TOPICS)
    settled = topics.filter(pc.or_(pc.is_in(topics["topic_id"], used.combine_chunks()), topics["base"]))
    if settled.num_rows == 0:
        return pa.Table.from_pylist(base_topics(key), schema=TOPICS.schema)
    return settled.sort_by("topic_id")


def _add_missing(store: Store, topics: pa.Table) -> None:
    """Topics that are new, still empty: `refresh` counts their claims."""
    held = set(store.read(TOPICS, ["topic_id"])["topic_id"].to_pylist())
    new = [{**t, "size": 0, "samples": [], "centroid": None} for t in topics.to_pylist() if t["topic_id"] not in held]
    store.append(TOPICS, pa.Table.from_pylist(new, schema=TOPICS.schema))


def refresh(store: Store, key: str, samples: int) -> None:
    """Make size, samples and centroid of every topic what its active claims say; topics left empty are removed."""
    where = col("status") == lit("active")
    claims = pl.DataFrame(store.read(OBSERVATIONS, ["observation_id", "topic_id", "observed_at"], where))
    claims = claims.drop_nulls("topic_id").sort("observed_at", "observation_id", nulls_last=True)
    members = {k[0]: v["observation_id"].to_list() for k, v in claims.group_by(["topic_id"], maintain_order=True)}
    rows = store.read(TOPICS).to_pylist()
    changed = [row for row in rows if _differs(row, members.get(row["topic_id"], []), samples, key)]
    kept = [r for r in changed if r["base"] or r["topic_id"] in members]
    fresh = [_refreshed(store, row, members.get(row["topic_id"], []), samples, key) for row in kept]
    store.merge(TOPICS, pa.Table.from_pylist(fresh, schema=TOPICS.schema))
    store.delete_ids(TOPICS, [row["topic_id"] for row in changed if row not in kept])


def _differs(row: dict[str, Any], members: list[str], samples: int, key: str) -> bool:
    if not members and not row["base"]:
        return True
    return (row["size"], row["samples"], row["step_key"]) != (len(members), members[-samples:], key)


def _refreshed(store: Store, row: dict[str, Any], members: list[str], samples: int, key: str) -> dict[str, Any]:
    found = store.read_ids(OBSERVATIONS, members, ["observation_id", "vector"]).sort_by("observation_id")
    vectors = [v for v in found["vector"].to_pylist() if v is not None]
    mean = np.asarray(vectors, dtype=np.float64).mean(axis=0) if vectors else None
    length = float(np.linalg.norm(mean)) if mean is not None else 0.0
    unit = None if mean is None or length == 0.0 else (mean / length).astype(np.float32).tolist()
    return {**row, "size": len(members), "samples": members[-samples:], "centroid": unit, "step_key": key}
