"""Make the claims of every session that is new or has grown, with keywords and vectors."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import cast

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.engines.encoders.protocol import find_vector_space, hide_url
from slowwave.schemas.counters import Count, CountByKind
from slowwave.schemas.errors import EncoderFailed
from slowwave.schemas.rows import ClaimRow
from slowwave.schemas.settings import ObserveSettings
from slowwave.schemas.tables import CLAIMS, EXCLUSIONS, MESSAGES
from slowwave.schemas.vocabulary import (
    EXCLUDED,
    MASKED,
    SHARED,
    WITHDRAWALS,
    WITHDRAWN,
    Origin,
    Status,
)
from slowwave.store.publishing import read_releases
from slowwave.tasks.boilerplate.task import (
    Mask,
    find_masked_claims,
    restore_verbatim_quotes,
)
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
from slowwave.tasks.memory_words import read_memory_words
from slowwave.tasks.observe import by_model
from slowwave.tasks.observe.by_model import ExtractionResult, extract_claims
from slowwave.tasks.observe.corrections import (
    CorrectedRow,
    build_correction_claims,
    describe_corrected,
    find_corrected_claims,
    read_corrections,
)
from slowwave.tasks.observe.exclusions import (
    add_exclusions,
    list_left_out_with_claims,
    remove_excluded_claims,
)
from slowwave.tasks.observe.layers import (
    LAYERS,
    REGRESSION,
    SHIPPED,
    can_open_layers,
    name_reader,
)
from slowwave.tasks.observe.observe import (
    COLUMNS,
    GATE_COLUMNS,
    SCHEMA,
    compute_observe_key,
    observe,
)
from slowwave.tasks.observe.shared import build_shared_claims
from slowwave.tasks.observe.trusted import weigh_claims
from slowwave.tasks.pending import (
    find_pending_sessions,
    mark_sessions_done,
    read_trust,
    split_batches,
)
from slowwave.tasks.progress import show_progress
from slowwave.tasks.shards import ShardStep, spread
from slowwave.tasks.trust import VERSION as TRUST_VERSION
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
from slowwave.text.stop_words import MemoryWords

NOT_IN_LAYERS = "persons' words were read by regression, less surely: the encoder's graph can't be opened"
OBSERVED = pa.schema(
    [*(field.with_nullable(True) for field in SCHEMA), pa.field("skipped", pa.string())]
)
NEEDED = ["claim_id", "session_id", "summary", "vector"]
KEYED = pa.schema(
    [CLAIMS.schema.field(name) for name in ("claim_id", "session_id", "keywords")]
)
CLAIM = (*COLUMNS, *GATE_COLUMNS, "keywords", "stems", "vector", "step_key", "trust")
"""The columns that this step writes. The others belong to dedupe and assign, and are kept."""
NOT_PROCESSED: ClaimRow = {
    "vector": None,
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
"""Columns of a claim that no later step has processed."""
PENDING_AGAIN: ClaimRow = {
    "dedupe_key": None,
    "supersede_key": None,
    "assign_key": None,
}
"""Columns of a claim that stands, by which the later steps process it again."""
UNSETTLED: ClaimRow = {"supersede_key": None}
"""The column of a claim that stands and says what it said, by which its changes are looked for again."""


def observe_sessions(job: Job) -> StepReport:
    """Extract claims from each session whose messages changed since it was last observed."""
    with report_step("observe") as report:
        model = get_model(job, "extract")
        mask = Mask(job)
        sessions, reader = _find_readable_sessions(job, model, mask)
        key = compute_claims_key(job, model, reader)
        if reader != name_reader(job.settings):
            report.notes.append(NOT_IN_LAYERS)
        corrections = {one.session for one in read_corrections(job.store)}
        sessions = sessions.filter(~pl.col("session_id").is_in(sorted(corrections)))
        _encode_earlier_claims(job, report)
        report.rows_in = sessions.height
        with show_progress("observe", sessions.height) as advance:
            failed: dict[str, Exception] = {}
            size = SESSIONS_MESSAGES if model else 2_000 * job.executor.at_once
            for group in split_batches(sessions, size):

                def observe_some(
                    ids: Sequence[str],
                    group: pl.DataFrame = group,
                ) -> None:
                    _observe_group(
                        job=job,
                        group=group.filter(pl.col("session_id").is_in(ids)),
                        key=key,
                        report=report,
                        mask=mask,
                        model=model,
                        reader=reader,
                    )

                failed |= do_apart(group["session_id"].to_list(), observe_some)
                advance(group.height)
        failed |= _observe_corrections(job=job, report=report, mask=mask, model=model)
        note_failed_units(job=job, report=report, kind="session", failed=failed)
        report.counts[Count.ECHOES] = mask.echoes
        if model is None:
            report.notes += _explain_other_reader(job, report)
    return report


def _explain_other_reader(job: Job, report: StepReport) -> list[str]:
    """Return a note if the encoder was changed so that another reader makes the claims than before."""
    earlier = read_releases(job.store)[-1:]
    if not earlier or not report.rows_in:
        return []
    before = earlier[0].encoder or "none"
    now = hide_url(job.settings.encoder) if job.settings.embeddings else "none"
    if (find_vector_space(before) == SHIPPED) == (find_vector_space(now) == SHIPPED):
        return []
    withdrawn = report.counts[Count.CLAIMS_WITHDRAWN]
    return [
        f"the encoder was {before} and is {now}: people's messages are read by another reader, "
        f"which makes other claims (earlier ones withdrawn: {withdrawn:,}); "
        "notes, corrections and exclusions are kept"
    ]


def _observe_corrections(
    job: Job,
    report: StepReport,
    mask: Mask,
    model: Model | None,
) -> dict[str, Exception]:
    """Make the claims of corrections, after the claims that they correct; return the failed sessions.

    A correction may correct another one, so this is repeated as long as the last round changed what is pending.
    """
    corrections = read_corrections(job.store)
    sessions = sorted({one.session for one in corrections})
    failed: dict[str, Exception] = {}
    for _ in corrections:
        corrected = find_corrected_claims(job.store, corrections)
        pending, reader = _find_readable_sessions(job, model, mask)
        key = compute_claims_key(job, model, reader)
        pending = pending.filter(
            pl.col("session_id").is_in(sessions),
            ~pl.col("session_id").is_in(sorted(failed)),
        )
        if not pending.height:
            break

        def observe_some(
            ids: Sequence[str],
            pending: pl.DataFrame = pending,
            corrected: Mapping[str, CorrectedRow] = corrected,
            reader: str = reader,
            key: str = key,
        ) -> None:
            group = pending.filter(pl.col("session_id").is_in(ids))
            _observe_group(
                job=job,
                group=group,
                key=key,
                report=report,
                mask=mask,
                model=model,
                reader=reader,
                corrected=corrected,
            )
            _delete_withdrawn(job, ids)

        failed |= do_apart(pending["session_id"].to_list(), observe_some)
        report.rows_in += pending.height
    return failed


def _delete_withdrawn(job: Job, sessions: Sequence[str]) -> None:
    """Delete the withdrawn claims of corrections: they hold words of the corrected claim, which may be forgotten."""
    rows = job.store.read_ids(
        CLAIMS,
        sessions,
        ["claim_id"],
        by="session_id",
        where=pc.field("reason").isin(WITHDRAWALS),
    )
    job.store.delete_ids(CLAIMS, rows["claim_id"].to_pylist())


def _encode_earlier_claims(job: Job, report: StepReport) -> None:
    """Encode the claims of a run without an encoder. Later steps then process them as new ones."""
    filled = job.store.read_ids(
        CLAIMS,
        fill_missing_vectors(job=job, table=CLAIMS, column="summary", report=report),
    )
    if not filled.num_rows:
        return
    rows = []
    for row in add_keywords(job, filled, report).to_pylist():
        stands = row["status"] in (Status.ACTIVE, Status.DUPLICATE)
        rows.append(row | (PENDING_AGAIN if stands else {"supersede_key": None}))
    job.store.merge(CLAIMS, pa.Table.from_pylist(rows, schema=CLAIMS.schema))


def _find_readable_sessions(
    job: Job,
    model: Model | None,
    mask: Mask,
) -> tuple[pl.DataFrame, str]:
    """Return the sessions whose claims are pending, and the reader of persons' sentences.

    If the layers can't be opened, the regression reads what neither of the two has read.
    """
    sessions = find_sessions_to_observe(job, model, mask)
    reader = name_reader(job.settings)
    is_read = sessions.height > 0 and model is None and reader == LAYERS
    if not is_read or can_open_layers():
        return sessions, reader
    others = find_sessions_to_observe(
        job=job, model=model, mask=mask, reader=REGRESSION
    )
    left = sessions["session_id"].implode()
    return others.filter(pl.col("session_id").is_in(left)), REGRESSION


def find_sessions_to_observe(
    job: Job,
    model: Model | None,
    mask: Mask,
    reader: str = "",
) -> pl.DataFrame:
    """Return the sessions whose claims are pending, as `find_pending_sessions` does.

    Args:
        job: the job.
        model: the model that makes claims, if any.
        mask: the exclusions.
        reader: see `compute_claims_key`.
    """
    also = add_exclusions(mask.by_session, job.store.read(EXCLUSIONS))
    corrected = find_corrected_claims(job.store, read_corrections(job.store))
    for session, digest in describe_corrected(corrected).items():
        also[session] = f"{also.get(session, '')} {digest}"
    return find_pending_sessions(
        store=job.store,
        step="observe",
        key=compute_claims_key(job, model, reader),
        also=also,
    )


def compute_claims_key(
    job: Job,
    model: Model | None,
    reader: str = "",
) -> str:
    """Return a hash of a claim's inputs besides its session: of a model also the prompts, packs and its identity.

    Args:
        job: the job.
        model: the model that makes claims, if any.
        reader: the reader of persons' sentences; by default the one that the settings name.
    """
    encoder = describe_encoder(job.settings)
    key = compute_step_key(
        "observe",
        5,
        TRUST_VERSION,
        compute_observe_key(job.settings.observe),
        reader or name_reader(job.settings),
        job.settings.keywords,
        encoder,
    )
    if model is None:
        return key
    what = job.settings.extract.model_dump_json(
        include={"chunk_tokens", "answer_tokens", "max_claims"}
    )
    packs = model.library.compute_digest((), resolve_pack_names(job.settings))
    return compute_model_key(
        model, "observe", by_model.VERSION, by_model.PROMPTS, key, packs, what
    )


def _quarantine_group(
    job: Job,
    done: pl.DataFrame,
    seen: ExtractionResult,
    report: StepReport,
) -> None:
    """Write a model's answers that were rejected to the quarantine; resolve earlier ones of the sessions."""
    ended = done["session_id"].to_list()
    quarantine_rejected(
        store=job.store,
        step="observe",
        rejected=seen.rejected,
        settled=ended,
        report=report,
    )


