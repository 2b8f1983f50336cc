"""Update the relations of workspaces whose claims changed."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import polars as pl
import pyarrow.compute as pc

from slowwave.schemas.counters import CountByKind
from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import CLAIMS, MARKS, RELATIONS
from slowwave.schemas.vocabulary import RelationKind, Status
from slowwave.store.store import Store
from slowwave.tasks.job import Job, StepReport, compute_step_key, report_step
from slowwave.tasks.pending import hash_rows, mark_done, split_batches
from slowwave.tasks.progress import track_items
from slowwave.tasks.relate.relate import (
    COLUMNS,
    VERSION,
    Relation,
    build_rows,
    find_relations,
    keep_best,
)
from slowwave.tasks.vectors import describe_encoder

DECIDING = [
    "claim_id",
    "summary",
    "message_ids",
    "files",
    "observed_at",
    "status",
    "workspace",
    "superseded_by",
]
"""Columns that relations depend on, besides the vector, which follows from the summary and the encoder."""


def relate_claims(job: Job) -> StepReport:
    """Write the relations of workspaces whose claims or changes differ from the last run.

    A relation belongs to the workspace of the claim that it starts from. It is deleted if either claim is.
    """
    with report_step("relate") as report:
        store = job.store
        key = compute_step_key("relate", VERSION, describe_encoder(job.settings))
        claims = read_claims(store)
        stored = store.read(RELATIONS).to_pylist()
        keys = _compute_unit_keys(claims, key)
        done = _read_done(store)
        pending = {
            unit: unit_key
            for unit, unit_key in sorted(keys.items())
            if done.get(unit) != unit_key
        }
        report.rows_in = claims.filter(pl.col("unit").is_in([*pending])).height
        relations = [
            *_list_contradictions(claims, pending),
            *_relate_units(store, claims, pending),
        ]
        rows = build_rows(keep_best(relations), key)
        # write, and mark last
        stale = _find_stale(claims, stored, pending)
        report.rows_out = store.merge_changed(RELATIONS, rows)
        store.delete_ids(RELATIONS, stale.difference(rows["relation_id"].to_pylist()))
        report.kinds[CountByKind.RELATIONS].update(rows["kind"].to_pylist())
        store.delete_ids(
            MARKS,
            [compute_content_id("relate", unit) for unit in done.keys() - keys.keys()],
        )
        mark_done(
            store,
            "relate",
            [(unit, unit_key, None) for unit, unit_key in pending.items()],
        )
    return report


def _read_done(store: Store) -> dict[str, str]:
    """Return the key of each workspace when it was last related."""
    marks = store.read(
        MARKS, ["unit_id", "input_key"], pc.field("step") == "relate"
    ).to_pylist()
    return {mark["unit_id"]: mark["input_key"] for mark in marks}


def _compute_unit_keys(claims: pl.DataFrame, key: str) -> dict[str, str]:
    """Return by workspace a hash of its claims, and of the claims elsewhere that one of its claims changed."""
    elsewhere = claims.filter(pl.col("by") != pl.col("unit")).with_columns(unit="by")
    groups = pl.concat([claims, elsewhere]).partition_by(
        "unit", as_dict=True, maintain_order=True
    )
    return {
        str(unit): compute_content_id(key, hash_rows(rows))
        for (unit,), rows in groups.items()
    }


def _list_contradictions(
    claims: pl.DataFrame, units: Collection[str]
) -> list[Relation]:
    """Return a relation for each claim that a claim of some workspaces superseded."""
    superseded = claims.filter(
        pl.col("status") == Status.SUPERSEDED, pl.col("by").is_in([*units])
    )
    pairs = superseded.select("superseded_by", "claim_id").iter_rows()
    return [
        Relation(
            kind=RelationKind.CONTRADICTS,
            start=later,
            end=earlier,
            weight=1.0,
            reason=None,
        )
        for later, earlier in pairs
    ]


def _relate_units(
    store: Store, claims: pl.DataFrame, units: Collection[str]
) -> list[Relation]:
    """Return the relations within each of some workspaces; vectors are read for one batch of workspaces at a time."""
    active = claims.filter(
        pl.col("unit").is_in([*units]), pl.col("status") == Status.ACTIVE
    )
    sizes = active.group_by("unit", maintain_order=True).agg(
        "claim_id", claims=pl.len()
    )
    relations: list[Relation] = []
    for batch in track_items("relate", [*split_batches(sizes, 10_000, "claims")]):
        rows = store.read_ids(CLAIMS, batch["claim_id"].explode(), COLUMNS)
        for ids in batch["claim_id"].to_list():
            relations += find_relations(rows.filter(pc.field("claim_id").isin(ids)))
    return relations


def _find_stale(
    claims: pl.DataFrame, stored: Sequence[Mapping[str, Any]], units: Collection[str]
) -> set[str]:
    """Return the ids of stored relations that start in some workspaces or have lost a claim."""
    home = dict(claims.select("claim_id", "unit").iter_rows())
    stale = set[str]()
    for row in stored:
        start = home.get(row["from_id"])
        end = home.get(row["to_id"])
        if start in units or None in (start, end):
            stale.add(row["relation_id"])
    return stale


def read_claims(store: Store) -> pl.DataFrame:
    """Return the claims in order of id, with more columns.

    `unit` is the unit id of the claim's workspace. `by` is that of the claim that superseded it, or null. `waits` is
    True if the claim has no vector.
    """
    claims = pl.DataFrame(store.read(CLAIMS, DECIDING)).sort("claim_id")
    unencoded = store.open_dataset(CLAIMS).to_table(
        columns=["claim_id"], filter="vector IS NULL"
    )
    names = {
        workspace: name_unit(workspace) for workspace in claims["workspace"].unique()
    }
    unit = pl.Series(
        "unit", [names[workspace] for workspace in claims["workspace"]], dtype=pl.String
    )
    home = dict(zip(claims["claim_id"], unit, strict=True))
    by = pl.Series(
        "by", [home.get(key) for key in claims["superseded_by"]], dtype=pl.String
    )
    waits = pl.col("claim_id").is_in(
        pl.Series(unencoded["claim_id"], dtype=pl.String).implode()
    )
    return claims.with_columns(unit, by, waits=waits)


def name_unit(workspace: str | None) -> str:
    """Return the unit id of a workspace in the marks: a hash, so that it reveals nothing of a forgotten one."""
    return compute_content_id("workspace", workspace)
