"""Claims of every session that is new or has grown, with keywords and vectors."""

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.errors import EncoderFailed
from slowwave.schemas.settings import ObserveSettings
from slowwave.schemas.tables import EXCLUSIONS, MESSAGES, OBSERVATIONS
from slowwave.schemas.vocabulary import MASKED, SHARED, WITHDRAWALS, WITHDRAWN, Origin, Status
from slowwave.tasks.boilerplate.task import Mask, find_masked_claims, restore_verbatim_quotes
from slowwave.tasks.dedupe.normalise import normalise_claim
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
from slowwave.tasks.llm.claims import build_claims_table
from slowwave.tasks.observe import by_model
from slowwave.tasks.observe.by_model import ExtractionResult, extract_claims
from slowwave.tasks.observe.exclusions import add_exclusions, remove_excluded_claims
from slowwave.tasks.observe.observe import COLUMNS, GATE_COLUMNS, SCHEMA, compute_observe_key, observe
from slowwave.tasks.observe.shared import build_shared_claims
from slowwave.tasks.pending import find_pending_sessions, mark_sessions_done, split_batches
from slowwave.tasks.progress import show_progress
from slowwave.tasks.shards import ShardStep, spread
from slowwave.tasks.vector_columns import build_vector_matrix
from slowwave.tasks.vectors import (
    attach_vectors_if_there,
    describe_encoder,
    fill_missing_vectors,
    get_encoder_executor,
    get_encoder_if_there,
    give_up_encoder,
    is_encoder_away,
    load_shared_encoder,
)

OBSERVED = pa.schema([*(field.with_nullable(True) for field in SCHEMA), pa.field("skipped", pa.string())])
NEEDED = ["observation_id", "session_id", "summary", "vector"]
KEYED = pa.schema([OBSERVATIONS.schema.field(name) for name in ("observation_id", "session_id", "keywords")])
CLAIM = (*COLUMNS, *GATE_COLUMNS, "keywords", "stems", "vector", "step_key")
"""The columns this step writes; the others belong to dedupe and assign, and are kept as they are."""


def observe_sessions(job: Job) -> StepReport:
    """Distil claims from each session whose messages changed since it was last observed."""
    with report_step("observe") as report:
        model = get_model(job, "extract")
        mask, key = Mask(job), compute_observations_key(job, model)
        sessions = find_sessions_to_observe(job, model, mask)
        # claims of a night without an encoder are encoded; the next steps look at them as if they were new
        filled = job.store.read_ids(OBSERVATIONS, fill_missing_vectors(job, OBSERVATIONS, "summary", report))
        if filled.num_rows:
            again = {"dedupe_key": None, "supersede_key": None, "assign_key": None}
            rows = [
                row | (again if row["status"] in (Status.ACTIVE, Status.DUPLICATE) else {"supersede_key": None})
                for row in add_keywords(job, filled, report).to_pylist()
            ]
            job.store.merge(OBSERVATIONS, pa.Table.from_pylist(rows, schema=OBSERVATIONS.schema))
        report.rows_in = sessions.height
        with show_progress("observe", sessions.height) as advance:
            failed: dict[str, Exception] = {}
            size = SESSIONS_MESSAGES if model else 2_000 * job.executor.at_once
            for group in split_batches(sessions, size):

                def observe_some(ids: Sequence[str], group: pl.DataFrame = group) -> None:
                    _observe_group(job, group.filter(pl.col("session_id").is_in(ids)), key, report, mask, model)

                failed |= do_apart(group["session_id"].to_list(), observe_some)
                advance(group.height)
        note_failed_units(job, report, "session", failed)
        report.counts["echoes of recall left out"] = mask.echoes
    return report


def find_sessions_to_observe(job: Job, model: Model | None, mask: Mask) -> pl.DataFrame:
    """Return the sessions whose claims are to be made, as `find_pending_sessions` does."""
    also = add_exclusions(mask.by_session, job.store.read(EXCLUSIONS))
    return find_pending_sessions(job.store, "observe", compute_observations_key(job, model), also)


def compute_observations_key(job: Job, model: Model | None) -> str:
    """Return a hash of a claim's inputs besides its session; with a model, also of prompts, packs and the model."""
    encoder = describe_encoder(job.settings)
    key = compute_step_key("observe", 1, compute_observe_key(job.settings.observe), job.settings.keywords, encoder)
    if model is None:
        return key
    what = job.settings.extract.model_dump_json(include={"chunk_tokens", "answer_tokens", "max_claims"})
    packs = model.library.compute_digest((), resolve_pack_names(job.settings))
    return compute_model_key(model, "observe", by_model.VERSION, by_model.PROMPTS, key, packs, what)