def _weigh_group_claims(
    job: Job,
    claims: pa.Table,
    live: pa.Table,
    shared: pa.Table,
    ids: list[str],
) -> pa.Table:
    """Return claims with their worth, by the texts of their messages and whose words these are."""
    texts = dict(zip(*_read_texts(live, shared), strict=True))
    return weigh_claims(claims, texts, read_trust(job, ids))


def _write_claims(
    job: Job,
    claims: pa.Table,
    report: StepReport,
) -> None:
    """Write claims, and count the rows and the claims withdrawn."""
    report.rows_out += job.store.merge(CLAIMS, claims)
    is_withdrawn = pc.is_in(claims["reason"], pa.array(WITHDRAWALS))
    report.counts[Count.CLAIMS_WITHDRAWN] += pc.sum(is_withdrawn).as_py() or 0


def _observe_group(
    job: Job,
    group: pl.DataFrame,
    key: str,
    report: StepReport,
    mask: Mask,
    model: Model | None,
    reader: str,
    corrected: Mapping[str, CorrectedRow] = MappingProxyType({}),
) -> None:
    """Write the claims of some sessions, and mark the sessions as done.

    `reader` reads persons' sentences. `corrected` has the corrected claim of the sessions that are corrections.
    """
    ids = group["session_id"].to_list()
    # 1. Extract claims. A session in `seen.pending` waits for the model.
    exclusions = job.store.read(EXCLUSIONS)
    live, shared = _read_active_messages(job, group, exclusions)
    shown = mask.mask_messages(live)
    told, _ = _split_by_session(shown, corrected)
    seen = _extract_group_claims(
        job=job, shown=told, model=model, report=report, reader=reader
    )
    own = restore_verbatim_quotes(build_claims_table(seen.claims), shown, live)
    claims = _join_claims(own, _build_given(live, shared, corrected), seen.pending)
    claims = _weigh_group_claims(
        job=job, claims=claims, live=live, shared=shared, ids=ids
    )
    # 2. Write what differs from the stored ones.
    stored, waiting = _split_by_session(
        job.store.read_ids(CLAIMS, ids, by="session_id"), seen.pending
    )
    made = build_claim_rows(
        job=job, claims=claims, stored=stored, key=key, report=report
    )
    now = remove_excluded_claims(made, exclusions)
    reasons = _explain_withdrawn(made, now, find_masked_claims(stored, shown, live))
    fresh = select_changed_rows(now, stored, reasons)
    withdrawn = _select_withdrawn(waiting, live, exclusions)
    _write_claims(job, pa.concat_tables([fresh, withdrawn]), report)
    # 3. Mark the sessions as done, but for those that wait for a model.
    done = group.filter(~pl.col("session_id").is_in(sorted(seen.pending)))
    if model:
        _quarantine_group(job=job, done=done, seen=seen, report=report)
    mark_sessions_done(store=job.store, step="observe", sessions=done, notes=seen.notes)


