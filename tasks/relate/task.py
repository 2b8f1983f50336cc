"""Relations of the workspaces in which a claim changed since; others are left alone.

Where there is a language model it labels what was found: which claims support, or depend on, which. A workspace whose
questions had to wait is done again by the next night, which has the first answers in the completions cache.
"""

from collections import defaultdict
from collections.abc import Set
from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import MARKS, OBSERVATIONS, RELATIONS
from slowwave.schemas.vocabulary import RelationKind, Status
from slowwave.store.store import Store
from slowwave.tasks.job import Job, StepReport, compute_step_key, report_step
from slowwave.tasks.llm.ask import Model, get_model, keeps_model_rows
from slowwave.tasks.llm.library import Question
from slowwave.tasks.pending import hash_rows, is_made_by_model, mark_done, read_claim_speakers
from slowwave.tasks.progress import track_items
from slowwave.tasks.relate.by_model import Pairs, ask_labels, build_questions, choose_questions, compute_labels_key
from slowwave.tasks.relate.relate import COLUMNS, VERSION, Relation, build_rows, find_relations, keep_best
from slowwave.tasks.vectors import describe_encoder

DECIDING = ["observation_id", "summary", "session_id", "message_ids", "files", "observed_at", "status", "workspace"]
DECIDING += ["superseded_by", "detail", "speaker"]
"""With the vector, which the summary and the encoder make once that is there, what relations depend on."""
Row = dict[str, Any]


@dataclass(frozen=True)
class Pending:
    """The claims of the store, and which workspaces have to be related, by their marks' names."""

    rows: dict[str, list[Row]]
    """The claims of those that have to be related, in order of their ids."""
    retired: list[tuple[str, str]]
    """The claims that one of these changed, each with that."""
    home: dict[str, str]
    """Each claim's workspace."""
    units: dict[str, str]
    """Those that have to be related, with the hash of all that their relations are made of."""
    gone: set[str]
    """Those that have no claims any more."""


def relate_claims(job: Job) -> StepReport:
    """Write how claims hang together, for workspaces whose claims or changes differ from when they were last related.

    A relation belongs to the workspace of the claim it goes from, and goes when either claim does.
    """
    with report_step("relate") as report:
        # What changed, and what ties its claims.
        store, model = job.store, get_model(job, "judge") if job.settings.relate.pairs else None
        pending, held = find_pending(store, compute_input_key(job, model)), store.read(RELATIONS).to_pylist()
        found, home, waiting = find_unit_relations(store, pending), pending.home, list[Relation]()
        tables = [build_rows(found, compute_relate_key(job))]
        # What a model says of it, or said before.
        if model:
            told, waiting = ask_labels(job, model, build_unit_questions(store, found, pending, model), report)
            tables.append(build_rows(keep_best(told), compute_labels_key(model)))
        if model or keeps_model_rows(job, model):
            pairs = {frozenset((pair.start, pair.end)) for pair in waiting}
            tables.append(list_labels(held, pending, pairs if model else None))
        rows = pa.concat_tables(tables)
        # Write, and mark last.
        stale = [
            row["relation_id"]
            for row in held
            if home.get(row["from_id"]) in pending.units or not {row["from_id"], row["to_id"]} <= home.keys()
        ]
        report.rows_in = sum(len(pending.rows[unit]) for unit in pending.units)
        report.rows_out = store.merge_changed(RELATIONS, rows)
        store.delete_ids(RELATIONS, set(stale).difference(rows["relation_id"].to_pylist()))
        report.counts.update(rows["kind"].to_pylist())
        store.delete_ids(MARKS, [compute_content_id("relate", unit) for unit in pending.gone])
        left = {home[pair.start] for pair in waiting}
        mark_done(store, "relate", [(unit, key, None) for unit, key in pending.units.items() if unit not in left])
    return report


def list_questions(job: Job, model: Model) -> list[Question[Pairs]]:
    """Return what the step would ask the model about the claims that the store has now; nothing is asked."""
    pending = find_pending(job.store, compute_input_key(job, model))
    questions = build_unit_questions(job.store, find_unit_relations(job.store, pending), pending, model)
    return choose_questions(job, model, questions)[0]


def compute_relate_key(job: Job) -> str:
    """Return what relations depend on beside the claims."""
    return compute_step_key("relate", VERSION, describe_encoder(job.settings))


