"""Nights in processes of their own, which tests kill: the same samples, read in many small commits."""

import os
import signal
from collections.abc import Callable, Iterable
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import ACTIONS, MARKS, RELEASED, Table
from slowwave.store import Store
from slowwave.store.manifest import compute_table_digest
from slowwave.tasks.ingest import task
from slowwave.tasks.job import StepReport

SMALL: dict[str, Any] = {
    "encoder": "hash-384",
    "keywords": {"top": 0},
    "gists": "extractive",
}
SAMPLES = Path(__file__).parent.parent / "data" / "samples"
COMPARED = (*RELEASED, ACTIONS, MARKS)

FORKS = get_context("forkserver")  # what a night imports is imported once
FORKS.set_forkserver_preload(
    ["lance", "sklearn.feature_extraction.text", "slowwave.flows.nightly"]
)


def do_night(store: Path, die_after: int) -> None:
    """Do a night that reads in many commits to be killed between, and die after so many of its steps."""
    done = 0

    def call(step: Callable[..., StepReport], *args: Any) -> StepReport:
        nonlocal done
        report = step(*args)
        done += 1
        if done == die_after:
            os.kill(os.getpid(), signal.SIGKILL)
        return report

    task.BATCH = 50
    run_night([SAMPLES], Settings(store=store, **SMALL), call).check_complete()


def night(store: Path, die_after: int = 0) -> BaseProcess:
    process = FORKS.Process(target=do_night, args=(store, die_after))
    process.start()
    return process


def finished(process: BaseProcess) -> int | None:
    process.join()
    return process.exitcode


def digests(store: Path, tables: Iterable[Table] = COMPARED) -> dict[str, str]:
    opened = Store.open(store)
    return {
        table.name: compute_table_digest(table, opened.read(table)) for table in tables
    }