def _read_active_messages(
    job: Job,
    group: pl.DataFrame,
    exclusions: pa.Table,
) -> tuple[pa.Table, pa.Table]:
    """Return the sessions' active messages: the transcripts' own, and those that another memory shared.

    A message that is left out with its claim is read, since its neighbours are read with it. Tool output is not read:
    it is most of a coding session's bytes, and nobody said it.
    """
    ids = group["session_id"].to_list()
    messages = job.store.read_ids(
        MESSAGES, ids, by="session_id", where=pc.field("origin") != Origin.TOOL
    )
    gone = set(chain.from_iterable(group["inactive"].to_list()))
    gone -= list_left_out_with_claims(exclusions)
    inactive = pa.array(sorted(gone), pa.string())
    active = messages.filter(pc.invert(pc.is_in(messages["message_id"], inactive)))
    is_shared = pc.equal(active["source"], SHARED)
    return active.filter(pc.invert(is_shared)), active.filter(is_shared)


def _build_given(
    live: pa.Table,
    shared: pa.Table,
    corrected: Mapping[str, CorrectedRow],
) -> pa.Table:
    """Return the claims that nothing extracts: those of other memories, and corrections."""
    given = [*build_shared_claims(shared), *build_correction_claims(live, corrected)]
    return build_claims_table(given)


