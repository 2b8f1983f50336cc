"""Relations of the workspaces in which a claim changed since; others are left alone."""

import polars as pl
import pyarrow.compute as pc

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import MARKS, OBSERVATIONS, RELATIONS
from slowwave.schemas.vocabulary import RelationKind, Status
from slowwave.store.store import Store
from slowwave.tasks.job import Job, StepReport, compute_step_key, report_step
from slowwave.tasks.pending import hash_rows, mark_done, split_batches
from slowwave.tasks.progress import track_items
from slowwave.tasks.relate.relate import COLUMNS, VERSION, Relation, build_rows, find_relations, keep_best
from slowwave.tasks.vectors import describe_encoder

DECIDING = ["observation_id", "summary", "message_ids", "files", "observed_at", "status", "workspace", "superseded_by"]
"""With the vector, which the summary and the encoder make once that is there, what relations depend on."""


def relate_claims(job: Job) -> StepReport:
    """Write how claims hang together, for workspaces whose claims or changes differ from when they were last related.

    A relation belongs to the workspace of the claim it goes from, and goes when either claim does.
    """
    with report_step("relate") as report:
        # the workspaces that changed, by their marks' names
        store, key = job.store, compute_step_key("relate", VERSION, describe_encoder(job.settings))
        claims, stored = read_claims(store), store.read(RELATIONS).to_pylist()
        # each with the claims that one of it changed, which may be of another
        elsewhere = claims.filter(pl.col("by") != pl.col("unit")).with_columns(unit="by")
        groups = pl.concat([claims, elsewhere]).partition_by("unit", as_dict=True, maintain_order=True)
        now = {str(unit): compute_content_id(key, hash_rows(rows)) for (unit,), rows in groups.items()}
        marks = store.read(MARKS, ["unit_id", "input_key"], pc.field("step") == "relate").to_pylist()
        done = {mark["unit_id"]: mark["input_key"] for mark in marks}
        units = {unit: made_of for unit, made_of in sorted(now.items()) if done.get(unit) != made_of}
        # what changed, and what ties their claims
        changed = claims.filter(pl.col("unit").is_in([*units]))
        superseded = claims.filter(pl.col("status") == Status.SUPERSEDED, pl.col("by").is_in([*units]))
        pairs = superseded.select("superseded_by", "observation_id").iter_rows()
        relations = [Relation(RelationKind.CONTRADICTS, later, earlier, 1.0, None) for later, earlier in pairs]
        active = changed.filter(pl.col("status") == Status.ACTIVE).group_by("unit", maintain_order=True)
        sizes = active.agg("observation_id", claims=pl.len())
        for batch in track_items("relate", [*split_batches(sizes, 10_000, "claims")]):  # with their vectors
            rows = store.read_ids(OBSERVATIONS, batch["observation_id"].explode(), COLUMNS)
            for ids in batch["observation_id"].to_list():
                relations += find_relations(rows.filter(pc.field("observation_id").isin(ids)))
        rows = build_rows(keep_best(relations), key)
        # write, and mark last
        home = dict(claims.select("observation_id", "unit").iter_rows())
        ends = {row["relation_id"]: (home.get(row["from_id"]), home.get(row["to_id"])) for row in stored}
        stale = {name for name, (start, end) in ends.items() if start in units or None in (start, end)}
        report.rows_in = changed.height
        report.rows_out = store.merge_changed(RELATIONS, rows)
        store.delete_ids(RELATIONS, stale.difference(rows["relation_id"].to_pylist()))
        report.counts.update(rows["kind"].to_pylist())
        store.delete_ids(MARKS, [compute_content_id("relate", unit) for unit in done.keys() - now.keys()])
        mark_done(store, "relate", [(unit, made_of, None) for unit, made_of in units.items()])
    return report


def read_claims(store: Store) -> pl.DataFrame:
    """Return the claims in order of their ids, with the mark's name of their workspace (`unit`) and of that of the
    claim which changed them (`by`), and whether they wait for a vector.
    """
    claims = pl.DataFrame(store.read(OBSERVATIONS, DECIDING)).sort("observation_id")
    unencoded = store.open_dataset(OBSERVATIONS).to_table(columns=["observation_id"], filter="vector IS NULL")
    names = {workspace: name_unit(workspace) for workspace in claims["workspace"].unique()}
    unit = pl.Series("unit", [names[workspace] for workspace in claims["workspace"]], dtype=pl.String)
    home = dict(zip(claims["observation_id"], unit, strict=True))
    by = pl.Series("by", [home.get(key) for key in claims["superseded_by"]], dtype=pl.String)
    waits = pl.col("observation_id").is_in(pl.Series(unencoded["observation_id"], dtype=pl.String).implode())
    return claims.with_columns(unit, by, waits=waits)


def name_unit(workspace: str | None) -> str:
    """Return the mark's name of a workspace; a hash, so that it says nothing of one that is forgotten."""
    return compute_content_id("workspace", workspace)