def _observe_group(
    job: Job, group: pl.DataFrame, key: str, report: StepReport, mask: Mask, model: Model | None
) -> None:
    ids = group["session_id"].to_list()
    # What tools printed is most of a coding session's bytes, and none of it is anybody's words.
    messages = job.store.read_ids(MESSAGES, ids, by="session_id", where=pc.field("origin") != Origin.TOOL)
    gone = pa.array([m for row in group["inactive"].to_list() for m in row], pa.string())
    live = messages.filter(pc.invert(pc.is_in(messages["message_id"], gone)))
    is_given = pc.equal(live["source"], SHARED)  # by another memory
    live, given = live.filter(pc.invert(is_given)), live.filter(is_given)
    shown = mask.mask_messages(live)
    seen = _extract_group_claims(job, shown, model, report)
    waiting = pa.array(sorted(seen.pending), pa.string())
    stored = job.store.read_ids(OBSERVATIONS, ids, by="session_id")
    waits = pc.is_in(stored["session_id"], waiting)
    stored, late = stored.filter(pc.invert(waits)), stored.filter(waits)
    claims_said = restore_verbatim_quotes(build_claims_table(seen.claims), shown, live)
    claims = pa.concat_tables([claims_said, build_claims_table(build_shared_claims(given))])
    claims = claims.filter(pc.invert(pc.is_in(claims["session_id"], waiting)))
    now = build_observation_rows(job, claims, stored, key, report)
    exclusions = job.store.read(EXCLUSIONS)
    now = remove_excluded_claims(now, exclusions)
    fresh = select_changed_rows(now, stored, find_masked_claims(stored, shown, live))
    # a session that waits for the model keeps its claims, but for those that a person or the transcript took back
    standing = remove_excluded_claims(_select_standing_claims(late, live), exclusions)
    fresh = pa.concat_tables([fresh, select_changed_rows(standing, late)])
    report.rows_out += job.store.merge(OBSERVATIONS, fresh)
    report.counts["claims withdrawn"] += pc.sum(pc.is_in(fresh["reason"], pa.array(WITHDRAWALS))).as_py() or 0
    if model:
        quarantine_rejected(job.store, "observe", seen.rejected, set(ids) - set(seen.pending), report)
    done = group.filter(~pl.col("session_id").is_in(sorted(seen.pending)))
    mark_sessions_done(job.store, "observe", done, seen.notes)


def _select_standing_claims(claims: pa.Table, live: pa.Table) -> pa.Table:
    """Return the claims that are not withdrawn and whose messages all still count."""
    there = set(live["message_id"].to_pylist())
    rows = zip(claims["reason"].to_pylist(), claims["message_ids"].to_pylist(), strict=True)
    return claims.filter(pa.array([why not in WITHDRAWALS and there.issuperset(ids) for why, ids in rows], pa.bool_()))


def _extract_group_claims(job: Job, shown: pa.Table, model: Model | None, report: StepReport) -> ExtractionResult:
    """Return the claims of each session by the model, which leaves the GPU to the encoder then, or without one."""
    if model is None:
        settings = job.settings.observe
        step = ShardStep("observe", compute_observe_key(settings), OBSERVED, partial(observe_shard, settings=settings))
        rows = spread(job.executor, step, shown, "session_id").to_pylist()
        skipped = {row["session_id"]: row["skipped"] for row in rows if row["skipped"] is not None}
        report.counts["sessions skipped"] += len(skipped)
        return ExtractionResult([row for row in rows if row["skipped"] is None], skipped)
    try:
        return extract_claims(shown, job.settings, model, report)
    finally:
        model.llm.free_gpu()
        model.record_usage(report)