def _read_texts(live: pa.Table, shared: pa.Table) -> tuple[list[str], list[str]]:
    """Return the ids of messages, and their texts."""
    rows = pa.concat_tables([live, shared])
    return rows["message_id"].to_pylist(), rows["text"].to_pylist()


def _join_claims(
    own: pa.Table,
    shared: pa.Table,
    pending: Collection[str],
) -> pa.Table:
    """Return the claims of the transcripts and of other memories, without those of pending sessions."""
    claims, _ = _split_by_session(pa.concat_tables([own, shared]), pending)
    return claims


def _split_by_session(
    rows: pa.Table,
    sessions: Collection[str],
) -> tuple[pa.Table, pa.Table]:
    """Return the rows of other sessions, and the rows of the given sessions."""
    is_given = pc.is_in(rows["session_id"], pa.array(sorted(sessions), pa.string()))
    return rows.filter(pc.invert(is_given)), rows.filter(is_given)


def _select_withdrawn(
    waiting: pa.Table,
    live: pa.Table,
    exclusions: pa.Table,
) -> pa.Table:
    """Return the rows that change in waiting sessions: claims that a person excluded or whose messages are gone, as
    withdrawn, and their duplicates as active.
    """
    standing = _select_standing_claims(waiting, live)
    kept = remove_excluded_claims(standing, exclusions)
    return select_changed_rows(kept, waiting, _explain_withdrawn(standing, kept))


def _explain_withdrawn(
    claims: pa.Table,
    kept: pa.Table,
    masked: Collection[str] = (),
) -> dict[str, str]:
    """Return by id why claims are withdrawn: they are masked, or not among those kept, since a person left them out."""
    left_out = set(claims["claim_id"].to_pylist()) - set(kept["claim_id"].to_pylist())
    return dict.fromkeys(masked, MASKED) | dict.fromkeys(left_out, EXCLUDED)


def _select_standing_claims(claims: pa.Table, live: pa.Table) -> pa.Table:
    """Return the claims that are not withdrawn and whose messages are all active."""
    there = set(live["message_id"].to_pylist())
    rows = zip(
        claims["reason"].to_pylist(), claims["message_ids"].to_pylist(), strict=True
    )
    return claims.filter(
        pa.array(
            [why not in WITHDRAWALS and there.issuperset(ids) for why, ids in rows],
            pa.bool_(),
        )
    )


