"""The night: it reads transcripts and releases a memory.

    prefect:  slowwave.flows.prefect.nightly, at 03:00 (deployments/prefect.yaml)
    by hand:  slowwave run [PATH…]

Each step finds the rows that lack its output, works in batches, and writes its marks last. So the next night finishes a
night that was killed, and a night without news changes nothing: if the inputs of the steps are as the last night left
them, no step runs. If a step fails, or a session in it, the other steps and the release go on (`run_step`,
`slowwave/tasks/isolate.py`).
"""

import operator
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import Any, get_args

from slowwave.flows.parts.finish import erase_plans
from slowwave.flows.parts.quarantine_sessions import (
    quarantine_candidate,
    quarantine_floods,
)
from slowwave.flows.parts.report import RunReport
from slowwave.flows.parts.run import STEP_NAMES, open_run, run_step
from slowwave.schemas.counters import CountByKind
from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.settings import ModelTask, Settings
from slowwave.schemas.tables import (
    FILES,
    FORGOTTEN,
    MARKS,
    QUARANTINE,
    RELEASES,
    RUNS,
    SESSIONS,
    TABLES,
)
from slowwave.schemas.vocabulary import RULES, WRITERS, RunStatus
from slowwave.store.manifest import check_newest_whole, list_state
from slowwave.store.notes import find_talk_logs
from slowwave.store.private import replace_file
from slowwave.store.publishing import find_writer as find_released_writer
from slowwave.tasks.boilerplate.task import find_boilerplate
from slowwave.tasks.changes.task import supersede_claims
from slowwave.tasks.checks.task import check_claims, read_heads
from slowwave.tasks.dead_ends.task import find_dead_ends
from slowwave.tasks.dedupe.task import dedupe_claims
from slowwave.tasks.forget.lineage import read_plans
from slowwave.tasks.forget.task import find_live, forget_due, rewrite_store, seal_plans
from slowwave.tasks.gists.task import write_gists
from slowwave.tasks.habits.task import find_habits
from slowwave.tasks.ingest.formats.registry import (
    check_paths,
    find_installed,
    list_read_folders,
    list_searched,
)
from slowwave.tasks.ingest.task import read_transcripts
from slowwave.tasks.job import Job, StepReport
from slowwave.tasks.llm.ask import NIGHTLY
from slowwave.tasks.llm.writer import end_rewrite, find_rewriter, find_writer
from slowwave.tasks.observe.task import observe_sessions
from slowwave.tasks.passages.task import write_passages
from slowwave.tasks.publish.task import find_run_release, publish_release
from slowwave.tasks.relate.task import relate_claims
from slowwave.tasks.summarize.task import roll_up
from slowwave.tasks.topics.task import assign_topics
from slowwave.tasks.vectors import is_encoder_away
from slowwave.telemetry import open_span

Step = Callable[[Job], StepReport]
STEPS: tuple[Step, ...] = (
    write_passages,
    write_gists,
    find_boilerplate,
    find_habits,
    find_dead_ends,
    observe_sessions,
    dedupe_claims,
    supersede_claims,
    relate_claims,
    check_claims,
    assign_topics,
    roll_up,
)
"""The steps between reading and the release, in their order."""
TAKING_IN: tuple[Step, ...] = (
    write_passages,
    find_boilerplate,
    find_habits,
    find_dead_ends,
)
"""The steps that make a new session's passages answer questions. They ask no model."""


def _check_store(
    settings: Settings, check_all: Callable[[], object], folder: Path
) -> None:
    """Check the files of the store's newest release: all of them, or only those of READ if the night has nothing to do.

    Raises:
        StoreUnreadable: the store is damaged.
    """
    if is_settled(settings, list_outside(folder)) and not settings.retention.has_limits:
        check_newest_whole(folder, READ)
    else:
        check_all()


def list_roots(job: Job, paths: list[Path]) -> list[Path]:
    """Return the roots that a night reads: the paths or else the installed tools' transcripts, and the space's own
    talks and notes.
    """
    return [*(paths or collect_transcript_roots()), *find_talk_logs(job.store.dir)]


