"""Relations of the workspaces in which a claim changed since; others are left alone."""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow.compute as pc

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import MARKS, OBSERVATIONS, RELATIONS
from slowwave.schemas.vocabulary import RelationKind, Status
from slowwave.store.store import Store
from slowwave.tasks.job import Job, StepReport, compute_step_key, report_step
from slowwave.tasks.pending import hash_rows, mark_done
from slowwave.tasks.progress import track_items
from slowwave.tasks.relate.relate import COLUMNS, VERSION, Relation, build_rows, find_relations, keep_best
from slowwave.tasks.vectors import describe_encoder

DECIDING = ["observation_id", "summary", "message_ids", "files", "observed_at", "status", "workspace", "superseded_by"]
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
        store, key = job.store, compute_step_key("relate", VERSION, describe_encoder(job.settings))
        pending, held = find_pending(store, key), store.read(RELATIONS).to_pylist()
        rows, home = build_rows(find_unit_relations(store, pending), key), pending.home
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
        mark_done(store, "relate", [(unit, done, None) for unit, done in pending.units.items()])
    return report


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
