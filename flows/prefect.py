"""The flows that deployments name (deployments/prefect.yaml), each step of theirs a task.

Prefect is imported here and by `slowwave/cli/under_prefect.py` alone: it takes 3 to 15 s. `slowwave run` calls the same
functions without it, unless PREFECT_API_URL or `--prefect` says otherwise. A step's error is raised as it is. If
Prefect itself fails, the night goes on without it, and its report says so.
"""

import logging
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from datetime import datetime
from functools import wraps
from pathlib import Path
from threading import Event, Thread
from typing import Annotated, Any, Literal, TypeVar
from uuid import UUID

from prefect import Flow, Task, flow, get_run_logger
from prefect.artifacts import (
    create_link_artifact,
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.events import emit_event
from prefect.runtime import flow_run
from pydantic import Field

from slowwave.flows.export import export_tables, fill_place
from slowwave.flows.forget import run_forget_due
from slowwave.flows.nightly import run_night
from slowwave.flows.parts.check import find_damage
from slowwave.flows.parts.graph import GRAPH, find_parents
from slowwave.flows.parts.report import NightIncomplete, RunReport
from slowwave.flows.parts.run import STEP_NAMES
from slowwave.flows.reprocess import (
    Daily,
    Redoable,
    Selection,
    make_selection,
    run_backfill,
    run_reprocess,
)
from slowwave.schemas.errors import SlowwaveError, StoreError, UsageError
from slowwave.schemas.settings import SPACE_NAME, make_settings, name_model
from slowwave.schemas.vocabulary import UI_PORT, RunStatus
from slowwave.store.backup.age import read_key
from slowwave.store.backup.archive import back_up
from slowwave.store.place import check_writable
from slowwave.store.releases import Snapshot
from slowwave.tasks.ingest.parsing.records import NoSuchPath
from slowwave.tasks.isolate import is_lasting
from slowwave.tasks.job import StepReport
from slowwave.tasks.progress import measure_progress
from slowwave.text.words import count_noun

LOG = logging.getLogger(__name__)
Result = TypeVar("Result")
PROGRESS_SECONDS = 5.0
"""Time between two updates of a step's progress on Prefect's pages."""
RETRY_SECONDS = 2
"""Wait before a failed step is tried once more. The step does not repeat what it had finished."""


class Unquoted(SlowwaveError):
    """An error as Prefect may see it: its kind and where it was raised, since its words may quote what was read."""


class PrefectFailed(SlowwaveError):
    """Prefect could not run something, or could not record it."""

    def __init__(self, trouble: Exception) -> None:
        self.reason = " ".join(f"{type(trouble).__name__}: {trouble}".split())
        super().__init__(f"Prefect failed ({self.reason})")


OWN_WORDS = (
    UsageError,
    NoSuchPath,
    StoreError,
    NightIncomplete,
    PrefectFailed,
    Unquoted,
)
"""Errors whose words may reach Prefect's server: they name what was asked for, and quote no transcript."""


def hide_words(
    function: Callable[..., Result], where: str = ""
) -> Callable[..., Result]:
    """Return the function with the words of its errors removed, unless they are `OWN_WORDS`: the others may quote a
    transcript, and no forgetting reaches Prefect's server.

    Args:
        function: a step or a flow.
        where: the place where a person finds the words; by default the error's own note, which a run adds to it
            (`open_run`).
    """

    @wraps(function)
    def call(*args: Any, **named: Any) -> Result:
        try:
            return function(*args, **named)
        except OWN_WORDS:
            raise
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            location = f"{Path(last.filename).name}:{last.lineno}"
            place = (
                where
                or "; ".join(getattr(error, "__notes__", ()))
                or f"{UNNOTED} shows its words"
            )
            raise Unquoted(f"{type(error).__name__} at {location}: {place}") from None

    return call


UNCHANGED = "unchanged"
"""Tag of a run that changed nothing."""
Overrides = dict[str, Any] | None
Space = Annotated[str, Field(pattern=SPACE_NAME)] | None
Model = Annotated[str, Field(min_length=1)] | None
ExportForm = Literal["parquet", "lance", "jsonl", "graphml"]
Partition = Literal["day", "workspace"] | None
UNNOTED = "no run has noted it; the same command in a terminal"
"""Where to find the words of an error that was raised outside of a run, and so has no row in the table of runs."""
IN_RUN = "`slowwave inspect runs` has its words when the run has ended"
"""Where to find the words of an error of a step: the run writes its row at its end."""


@contextmanager
def restore_words() -> Iterator[None]:
    """Raise the error of a step or a flow as it was raised there, and an error of Prefect's own as `PrefectFailed`.

    Raises:
        PrefectFailed: Prefect can't run what the block calls, or can't record it.
    """
    try:
        yield
    except Unquoted as hidden:
        if hidden.__context__ is None:
            raise
        raise hidden.__context__ from hidden.__context__.__cause__
    except SlowwaveError:
        raise
    except Exception as trouble:
        raise PrefectFailed(trouble) from trouble


class TaskRunner:
    """Runs steps as tasks of Prefect's. After Prefect failed once, the steps run as plain functions."""

    def __init__(self) -> None:
        self.failed: PrefectFailed | None = None
        """Why Prefect is no longer used."""
        self.done: list[StepReport] = []
        """Reports of the steps that ran as tasks, in order."""

    def __call__(self, step: Callable[..., Result], *args: Any) -> Result:
        """Run a step as a task of Prefect's, and return its result.

        The task depends on those of the steps whose tables it reads. A step that failed is tried once more, if another
        try may help. If Prefect fails, the step runs without it, unless its result is there already.
        """
        done = list[Result]()
        name = STEP_NAMES.get(step.__name__, step.__name__)
        parents = find_parents(name, self.done)

        @wraps(step)
        def run(*given: Any) -> Result:
            with record_step(name, parents) as keep:
                done.append(step(*given))
                keep(done[-1])
            return done[-1]

        if self.failed is None:
            try:
                result = _run_as_task(run, name, parents, *args)
            except PrefectFailed as failed:
                LOG.warning("%s", failed)
                self.failed = failed
            else:
                self.done += (
                    [result]
                    if isinstance(result, StepReport) and result.step in GRAPH
                    else []
                )
                return result
        return done[-1] if done else step(*args)

    def note_failure(self, report: RunReport) -> RunReport:
        """Return the report, with a note if Prefect failed."""
        if self.failed:
            report.notes.append(f"{self.failed}: the run went on without it")
        return report


def _run_as_task(
    step: Callable[..., Result], name: str, parents: list[StepReport], *args: Any
) -> Result:
    """Run a step as a task that depends on those which returned `parents`.

    Raises:
        PrefectFailed: Prefect can't run the step, or can't record its result.
    """
    task = Task(
        hide_words(step, IN_RUN),
        name=name,
        tags={"slowwave"},
        retries=1,
        retry_delay_seconds=RETRY_SECONDS,
        retry_condition_fn=_should_retry,
        cache_policy=NO_CACHE,
    )
    with restore_words():
        return task(*args, wait_for=parents)


@contextmanager
def record_step(
    name: str, parents: list[StepReport]
) -> Iterator[Callable[[object], None]]:
    """Log the start of a step, yield a function that takes its report, and log what the report says.

    An artifact shows the step's progress while the block runs, and another one its counts. If Prefect can't keep one,
    this is logged and the step goes on.
    """
    log = get_run_logger()
    results = list[object]()
    after = ", ".join(
        f"{report.step} ({count_noun(report.rows_out, 'row')})" for report in parents
    )
    log.info("%s begins%s", name, f" after {after}" if after else "")
    with _follow_progress(name) as end_progress:
        yield results.append
    for report in results:
        if isinstance(report, StepReport):
            rows = f"{count_noun(report.rows_in, 'row')} in, {count_noun(report.rows_out, 'row')} out"
            log.info("%s ends: %s, %.1f s", name, rows, report.seconds)
            if end_progress():
                _keep(
                    "counts",
                    create_table_artifact,
                    report.list_counts(),
                    f"step-{name}",
                    f"What {name} counted",
                )


@contextmanager
def _follow_progress(name: str) -> Iterator[Callable[[], bool]]:
    """Start a thread that keeps a step's progress as an artifact, and yield a function to call when the step is done.

    That function ends the thread, sets the progress to 100 %, and returns False if Prefect could not keep it. After a
    first failure Prefect is not asked again.
    """
    key = _keep(
        "progress",
        create_progress_artifact,
        0.0,
        f"step-{name}-progress",
        f"How far {name} is",
    )
    over = Event()
    kept = [key is not None]

    def update(percent: float) -> bool:
        kept[0] = (
            kept[0]
            and _keep("progress", update_progress_artifact, key, percent) is not None
        )
        return kept[0]

    def follow() -> None:
        shown = 0.0
        while not over.wait(PROGRESS_SECONDS):
            if (percent := measure_progress()) > shown:
                shown = percent
                if not update(percent):
                    return

    follower = Thread(
        target=copy_context().run,
        args=(follow,),
        name="progress for Prefect",
        daemon=True,
    )
    if key is not None:
        follower.start()

    def end() -> bool:
        over.set()
        if key is not None:
            follower.join()  # or its last update would come after this one
        return update(100.0)

    try:
        yield end
    finally:
        over.set()


def _keep(what: str, keep: Callable[..., Result], *args: Any) -> Result | None:
    """Return the result of a call of Prefect's. If it fails, log this and return None."""
    try:
        return keep(*args)
    except Exception as trouble:
        LOG.warning(
            "Prefect could not keep the %s (%s: %s)",
            what,
            type(trouble).__name__,
            trouble,
        )
        return None


def _should_retry(task: Any, task_run: Any, state: Any) -> bool:
    """Return True if the failed step should be retried once."""
    error = state.result(raise_on_failure=False)
    raised = error.__context__ if isinstance(error, Unquoted) else error
    return not (isinstance(raised, Exception) and is_lasting(raised))


def _do_night(
    paths: list[str] | None,
    overrides: dict[str, Any] | None,
    executor: str | None,
    tasks: TaskRunner,
    *,
    rewrite: bool,
) -> RunReport:
    """Run a night whose steps are tasks, and return its report.

    Unless Prefect failed, the flow's run is named by the report and keeps it as an artifact.
    """
    try:
        given = [Path(path) for path in paths or []]
        report = run_night(
            given,
            make_settings(overrides or {}),
            tasks,
            executor=executor,
            rewrite=rewrite,
        )
    except Exception:
        if tasks.failed is None:
            name_flow_run("failed", RunStatus.FAILED)
        raise
    if tasks.failed is None:
        unchanged = report.status == RunStatus.DONE and report.release is None
        name_flow_run(f"{report.news} new", UNCHANGED if unchanged else report.status)
        save_artifact(report, "night-report", "What the night did")
    return tasks.note_failure(report)


@flow(name="nightly", validate_parameters=False)
@hide_words
def nightly(
    paths: list[str] | None = None,
    overrides: Overrides = None,
    executor: str | None = None,
    rewrite: bool = False,
    space: Space = None,
    model: Model = None,
) -> RunReport:
    """Run a night under Prefect, its report kept as an artifact.

    Args:
        paths: files and folders to read; none: the transcripts of the tools installed for this user.
        overrides: settings by name, over those of the file and the environment.
        executor: a plugin that computes what costs most, as `ray` or `ray:ADDRESS`.
        rewrite: let the writer that the settings name write the memory anew, if another one wrote it.
        space: the space (user or tenant), over `overrides`.
        model: language model of every task, over `overrides`: off, vllm:MODEL, openai:MODEL@URL, or several with >.

    Raises:
        NightIncomplete: a step failed, or a session in it, and the rest was released; or a gate holds the result back.
            The flow's run then ends as Failed.
    """
    given = merge_settings(overrides, space, model)
    return _do_night(
        paths=paths,
        overrides=given,
        executor=executor,
        tasks=TaskRunner(),
        rewrite=rewrite,
    ).check_complete()


@flow(name="reprocess", validate_parameters=False)
@hide_words
def reprocess(
    step: Redoable,
    selection: Selection | None = None,
    overrides: Overrides = None,
    space: Space = None,
    model: Model = None,
    missing: bool = False,
) -> RunReport:
    """Reprocess under Prefect; the run is named and tagged by the step and how it ended.

    Args:
        step: what is done again.
        selection: its sessions; by default all.
        overrides: settings by name, over those of the file and the environment.
        space: the space (user or tenant), over `overrides`.
        model: language model of every task, over `overrides`; it must be the memory's writer.
        missing: for gists and summaries: make those that are missing, and keep the others.

    Raises:
        NightIncomplete: as `nightly`.
    """
    chosen = _read_selection(selection)
    tasks = TaskRunner()
    with name_run("reprocess", step) as name:
        settings = make_settings(merge_settings(overrides, space, model))
        report = run_reprocess(step, chosen, settings, missing=missing, call=tasks)
        _finish(report, name)
    save_artifact(report, "reprocess-report", "What was done again")
    return tasks.note_failure(report).check_complete()


@flow(name="backfill", validate_parameters=False)
@hide_words
def backfill(
    step: Daily,
    selection: Selection | None = None,
    overrides: Overrides = None,
    space: Space = None,
    model: Model = None,
) -> list[dict[str, Any]]:
    """Do a step again a day at a time, oldest first; return each day, how it ended and its release. The run is named
    and tagged by the step and how its days ended. If it is stopped, the days before are kept.

    Args:
        step: what is done again; not topics, which are made of all days at once.
        selection: its sessions, as those of a range of days; none: all.
        overrides: settings by name, over those of the file and the environment.
        space: the space (user or tenant), over `overrides`.
        model: language model of every task, over `overrides`; it must be the memory's writer.

    Raises:
        NightIncomplete: as `nightly`, of the first day that did not end well; the others are done.
    """
    tasks = TaskRunner()
    reports = dict[str, RunReport]()
    with name_run("backfill", step) as name:
        settings = make_settings(merge_settings(overrides, space, model))
        chosen = _read_selection(selection)
        for day, report in run_backfill(step, chosen, settings, call=tasks):
            reports[str(day or "without a time")] = report
        news = count_noun(len(reports), "day")
        ended = [report.status for report in reports.values()]
        worst = next((status for status in ended if status != RunStatus.DONE), None)
        name(news, worst or RunStatus.DONE)
    days = [
        {
            "day": day,
            "status": str(report.status),
            "release": report.release.name if report.release else None,
        }
        for day, report in reports.items()
    ]
    _keep("days", create_table_artifact, days, "backfill-days", "How each day ended")
    for report in reports.values():
        report.check_complete()
    return days


@flow(name="export", validate_parameters=False)
@hide_words
def export(
    to: str,
    form: ExportForm = "parquet",
    overrides: Overrides = None,
    space: Space = None,
    partition_by: Partition = None,
    since: str | None = None,
    release: str | None = None,
    internal: bool = False,
) -> dict[str, Any]:
    """Export under Prefect; return the manifest. The run is named by the release, and tagged `done`, or `unchanged` if
    nothing was written.

    Args:
        to: a new folder. `{release}`, `{date}` and `{space}` in it are replaced, so that each run may have its own; if
            the release was exported to such a folder before, nothing is written.
        form: parquet, lance, jsonl or graphml.
        overrides: settings by name, over those of the file and the environment.
        space: the space (user or tenant), over `overrides`.
        partition_by: day or workspace: Parquet in a folder for each.
        since: an earlier release, as r3: only rows that are new or differ since, and the keys of those that are gone.
        release: the release to export, as r4; by default the live one.
        internal: also columns of use to nights alone, as `step_key`.
    """
    with name_run("export", form) as name:
        manifest = export_tables(
            make_settings(merge_settings(overrides, space)),
            Path(to),
            form,
            release=release,
            internal=internal,
            partition_by=partition_by,
            since=since,
        )
        name(
            f"{manifest['release']} as {form}",
            RunStatus.DONE if manifest["written"] else UNCHANGED,
        )
    return manifest


@flow(name="check", validate_parameters=False)
@hide_words
def check(
    quick: bool = False, overrides: Overrides = None, space: Space = None
) -> dict[str, Any]:
    """Verify a space's files and the chains of its messages. Return the number of releases compared, what was not
    checked, and the number of messages.

    Args:
        quick: compare sizes alone.
        overrides: settings by name, over those of the file and the environment.
        space: the space (user or tenant), over `overrides`.

    Raises:
        StoreError: something was altered, truncated or lost.
    """
    with name_run("check", "quick" if quick else "whole") as name:
        checked, messages, damage = find_damage(
            make_settings(merge_settings(overrides, space)), quick=quick
        )
        if damage:
            raise StoreError(
                f"{len(damage)} damaged, `slowwave check --repair` repairs: {'; '.join(damage[:5])}"
            )
        name(f"{checked.releases} releases", RunStatus.DONE)
    return {
        "releases": checked.releases,
        "unchecked": checked.unchecked,
        "messages": messages,
    }


@flow(name="backup", validate_parameters=False)
@hide_words
def backup(to: str, overrides: Overrides = None, space: Space = None) -> dict[str, Any]:
    """Write a space to one backup file. Return the file, its release, how many files it has, and whether it is
    encrypted. It is encrypted if SLOWWAVE_BACKUP_KEY or SLOWWAVE_BACKUP_KEY_COMMAND gives a key.

    Args:
        to: a new file. `{release}`, `{date}` and `{space}` in it are replaced; its folder is made.
        overrides: settings by name, over those of the file and the environment.
        space: the space (user or tenant), over `overrides`.
    """
    with name_run("backup", "space") as name:
        settings = make_settings(merge_settings(overrides, space))
        key = read_key(None)
        file = fill_place(Path(to), Snapshot(settings.store, settings.space))
        check_writable(settings, settings.store if key else file)
        file.parent.mkdir(parents=True, exist_ok=True)
        made = back_up(root=settings.store, space=settings.space, file=file, key=key)
        name(f"{made['release']} of {made['space']}", RunStatus.DONE)
    return {
        "file": str(file),
        "release": made["release"],
        "files": len(made["files"]),
        "encrypted": bool(key),
    }


@flow(name="forget-due", validate_parameters=False)
@hide_words
def forget_due(overrides: Overrides = None, space: Space = None) -> RunReport:
    """Forget what is older than the settings `retention` allow.

    Args:
        overrides: settings by name, over those of the file and the environment.
        space: the space (user or tenant), over `overrides`.

    Raises:
        NightIncomplete: as `nightly`.
    """
    tasks = TaskRunner()
    with name_run("forget", "due") as name:
        report = run_forget_due(
            make_settings(merge_settings(overrides, space)), call=tasks
        )
        _finish(report, name)
    save_artifact(report, "forget-report", "What was forgotten")
    return tasks.note_failure(report).check_complete()


def _read_selection(given: Selection | dict[str, Any] | None) -> Selection:
    """Return the selection, or make one from the dict that a deployment passes."""
    return given if isinstance(given, Selection) else make_selection(given or {})


def merge_settings(
    overrides: Overrides, space: Space = None, model: Model = None
) -> dict[str, Any]:
    """Return the settings that a flow's parameters name: `overrides`, with the space and the model replaced if
    given.
    """
    named = {} if space is None else {"space": space}
    return {
        **(overrides or {}),
        **named,
        **({} if model is None else name_model(model)),
    }


def run_night_under_prefect(
    paths: list[str],
    overrides: dict[str, Any],
    executor: str | None = None,
    *,
    rewrite: bool = False,
) -> RunReport:
    """Run a night as a flow of Prefect's, and return its report.

    If Prefect fails before the night has ended, run a plain night and note the failure in its report.

    Raises:
        StoreLocked: another run holds the store.
    """
    reports = list[RunReport]()
    tasks = TaskRunner()

    @hide_words
    def do_night(
        paths: list[str],
        overrides: dict[str, Any],
        executor: str | None,
        rewrite: bool,
    ) -> RunReport:
        reports.append(
            _do_night(
                paths=paths,
                overrides=overrides,
                executor=executor,
                tasks=tasks,
                rewrite=rewrite,
            )
        )
        return reports[-1].check_complete()

    try:
        with restore_words():
            return Flow(do_night, name=nightly.name, validate_parameters=False)(
                paths, overrides, executor, rewrite
            )
    except NightIncomplete as incomplete:
        return incomplete.report
    except PrefectFailed as failed:
        LOG.warning("%s", failed)
        if reports and tasks.failed:
            return reports[-1]  # which says so already
        tasks.failed = failed
        if reports:
            return tasks.note_failure(reports[-1])
        given = [Path(path) for path in paths]
        return tasks.note_failure(
            run_night(
                given, make_settings(overrides), executor=executor, rewrite=rewrite
            )
        )


def save_artifact(report: RunReport, key: str, description: str) -> None:
    """Keep three artifacts with the flow's run: the report, its steps as a table, and a link to its page.

    Quotes are only on that page. If Prefect can't keep one, this is logged.
    """
    page = f"http://127.0.0.1:{UI_PORT}/night/{report.run_id}"
    try:
        create_table_artifact(
            report.list_steps(),
            key=f"{key}-steps",
            description="Rows that each step read and wrote, and its time",
        )
        create_link_artifact(
            page,
            "What was learnt",
            f"{key}-page",
            "In a browser that opened the address of `slowwave ui`",
        )
        create_markdown_artifact(
            report.render_markdown(), key=key, description=description
        )
    except Exception as trouble:
        LOG.warning(
            "Prefect could not keep the report (%s: %s)",
            type(trouble).__name__,
            trouble,
        )


def name_flow_run(news: str, outcome: str, kind: str = "night", *labels: str) -> None:
    """Name the flow's run by its kind, its day and what is new, and tag it by its outcome and labels.

    Also emit an event with the outcome for automations, since Prefect's own events have only the tags that a run began
    with. If Prefect can't, this is logged.
    """
    try:
        with get_client(sync_client=True) as client:
            name = f"{kind} of {datetime.now():%Y-%m-%d}: {news}"
            tags = {*flow_run.get_tags(), outcome, *labels}
            client.update_flow_run(UUID(flow_run.get_id()), name=name, tags=tags)
        emit_event(
            f"slowwave.{kind}.{outcome}",
            {"prefect.resource.id": f"slowwave.{kind}", "prefect.resource.name": name},
        )
    except Exception as trouble:
        LOG.warning(
            "Prefect could not name the run (%s: %s)", type(trouble).__name__, trouble
        )


@contextmanager
def name_run(kind: str, label: str) -> Iterator[Callable[[str, str], None]]:
    """Yield a function that names the flow's run by its result and its outcome. If the block raises, the run is named
    `failed`.
    """
    try:
        yield lambda what, outcome: name_flow_run(
            f"{label}, {what}", outcome, kind, label
        )
    except Exception:
        name_flow_run(label, RunStatus.FAILED, kind, label)
        raise


def _finish(report: RunReport, name: Callable[[str, str], None]) -> None:
    """Name the flow's run by its report: by the release that it made, if any."""
    unchanged = report.status == RunStatus.DONE and report.release is None
    name(
        report.release.name if report.release else "nothing released",
        UNCHANGED if unchanged else report.status,
    )