def _extract_group_claims(
    job: Job,
    shown: pa.Table,
    model: Model | None,
    report: StepReport,
    reader: str,
) -> ExtractionResult:
    """Return the claims of each session, by the model or by rules. The model leaves the GPU afterwards."""
    if not shown.num_rows:
        return ExtractionResult([], {})
    if model is None:
        settings = job.settings.observe
        do = partial(observe_shard, settings=settings, in_layers=reader == LAYERS)
        step = ShardStep(
            name="observe",
            settings=f"{compute_observe_key(settings)} {reader}",
            schema=OBSERVED,
            do=do,
        )
        rows = spread(
            executor=job.executor, step=step, rows=shown, by="session_id"
        ).to_pylist()
        skipped = {
            row["session_id"]: row["skipped"]
            for row in rows
            if row["skipped"] is not None
        }
        report.counts[Count.SESSIONS_SKIPPED] += len(skipped)
        sessions = len(shown["session_id"].unique())
        report.kinds[CountByKind.SESSIONS_READ][reader] += sessions
        return ExtractionResult(
            [row for row in rows if row["skipped"] is None], skipped
        )
    try:
        return extract_claims(
            messages=shown, settings=job.settings, model=model, report=report
        )
    finally:
        model.llm.free_gpu()
        model.record_usage(report)


Made = dict[tuple[str, str], ClaimRow]
"""Vector and keywords by a claim's id and summary."""


def build_claim_rows(
    job: Job,
    claims: pa.Table,
    stored: pa.Table,
    key: str,
    report: StepReport,
) -> pa.Table:
    """Return claims as rows of CLAIMS that no later step has processed.

    Vectors and keywords of equal stored claims are reused; the others are computed.
    """
    reusable = _collect_made(stored, key)
    rows = list[ClaimRow]()
    for claim in claims.to_pylist():
        row: ClaimRow = {
            **claim,
            **NOT_PROCESSED,
            "step_key": key,
            "valid_from": claim["observed_at"],
            "keywords": [],
        }
        row["evidence_sessions"] = [claim["session_id"]]
        row["stems"] = list(normalise_claim(claim["summary"]).content)
        rows.append(row | reusable.get((claim["claim_id"], claim["summary"]), {}))
    table = pa.Table.from_pylist(rows, schema=CLAIMS.schema)
    encoded = table.filter(table["vector"].is_valid())
    new = table.filter(table["vector"].is_null())
    new = add_keywords(
        job,
        attach_vectors_if_there(job=job, rows=new, column="summary", report=report),
        report,
    )
    if is_encoder_away(job):
        # Without an encoder, the vectors that equal claims got under another key are used.
        earlier = _collect_made(stored)
        rows = [
            row | earlier.get((row["claim_id"], row["summary"]), {})
            for row in new.to_pylist()
        ]
        new = pa.Table.from_pylist(rows, schema=CLAIMS.schema)
    return pa.concat_tables([encoded, new])


def _collect_made(stored: pa.Table, key: str | None = None) -> Made:
    """Return the vectors and keywords of stored claims: those made under the key, or all."""
    return {
        (row["claim_id"], row["summary"]): {
            "vector": row["vector"],
            "keywords": row["keywords"],
        }
        for row in stored.to_pylist()
        if key is None or row["step_key"] == key
    }


def add_keywords(
    job: Job,
    table: pa.Table,
    report: StepReport,
) -> pa.Table:
    """Return rows of CLAIMS with keywords, if there is an encoder and keywords are enabled."""
    encoder = get_encoder_if_there(job, report) if table.num_rows else None
    if encoder is None or not job.settings.keywords.top:
        return table
    setting = job.settings.encoder
    top = job.settings.keywords.top
    memory = read_memory_words(job.store)
    do = partial(extract_shard_keywords, encoder=setting, top=top, memory=memory)
    step = ShardStep(
        name="keywords",
        settings=f"{setting} {top} {memory.describe()}",
        schema=KEYED,
        do=do,
        uses="encoder",
    )
    try:
        made = spread(
            executor=get_encoder_executor(job),
            step=step,
            rows=table.select(NEEDED),
            by="session_id",
        )
    except EncoderFailed as gone:
        give_up_encoder(job, report, gone)
        return table
    keywords = dict(
        zip(
            made["claim_id"].to_pylist(),
            made["keywords"].to_pylist(),
            strict=True,
        )
    )
    rows = pa.array(
        [keywords[key] for key in table["claim_id"].to_pylist()],
        KEYED.field("keywords").type,
    )
    return table.set_column(
        table.schema.get_field_index("keywords"), table.schema.field("keywords"), rows
    )


