"""A run from its start to its row in `runs`: the lock, the calls of its steps, and the record of errors."""

import operator
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.flows.metrics import write_metrics_after
from slowwave.flows.parts.report import RunReport
from slowwave.schemas.errors import NoRelease, StoreError, UsageError
from slowwave.schemas.places import name_place
from slowwave.schemas.plugins import load_plugin
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import (
    ACTIONS,
    FILES,
    LINES,
    MARKS,
    MESSAGES,
    QUARANTINE,
    RELEASED,
    RELEASES,
    RUNS,
    SESSIONS,
)
from slowwave.schemas.vocabulary import RunStatus
from slowwave.store.backup.archive import RESTORING
from slowwave.store.lock import Holder, writer_lock
from slowwave.store.manifest import check_newest_whole, has_table
from slowwave.store.place import check_writable
from slowwave.store.private import make_files_private
from slowwave.store.publishing import read_releases
from slowwave.store.releases import Release, load_releases
from slowwave.store.store import Store, release_memory
from slowwave.tasks.ingest.parsing.lines import LEFT
from slowwave.tasks.isolate import WHOLE_STEP, is_lasting, note_failed_units
from slowwave.tasks.job import Job, StepReport
from slowwave.tasks.llm.ask import check_llm, close_models
from slowwave.tasks.llm.writer import settle_writer
from slowwave.tasks.shards import HERE, Executor
from slowwave.telemetry import open_span
from slowwave.text.redact import redact_text

STEP_NAMES = {
    "read_transcripts": "read",
    "forget_due": "forget",
    "write_passages": "passages",
    "write_gists": "gists",
    "find_boilerplate": "boilerplate",
    "find_habits": "habits",
    "find_dead_ends": "attempts",
    "observe_sessions": "observe",
    "dedupe_claims": "dedupe",
    "supersede_claims": "supersede",
    "relate_claims": "relate",
    "check_claims": "checks",
    "assign_topics": "assign",
    "roll_up": "rollup",
    "publish_release": "publish",
}
"""The names of steps in a run's report and on Prefect's pages."""
VAULT = (MESSAGES, SESSIONS, FILES)
TAKEN_BACK = tuple(
    table
    for table in (*RELEASED, MARKS, LINES, ACTIONS)
    if table not in (*VAULT, QUARANTINE)
)
"""Tables that are restored after a step that failed; what was read and paid for stays."""


