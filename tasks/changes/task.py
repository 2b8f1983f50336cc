"""Find claims that a later claim changes: judge new claims against the stored ones."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.engines.encoders.pair_reader import READER_FILE, find_reader
from slowwave.schemas.counters import Count
from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import (
    CHAIN,
    CLAIMS,
    MARKS,
    MERGES,
    MESSAGES,
    PASSAGES,
    TRUST,
    Table,
)
from slowwave.schemas.vocabulary import (
    AFFIRMED,
    CORRECTED,
    LEADS,
    NARROWED,
    PERHAPS_RESTORED,
    LedgerKind,
    Origin,
    Status,
)
from slowwave.store.store import Store
from slowwave.tasks.changes.chains import (
    CHAIN_COLUMNS,
    CHAINS,
    LINKS,
    SAID,
    find_linked_claims,
    read_likely,
    spread_over_claims,
    spread_over_passages,
)
from slowwave.tasks.changes.decide import PERHAPS
from slowwave.tasks.changes.features import READ, IdfTable
from slowwave.tasks.changes.letters import LETTERS_FILE
from slowwave.tasks.changes.model import CHANGES_FILE, UNREAD_FILE
from slowwave.tasks.changes.outcome import (
    ACTIVE,
    VERSION,
    Known,
    Superseded,
    supersede,
)
from slowwave.tasks.changes.verdicts import (
    PROMPTS,
    Answered,
    Ids,
    Judge,
    Pair,
    PairAnswer,
    build_questions,
    parse_answers,
    read_verdicts,
)
from slowwave.tasks.changes.verdicts import VERSION as VERDICTS_VERSION
from slowwave.tasks.dedupe.pairs import set_columns
from slowwave.tasks.dedupe.task import (
    CANONICAL,
    SCOPE,
    add_vectors,
    build_scope,
    read_undone_pairs,
)
from slowwave.tasks.job import (
    Job,
    StepReport,
    compute_step_key,
    digest_shipped,
    report_step,
)
from slowwave.tasks.llm.ask import (
    Model,
    compute_model_key,
    get_model,
    quarantine_rejected,
)
from slowwave.tasks.llm.library import index_questions, list_requests
from slowwave.tasks.observe.corrections import pair_corrections
from slowwave.tasks.observe.layers import LAYERS_FILE, reads_in_layers
from slowwave.tasks.observe.reader import READER_FILE as STATEMENTS_FILE
from slowwave.tasks.observe.statements import is_of_moment, is_retraction
from slowwave.tasks.pending import mark_done, read_claim_speakers
from slowwave.tasks.vectors import describe_encoder
from slowwave.text.workspaces import find_places

STANDING = ["claim_id", "status", "superseded_by", "supersede_key"]
"""The columns that decide which claims to judge."""
WRITTEN = ["claim_id", *ACTIVE]
COMPARED = [
    *{
        *WRITTEN,
        *SCOPE,
        *READ,
        "observed_at",
        "observer",
        TRUST,
        "confidence",
        "canonical_id",
        "detail",
        "quote",
        "stems",
        "message_ids",
    }
]
"""The columns that are written and those that are read, except the vector."""
OPEN_DOUBT = (pc.field("kind") == LedgerKind.DOUBT) & ~pc.field("undone")
"""Ledger rows that link two active claims."""
OPEN_AGREEMENT = (pc.field("kind") == LedgerKind.AGREEMENT) & ~pc.field("undone")
JUDGED = CANONICAL & pc.field("observed_at").is_valid()
"""The claims that may change each other."""
Doubts = set[Ids]
"""The earlier and the later claim of each linked pair."""


def supersede_claims(job: Job) -> StepReport:
    """Judge claims that are new or wait for the model, and update the chains."""
    with report_step("supersede") as report:
        _judge_claims(job, report)
        report.counts[Count.CHAIN_ROWS] = write_chains(job.store)
    return report


def _judge_claims(job: Job, report: StepReport) -> None:
    """Judge the claims that are new or wait for the model, and write the ledger and the claims."""
    model = get_model(job, "judge") if job.settings.supersede.pairs else None
    key = compute_supersede_key(job, model)
    doubts = read_doubts(job.store)
    corrections = pair_corrections(job.store, read_undone_pairs(job.store))
    fresh = find_claims_to_judge(job.store, key, doubts)
    fresh |= _find_unwritten(job.store, corrections)
    report.rows_in = len(fresh)
    if not fresh:
        return
    judged = fresh | _find_doubted_near(job.store, fresh, doubts)
    claims, elsewhere = read_scope(job.store, judged, [*doubts, *corrections])
    judging = make_judge(job, model, report) if model else None
    outcome = _supersede(
        job=job, claims=claims, judging=judging, judged=judged, corrections=corrections
    )
    # Write the ledger first: if the night ends here, the next one judges the claims again.
    job.store.merge_changed(MERGES, outcome.merges)
    unjudged = {*claims["claim_id"].to_pylist()} - judged
    others = elsewhere | (unjudged - {*outcome.claims["claim_id"].to_pylist()})
    job.store.delete_ids(MERGES, find_settled_doubts(job.store, outcome.merges, others))
    job.store.update(
        CLAIMS,
        _collect_judged_rows(claims=claims, outcome=outcome, fresh=fresh, key=key),
    )
    report.rows_out = outcome.claims.num_rows
    _count_outcomes(outcome, report)
    if model is not None:
        model.record_usage(report)


def _supersede(
    job: Job,
    claims: pa.Table,
    judging: Judge | None,
    judged: set[str],
    corrections: Mapping[Ids, bool],
) -> Superseded:
    """Judge these claims; ledger rows that the classifier decides get its key, with or without a model."""
    verdicts = job.store.read(MERGES, where=pc.field("kind") == LedgerKind.JUDGEMENT)
    stems = job.store.read(CLAIMS, ["stems"], JUDGED)["stems"]
    in_layers = reads_in_layers(job.settings)
    known = Known(
        step_key=compute_supersede_key(job),
        undone=read_undone_pairs(job.store),
        verdicts=read_verdicts(verdicts),
        judge=judging,
        fresh=judged,
        reader=find_reader(describe_encoder(job.settings)),
        idf=IdfTable.from_stems(stems),
        is_of_moment=partial(is_of_moment, in_layers=in_layers),
        is_retraction=partial(is_retraction, in_layers=in_layers),
        executor=job.executor,
        corrections=corrections,
        unheard=_find_unheard_repeats(job.store, corrections),
    )
    return supersede(claims, known)


def _collect_judged_rows(
    claims: pa.Table,
    outcome: Superseded,
    fresh: set[str],
    key: str,
) -> pa.Table:
    """Return the changed and the judged claims; those that are settled get the key, the others none."""
    changed = outcome.claims.select(WRITTEN)
    unchanged = fresh.difference(outcome.unsettled, changed["claim_id"].to_pylist())
    is_unchanged = pc.is_in(claims["claim_id"], pa.array([*unchanged], pa.string()))
    rows = pa.concat_tables([changed, claims.select(WRITTEN).filter(is_unchanged)])
    settled = pc.invert(
        pc.is_in(rows["claim_id"], pa.array(sorted(outcome.unsettled), pa.string()))
    )
    return set_columns(
        rows, supersede_key=pc.if_else(settled, key, pa.scalar(None, pa.string()))
    )


def write_chains(store: Store) -> int:
    """Update the chains of claims and, in changed workspaces, of passages; return the number of rows written."""
    return _write_claim_chains(store) + _write_passage_chains(store)


def _write_claim_chains(store: Store) -> int:
    """Update the chains of the claims that are linked."""
    ledger = store.read(
        MERGES, ["from_id", "into_id", "rule", "scores"], OPEN_DOUBT
    ).to_pylist()
    links = {row["from_id"]: (row["into_id"], read_likely(row)) for row in ledger}
    restoring = {row["from_id"] for row in ledger if row["rule"] == PERHAPS_RESTORED}
    claims = store.read(CLAIMS, LINKS)
    linked = pa.array(find_linked_claims(claims, links), pa.string())
    before = claims.filter(pc.is_in(claims["claim_id"], linked))
    return _merge_chains(
        store=store,
        table=CLAIMS,
        before=before,
        after=spread_over_claims(before, links, restoring),
    )


def _write_passage_chains(store: Store) -> int:
    """Update the chains of passages in workspaces where the chains of claims or passages have changed."""
    marks = store.read(
        MARKS, ["unit_id", "input_key"], pc.field("step") == "chains"
    ).to_pylist()
    done = {row["unit_id"]: row["input_key"] for row in marks}
    keys = _compute_place_keys(store)
    linked = pl.DataFrame(
        store.read(CLAIMS, ["workspace"], pc.field("chain_id").is_valid())
    )["workspace"]
    with_chains = {name_place(name) for name in linked.unique()} | done.keys()
    pending = [
        name
        for name in keys
        if (unit := name_place(name)) in with_chains and done.get(unit) != keys[name]
    ]
    if not pending:
        return 0
    pending = _add_rest_of_projects(pending, keys)
    here = pc.field("workspace").isin(
        pa.array([name for name in pending if name is not None], pa.string())
    )
    if None in pending:
        here = here | pc.field("workspace").is_null()
    passages = store.read(PASSAGES, SAID, here)
    after = spread_over_passages(passages, store.read(CLAIMS, CHAIN_COLUMNS, here))
    written = _merge_chains(store=store, table=PASSAGES, before=passages, after=after)
    keys = _compute_place_keys(store, here)
    mark_done(
        store, "chains", [(name_place(name), keys[name], None) for name in pending]
    )
    return written


def _add_rest_of_projects(
    pending: Sequence[str | None],
    known: Iterable[str | None],
) -> list[str | None]:
    """Return workspaces with the others of their projects: a claim may be changed by one from there."""
    places = find_places(known)
    projects = {places[name].project for name in pending if name}
    rest = [
        name
        for name, place in places.items()
        if place.project in projects and name not in pending
    ]
    return [*pending, *rest]


def name_place(workspace: str | None) -> str:
    """Return the unit id of a workspace in the marks."""
    return compute_content_id("chains", workspace or "")


def _merge_chains(
    store: Store,
    table: Table,
    before: pa.Table,
    after: Sequence[Mapping[str, Any]],
) -> int:
    """Write the rows whose chain has changed; return their number."""
    names = [table.key, *CHAIN]
    new = pl.DataFrame(pa.Table.from_pylist(after, schema=before.schema).select(names))
    fresh = new.join(
        pl.DataFrame(before.select(names)), on=names, how="anti", nulls_equal=True
    )
    return store.update(table, fresh.to_arrow())


def _compute_place_keys(
    store: Store,
    where: pc.Expression | None = None,
) -> dict[str | None, str]:
    """Return by workspace a hash of the chains of its claims and passages that match `where`."""
    hashes = []
    for table in (CLAIMS, PASSAGES):
        rows = pl.DataFrame(store.read(table, ["workspace", table.key, *CHAIN], where))
        hashes.append(rows.select("workspace", row=rows.hash_rows()))
    keys = pl.concat(hashes).group_by("workspace").agg(pl.col("row").bitwise_xor())
    return {
        workspace: compute_content_id(CHAINS, str(key))
        for workspace, key in keys.sort("workspace").iter_rows()
    }


def read_doubts(store: Store) -> Doubts:
    """Return the open doubts of the ledger."""
    rows = store.read(MERGES, ["from_id", "into_id"], OPEN_DOUBT).to_pylist()
    return {(row["from_id"], row["into_id"]) for row in rows}


def add_origins(store: Store, claims: pa.Table) -> pa.Table:
    """Return claims with a column `by_model`: whether a model said the message that each quotes; null if unknown."""
    quoted = [ids[0] if ids else None for ids in claims["message_ids"].to_pylist()]
    ids = sorted({key for key in quoted if key})
    messages = store.read_ids(MESSAGES, ids, ["message_id", "origin"]).to_pylist()
    by_model = {row["message_id"]: row["origin"] == Origin.MODEL for row in messages}
    return claims.append_column(
        "by_model", pa.array([by_model.get(key) for key in quoted], pa.bool_())
    )


def find_claims_to_judge(
    store: Store,
    key: str,
    doubts: Doubts,
) -> set[str]:
    """Return the ids of claims to judge.

    These are the claims not judged under this key, those whose successor no longer exists, and those of a doubt whose
    other claim is no longer active.
    """
    rows = pl.DataFrame(store.read(CLAIMS, STANDING))
    active = pl.col("status") == Status.ACTIVE
    by = pl.col("superseded_by")
    retired = (pl.col("status") == Status.SUPERSEDED) & by.is_not_null()
    standing_ids = rows.filter(
        active | retired | (pl.col("status") == Status.DUPLICATE)
    )["claim_id"]
    lost = retired & ~by.is_in(standing_ids.implode())
    unjudged = (active | retired) & pl.col("supersede_key").ne_missing(key)
    standing = {*rows.filter(active)["claim_id"]} if doubts else set()
    unlinked = {pair[0] for pair in doubts if not standing.issuperset(pair)}
    return {*rows.filter(lost | unjudged)["claim_id"], *unlinked}


def make_judge(
    job: Job,
    model: Model,
    report: StepReport,
) -> Judge:
    """Return the model as a judge of pairs.

    It quarantines unusable answers, and returns None for pairs whose question has to wait.
    """
    read = partial(parse_answers, trust=job.settings.supersede.trust)

    def ask(pairs: Sequence[Pair]) -> list[Answered | None]:
        questions = build_questions(name_speakers(job.store, pairs), model.library)
        reply = model.ask(
            step="supersede",
            items=index_questions(questions),
            build=list_requests,
            read=read,
        )
        quarantine_rejected(
            store=job.store,
            step="supersede",
            rejected=reply.rejected,
            settled=reply.values,
            report=report,
        )
        answers = {
            ids: answered
            for batch in reply.values.values()
            for ids, answered in batch.items()
        }
        return [
            None
            if question.request.id in reply.waiting
            else answers.get((old.id, new.id), (PairAnswer.UNANSWERED, ""))
            for question in questions
            for old, new in question.about
        ]

    return Judge(compute_judge_key(job, model), job.settings.supersede.pairs, ask)


def name_speakers(
    store: Store,
    pairs: Sequence[Pair],
) -> list[Pair]:
    """Return the pairs with the speaker of each claim, also if the transcript does not name them."""
    names = read_claim_speakers(store, [claim.id for pair in pairs for claim in pair])
    return [
        (
            replace(old, speaker=names.get(old.id)),
            replace(new, speaker=names.get(new.id)),
        )
        for old, new in pairs
    ]


def compute_judge_key(job: Job, model: Model) -> str:
    """Return the key of everything but the pair that a model's answer depends on."""
    return compute_model_key(
        model,
        "judge",
        VERDICTS_VERSION,
        PROMPTS,
        str(job.settings.supersede.trust),
    )


