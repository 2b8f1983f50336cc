"""Claims of every session that is new or has grown, with keywords and vectors."""

from collections.abc import Sequence
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.tables import MESSAGES, OBSERVATIONS
from slowwave.schemas.vocabulary import WITHDRAWN, Origin, Status
from slowwave.tasks.boilerplate.task import Mask, restore_verbatim_quotes
from slowwave.tasks.gists.keywords import extract_keywords
from slowwave.tasks.isolate import do_apart, note_failed_units
from slowwave.tasks.job import Job, StepReport, compute_step_key, report_step
from slowwave.tasks.llm.ask import (
    SESSIONS_MESSAGES,
    Model,
    compute_model_key,
    get_model,
    quarantine_rejected,
    resolve_pack_names,
)
from slowwave.tasks.llm.claims import GATES, build_claims_table
from slowwave.tasks.observe import extract
from slowwave.tasks.observe.distil import NOT_JUDGED, ExtractionResult, extract_claims
from slowwave.tasks.observe.observe import COLUMNS, compute_observe_key, observe
from slowwave.tasks.observe.shared import build_shared_claims, split_shared
from slowwave.tasks.pending import find_pending_sessions, group_sessions, mark_done
from slowwave.tasks.progress import show_progress
from slowwave.tasks.vector_columns import build_vector_matrix
from slowwave.tasks.vectors import attach_vectors, describe_encoder, get_encoder, load_shared_ngrams

MESSAGES_AT_ONCE = 2_000
CLAIM = (*COLUMNS, *GATES, "keywords", "vector", "step_key")
"""The columns this step writes; the others belong to dedupe and assign, and are kept as they are."""


def observe_sessions(job: Job) -> StepReport:
    """Distil claims from each session whose messages changed since it was last observed."""
    with report_step("observe") as report:
        model = get_model(job)
        key = compute_observations_key(job, model)
        mask = Mask(job)
        sessions = find_pending_sessions(job.store, "observe", key, mask.by_session)
        report.rows_in = sessions.height
        with show_progress("observe", sessions.height) as advance:
            failed: dict[str, Exception] = {}
            for group in group_sessions(sessions, SESSIONS_MESSAGES if model else MESSAGES_AT_ONCE):

                def observe_some(ids: Sequence[str], group: pl.DataFrame = group) -> None:
                    _observe_group(job, group.filter(pl.col("session_id").is_in(ids)), key, report, mask, model)

                failed |= do_apart(group["session_id"].to_list(), observe_some)
                advance(group.height)
        note_failed_units(job, report, "session", failed)
        report.counts["echoes of recall left out"] = mask.echoes
        report.counts["lines of recalls.jsonl that can't be read"] = mask.recalled.unread
    return report


def compute_observations_key(job: Job, model: Model | None) -> str:
    """Return what a claim depends on besides its session: with a model, also the prompts, the packs, and the model
    itself.
    """
    encoder = describe_encoder(job.settings)
    key = compute_step_key("observe", 1, compute_observe_key(job.settings.observe), job.settings.keywords, encoder)
    if model is None:
        return key
    what = job.settings.extract.model_dump_json(
        include={"pack", "chunk_tokens", "overlap_tokens", "answer_tokens", "max_claims", "quote_score"}
    )
    packs = model.library.compute_digest((), resolve_pack_names(job.settings))
    return compute_model_key(model, "observe", extract.VERSION, extract.PROMPTS, key, packs, what)


def _observe_group(
    job: Job, group: pl.DataFrame, key: str, report: StepReport, mask: Mask, model: Model | None
) -> None:
    ids = group["session_id"].to_list()
    # What tools printed is most of a coding session's bytes, and none of it is anybody's words.
    messages = job.store.read_ids(MESSAGES, ids, by="session_id", where=pc.field("origin") != Origin.TOOL)
    gone = pa.array([m for row in group["inactive"].to_list() for m in row], pa.string())
    live = messages.filter(pc.invert(pc.is_in(messages["message_id"], gone)))
    live, given = split_shared(live)
    shown = mask.mask_messages(live)
    seen = _extract_group_claims(job, shown, model, report)
    waiting = list(seen.pending)
    held = job.store.read_ids(OBSERVATIONS, [sid for sid in ids if sid not in seen.pending], by="session_id")
    said = restore_verbatim_quotes(seen.build_table(), shown, live)
    claims = pa.concat_tables([said, build_claims_table(build_shared_claims(given))])
    fresh = select_changed_rows(build_observation_rows(job, claims, key), held)
    report.rows_out += job.store.merge(OBSERVATIONS, fresh)
    report.counts["claims withdrawn"] += pc.sum(pc.equal(fresh["reason"], WITHDRAWN)).as_py() or 0
    if model:
        report.counts["rows in quarantine"] += quarantine_rejected(
            job.store, "observe", seen.rejected, set(ids) - set(waiting)
        )
    rows = group.filter(~pl.col("session_id").is_in(waiting))[["session_id", "input_key"]].rows()
    mark_done(
        job.store, "observe", [(s, f"{k} degraded" if s in seen.degraded else k, seen.notes.get(s)) for s, k in rows]
    )


def _extract_group_claims(job: Job, shown: pa.Table, model: Model | None, report: StepReport) -> ExtractionResult:
    """Return what became of each session, by the model, which leaves the GPU to the encoder then, or without one."""
    if model is None:
        seen = observe(shown, job.settings.observe)
        report.counts["sessions skipped"] += len(seen.skipped)
        return ExtractionResult([{**claim, **NOT_JUDGED} for claim in seen.claims.to_pylist()], seen.skipped)
    try:
        return extract_claims(shown, job.settings, model, report)
    finally:
        model.free_gpu()
        model.record_usage(report)


def build_observation_rows(job: Job, claims: pa.Table, key: str) -> pa.Table:
    """Return claims as rows of OBSERVATIONS: vectors, keywords, and the state of one that nobody has looked at."""
    state: dict[str, Any] = {
        "keywords": [],
        "vector": None,
        "step_key": key,
        "status": Status.ACTIVE,
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
    encoder = get_encoder(job.settings)
    table = attach_vectors(job.store, pa.Table.from_pylist(rows, schema=OBSERVATIONS.schema), "summary", encoder)
    if encoder is None or not rows or not job.settings.keywords.top:
        return table
    ngrams = load_shared_ngrams(job.settings.encoder)
    found = extract_keywords(
        table["summary"], encoder, job.settings.keywords, build_vector_matrix(table["vector"]), ngrams
    )
    place = table.schema.get_field_index("keywords")
    return table.set_column(place, table.schema.field("keywords"), pa.array(found, table.schema.field("keywords").type))


def select_changed_rows(claims: pa.Table, held: pa.Table) -> pa.Table:
    """Return what has to be written: new claims, claims that read differently, and held claims no longer made,
    withdrawn.

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
    withdrawn = {o for o, row in old.items() if o not in now and row["status"] in (Status.ACTIVE, Status.DUPLICATE)}
    fresh += [{**old[oid], "status": Status.SUPERSEDED, "reason": WITHDRAWN} for oid in sorted(withdrawn)]
    again = {"status": Status.ACTIVE, "reason": None, "canonical_id": None, "dedupe_key": None}
    orphans = [r for o, r in old.items() if o in now and r["canonical_id"] in withdrawn]
    written = {row["observation_id"] for row in fresh}
    fresh += [{**row, **again} for row in orphans if row["observation_id"] not in written]
    return pa.Table.from_pylist(fresh, schema=OBSERVATIONS.schema)