def make_run_id() -> str:
    """Return a name for a run that sorts by time."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"


@contextmanager
def open_run(
    kind: str,
    settings: Settings,
    prepare: Callable[[Path], None] = check_newest_whole,
    *,
    create: bool = False,
    call: Callable[..., Any] = operator.call,
    wait: float = 0,
    executor: str | None = None,
    rewrite: bool | None = None,
    now: datetime | None = None,
) -> Iterator[tuple[Job, RunReport]]:
    """Hold the writer's lock for a run, yield its job and its report, and write the run's row at the end.

    A store that a killed run left damaged is repaired first, so read the tables inside the context. A run leaves no
    row if it changed nothing and asked no model, or if its request is refused. The row of a run that failed has its
    error; the row of a run in which a part failed says which.

    Args:
        kind: the row's kind, such as `nightly`.
        settings: of the store.
        prepare: called with the space's folder before Lance reads anything.
        create: make the store if it does not exist.
        call: runs each step.
        wait: seconds to wait for another run.
        executor: a plugin that computes what can be spread (`open_executor`).
        rewrite: False for a run that makes claims, topics and summaries with the memory's writer; True to let another
            writer write them anew (`slowwave.tasks.llm.writer`); None for a run that makes none.
        now: the run's clock; by default the machine's.

    Raises:
        StoreMissing: the store or space does not exist, and `create` is off.
        StoreLocked: another run holds the store.
        StoreUnreadable: the store is damaged.
        UsageError: the settings name a model, prompt or pack that does not exist, or another writer.
    """
    check_llm(settings)
    check_writable(settings)
    if not create:
        load_releases(settings.store / settings.space)
    _remove_left_folders(settings.store)
    run_id = make_run_id()
    started = now or datetime.now(UTC)
    report = RunReport(run_id, kind)
    name = "slowwave.night" if kind == "nightly" else f"slowwave.{kind}"
    with (
        write_metrics_after(settings),
        open_span(name, **{"slowwave.run.id": run_id}) as set_attribute,
        make_files_private(),
        writer_lock(
            space_dir=(folder := settings.store / settings.space),
            run_id=run_id,
            kind=kind,
            wait=wait,
        ) as died,
        open_executor(folder / "shards", executor) as opened,
    ):
        job = Job(
            settings=settings, run_id=run_id, executor=opened, call=call, now=started
        )
        prepare(folder)
        report.notes += _note_opening(job, folder, died)
        if rewrite is not None:
            report.notes += settle_writer(job, rewrite=rewrite)
        try:
            yield job, report
        except BaseException as error:
            _record_failed_run(job, report, error)
            raise
        finally:
            close_models(job.run_id)
        set_attribute("slowwave.run.status", report.status)
        _write_ended_run(job=job, report=report, kind=kind, started=started)


def _remove_left_folders(store: Path) -> None:
    """Remove temporary folders of restores and unpacked files that are older than six hours: their process is dead."""
    folders = (
        *store.glob(f"{RESTORING}*"),
        *Path(tempfile.gettempdir()).glob(f"{LEFT}*"),
    )
    for folder in folders:
        with suppress(OSError):  # gone, or another user's
            if folder.stat().st_mtime < time.time() - 6 * 3_600:
                shutil.rmtree(folder)


def _write_ended_run(
    job: Job,
    report: RunReport,
    kind: str,
    started: datetime,
) -> None:
    """Write the row of a run that ended, if it leaves one."""
    if report.release is None:
        report.is_released = bool(read_releases(job.store))
    if report.leaves_row:
        ended = datetime.now(UTC)
        status = report.status
        _write_run(
            store=job.store,
            run_id=job.run_id,
            kind=kind,
            started=started,
            ended=ended,
            status=status,
            report=report,
        )


def _note_opening(
    job: Job,
    folder: Path,
    died: Holder | None,
) -> list[str]:
    """Return notes if the store is new, and if the run before was killed. Write the row of a killed run."""
    notes = []
    if not has_table(folder, RELEASES.name):
        notes.append(f"no store was at {name_place(folder)} yet: one was made")
    if died:
        notes.append(_record_killed_run(job.store, died))
    return notes


def _record_killed_run(store: Store, died: Holder) -> str:
    """Write the row of a run that was killed; return what the report says about it."""
    since = datetime.fromisoformat(died.since)
    empty = RunReport(died.run_id, died.kind)
    _write_run(
        store=store,
        run_id=died.run_id,
        kind=died.kind,
        started=since,
        ended=None,
        status=RunStatus.DIED,
        report=empty,
    )
    return f"run {died.run_id} was killed before it ended; this run continues from what it had written"


def _record_failed_run(
    job: Job,
    report: RunReport,
    error: BaseException,
) -> None:
    """Write the row of a run that failed, unless it was refused before its first step."""
    report.notes.append(f"failed: {type(error).__name__}: {error}")
    if isinstance(error, UsageError | NoRelease) and not report.steps:
        return
    with suppress(
        StoreError
    ):  # if the disk is full, the first error is the one to show
        _write_run(
            store=job.store,
            run_id=report.run_id,
            kind=report.kind,
            started=job.now,
            ended=datetime.now(UTC),
            status=RunStatus.FAILED,
            report=report,
        )
        error.add_note(f"`slowwave inspect runs` has it, as run {report.run_id}")


def run_step(
    job: Job,
    report: RunReport,
    step: Callable[..., StepReport],
    *args: Any,
) -> bool:
    """Run a step, add its report, and return True if it succeeded.

    A step that fails is noted, and its writes are taken back, except those of reading.

    Raises:
        SlowwaveError: an error that would only be raised again.
        OSError: the disk is full.
    """
    name = STEP_NAMES[step.__name__]
    before = job.store.read_versions(TAKEN_BACK)
    failed = dict[str, Exception]()
    try:
        with open_span(
            "slowwave.step", **{"slowwave.step.name": name}
        ) as set_attribute:
            done: StepReport = job.call(step, job, *args)
            set_attribute("slowwave.step.rows", done.rows_out)
    except Exception as error:
        if is_lasting(error):
            raise
        done = StepReport(name)
        failed[name] = error
        if name != "read":
            job.store.restore_versions(before)
    # a failure is quarantined, and the night goes on
    note_failed_units(job=job, report=done, kind=WHOLE_STEP, failed=failed)
    report.steps.append(done)
    release_memory()
    return not failed


def open_executor(shards: Path, spec: str | None) -> AbstractContextManager[Executor]:
    """Return a run's executor: a plugin's, or by default this process.

    The default executor removes results that a killed run left in `shards`.

    Args:
        shards: folder in which an executor may keep results until the run ends.
        spec: a name of the group `slowwave.executors`, with a colon and an address if it takes one: `ray`,
            `ray:10.0.0.7:6379`.

    Raises:
        UsageError: no installed package adds this name.
        ClusterFailed: no cluster answers at the address.
    """
    if spec is None:
        shutil.rmtree(shards, ignore_errors=True)
        return nullcontext(HERE)
    name, _, address = spec.partition(":")
    executor: AbstractContextManager[Executor] = load_plugin(
        "slowwave.executors", name
    )(shards, address)
    return executor


def is_held(store: Store) -> bool:
    """Return True if a gate holds back the newest tables. Roll-backs since do not matter.

    Compares releases and not times, since the clock may have been ahead.
    """
    held_back = store.read(RUNS, ["release_id"], pc.field("status") == RunStatus.HELD)[
        "release_id"
    ].to_pylist()
    return _find_published(store) in held_back


def list_made(store: Store) -> list[Release]:
    """Return the releases that are not roll-backs, oldest first."""
    return [release for release in read_releases(store) if release.restores is None]


def _find_published(store: Store) -> str:
    """Return the id of the newest release that is not a roll-back, or an empty string."""
    return made[-1].release_id if (made := list_made(store)) else ""


def _write_run(
    store: Store,
    run_id: str,
    kind: str,
    started: datetime,
    ended: datetime | None,
    status: str,
    report: RunReport,
) -> None:
    released = report.release.release_id if report.release else None
    row = {
        "run_id": run_id,
        "kind": kind,
        "started_at": started,
        "ended_at": ended,
        "status": status,
        "release_id": _find_published(store) if status == RunStatus.HELD else released,
        "report": report.render_json(),
    }
    store.merge(RUNS, pa.Table.from_pylist([row], schema=RUNS.schema))


def take_reason(why: str, settings: Settings) -> str:
    """Return a person's reason as one line; secrets are masked if the settings redact.

    Raises:
        UsageError: the reason is empty.
    """
    reason = " ".join(
        "".join(char if char.isprintable() else " " for char in why).split()
    )
    if not reason:
        raise UsageError("a reason is needed: it is kept")
    return redact_text(reason) if settings.redact else reason
