"""A run from its start to its row in `runs`: the lock, how its steps are called, and a trace of whatever went wrong."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from slowwave.flows.report import RunReport
from slowwave.schemas.errors import StoreError
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import RUNS
from slowwave.schemas.vocabulary import RunStatus
from slowwave.store.lock import writer_lock
from slowwave.store.private import make_files_private
from slowwave.store.store import Store
from slowwave.tasks.job import Job, StepReport
from slowwave.tasks.llm.ask import check_llm, close_model

Caller = Callable[..., StepReport]
"""Runs a step: as the plain function that it is, or as a task of Prefect's."""


def run_as_function(step: Callable[..., StepReport], *args: Any) -> StepReport:
    """Run a step as a plain function: no server, no client, no Prefect."""
    return step(*args)


def make_run_id() -> str:
    """Return a name for a run that sorts by time."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"


@contextmanager
def open_run(kind: str, settings: Settings) -> Iterator[tuple[Job, RunReport]]:
    """Hold the writer's lock for a run, and write its row at the end.

    A run that changed nothing and asked nothing of a model leaves no row: no table gets a new version from it. One that
    failed leaves its error.

    Raises:
        StoreLocked: another run is at it.
        UsageError: settings name a language model, a prompt or a pack that is not there.
    """
    check_llm(settings)
    run_id, started = make_run_id(), datetime.now(UTC)
    job, report = Job(settings, run_id), RunReport(run_id, kind)
    with make_files_private(), writer_lock(settings.store / settings.space, run_id, kind) as died:
        store = job.store
        if died:
            report.notes.append(f"run {died.run_id} was killed before it ended; what it had written is gone on from")
            since = datetime.fromisoformat(died.since)
            _write_run(store, died.run_id, died.kind, since, None, RunStatus.DIED, RunReport(died.run_id, died.kind))
        try:
            yield job, report
        except BaseException as error:
            report.notes.append(f"failed: {type(error).__name__}: {error}")
            with suppress(StoreError):  # a full disk has no room for this either: the error itself is what is told
                _write_run(store, run_id, kind, started, datetime.now(UTC), RunStatus.FAILED, report)
            raise
        finally:
            close_model(job)
        if report.release or report.count_paid_requests():
            _write_run(store, run_id, kind, started, datetime.now(UTC), RunStatus.DONE, report)


def _write_run(
    store: Store, run_id: str, kind: str, started: datetime, ended: datetime | None, status: str, report: RunReport
) -> None:
    row = {
        "run_id": run_id,
        "kind": kind,
        "started_at": started,
        "ended_at": ended,
        "status": status,
        "release_id": report.release.release_id if report.release else None,
        "report": report.render_json(),
    }
    store.merge(RUNS, pa.Table.from_pylist([row], schema=RUNS.schema))
