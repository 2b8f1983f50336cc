"""Take one row back, for good: a claim with all that repeats it, or a merge or a change.

slowwave revert ID --why REASON

What was said stays in the vault; the claim is withdrawn, what leaned on it is made anew, and no later night brings it
back, neither from its session nor in the same words from another of its workspace.
"""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.flows.nightly import run_steps_after_read
from slowwave.flows.parts.report import RunReport
from slowwave.flows.parts.run import Caller, open_run, run_as_function, take_reason
from slowwave.flows.unmerge import undo_merge
from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import MERGES, OBSERVATIONS, REVERTS, SUMMARIES
from slowwave.store.store import Store
from slowwave.tasks.observe.reverts import hash_said

LEAST = 6
"""Characters of an id that name a row."""
Row = dict[str, Any]


def run_revert(wanted: str, why: str, settings: Settings, call: Caller = run_as_function) -> RunReport:
    """Take a row back and make anew what leaned on it.

    Args:
        wanted: id of a claim, a merge or a change, or its first characters.
        why: kept with the revert and the run.
        settings: of the store.
        call: how a step is run.

    Raises:
        UsageError: no reason is given, the id names no such row or several, or it is taken back already.
        StoreLocked: another run is at it.
    """
    why = take_reason(why, settings)
    with open_run("revert", settings) as (job, report):
        claims = _find_rows(job.store, wanted)
        if claims is None:
            undo_merge(job.store, wanted, report)
        else:
            _revert_claims(job.store, claims, why)
            told = f"{claims[0]['observation_id']} and {len(claims) - 1} that repeat it"
            report.notes.append(f"taken back: {told}: {why}")
        run_steps_after_read(job, report, call, gated=False)  # the loss is what the person asked for
    return report


def run_restore(wanted: str, settings: Settings, call: Caller = run_as_function) -> RunReport:
    """Let a claim that was taken back count again, with those of the same words.

    Raises:
        UsageError: the id names no claim that is taken back.
        StoreLocked: another run is at it.
    """
    with open_run("revert", settings) as (job, report):
        held = job.store.read(REVERTS).to_pylist()
        said = {row["said"] for row in held if len(wanted) >= LEAST and row["observation_id"].startswith(wanted)}
        gone = [row["observation_id"] for row in held if row["said"] in said]
        if not gone:
            raise UsageError(
                f"no claim that begins with {wanted!r} is taken back: `slowwave inspect reverted` lists all"
            )
        job.store.delete_ids(REVERTS, gone)
        run_steps_after_read(job, report, call)
    return report


def _revert_claims(store: Store, claims: list[Row], why: str) -> None:
    known = set(store.read(REVERTS, ["observation_id"])["observation_id"].to_pylist())
    if all(row["observation_id"] in known for row in claims):
        raise UsageError(f"claim {claims[0]['observation_id']} is taken back already")
    rows = [
        {
            "observation_id": row["observation_id"],
            "session_id": row["session_id"],
            "said": hash_said(row["workspace"], row["summary"]),
            "why": why,
            "at": datetime.now(UTC),
        }
        for row in claims
    ]
    store.merge(REVERTS, pa.Table.from_pylist(rows, schema=REVERTS.schema))


def _find_rows(store: Store, wanted: str) -> list[Row] | None:
    """Return a claim and what repeats it; None where the id is of a merge.

    Raises:
        UsageError: it names nothing that can be taken back, or several.
    """
    columns = ["observation_id", "session_id", "workspace", "summary", "canonical_id"]
    every = store.read(OBSERVATIONS, columns).to_pylist() if len(wanted) >= LEAST else []
    found = [row for row in every if row["observation_id"].startswith(wanted)]
    if len(found) == 1:
        head = found[0]["canonical_id"] or found[0]["observation_id"]
        return [*found, *(r for r in every if head in (r["observation_id"], r["canonical_id"]) and r not in found)]
    if not found and _has(store, MERGES, wanted):
        return None
    if not found and _has(store, SUMMARIES, wanted):
        raise UsageError(
            "a summary is made of claims and messages: take one of these back (`slowwave show` lists them)"
        )
    raise UsageError(f"{len(found)} claims have an id that begins with {wanted!r}, of {LEAST} characters at least")


def _has(store: Store, table: Any, wanted: str) -> bool:
    keys = store.read(table, [table.key])[table.key]
    return len(wanted) >= LEAST and bool(pc.any(pc.starts_with(keys, wanted)).as_py())
