"""Claims of every session that is new or has grown, with keywords and vectors."""

from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from lancedb.expr import col, lit
from prefect import task
from prefect.cache_policies import NO_CACHE

from slowwave.schemas.tables import MESSAGES, OBSERVATIONS
from slowwave.tasks.boilerplate.task import Mask, with_verbatim_quotes
from slowwave.tasks.gists.keywords import keywords
from slowwave.tasks.job import Job, StepReport, reporting, step_key
from slowwave.tasks.llm.ask import SESSIONS_MESSAGES, Model, model_key, model_of, pack_names, quarantine
from slowwave.tasks.llm.claims import GATES
from slowwave.tasks.observe import extract
from slowwave.tasks.observe.distil import NOT_JUDGED, Distilled, distilled
from slowwave.tasks.observe.observe import COLUMNS, observe, observe_key
from slowwave.tasks.pending import mark_done, pending_sessions, session_groups
from slowwave.tasks.progress import progress
from slowwave.tasks.vectors import encoder_for, shared_ngrams, vector_matrix, with_vectors

MESSAGES_AT_ONCE = 2_000
WITHDRAWN = "its session was observed again and no longer says so"
CLAIM = (*COLUMNS, *GATES, "keywords", "vector", "step_key")
"""The columns this step writes; the others belong to dedupe and assign, and are kept as they are."""


@task(name="observe", cache_policy=NO_CACHE)
def observe_sessions(job: Job) -> StepReport:
    """Distil claims from each session whose messages changed since it was last observed."""
    with reporting("observe") as report:
        model = model_of(job)
        key = observations_key(job, model)
        mask = Mask(job)
        sessions = pending_sessions(job.store, "observe", key, mask.by_session)
        report.rows_in = sessions.height
        with progress("observe", sessions.height) as advance:
            for group in session_groups(sessions, SESSIONS_MESSAGES if model else MESSAGES_AT_ONCE):
                _observe(job, group, key, report, mask, model)
                advance(group.height)
        report.counts["echoes of recall left out"] = mask.echoes
        report.counts["lines of recalls.jsonl that can't be read"] = mask.recalled.unread
    return report


def observations_key(job: Job, model: Model | None) -> str:
    """What a claim depends on besides its session: with a model, also the prompts, the packs, and the model itself."""
    encoder = job.settings.encoder if job.settings.embeddings else "no vectors"
    key = step_key("observe", 1, observe_key(job.settings.observe), job.settings.keywords, encoder)
    if model is None:
        return key
    what = job.settings.extract.model_dump_json(
        include={"pack", "chunk_tokens", "overlap_tokens", "answer_tokens", "max_claims", "quote_score"}
    )
    packs = model.library.digest((), pack_names(job.settings))
    return model_key(model, "observe", extract.VERSION, extract.PROMPTS, key, packs, what)


def _observe(job: Job, group: pl.DataFrame, key: str, report: StepReport, mask: Mask, model: Model | None) -> None:
    ids = group["session_id"].to_list()
    # What tools printed is most of a coding session's bytes, and none of it is anybody's words.
    messages = job.store.read_ids(MESSAGES, ids, by="session_id", where=col("origin") != lit("tool"))
    gone = pa.array([m for row in group["inactive"].to_list() for m in row], pa.string())
    live = messages.filter(pc.invert(pc.is_in(messages["message_id"], gone)))
    shown = mask.messages(live)
    seen = _seen(job, shown, model, report)
    waiting = list(seen.pending)
    held = job.store.read_ids(OBSERVATIONS, [sid for sid in ids if sid not in seen.pending], by="session_id")
    fresh = changed_rows(completed(job, with_verbatim_quotes(seen.table(), shown, live), key), held)
    report.rows_out += job.store.merge(OBSERVATIONS, fresh)
    report.counts["claims withdrawn"] += pc.sum(pc.equal(fresh["reason"], WITHDRAWN)).as_py() or 0
    if model:
        report.counts["rows in quarantine"] += quarantine(job.store, "observe", seen.rejected, set(ids) - set(waiting))
    rows = group.filter(~pl.col("session_id").is_in(waiting))[["session_id", "input_key"]].rows()
    mark_done(
        job.store, "observe", [(s, f"{k} degraded" if s in seen.degraded else k, seen.notes.get(s)) for s, k in rows]
    )


def _seen(job: Job, shown: pa.Table, model: Model | None, report: StepReport) -> Distilled:
    """What became of each session, by the model, which leaves the GPU to the encoder then, or without one."""
    if model is None:
        seen = observe(shown, job.settings.observe)
        report.counts["sessions skipped"] += len(seen.skipped)
        return Distilled([{**claim, **NOT_JUDGED} for claim in seen.claims.to_pylist()], seen.skipped)
    try:
        return distilled(shown, job.settings, model, report)
    finally:
        model.free_gpu()
        model.account(report)


def completed(job: Job, claims: pa.Table, key: str) -> pa.Table:
    """Claims as rows of OBSERVATIONS: vectors, keywords, and the state of one that nobody has looked at."""
    state: dict[str, Any] = {
        "keywords": [],
        "vector": None,
        "step_key": key,
        "status": "active",
        "reason": None,
        "canonical_id": None,
        "superseded_by": None,
        "valid_to": None,
        "dedupe_key": None,
        "topic_id": None,
        "assign_key": None,
    }
    rows = [
        {**row, **state, "valid_from": row["observed_at"], "evidence_sessions": [row["session_id"]]}
        for row in claims.to_pylist()
    ]
    encoder = encoder_for(job.settings)
    table = with_vectors(job.store, pa.Table.from_pylist(rows, schema=OBSERVATIONS.schema), "summary", encoder)
    if encoder is None or not rows or not job.settings.keywords.top:
        return table
    ngrams = shared_ngrams(job.settings.encoder)
    found = keywords(table["summary"], encoder, job.settings.keywords, vector_matrix(table["vector"]), ngrams)
    place = table.schema.get_field_index("keywords")
    return table.set_column(place, table.schema.field("keywords"), pa.array(found, table.schema.field("keywords").type))


def changed_rows(claims: pa.Table, held: pa.Table) -> pa.Table:
    """What has to be written: new claims, claims that read differently, and held claims no longer made, withdrawn.

    A claim that is held keeps what later steps wrote to it. One that repeats a withdrawn claim counts as new again.
    """
    old = {row["observation_id"]: row for row in held.to_pylist()}
    now = {row["observation_id"]: row for row in claims.to_pylist()}
    fresh: list[dict[str, Any]] = []
    for oid, row in now.items():
        before = old.get(oid)
        if before is None or before["reason"] == WITHDRAWN:
            fresh.append(row)
        elif any(before[name] != row[name] for name in CLAIM):
            fresh.append({**before, **{name: row[name] for name in CLAIM}})
    withdrawn = {o for o, row in old.items() if o not in now and row["status"] in ("active", "duplicate")}
    fresh += [{**old[oid], "status": "superseded", "reason": WITHDRAWN} for oid in sorted(withdrawn)]
    again = {"status": "active", "reason": None, "canonical_id": None, "dedupe_key": None}
    orphans = [r for o, r in old.items() if o in now and r["canonical_id"] in withdrawn]
    written = {row["observation_id"] for row in fresh}
    fresh += [{**row, **again} for row in orphans if row["observation_id"] not in written]
    return pa.Table.from_pylist(fresh, schema=OBSERVATIONS.schema)
