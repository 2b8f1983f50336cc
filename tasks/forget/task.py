"""Forget what is older than the settings allow, and finish any forgetting.

Finishing removes the last bytes: it rewrites files and indexes, and drops older releases. Then it scans every file for
canaries and writes a certificate with the result. Each part can be repeated.
"""

import shutil
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow.compute as pc

from slowwave.engines.encoders.protocol import hide_url
from slowwave.schemas.counters import Count, CountByKind
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
from slowwave.tasks.forget.lineage import (
    complete_plan,
    drop_plan,
    make_plan,
    read_plans,
    write_plan,
)
from slowwave.tasks.forget.logs import erase_old_recalls
from slowwave.tasks.forget.plan import Plan, read_forgotten
from slowwave.tasks.forget.proof import write_certificate
from slowwave.tasks.forget.select import list_unmatched, select_due_messages
from slowwave.tasks.forget.stages import erase
from slowwave.tasks.ingest.storable import AHEAD
from slowwave.tasks.job import Job, StepReport, report_step
from slowwave.tasks.llm.writer import find_writer


def forget_due(job: Job, now: datetime | None = None) -> StepReport:
    """Forget messages, lines in quarantine, recalls and models' answers that are older than the settings allow.

    The steps that follow remake the rows that depended on the messages. `now` is the job's time by default.
    """
    with report_step("forget") as report:
        moment = now or job.now
        store = job.store
        limits = job.settings.retention
        if limits.recalls_days:
            before = moment - timedelta(days=limits.recalls_days)
            gone = erase_old_recalls(store.dir, before)
            report.counts[Count.RECALLS_FORGOTTEN] = gone
        if limits.completions_days:
            before = moment - timedelta(days=limits.completions_days)
            gone = _drop_completions(store, before)
            report.kinds[CountByKind.FORGOTTEN][COMPLETIONS.name] = gone
        report.notes += list_unmatched(store, limits)
        due = select_due_messages(store, limits, moment)
        plan = make_plan(
            store=store, run_id=job.run_id, why=["retention"], messages=due
        )
        if limits.quarantine_days:
            _plan_old_quarantine(
                store=store, plan=plan, moment=moment, days=limits.quarantine_days
            )
        if not plan.is_empty:
            complete_plan(store, plan)
            write_plan(store.dir, plan)
            erase(store, plan)
            _report_plan(report, plan)
    return report


def _drop_completions(store: Store, before: datetime) -> int:
    """Erase the models' answers from before a time, and return their number.

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


def _plan_old_quarantine(
    store: Store,
    plan: Plan,
    moment: datetime,
    days: int,
) -> None:
    """Add to the plan the lines in quarantine whose file did not change for `days` days, or is unknown."""
    limit = (moment - timedelta(days=days)).timestamp() * 1e9
    latest = (moment + AHEAD).timestamp() * 1e9
    # A time of change in the future is wrong, so it does not keep a line.
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
    """Add to the report the rows that a plan forgot, and the exports that contained them."""
    report.rows_in = len(plan.messages)
    report.notes += [
        f"an earlier export contains what was forgotten: {path}"
        for path, _ in plan.exports
    ]
    report.kinds[CountByKind.FORGOTTEN].update(
        {name: n for name, n in plan.counts.items() if n}
    )


def rewrite_store(job: Job) -> None:
    """Rewrite the tables' files without deleted rows, and rebuild indexes.

    Delete tables that slowwave no longer has.
    """
    for folder in job.store.dir.glob("*.lance"):
        # An earlier slowwave wrote this table, for example its copies of vectors.
        if folder.stem not in TABLES:
            shutil.rmtree(folder)
    rewrite_tables(job.store)


def release_rest(job: Job) -> None:
    """Release the tables as they are, with the encoder and the relevance scale of the previous release.

    No release is made if the previous one has the same tables.
    """
    before = read_releases(job.store)
    scale = before[-1].calibration if before else None
    encoder = hide_url(job.settings.encoder) if job.settings.embeddings else None
    writer = find_writer(job.store)
    publish(
        store=job.store,
        run_id=job.run_id,
        encoder=before[-1].encoder if before else encoder,
        calibrate=lambda draft: scale,
        writer=writer,
    )


def drop_old(job: Job) -> None:
    """Drop every older release."""
    drop_all_but_live(job.store)


SEALS: tuple[Callable[[Job], None], ...] = (rewrite_store, release_rest, drop_old)


def seal_plans(job: Job) -> list[Path]:
    """Finish the erased plans: rewrite and release the tables, drop old releases, and scan the files.

    Return the paths of the certificates; none if no plan is erased.
    """
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
    """Return the live release, or None if there is none."""
    return next(iter(read_releases(store)[::-1]), None)