def compute_supersede_key(job: Job, model: Model | None = None) -> str:
    """Return the key of everything but the claims that the outcome depends on."""
    key = compute_step_key(
        "supersede",
        1,
        VERSION,
        digest_shipped(CHANGES_FILE),
        digest_shipped(UNREAD_FILE),
        digest_shipped(READER_FILE),
        digest_shipped(LETTERS_FILE),
        digest_shipped(STATEMENTS_FILE),
        digest_shipped(LAYERS_FILE),
        describe_encoder(job.settings),
    )
    if model is None:
        return key
    return compute_content_id(key, compute_judge_key(job, model))


def find_settled_doubts(
    store: Store,
    ledger: pa.Table,
    others: Set[str],
) -> list[str]:
    """Return the ids of open doubts and agreements to delete: those that this ledger does not repeat.

    Those about `others`, the claims that were not judged, are kept; a doubt unless the ledger has another one.
    """
    columns = ["merge_id", "kind", "from_id"]
    rows = store.read(MERGES, columns, OPEN_DOUBT | OPEN_AGREEMENT).to_pylist()
    doubts = ledger.filter(pc.equal(ledger["kind"], LedgerKind.DOUBT))
    doubted = {*doubts["from_id"].to_pylist()}
    looked_at = {
        row["merge_id"]
        for row in rows
        if row["from_id"] not in others
        or (row["kind"] == LedgerKind.DOUBT and row["from_id"] in doubted)
    }
    return sorted(looked_at.difference(ledger["merge_id"].to_pylist()))


