"""Forgetting what is due: what settings say is too old goes with the night, by a plan as what a person asks for."""

from datetime import UTC, datetime, timedelta

import pyarrow.compute as pc

from slowwave.schemas.tables import COMPLETIONS, FILES, QUARANTINE
from slowwave.store.manifest import mark_synced
from slowwave.store.store import Store
from slowwave.store.upkeep import drop_versions_at_once, rewrite_tables
from slowwave.tasks.forget.journals import erase_old_recalls
from slowwave.tasks.forget.ledger import read_forgotten
from slowwave.tasks.forget.lineage import complete_plan, make_plan, write_plan
from slowwave.tasks.forget.plan import Plan
from slowwave.tasks.forget.select import select_due_messages
from slowwave.tasks.forget.stages import erase
from slowwave.tasks.job import Job, StepReport, report_step


def plan_due(job: Job, now: datetime) -> Plan:
    """Return what settings say is to be forgotten by now, but for caches and logs that no release pins."""
    store, limits = job.store, job.settings.retention
    plan = make_plan(store, job.run_id, ["retention"], select_due_messages(store, limits, now))
    if limits.quarantine_days:
        old = _find_old_quarantine(store, now - timedelta(days=limits.quarantine_days))
        plan.quarantine = sorted({*plan.quarantine, *old} - read_forgotten(store, "quarantine"))
        plan.counts["quarantine"] = len(plan.quarantine)
    return plan


def forget_due(job: Job, now: datetime | None = None) -> StepReport:
    """Forget what is older than settings let it be. What leaned on it is made anew by the steps that follow."""
    with report_step("forget") as report:
        moment, store = now or datetime.now(UTC), job.store
        report.counts.update(_drop_due_ledgers(job, moment))
        plan = plan_due(job, moment)
        if not plan.is_empty:
            complete_plan(store, plan)
            write_plan(store.dir, plan)
            erase(store, plan)
            report.rows_in = len(plan.messages)
            report.notes += [f"an export made before holds what was forgotten: {path}" for path, _ in plan.exports]
            report.counts.update({f"{name} forgotten": n for name, n in plan.counts.items() if n})
    return report


def _drop_due_ledgers(job: Job, now: datetime) -> dict[str, int]:
    """Drop lines of the log of recalls, and a model's kept answers, that are too old; releases know of neither."""
    limits, dropped = job.settings.retention, dict[str, int]()
    if limits.recalls_days:
        old_recalls = erase_old_recalls(job.store.dir, now - timedelta(days=limits.recalls_days))
        dropped["lines of recalls.jsonl forgotten"] = old_recalls
    if limits.completions_days:
        old = pc.field("created_at") < now - timedelta(days=limits.completions_days)
        due = job.store.read(COMPLETIONS, ["completion_id"], old)["completion_id"].to_pylist()
        if due:
            job.store.delete_ids(COMPLETIONS, due)
            rewrite_tables(job.store, [COMPLETIONS])
            mark_synced(job.store.dir)
            drop_versions_at_once(job.store, COMPLETIONS)
        dropped["completions forgotten"] = len(due)
    return dropped


def _find_old_quarantine(store: Store, before: datetime) -> set[str]:
    """Return what was quarantined of files that did not change since, or of which nothing is known any more."""
    changed = {row["path"]: row["mtime_ns"] for row in store.read(FILES, ["path", "mtime_ns"]).to_pylist()}
    held = store.read(QUARANTINE, ["quarantine_id", "path", "excerpt"]).to_pylist()
    limit = before.timestamp() * 1e9
    return {r["quarantine_id"] for r in held if r["path"] and r["excerpt"] and changed.get(r["path"], 0) < limit}
