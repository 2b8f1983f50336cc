"""What every step is given and what it gives back: a job, a step key, a report. Small, so that Prefect can carry it."""

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, cached_property
from importlib.resources import files
from operator import call
from typing import Any, Self

import orjson
from pydantic import BaseModel

from slowwave.schemas.counters import (
    Count,
    CountByKind,
    ModelUsage,
    describe_counts,
)
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


@dataclass
class StepReport:
    """What a step did: rows read and written, seconds, what it counted, and what it asked of models."""

    step: str
    rows_in: int = 0
    rows_out: int = 0
    seconds: float = 0.0
    counts: Counter[Count] = field(default_factory=Counter)
    kinds: dict[CountByKind, Counter[str]] = field(
        default_factory=lambda: {count: Counter() for count in CountByKind}
    )
    usage: dict[str, ModelUsage] = field(default_factory=dict)
    """By model."""
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
            **vars(self),
            "counts": {count.value: n for count, n in self.counts.items()},
            "kinds": {
                count.value: dict(kinds) for count, kinds in self.kinds.items() if kinds
            },
            "usage": {model: usage.as_dict() for model, usage in self.usage.items()},
            "seconds": round(self.seconds, 3),
        }

    @classmethod
    def parse(cls, row: Mapping[str, Any]) -> Self:
        """Return the report of a run's row. Counts of another version, that this one does not have, are left out."""
        counts = row.get("counts", {})
        kinds = row.get("kinds", {})
        usage = row.get("usage", {})
        typed = {
            "counts": Counter(
                {count: counts[count] for count in Count if count in counts}
            ),
            "kinds": {count: Counter(kinds.get(count, {})) for count in CountByKind},
            "usage": {model: ModelUsage.parse(used) for model, used in usage.items()},
        }
        return cls(**{**row, **typed})

    def describe_counts(self) -> dict[str, int]:
        """Return the counts with their words, without those of models' usage."""
        return describe_counts(self.counts, self.kinds)

    def list_counts(self) -> list[dict[str, Any]]:
        """Return a row for each figure: rows, seconds, then each count; nothing of them quotes."""
        figures = {
            "rows in": self.rows_in,
            "rows out": self.rows_out,
            "seconds": round(self.seconds, 1),
        }
        return [
            {"what": name, "count": n}
            for name, n in (figures | self.describe_counts()).items()
        ]


def parse_steps(report: bytes | str | None) -> list[StepReport]:
    """Return the steps of a run, of the report in its row."""
    steps = orjson.loads(report or b"{}").get("steps", ())
    return [StepReport.parse(step) for step in steps]


def sum_usage(steps: Iterable[StepReport]) -> dict[str, ModelUsage]:
    """Return by model what the steps asked of it."""
    total: dict[str, ModelUsage] = {}
    for step in steps:
        for model, usage in step.usage.items():
            total.setdefault(model, ModelUsage()).add(usage)
    return total


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