def read_scope(
    store: Store,
    fresh: set[str],
    linked: Iterable[Ids],
) -> tuple[pa.Table, set[str]]:
    """Return the claims to compare with the fresh ones (columns COMPARED), and the ids of all other claims.

    These are the claims in scope of a fresh one, and all claims tied to one of these.
    """
    named = store.read(CLAIMS, [*SCOPE, "superseded_by", "canonical_id"])
    here = _build_project_scope(named, fresh)
    ids = {*named.filter(here)["claim_id"].to_pylist()}
    away = set[str]()
    ties = _list_ties(named, linked)
    while more := {end for tie in ties if not ids.isdisjoint(tie) for end in tie} - ids:
        ids |= more
        away |= more
    here = here | pc.field("claim_id").isin(pa.array(sorted(away), pa.string()))
    claims = add_places(store.read(CLAIMS, COMPARED, here))
    claims = add_origins(store, claims)
    return add_vectors(store, claims, here), {*named["claim_id"].to_pylist()} - ids


def _build_project_scope(
    named: pa.Table,
    fresh: Set[str],
) -> pc.Expression:
    """Return the filter of `build_scope` for the fresh claims and one of each other workspace of their projects."""
    rows = pl.DataFrame(named.select(["claim_id", "workspace"]))
    places = find_places(rows["workspace"].unique())
    is_fresh = pl.col("claim_id").is_in([*fresh])
    of_fresh = rows.filter(is_fresh)["workspace"].unique()
    projects = {places[name].project for name in of_fresh if name}
    near = [name for name, place in places.items() if place.project in projects]
    others = rows.unique("workspace").filter(pl.col("workspace").is_in(near))
    ids = sorted({*fresh, *others["claim_id"]})
    return build_scope(named, pa.array(ids, pa.string()))


