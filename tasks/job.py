"""What every step is given and what it gives back: a job, a step key, a report. Small, so that Prefect can carry it."""

import hashlib
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache, cached_property
from importlib.resources import files
from operator import call
from typing import Any

import orjson
from pydantic import BaseModel

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.settings import Settings
from slowwave.store.store import Store
from slowwave.tasks.progress import show_progress
from slowwave.tasks.shards import HERE, Executor


@dataclass(frozen=True)
class Job:
    """One run's settings, name and executor. Steps open the store themselves: tables never travel between tasks."""

    settings: Settings
    run_id: str
    executor: Executor = HERE
    """Computes what is worth spreading."""
    call: Callable[..., Any] = call
    """Runs a step: as the plain function that it is, or as a task of Prefect's."""
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    """The run's clock: when it began. What it reads is compared with this alone."""

    @cached_property
    def store(self) -> Store:
        """The space's tables, at their newest version."""
        return Store.open(self.settings.store, self.settings.space, create=True)


MODEL_MARK = ": "
"""Between a model's name and what is counted of it (`slowwave.tasks.llm.ask.Model`)."""
ERRORS = "errors ("
"""Prefix of the counts of a model's errors."""


@dataclass
class StepReport:
    """What a step did: rows read and written, seconds, and counts by reason of what was left out."""

    step: str
    rows_in: int = 0
    rows_out: int = 0
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    """Failures that the next night retries, a line each."""
    unread: list[str] = field(default_factory=list)
    """Files that a person named and of which nothing was read, each with the reason, which quotes nothing of it."""
    held: list[str] = field(default_factory=list)
    """Why what was made is not live, a line each."""

    def as_dict(self) -> dict[str, object]:
        """Return the report for the run's row and its JSON."""
        return {
            **asdict(self),
            "counts": dict(self.counts),
            "seconds": round(self.seconds, 3),
        }

    def list_counts(self) -> list[dict[str, Any]]:
        """Return a row for each figure: rows, seconds, then each count; nothing of them quotes."""
        figures = {
            "rows in": self.rows_in,
            "rows out": self.rows_out,
            "seconds": round(self.seconds, 1),
        }
        return [
            {"what": name, "count": n}
            for name, n in (*figures.items(), *sorted(self.counts.items()))
        ]


def parse_steps(report: bytes | str | None) -> list[StepReport]:
    """Return the steps of a run, of the report in its row."""
    steps = orjson.loads(report or b"{}").get("steps", ())
    return [StepReport(**{**step, "counts": Counter(step["counts"])}) for step in steps]


def parse_usage(steps: Iterable[StepReport]) -> dict[str, Counter[str]]:
    """Return model to what steps asked of it; in a step's counts that is `MODEL: name`."""
    usage: dict[str, Counter[str]] = defaultdict(Counter)
    for name, n in (pair for step in steps for pair in step.counts.items()):
        model, mark, what = name.rpartition(MODEL_MARK)
        if mark:
            usage[model][what] += n
    return usage


@contextmanager
def report_step(step: str) -> Iterator[StepReport]:
    """Yield a report whose seconds are those the block took."""
    report = StepReport(step)
    start = time.perf_counter()
    try:
        with show_progress(step):
            yield report
    finally:
        report.seconds = time.perf_counter() - start


@cache
def digest_shipped(file: str) -> str:
    """Return the hash of a shipped model, by its path below the steps' folder; a new one redoes its step's rows."""
    return hashlib.sha256(
        files("slowwave.tasks").joinpath(file).read_bytes()
    ).hexdigest()[:12]


def compute_step_key(step: str, version: int, *parts: BaseModel | str) -> str:
    """Return hash of a step's version and of the settings its rows depend on: change one and they are pending again."""
    return compute_content_id(
        step,
        str(version),
        *(p if isinstance(p, str) else p.model_dump_json() for p in parts),
    )
