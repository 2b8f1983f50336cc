"""Relations of the workspaces in which a claim changed since; others are left alone."""

from collections import defaultdict
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import MARKS, MERGES, MESSAGES, OBSERVATIONS, RELATIONS
from slowwave.schemas.vocabulary import LedgerKind, Status
from slowwave.store.store import Store
from slowwave.tasks.job import Job, StepReport, compute_step_key, report_step
from slowwave.tasks.pending import mark_done
from slowwave.tasks.relate.relate import COLUMNS, VERSION, relate
from slowwave.tasks.vectors import describe_encoder

DECIDING = ["observation_id", "summary", "session_id", "message_ids", "files", "observed_at", "status", "workspace"]
DECIDING += ["superseded_by"]
"""With the vector, which the summary and the encoder make once that is there, what relations depend on."""
LEDGER = ["loser_id", "winner_id", "scores"]


def relate_claims(job: Job) -> StepReport:
    """Write how claims hang together, for workspaces whose claims or changes differ from when they were last related.

    A relation belongs to the workspace of the claim it goes from, and goes when either claim does.
    """
    with report_step("relate") as report:
        store = job.store
        key = compute_step_key("relate", VERSION, describe_encoder(job.settings))
        rows = store.read(OBSERVATIONS, DECIDING).sort_by("observation_id").to_pylist()
        claims = store.open_dataset(OBSERVATIONS)
        unencoded = claims.to_table(columns=["observation_id"], filter="vector IS NULL")
        waiting = set(unencoded["observation_id"].to_pylist())
        rows = [{**row, "encoded": row["observation_id"] not in waiting} for row in rows]
        home = {row["observation_id"]: name_unit(row["workspace"]) for row in rows}
        changes = read_changes(store, rows)
        units = hash_units(rows, changes, home, key)
        known = store.read(MARKS, ["unit_id", "input_key"], pc.field("step") == "relate").to_pylist()
        done = {row["unit_id"]: row["input_key"] for row in known}
        pending = {unit for unit, now in units.items() if done.get(unit) != now}
        held = store.read(RELATIONS, ["relation_id", "from_id", "to_id"]).to_pylist()
        stale = [r for r in held if home.get(r["from_id"]) in pending or not {r["from_id"], r["to_id"]} <= home.keys()]
        fresh = [relate_unit(store, unit, rows, changes, home, key) for unit in sorted(pending)]
        found = pa.concat_tables([RELATIONS.make_empty_table(), *fresh])
        ids = set(found["relation_id"].to_pylist())
        report.rows_in = sum(home[row["observation_id"]] in pending for row in rows)
        report.rows_out = store.merge_changed(RELATIONS, found)
        store.delete_ids(RELATIONS, [row["relation_id"] for row in stale if row["relation_id"] not in ids])
        report.counts.update(found["kind"].to_pylist())
        store.delete_ids(MARKS, [compute_content_id("relate", unit) for unit in done.keys() - units.keys()])
        mark_done(store, "relate", [(unit, units[unit], None) for unit in sorted(pending)])
    return report


def name_unit(workspace: str | None) -> str:
    """Return the mark's name of a workspace; a hash, so that it says nothing of one that is forgotten."""
    return compute_content_id("workspace", workspace)


def read_changes(store: Store, claims: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of MERGES in force that say what changed, in order of their claims; of the doubts too few are
    right.
    """
    by = {row["observation_id"]: row["superseded_by"] for row in claims if row["status"] == Status.SUPERSEDED}
    changed = (pc.field("kind") == pa.scalar(LedgerKind.SUPERSESSION)) & ~pc.field("undone")
    rows = store.read(MERGES, LEDGER, changed).to_pylist()
    held = {row["observation_id"] for row in claims}
    rows = [row for row in rows if row["winner_id"] in held and by.get(row["loser_id"]) == row["winner_id"]]
    return sorted(rows, key=lambda row: (row["loser_id"], row["winner_id"]))


def hash_units(
    rows: list[dict[str, Any]], changes: list[dict[str, Any]], home: dict[str, str], key: str
) -> dict[str, str]:
    """Return for each workspace the hash of all that its relations are made of."""
    parts = defaultdict[str, list[str]](list)
    for row in rows:
        parts[home[row["observation_id"]]].append(repr([row[name] for name in (*DECIDING, "encoded")]))
    for row in changes:
        parts[home[row["winner_id"]]].append(repr([row[name] for name in LEDGER]))
    return {unit: compute_content_id(key, *some) for unit, some in parts.items()}


def relate_unit(
    store: Store,
    unit: str,
    rows: list[dict[str, Any]],
    changes: list[dict[str, Any]],
    home: dict[str, str],
    key: str,
) -> pa.Table:
    """Return rows of RELATIONS of one workspace."""
    mine = [row for row in rows if home[row["observation_id"]] == unit and row["status"] == Status.ACTIVE]
    claims = store.read_ids(OBSERVATIONS, [row["observation_id"] for row in mine], COLUMNS)
    said = {message for row in mine for message in row["message_ids"]}
    messages = store.read_ids(MESSAGES, sorted(said), ["message_id", "seq"])
    places = dict(zip(messages["message_id"].to_pylist(), messages["seq"].to_pylist(), strict=True))
    return relate(claims, places, [row for row in changes if home[row["winner_id"]] == unit], key)
