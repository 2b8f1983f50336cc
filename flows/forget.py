"""Forget messages and all that was made of them, and prove it.

    slowwave forget --match "the house in Umeå"

The steps: read notes and talks; write a plan; erase; run the night's own steps over the rest; rewrite files, publish a
release without the content and drop every older one; scan all files and write a certificate. If the run is killed, the
next run or night finishes it first.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slowwave.flows.nightly import run_steps_after_read
from slowwave.flows.parts.finish import erase_plans, finish_forgettings
from slowwave.flows.parts.quarantine_sessions import quarantine_candidate
from slowwave.flows.parts.report import RunReport
from slowwave.flows.parts.run import open_run, run_step
from slowwave.schemas.errors import SlowwaveError, StoreError, UsageError
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import MESSAGES, SESSIONS
from slowwave.store.notes import find_talk_logs, is_unfinished
from slowwave.store.store import Store
from slowwave.tasks.forget.lineage import (
    complete_plan,
    make_plan,
    read_plans,
    write_plan,
)
from slowwave.tasks.forget.plan import Plan
from slowwave.tasks.forget.proof import scan_files
from slowwave.tasks.forget.select import Wanted, select_messages
from slowwave.tasks.forget.spelling import Words
from slowwave.tasks.forget.stages import erase
from slowwave.tasks.forget.task import find_live, forget_due, seal_plans
from slowwave.tasks.ingest.task import read_transcripts
from slowwave.tasks.passages.task import write_passages
from slowwave.telemetry import open_memory_span
from slowwave.text.times.days import format_day


@dataclass(frozen=True)
class Preview:
    """The rows that a forgetting would erase."""

    rows: dict[str, int]
    """Rows by table."""
    messages: list[str]
    """The first five of the messages, cut."""
    transcripts: list[str]
    """Files outside the store, still on disk, that the messages were read from."""
    exports: list[str]
    """Exports that hold some of the messages."""
    left: list[str] | None = None
    """Tables and files of the space that contain the text, for example in ids or paths. None if rows would be erased,
    or the files were not searched.
    """


def preview_forgetting(
    wanted: Wanted, settings: Settings, *, search_files: bool = False
) -> Preview:
    """Preview the rows that a forgetting would erase, without writing one.

    With `search_files`, a text that no table holds is searched for in every byte of the store's files.

    Raises:
        UsageError: the request is empty, or the vault does not hold what it names.
        StoreMissing: the store or space does not exist.
        StoreLocked: another run holds the store.
    """
    with open_run("forget", settings) as (job, _):
        store = job.store
        plan = _plan(store, "preview", wanted)
        rows = store.read_ids(MESSAGES, plan.messages[:5]).to_pylist()
        paths = {
            row["path"]
            for row in store.read_ids(SESSIONS, plan.sessions, ["path"]).to_pylist()
        }
        only = wanted.matches if wanted.kinds == ("matches",) and plan.is_empty else ()
        left = (
            scan_files([store.dir], Words(only)).found
            if only and search_files
            else None
        )
    outside = [
        file
        for file in sorted(paths)
        if Path(file).is_file() and store.dir not in Path(file).parents
    ]
    lines = [
        _format_message(row)
        for row in sorted(rows, key=lambda row: (row["session_id"], row["seq"]))
    ]
    counts = {name: count for name, count in plan.counts.items() if count}
    places = {
        Path(file).relative_to(store.dir).parts[0].removesuffix(".lance")
        for file in left or ()
    }
    exports = [path for path, _ in plan.exports]
    return Preview(
        rows=counts,
        messages=lines,
        transcripts=outside,
        exports=exports,
        left=None if left is None else sorted(places),
    )


def run_forget(
    wanted: Wanted,
    settings: Settings,
    *,
    rebuild: bool = True,
    exports: bool = False,
) -> tuple[RunReport, list[Path]]:
    """Forget the wanted messages; return the run's report and the paths of the certificates.

    Args:
        wanted: what to forget.
        settings: of the store.
        rebuild: remake the rows that depended on the messages, with the night's steps. If off, only passages are made,
            and the next night does the rest. If a step fails, the forgetting is completed anyway.
        exports: also remove exports that hold some of the messages.

    Raises:
        UsageError: the request is empty, or the vault does not hold what it names.
        StoreMissing: the store or space does not exist.
        StoreUnwritable: the disk fails. The earlier release stays until the next run finishes the forgetting.
        StoreLocked: another run holds the store.
    """
    take_in_notes(settings)
    with (
        open_memory_span(
            "delete_memory", settings.store / settings.space
        ) as count_records,
        open_run("forget", settings, rewrite=False) as (job, report),
    ):
        # a request that can't be fulfilled raises before anything is erased
        select_messages(job.store, wanted)
        erase_plans(job, report)
        plan = _plan(job.store, job.run_id, wanted)
        plan.drop_exports = exports
        count_records(len(plan.messages))
        if not plan.is_empty:
            complete_plan(job.store, plan)
            write_plan(job.store.dir, plan)
            erase(job.store, plan)
        if pending := bool(read_plans(job.store.dir)):
            quarantine_candidate(job, report)
        if pending:
            try:
                if rebuild:
                    # Not gated: a forgetting is meant to lose rows.
                    run_steps_after_read(job, report, gated=False)
                else:
                    # Or recall would not find the notes that were just read.
                    run_step(job, report, write_passages)
            except StoreError:  # tables that are half remade are not released
                raise
            except SlowwaveError as error:
                report.notes.append(
                    f"what depended on it is left to the next night: {error}"
                )
        certificates = seal_plans(job)
        if pending:
            report.release = find_live(job.store)
    return report, certificates


def run_forget_due(
    settings: Settings, call: Callable[..., Any] = operator.call
) -> RunReport:
    """Forget now what is older than `retention` allows, as each night does. No transcript is read. Return the report.

    Args:
        settings: of the store.
        call: how a step is run.

    Raises:
        UsageError: no setting of `retention` has a limit.
        StoreMissing: the store or space does not exist.
        StoreLocked: another run holds the store.
    """
    if not settings.retention.has_limits:
        raise UsageError("nothing is ever due: no setting of `retention` has a limit")
    with open_run("forget", settings, call=call, rewrite=False) as (job, report):
        finish_forgettings(job, report)
        run_step(job, report, forget_due)
        if read_plans(job.store.dir):
            quarantine_candidate(job, report)
            # Not gated: a forgetting is meant to lose rows.
            run_steps_after_read(job, report, gated=False)
            seal_plans(job)
            report.release = find_live(job.store)
    return report


def finish_unfinished(settings: Settings) -> RunReport | None:
    """Finish a forgetting whose run was killed; return the report, or None if there is no such forgetting.

    Raises:
        StoreLocked: another run holds the store.
    """
    if not is_unfinished(settings.store / settings.space):
        return None
    with open_run("forget", settings) as (job, report):
        finish_forgettings(job, report)
    return report


def take_in_notes(settings: Settings) -> None:
    """Read the notes and talks that no night has read yet, so that they can be forgotten too.

    Raises:
        StoreMissing: the store or space does not exist.
        StoreLocked: another run holds the store.
    """
    with open_run("forget", settings, rewrite=False) as (job, report):
        run_step(job, report, read_transcripts, find_talk_logs(job.store.dir))


def _plan(store: Store, run_id: str, wanted: Wanted) -> Plan:
    alone = wanted.matches if wanted.kinds == ("matches",) else ()
    return make_plan(
        store=store,
        run_id=run_id,
        why=wanted.kinds,
        messages=select_messages(store, wanted),
        matches=alone,
    )


def _format_message(row: dict[str, Any]) -> str:
    content = row["text"] or " ".join(block["text"] or "" for block in row["blocks"])
    text = " ".join(content.split())
    when = f"{format_day(row['ts'])} " if row["ts"] else ""
    return f"{when}{row['speaker'] or row['role']}: {text[:100]}{' …' if len(text) > 100 else ''}"
