"""Forget what settings say is too old, by a plan as what a person asks for; and the end of any forgetting.

At the end no byte is left of it: files and indexes are rewritten, older releases dropped. Then every
file is looked through for canaries, and a certificate says what was found. Each part may be done again.
"""

import shutil
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow.compute as pc

from slowwave.engines.encoders.protocol import hide_url
from slowwave.schemas.tables import COMPLETIONS, FILES, QUARANTINE, TABLES
from slowwave.store.manifest import mark_synced
from slowwave.store.publishing import publish, read_releases
from slowwave.store.releases import Release
from slowwave.store.store import Store
from slowwave.store.upkeep import (
    drop_all_but_live,
    drop_versions_at_once,
    rewrite_tables,
)
from slowwave.tasks.forget.journals import erase_old_recalls
from slowwave.tasks.forget.lineage import (
    complete_plan,
    drop_plan,
    make_plan,
    read_plans,
    write_plan,
)
from slowwave.tasks.forget.plan import Plan, read_forgotten
from slowwave.tasks.forget.proof import write_certificate
from slowwave.tasks.forget.select import list_unmatched, select_due_messages
from slowwave.tasks.forget.stages import erase
from slowwave.tasks.ingest.storable import AHEAD
from slowwave.tasks.job import Job, StepReport, report_step
from slowwave.tasks.llm.writer import find_writer


def forget_due(job: Job, now: datetime | None = None) -> StepReport:
    """Forget what is older than settings let it be. What leaned on it is made anew by the steps that follow."""
    with report_step("forget") as report:
        moment = now or job.now
        store = job.store
        limits = job.settings.retention
        if limits.recalls_days:
            before = moment - timedelta(days=limits.recalls_days)
            gone = erase_old_recalls(store.dir, before)
            report.counts["lines of recalls.jsonl forgotten"] = gone
        if limits.completions_days:
            before = moment - timedelta(days=limits.completions_days)
            report.counts["completions forgotten"] = _drop_completions(store, before)
        report.notes += list_unmatched(store, limits)
        due = select_due_messages(store, limits, moment)
        plan = make_plan(store, job.run_id, ["retention"], due)
        if limits.quarantine_days:
            _plan_old_quarantine(store, plan, moment, limits.quarantine_days)
        if not plan.is_empty:
            complete_plan(store, plan)
            write_plan(store.dir, plan)
            erase(store, plan)
            _report_plan(report, plan)
    return report


def _drop_completions(store: Store, before: datetime) -> int:
    """Erase a model's answers that were kept before a time, and return their number.

    No release pins them, so their old versions are dropped at once.
    """
    old = pc.field("created_at") < before
    due = store.read(COMPLETIONS, ["completion_id"], old)["completion_id"].to_pylist()
    if due:
        store.delete_ids(COMPLETIONS, due)
        rewrite_tables(store, [COMPLETIONS])
        mark_synced(store.dir)
        drop_versions_at_once(store, COMPLETIONS)
    return len(due)


def _plan_old_quarantine(store: Store, plan: Plan, moment: datetime, days: int) -> None:
    """Add the lines in quarantine whose file did not change for so many days, or is unknown by now."""
    limit = (moment - timedelta(days=days)).timestamp() * 1e9
    latest = (moment + AHEAD).timestamp() * 1e9
    # A time of change in the future says nothing, so it does not keep a line.
    changed = {
        row["path"]: row["mtime_ns"]
        for row in store.read(FILES, ["path", "mtime_ns"]).to_pylist()
        if row["mtime_ns"] <= latest
    }
    columns = ["quarantine_id", "path", "excerpt"]
    lapsed = {
        line["quarantine_id"]
        for line in store.read(QUARANTINE, columns).to_pylist()
        if line["path"] and line["excerpt"] and changed.get(line["path"], 0) < limit
    }
    forgotten = read_forgotten(store, "quarantine")
    plan.quarantine = sorted({*plan.quarantine, *lapsed} - forgotten)
    plan.counts["quarantine"] = len(plan.quarantine)


def _report_plan(report: StepReport, plan: Plan) -> None:
    """Count what a plan forgot, and name the exports that still hold it."""
    report.rows_in = len(plan.messages)
    report.notes += [
        f"an export made before holds what was forgotten: {path}"
        for path, _ in plan.exports
    ]
    counts = {f"{name} forgotten": n for name, n in plan.counts.items() if n}
    report.counts.update(counts)


def rewrite_store(job: Job) -> None:
    """Remove what no row has any more from the files: deleted rows, words of indexes."""
    for folder in job.store.dir.glob("*.lance"):
        # A table that an earlier slowwave had, as its copies of vectors.
        if folder.stem not in TABLES:
            shutil.rmtree(folder)
    rewrite_tables(job.store)


def release_rest(job: Job) -> None:
    """Release the tables as they are, with the scale of relevance of the release before; none if that has them so."""
    before = read_releases(job.store)
    scale = before[-1].calibration if before else None
    encoder = hide_url(job.settings.encoder) if job.settings.embeddings else None
    writer = find_writer(job.store)
    publish(
        job.store,
        job.run_id,
        before[-1].encoder if before else encoder,
        lambda draft: scale,
        writer,
    )


def drop_old(job: Job) -> None:
    """Drop every older release."""
    drop_all_but_live(job.store)


SEALS: tuple[Callable[[Job], None], ...] = (rewrite_store, release_rest, drop_old)


def seal_plans(job: Job) -> list[Path]:
    """Carry the plans that are erased to their end; returns the certificates."""
    plans = [plan for plan in read_plans(job.store.dir) if plan.erased]
    if not plans:
        return []
    for part in SEALS:
        part(job)
    certificates = []
    for plan in plans:
        certificates.append(write_certificate(plan, job.store, find_live(job.store)))
        drop_plan(job.store.dir, plan)
    return certificates


def find_live(store: Store) -> Release | None:
    """Return the live release."""
    return next(iter(read_releases(store)[::-1]), None)