def observe_shard(
    shard: pa.Table,
    *,
    settings: ObserveSettings,
    in_layers: bool,
) -> pa.Table:
    """Return a shard's claims, and for each session without claims a row with the reason."""
    seen = observe(shard, settings, in_layers=in_layers)
    none = [
        {"session_id": session, "skipped": why} for session, why in seen.skipped.items()
    ]
    return pa.Table.from_pylist(seen.claims.to_pylist() + none, schema=OBSERVED)


def extract_shard_keywords(
    shard: pa.Table,
    *,
    encoder: str,
    top: int,
    memory: MemoryWords,
) -> pa.Table:
    """Return the keywords of a shard's claims."""
    vectors = build_vector_matrix(shard["vector"])
    keywords = extract_keywords(
        texts=shard["summary"].to_pylist(),
        vectors=vectors,
        encoder=load_shared_encoder(encoder),
        top=top,
        memory=memory,
    )
    return pa.table(
        [
            shard["claim_id"],
            shard["session_id"],
            pa.array(keywords, KEYED.field("keywords").type),
        ],
        schema=KEYED,
    )


Rows = dict[str, ClaimRow]
"""Rows of CLAIMS by id."""


def select_changed_rows(
    claims: pa.Table,
    stored: pa.Table,
    reasons: Mapping[str, str],
) -> pa.Table:
    """Return the rows to write: new claims, changed claims, and stored claims that are no longer made.

    The last are withdrawn, for what `reasons` says by their ids, or since nothing says so any more. Of claims that a
    later one replaced, only those that a person left out are. An unchanged claim keeps what later steps wrote to it. A
    claim that was withdrawn before counts as new.
    """
    old: Rows = {row["claim_id"]: row for row in stored.to_pylist()}
    now: Rows = {row["claim_id"]: row for row in claims.to_pylist()}
    changed = _select_new_or_changed(now, old)
    withdrawn = sorted(
        key
        for key, row in old.items()
        if key not in now
        and (
            row["status"] in (Status.ACTIVE, Status.DUPLICATE)
            or reasons.get(key) == EXCLUDED != row["reason"]
        )
    )
    for key in withdrawn:
        reason = reasons.get(key, WITHDRAWN)
        changed.append({**old[key], "status": Status.SUPERSEDED, "reason": reason})
    changed += _release_duplicates(
        now=now,
        old=old,
        withdrawn=set(withdrawn),
        written={row["claim_id"] for row in changed},
    )
    return pa.Table.from_pylist(changed, schema=CLAIMS.schema)


def _select_new_or_changed(now: Rows, old: Rows) -> list[ClaimRow]:
    """Return claims that are new, were withdrawn before, or differ from the stored ones in a column of CLAIM.

    One that stands and says something else than before is compared and placed again.
    """
    changed: list[ClaimRow] = []
    for key, row in now.items():
        before = old.get(key)
        if before is None or before["reason"] in WITHDRAWALS:
            changed.append(row)
        elif _take_own_columns(before) != _take_own_columns(row):
            stands = before["status"] in (Status.ACTIVE, Status.DUPLICATE)
            is_reworded = stands and before["summary"] != row["summary"]
            again = PENDING_AGAIN if is_reworded else UNSETTLED
            changed.append(before | _take_own_columns(row) | again)
    return changed


def _take_own_columns(row: ClaimRow) -> ClaimRow:
    """Return the columns of a claim that this step writes."""
    own = {name: value for name, value in row.items() if name in CLAIM}
    return cast("ClaimRow", own)


def _release_duplicates(
    now: Rows,
    old: Rows,
    withdrawn: Collection[str],
    written: Collection[str],
) -> list[ClaimRow]:
    """Return the duplicates of withdrawn claims as active claims, without those that are written already."""
    active: ClaimRow = {
        "status": Status.ACTIVE,
        "reason": None,
        "canonical_id": None,
        "dedupe_key": None,
    }
    orphans = [
        row
        for key, row in old.items()
        if key in now and row["canonical_id"] in withdrawn
    ]
    return [{**row, **active} for row in orphans if row["claim_id"] not in written]