def _note_folders(
    report: RunReport,
    roots: Sequence[Path],
    paths: Sequence[Path],
) -> None:
    """Note the folders of tools that are read if no path is named, and where transcripts were searched if there are
    none.
    """
    if not roots:
        report.searched = list_searched(Path.home())
    elif not paths:
        report.read_folders = list_read_folders(Path.home())


def _report_idle_steps(settings: Settings) -> list[StepReport]:
    """Return the reports of the steps after reading, in a night that has nothing new."""
    steps = (*STEPS, publish_release)
    done = [
        step for step in steps if step is not write_gists or settings.gists != "off"
    ]
    return [StepReport(STEP_NAMES[step.__name__]) for step in done]


def run_night(
    paths: list[Path],
    settings: Settings,
    call: Callable[..., Any] = operator.call,
    wait: float = 0,
    executor: str | None = None,
    *,
    rewrite: bool = False,
    same_day: bool = False,
    now: datetime | None = None,
) -> RunReport:
    """Run a night over the paths, or without paths over the transcripts of the installed tools.

    Args:
        paths: files and folders to read.
        settings: of the night.
        call: runs each step.
        wait: seconds to wait for another run.
        executor: a plugin that computes the costly parts, such as `ray` or `ray:ADDRESS`.
        rewrite: if another writer wrote the memory, let the writer in the settings write it anew.
        same_day: ask no model. If a model writes the memory, new passages answer and its claims wait.
        now: the run's clock; by default the machine's.

    Raises:
        UsageError: another writer wrote the memory, and `rewrite` is off.
        ClusterFailed: the cluster does not exist, or none of its machines can do the work.
        NoSuchPath: a path does not exist, or is a pipe or a device.
        StoreLocked: another run holds the store.
    """
    paths = check_paths(paths)
    check_all = cache(partial(check_newest_whole, settings.store / settings.space))

    open_night = partial(
        open_run, "nightly", settings, partial(_check_store, settings, check_all)
    )
    writes = None if same_day else rewrite
    with open_night(
        create=True, call=call, wait=wait, executor=executor, rewrite=writes, now=now
    ) as (job, report):
        quarantine_candidate(job, report)
        erase_plans(job, report)
        roots = list_roots(job, paths)
        _note_folders(report, roots, paths)
        run_step(job, report, read_transcripts, roots, paths, check_all)
        if settings.retention.has_limits:
            run_step(job, report, forget_due)
        outside = list_outside(job.store.dir)
        if is_settled(settings, outside):
            report.steps += _report_idle_steps(settings)
            return report
        check_all()
        quarantine_floods(job, report, paths)
        steps = choose_same_day_steps(job) if same_day else STEPS
        run_steps_after_read(job, report, steps, gated=not read_plans(job.store.dir))
        if seal_plans(job):
            report.release = find_live(job.store)
        note_settled(job, report, outside)
    return report


def choose_same_day_steps(job: Job) -> Sequence[Step]:
    """Return the steps of a run that asks no model: all steps if no model writes the memory."""
    named = any(job.settings.get_llm(task) != "off" for task in NIGHTLY)
    return STEPS if not named and find_writer(job.store) in (None, RULES) else TAKING_IN


def run_steps_after_read(
    job: Job,
    report: RunReport,
    steps: Sequence[Step] = STEPS,
    *,
    gated: bool = True,
    whole: bool = True,
) -> None:
    """Run the steps after reading on all rows that lack their output. Every kind of run shares this part.

    If a step fails, its earlier output stays and the next steps use it. An error of `publish` is raised.

    Args:
        job: the run.
        report: of the run.
        steps: the steps of STEPS to run.
        gated: keep the live release if the result is outside the bounds of `gates`. Off if a person asked for the
            loss, or if damage already took the rows.
        whole: release a memory that is being rewritten only if nothing of it waits. Off if damage may have taken the
            release before.
    """
    done = [
        run_step(job, report, step)
        for step in steps
        if step is not write_gists or job.settings.gists != "off"
    ]
    # a release, without what a forgetting erased
    if forgets := bool(read_plans(job.store.dir)):
        rewrite_store(job)
    complete = all(done) and set(steps) >= set(STEPS[STEPS.index(observe_sessions) :])
    publish_run(
        job, report, gated=gated, complete=complete, whole=whole and not forgets
    )