def build_observation_rows(job: Job, claims: pa.Table, stored: pa.Table, key: str, report: StepReport) -> pa.Table:
    """Return claims as rows of OBSERVATIONS: the vectors and keywords that equal rows have, else new ones, and the
    state of one that nobody has looked at.
    """
    # vectors and keywords that equal claims have
    made_before = [
        ((row["observation_id"], row["summary"]), row["step_key"], {name: row[name] for name in ("vector", "keywords")})
        for row in stored.to_pylist()
    ]
    times = {claim: made for claim, step_key, made in made_before if step_key == key}
    # the claims as rows
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
        "supersede_key": None,
        "topic_id": None,
        "assign_key": None,
    }
    rows = [
        {**row, **state, "valid_from": row["observed_at"], "evidence_sessions": [row["session_id"]]}
        | {"stems": normalise_claim(row["summary"]).content}
        | times.get((row["observation_id"], row["summary"]), {})
        for row in claims.to_pylist()
    ]
    table = pa.Table.from_pylist(rows, schema=OBSERVATIONS.schema)
    # what is still to be encoded
    old, new = (table.filter(table["vector"].is_valid()), table.filter(table["vector"].is_null()))
    new = add_keywords(job, attach_vectors_if_there(job, new, "summary", report), report)
    if is_encoder_away(job):  # what the same claims had by other rules is better than none
        before = {claim: made for claim, _, made in made_before}
        rows = [row | before.get((row["observation_id"], row["summary"]), {}) for row in new.to_pylist()]
        new = pa.Table.from_pylist(rows, schema=OBSERVATIONS.schema)
    return pa.concat_tables([old, new])


def add_keywords(job: Job, table: pa.Table, report: StepReport) -> pa.Table:
    """Return rows of OBSERVATIONS with keywords, where there is an encoder and they are wanted."""
    encoder = get_encoder_if_there(job, report) if table.num_rows else None
    if encoder is None or not job.settings.keywords.top:
        return table
    setting, top = job.settings.encoder, job.settings.keywords.top
    do = partial(extract_shard_keywords, encoder=setting, top=top)
    step = ShardStep("keywords", f"{setting} {top}", KEYED, do, "encoder")
    try:
        made = spread(get_encoder_executor(job), step, table.select(NEEDED), "session_id")
    except EncoderFailed as gone:
        give_up_encoder(job, report, gone)
        return table
    keywords = dict(zip(made["observation_id"].to_pylist(), made["keywords"].to_pylist(), strict=True))
    rows = pa.array([keywords[key] for key in table["observation_id"].to_pylist()], KEYED.field("keywords").type)
    return table.set_column(table.schema.get_field_index("keywords"), table.schema.field("keywords"), rows)


def observe_shard(shard: pa.Table, *, settings: ObserveSettings) -> pa.Table:
    """Return a shard's claims, and a row for each session without, which says why."""
    seen = observe(shard, settings)
    none = [{"session_id": session, "skipped": why} for session, why in seen.skipped.items()]
    return pa.Table.from_pylist(seen.claims.to_pylist() + none, schema=OBSERVED)


def extract_shard_keywords(shard: pa.Table, *, encoder: str, top: int) -> pa.Table:
    """Return the keywords of a shard's claims."""
    vectors = build_vector_matrix(shard["vector"])
    keywords = extract_keywords(shard["summary"].to_pylist(), vectors, load_shared_encoder(encoder), top)
    return pa.table(
        [shard["observation_id"], shard["session_id"], pa.array(keywords, KEYED.field("keywords").type)], schema=KEYED
    )


def select_changed_rows(claims: pa.Table, stored: pa.Table, masked: Collection[str] = ()) -> pa.Table:
    """Return the rows to write: new claims, claims that read differently, and stored claims no longer made,
    withdrawn, with another reason for those `masked`.

    A claim that is held keeps what later steps wrote to it. One that repeats a withdrawn claim counts as new again.
    """
    old = {row["observation_id"]: row for row in stored.to_pylist()}
    now = {row["observation_id"]: row for row in claims.to_pylist()}
    # claims that are new, come back or read otherwise
    fresh: list[dict[str, Any]] = []
    for oid, row in now.items():
        before = old.get(oid)
        if before is None or before["reason"] in WITHDRAWALS:
            fresh.append(row)
        elif any(before[name] != row[name] for name in CLAIM):
            fresh.append({**before, **{name: row[name] for name in CLAIM}, "supersede_key": None})
    # claims that the transcripts no longer bear out
    withdrawn = {o for o, row in old.items() if o not in now and row["status"] in (Status.ACTIVE, Status.DUPLICATE)}
    for oid in sorted(withdrawn):
        reason = MASKED if oid in masked else WITHDRAWN
        fresh.append({**old[oid], "status": Status.SUPERSEDED, "reason": reason})
    # what repeated those stands for itself again
    again = {"status": Status.ACTIVE, "reason": None, "canonical_id": None, "dedupe_key": None}
    orphans = [r for o, r in old.items() if o in now and r["canonical_id"] in withdrawn]
    written = {row["observation_id"] for row in fresh}
    fresh += [{**row, **again} for row in orphans if row["observation_id"] not in written]
    return pa.Table.from_pylist(fresh, schema=OBSERVATIONS.schema)