def add_places(claims: pa.Table) -> pa.Table:
    """Return claims with their projects as workspaces, and a column `folder`: which folder of it each is from."""
    names = claims["workspace"].to_pylist()
    places = find_places(names)
    projects = [places[name].project if name else None for name in names]
    folders = [places[name].folder if name else "" for name in names]
    return set_columns(claims, workspace=pa.array(projects, pa.string())).append_column(
        "folder", pa.array(folders, pa.string())
    )


def _list_ties(
    claims: pa.Table,
    linked: Iterable[Ids],
) -> list[Ids]:
    """Return the pairs of claims in which one retired or repeats the other, and the linked pairs."""
    ties = [*linked]
    for name in ("superseded_by", "canonical_id"):
        ends = zip(
            claims["claim_id"].to_pylist(), claims[name].to_pylist(), strict=True
        )
        ties += [(claim, other) for claim, other in ends if other]
    return ties


def _find_doubted_near(
    store: Store,
    fresh: set[str],
    doubts: Doubts,
) -> set[str]:
    """Return the claims of the doubts with a claim in scope of a fresh one.

    They are judged again, since new claims change the weights of words and so how likely their change is.
    """
    if not doubts:
        return set()
    claims = store.read(CLAIMS, SCOPE)
    here = _build_project_scope(claims, fresh)
    ids = {*claims.filter(here)["claim_id"].to_pylist()}
    return {end for pair in doubts if not ids.isdisjoint(pair) for end in pair}