def publish_run(
    job: Job,
    report: RunReport,
    *,
    gated: bool = True,
    complete: bool,
    whole: bool = True,
) -> None:
    """Publish the result of a run.

    A memory that is being rewritten keeps its earlier release until the rewrite is `complete`: each step of the
    writer is done and nothing waits. With `whole` off it is published at once. A rewrite passes the gates, since it
    is meant to change the claims.
    """
    rewriter = find_rewriter(job.store)
    live = find_released_writer(job.store)
    waits = any(
        step.kinds[CountByKind.WAITING].total()
        for step in report.steps
        if step.step in WRITERS
    )
    complete = complete and not waits
    if rewriter and live and whole and not complete:
        why = f"{rewriter} has not written the whole memory yet: the release before answers, the next night goes on"
        report.steps.append(StepReport("publish", failed=[why]))
        return
    with open_span("slowwave.step", **{"slowwave.step.name": "publish"}):
        done = job.call(publish_release, job, gated and not (rewriter and live))
    report.steps.append(done)
    report.release = find_run_release(job)
    if rewriter and not done.held and (complete or not live):
        end_rewrite(job.store)


def collect_transcript_roots() -> list[Path]:
    """Return the files and folders in which the tools installed for this user keep transcripts."""
    return [path for _, path in find_installed(Path.home())]


READ = tuple(
    table.name
    for table in (RUNS, RELEASES, MARKS, FILES, SESSIONS, QUARANTINE, FORGOTTEN)
)
"""Tables that a night reads even if nothing is new. The files of all others are checked only if something is new."""
SETTLED = "settled"
"""File of a space with a hash of all that its last night read. It is written if that night left nothing to be done."""


def list_outside(folder: Path) -> list[tuple[str, int, int]]:
    """Return the state of what the steps read outside the tables: each file with its size and its mtime in nanoseconds.

    These are the code, the logs (`*.jsonl`) that are written without the lock, and the checkouts that claims are about,
    each with its commit.
    """
    stats = []
    code = (
        f"{above}/{name}"
        for above, _, names in os.walk(Path(__file__).parents[1], followlinks=True)
        if not above.endswith("__pycache__")
        for name in names
    )
    for file in sorted([*map(str, folder.glob("*.jsonl")), *code]):
        with suppress(FileNotFoundError):
            # an editor's lock file is a link to nowhere
            status = os.stat(file)  # noqa: PTH116 - `Path` takes longer than the disk
            stats.append((file, status.st_size, status.st_mtime_ns))
    return [*stats, *((f"{root} {head}", 0, 0) for root, head in read_heads(folder))]


def is_settled(settings: Settings, outside: list[tuple[str, int, int]]) -> bool:
    """Return True if all inputs of the steps, and the steps themselves, are as the last night left them."""
    file = settings.store / settings.space / SETTLED
    return (
        file.is_file()
        and file.read_bytes() == _hash_inputs(settings, outside)
        and not read_plans(file.parent)
    )


def note_settled(
    job: Job, report: RunReport, outside: list[tuple[str, int, int]]
) -> None:
    """Record the steps' inputs, unless something failed, waits or is held back, a model is set, or the encoder is
    missing.
    """
    asks = any(
        job.settings.get_llm(task) != "off"
        for task in get_args(ModelTask)
        if task != "talk"
    )
    asks = asks or any(step.kinds[CountByKind.WAITING] for step in report.steps)
    if report.status is RunStatus.DONE and not asks and not is_encoder_away(job):
        replace_file(job.store.dir / SETTLED, _hash_inputs(job.settings, outside))


def _hash_inputs(settings: Settings, outside: list[tuple[str, int, int]]) -> bytes:
    """Return a hash of the settings, the code, the recall log and the metadata of each table's files."""
    folders = [
        settings.store / settings.space / f"{name}.lance"
        for name in TABLES
        if name != RUNS.name
    ]
    tables = [sorted(list_state(folder).items()) for folder in folders]
    return compute_content_id(
        settings.model_dump_json(), repr(tables), repr(outside)
    ).encode()
