"""Summaries of every group that is full, over topics and over sessions, and each session's master summary."""

from collections.abc import Iterable
from typing import Any

import polars as pl
import pyarrow as pa
from lancedb.expr import col, lit
from prefect import task
from prefect.cache_policies import NO_CACHE

from schemas.messages import MESSAGES
from schemas.observations import OBSERVATIONS
from schemas.settings import PyramidSettings
from schemas.topics import SUMMARIES, TOPICS
from tasks.job import Job, StepReport, reporting, step_key
from tasks.night.marks import mark_done, pending_sessions, session_groups
from tasks.night.pending import inactive_messages
from tasks.night.vectors import encoder_for, with_vectors
from tasks.progress import progress
from tasks.pyramid import MASTER, Group, Member, Pyramid, Shape, grow, summary_row

MESSAGES_AT_ONCE = 2_000
GROUP = ["scope_id", "tier", "seq", "text", "member_ids", "first_at", "last_at"]


@task(name="rollup", cache_policy=NO_CACHE)
def roll_up(job: Job) -> StepReport:
    """Seal and summarise what is complete; summaries made under other settings go when theirs stand."""
    with reporting("rollup") as report:
        encoder = job.settings.encoder if job.settings.embeddings else "no vectors"
        key = step_key("rollup", 1, job.settings.pyramid, encoder)
        report.rows_out += _topics(job, key, report)
        report.rows_out += _sessions(job, key, report)
        stale = job.store.read(SUMMARIES, ["summary_id"], col("step_key") != lit(key))
        job.store.delete_ids(SUMMARIES, stale["summary_id"].to_pylist())
    return report


def topic_shape(settings: PyramidSettings) -> Shape:
    """Groups of STEP at every tier, as high as they fill."""
    return Shape(first=settings.step, above=settings.step, max_words=settings.max_words)


def session_shape(settings: PyramidSettings) -> Shape:
    """n_sum messages, then n_sum_sum summaries a group, max_sum_lvl tiers, and a master."""
    return Shape(
        first=settings.n_sum,
        above=settings.n_sum_sum,
        tiers=settings.max_sum_lvl,
        window=settings.sum_window,
        master=True,
        max_words=settings.max_words,
    )


def _topics(job: Job, key: str, report: StepReport) -> int:
    columns = ["observation_id", "topic_id", "summary", "speaker", "observed_at"]
    claims = pl.DataFrame(job.store.read(OBSERVATIONS, columns, col("status") == lit("active")))
    claims = claims.drop_nulls("topic_id").sort("observed_at", "observation_id", nulls_last=True)
    report.rows_in += claims.height
    sealed = _sealed(job, "topic", key)
    names = {row["topic_id"]: row["name"] for row in job.store.read(TOPICS, ["topic_id", "name"]).to_pylist()}
    rows: list[dict[str, object]] = []
    for (topic,), mine in claims.group_by(["topic_id"], maintain_order=True):
        members = [Member(r[0], r[2], r[4], speaker=r[3]) for r in mine.select(columns).iter_rows()]
        made = grow(sealed.get(str(topic), Pyramid()), members, topic_shape(job.settings.pyramid), "topic", str(topic))
        about = {"title": names.get(topic), "workspace": None}
        rows += [summary_row(group, "topic", str(topic), about, key) for group in made]
    report.counts["topic groups sealed"] = len(rows)
    return _store(job, rows)


def _sessions(job: Job, key: str, report: StepReport) -> int:
    pending = pending_sessions(job.store, "rollup", key)
    gone = inactive_messages(job.store)
    report.counts["sessions summarised"] = pending.height
    written = 0
    with progress("rollup", pending.height) as advance:
        for group in session_groups(pending, MESSAGES_AT_ONCE):
            written += _store(job, _session_rows(job, group, gone, key))
            mark_done(job.store, "rollup", [(s, k, None) for s, k in group[["session_id", "input_key"]].rows()])
            advance(group.height)
    return written


def _session_rows(job: Job, group: pl.DataFrame, gone: set[str], key: str) -> list[dict[str, object]]:
    columns = ["message_id", "session_id", "text", "ts", "speaker", "seq", "origin"]
    messages = pl.DataFrame(job.store.read_ids(MESSAGES, group["session_id"], columns, by="session_id"))
    said = pl.col("origin").is_in(["human", "model"]) & (pl.col("text") != "")
    messages = messages.filter(said & ~pl.col("message_id").is_in(sorted(gone))).sort("session_id", "seq")
    by_session = {k[0]: v for k, v in messages.group_by(["session_id"], maintain_order=True)}
    sealed = _sealed(job, "session", key, group["session_id"])
    rows: list[dict[str, object]] = []
    for info in group.iter_rows(named=True):
        sid = info["session_id"]
        mine = by_session.get(sid, messages.clear())
        members = [Member(r[0], r[2], r[3], speaker=r[4]) for r in mine.select(columns).iter_rows()]
        made = grow(sealed.get(sid, Pyramid()), members, session_shape(job.settings.pyramid), "session", sid)
        rows += [summary_row(one, "session", sid, info, key) for one in made]
    return rows


def _sealed(job: Job, scope: str, key: str, ids: Iterable[str] | None = None) -> dict[str, Pyramid]:
    """Pyramids as far as they are sealed under this key, by topic or session."""
    where = (col("scope") == lit(scope)) & (col("step_key") == lit(key)) & (col("tier") != lit(MASTER))
    found = pl.DataFrame(job.store.read(SUMMARIES, GROUP, where))
    if ids is not None:
        found = found.filter(pl.col("scope_id").is_in(list(ids)))
    pyramids: dict[str, Pyramid] = {}
    for row in found.sort("scope_id", "tier", "seq").iter_rows(named=True):
        pyramids.setdefault(row["scope_id"], Pyramid()).tiers.setdefault(row["tier"], []).append(_group(row))
    return pyramids


def _group(row: dict[str, Any]) -> Group:
    return Group(row["tier"], row["seq"], tuple(row["member_ids"]), row["text"], row["first_at"], row["last_at"])


def _store(job: Job, rows: list[dict[str, object]]) -> int:
    table = pa.Table.from_pylist(rows, schema=SUMMARIES.schema)
    return job.store.merge(SUMMARIES, with_vectors(job.store, table, "text", encoder_for(job.settings)))