def compute_input_key(job: Job, model: Model | None) -> str:
    """Return the same of relations and labels."""
    by = compute_labels_key(model) if model else "kept" if keeps_model_rows(job, model) else "none"
    return compute_content_id(compute_relate_key(job), by)


def find_pending(store: Store, key: str) -> Pending:
    """Return the claims as they are, and what has to be related; `key` is what relations depend on beside them."""
    claims = pl.DataFrame(store.read(OBSERVATIONS, DECIDING)).sort("observation_id")
    unencoded = store.open_dataset(OBSERVATIONS).to_table(columns=["observation_id"], filter="vector IS NULL")
    waiting = pl.col("observation_id").is_in(pl.Series(unencoded["observation_id"], dtype=pl.String).implode())
    names = {workspace: name_unit(workspace) for workspace in claims["workspace"].unique()}
    unit = pl.Series("unit", [names[workspace] for workspace in claims["workspace"]], dtype=pl.String)
    home = dict(zip(claims["observation_id"], unit, strict=True))
    by = pl.Series("by", [home.get(one) for one in claims["superseded_by"]], dtype=pl.String)
    claims = claims.with_columns(unit, by)
    # What contradicts a claim may be of another workspace.
    touched = pl.concat([claims, claims.filter(by != unit).with_columns(unit="by")]).with_columns(waits=waiting)
    groups = touched.group_by(["unit"], maintain_order=True)
    inputs = {str(place): compute_content_id(key, hash_rows(some)) for (place,), some in groups}
    marks = store.read(MARKS, ["unit_id", "input_key"], pc.field("step") == "relate").to_pylist()
    done = {mark["unit_id"]: mark["input_key"] for mark in marks}
    units = {unit: now for unit, now in sorted(inputs.items()) if done.get(unit) != now}
    mine = pl.Series(list(units), dtype=pl.String).implode()
    rows = defaultdict[str, list[Row]](list)
    for row in claims.filter(pl.col("unit").is_in(mine)).select("unit", *DECIDING).iter_rows(named=True):
        rows[row["unit"]].append(row)
    retired = claims.filter(pl.col("status") == Status.SUPERSEDED, pl.col("by").is_in(mine))
    changed = retired.select("observation_id", "superseded_by").rows()
    return Pending(rows, changed, home, units, done.keys() - inputs.keys())


def name_unit(workspace: str | None) -> str:
    """Return the mark's name of a workspace; a hash, so that it says nothing of one that is forgotten."""
    return compute_content_id("workspace", workspace)


def find_unit_relations(store: Store, pending: Pending) -> list[Relation]:
    """Return the relations of the workspaces that have to be related, as they are found without a model."""
    found = [Relation(RelationKind.CONTRADICTS, later, earlier, 1.0, None) for earlier, later in pending.retired]
    for unit in track_items("relate", pending.units):
        active = [row["observation_id"] for row in pending.rows[unit] if row["status"] == Status.ACTIVE]
        found += find_relations(store.read_ids(OBSERVATIONS, active, COLUMNS))
    return list(keep_best(found))


def build_unit_questions(store: Store, found: list[Relation], pending: Pending, model: Model) -> list[Question[Pairs]]:
    """Return what to ask about relations, the closest first."""
    speakers = read_claim_speakers(store, [end for one in found for end in (one.start, one.end)])
    texts = {
        row["observation_id"]: f"{speakers.get(row['observation_id'], 'somebody')}: "
        + row["summary"]
        + (f" ({row['detail']})" if row["detail"] else "")
        for unit in pending.units
        for row in pending.rows[unit]
    }
    return build_questions(found, texts, model.library)


def list_labels(held: list[Row], pending: Pending, among: Set[frozenset[str]] | None) -> pa.Table:
    """Return what models said of active claims that are related anew; of the pairs in `among` alone, if any."""
    of = {
        row["observation_id"]: unit
        for unit in pending.units
        for row in pending.rows[unit]
        if row["status"] == Status.ACTIVE
    }
    kept = [
        row
        for row in held
        if is_made_by_model(row["step_key"])
        and (unit := of.get(row["from_id"])) is not None
        and of.get(row["to_id"]) == unit
        and (among is None or frozenset((row["from_id"], row["to_id"])) in among)
    ]
    return pa.Table.from_pylist(kept, schema=RELATIONS.schema)