def _find_unwritten(store: Store, corrections: Mapping[Ids, bool]) -> set[str]:
    """Return the claims of the corrections that the ledger lacks, or has as less certain."""
    ledger = store.read(
        MERGES,
        ["from_id", "into_id", "rule"],
        pc.field("rule").isin([CORRECTED, PERHAPS]),
    ).to_pylist()
    written = {(row["from_id"], row["into_id"], row["rule"]) for row in ledger}
    return {
        claim
        for pair, certain in corrections.items()
        if (*pair, CORRECTED if certain else PERHAPS) not in written
        for claim in pair
    }


def _find_unheard_repeats(store: Store, corrections: Mapping[Ids, bool]) -> set[str]:
    """Return the ids of the claims that repeat a corrected claim and quote no person.

    An agent that goes on saying what a person corrected does not make it hold again.
    """
    corrected = {old for (old, _), certain in corrections.items() if certain}
    repeats = store.read_ids(
        CLAIMS,
        sorted(corrected),
        ["claim_id", "message_ids"],
        by="canonical_id",
    ).to_pylist()
    quoted = {row["claim_id"]: row["message_ids"][0] for row in repeats}
    rows = store.read_ids(
        MESSAGES, sorted(set(quoted.values())), ["message_id", "origin"]
    )
    said = {
        row["message_id"] for row in rows.to_pylist() if row["origin"] == Origin.HUMAN
    }
    return {claim for claim, message in quoted.items() if message not in said}


def _count_outcomes(outcome: Superseded, report: StepReport) -> None:
    kinds = outcome.merges["kind"].to_pylist()
    judged = read_verdicts(outcome.merges).values()
    report.counts[Count.SUPERSEDED] = kinds.count(LedgerKind.SUPERSESSION)
    report.counts[Count.ACTIVE_AGAIN] = (
        outcome.claims.num_rows - report.counts[Count.SUPERSEDED]
    )
    rules = outcome.merges["rule"].to_pylist()
    leads = rules.count(LEADS)
    report.counts[Count.PERHAPS_CHANGED] = kinds.count(LedgerKind.DOUBT) - leads
    report.counts[Count.LESS_LIKELY_CHANGED] = leads
    report.counts[Count.AFFIRMED] = rules.count(AFFIRMED)
    report.counts[Count.NARROWED] = rules.count(NARROWED)
    report.counts[Count.JUDGED_BY_MODEL] = len(judged)
    report.counts[Count.LEFT_TO_CLASSIFIER] = outcome.waiting
