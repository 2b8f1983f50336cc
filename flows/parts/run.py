"""A run from its start to its row in `runs`: the lock, how its steps are called, and a trace of whatever went wrong."""

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
from slowwave.schemas.errors import StoreError, UsageError
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
from slowwave.store.backup import RESTORING
from slowwave.store.crypt import check_encrypted
from slowwave.store.lock import writer_lock
from slowwave.store.manifest import check_newest_whole, has_table
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
    """Hold the writer's lock for a run, and write its row at the end. `prepare` comes before Lance reads anything.
    `call` runs each step; a run under way is waited for so many seconds. `executor` names a plugin
    that computes what it can (`open_executor`). `now` is the run's clock, else the machine's time.

    What a run before it left torn is mended first, so whoever writes looks at the tables inside. A run that changed
    nothing and asked nothing of a model leaves no row: no table gets a new version from it. Neither does what can't be
    done as it was put. One that failed leaves its error, one of which a part failed what that was.

    `rewrite` is False for a run that makes claims, topics and summaries: it must have the memory's writer. With True
    its own writer writes them anew (`slowwave.tasks.llm.writer`). None: the run makes none.

    Raises:
        StoreMissing: there is no such store or space, and `create` is off.
        StoreLocked: another run is at it.
        StoreUnreadable: the store is damaged.
        UsageError: settings name a language model, a prompt or a pack that is not there, or another writer.
    """
    check_llm(settings)
    check_encrypted(settings)
    if not create:
        load_releases(settings.store / settings.space)
    # What a restore or a reading of a packed file left that was killed goes; in six hours each is through.
    for left in (
        *settings.store.glob(f"{RESTORING}*"),
        *Path(tempfile.gettempdir()).glob(f"{LEFT}*"),
    ):
        with suppress(OSError):  # gone, or another's
            if left.stat().st_mtime < time.time() - 6 * 3_600:
                shutil.rmtree(left)
    run_id, started = make_run_id(), now or datetime.now(UTC)
    report = RunReport(run_id, kind)
    name = "slowwave.night" if kind == "nightly" else f"slowwave.{kind}"
    with (
        write_metrics_after(settings),
        open_span(name, **{"slowwave.run.id": run_id}) as set_attribute,
        make_files_private(),
        writer_lock(
            folder := settings.store / settings.space, run_id, kind, wait
        ) as died,
        open_executor(folder / "shards", executor) as opened,
    ):
        job = Job(settings, run_id, opened, call, started)
        prepare(folder)
        report.notes += (
            []
            if has_table(folder, RELEASES.name)
            else [f"there was no store at {name_place(folder)}: it is made"]
        )
        store = job.store
        if died:
            report.notes.append(
                f"run {died.run_id} was killed before it ended; this run continues from what it had written"
            )
            since = datetime.fromisoformat(died.since)
            _write_run(
                store,
                died.run_id,
                died.kind,
                since,
                None,
                RunStatus.DIED,
                RunReport(died.run_id, died.kind),
            )
        if rewrite is not None:
            report.notes += settle_writer(job, rewrite=rewrite)
        try:
            yield job, report
        except BaseException as error:
            report.notes.append(f"failed: {type(error).__name__}: {error}")
            if report.steps or not isinstance(error, UsageError):
                with suppress(StoreError):
                    # A full disk has no room for this either: the error itself is what is told.
                    _write_run(
                        store,
                        run_id,
                        kind,
                        started,
                        datetime.now(UTC),
                        RunStatus.FAILED,
                        report,
                    )
                    error.add_note(f"`slowwave inspect runs` has it, as run {run_id}")
            raise
        finally:
            close_models(job.run_id)
        set_attribute("slowwave.run.status", report.status)
        if report.leaves_row:
            _write_run(
                store, run_id, kind, started, datetime.now(UTC), report.status, report
            )


def run_step(
    job: Job, report: RunReport, step: Callable[..., StepReport], *args: Any
) -> bool:
    """Run a step, add its report, and return True if it was done.

    One that fails is noted, and what it wrote taken back but for what was read.

    Raises:
        SlowwaveError: whatever was raised on purpose: it would be raised again.
        OSError: the disk takes no more.
    """
    name = STEP_NAMES[step.__name__]
    before, failed = job.store.read_versions(TAKEN_BACK), dict[str, Exception]()
    try:
        with open_span(
            "slowwave.step", **{"slowwave.step.name": name}
        ) as set_attribute:
            done: StepReport = job.call(step, job, *args)
            set_attribute("slowwave.step.rows", done.rows_out)
    except Exception as error:
        if is_lasting(error):
            raise
        done, failed[name] = StepReport(name), error
        if name != "read":
            job.store.restore_versions(before)
    # a failure is quarantined, and the night goes on
    note_failed_units(job, done, WHOLE_STEP, failed)
    report.steps.append(done)
    release_memory()
    return not failed


def open_executor(shards: Path, spec: str | None) -> AbstractContextManager[Executor]:
    """Return a run's executor: a plugin's, else this process, which removes results that a killed run elsewhere left.

    Args:
        shards: folder in which an executor may keep results until the run has ended.
        spec: a name of the group `slowwave.executors`, and an address behind a colon if it takes one: `ray`,
            `ray:10.0.0.7:6379`.

    Raises:
        UsageError: no installed package adds it.
        ClusterFailed: there is no cluster at the address.
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
    """Return whether a gate holds back what the tables have: only a roll-back, if anything, was released since.

    By what that night found released, and not by the clock, which may have been ahead.
    """
    held_back = store.read(RUNS, ["release_id"], pc.field("status") == RunStatus.HELD)[
        "release_id"
    ].to_pylist()
    return _find_published(store) in held_back


def list_made(store: Store) -> list[Release]:
    """Return the releases that are no roll-back, oldest first."""
    return [release for release in read_releases(store) if release.restores is None]


def _find_published(store: Store) -> str:
    """Return the newest release that is no roll-back, by its id; empty where there is none."""
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
    """Return a person's reason as it is kept: in a line, without what looks like a secret where settings redact.

    Raises:
        UsageError: none is given.
    """
    reason = " ".join(
        "".join(char if char.isprintable() else " " for char in why).split()
    )
    if not reason:
        raise UsageError("a reason is needed: it is kept")
    return redact_text(reason) if settings.redact else reason
