"""Whether a night's steps have anything to do: not if their input is as the last night left it."""

import os
from contextlib import suppress
from pathlib import Path
from typing import get_args

from slowwave.flows.parts.report import RunReport
from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.settings import ModelTask
from slowwave.schemas.tables import RUNS, TABLES
from slowwave.schemas.vocabulary import RunStatus
from slowwave.store.manifest import identify_newest_version
from slowwave.store.private import replace_file
from slowwave.tasks.job import Job
from slowwave.tasks.vectors import is_encoder_away

SETTLED = "settled"
"""File of a space: a hash of all that its last night read, written where that night left nothing to be done."""


def list_outside(job: Job) -> list[tuple[str, int, int]]:
    """Return the state of the code, and of what readers write without the lock: before the steps read any of it."""
    stats, folders = [], os.walk(Path(__file__).parents[2], followlinks=True)
    files = (Path(folder, name) for folder, _, names in folders if not folder.endswith("__pycache__") for name in names)
    for file in sorted([*job.store.dir.glob("*.jsonl"), *files]):
        with suppress(FileNotFoundError):  # an editor's lock, which is a link to nowhere
            stats.append((str(file), (status := file.stat()).st_size, status.st_mtime_ns))
    return stats


def is_settled(job: Job, outside: list[tuple[str, int, int]]) -> bool:
    """Return whether every input of the steps, and the steps themselves, are what the last night ended with."""
    file = job.store.dir / SETTLED
    return file.is_file() and file.read_text() == _hash_inputs(job, outside)


def note_settled(job: Job, report: RunReport, outside: list[tuple[str, int, int]]) -> None:
    """Write down what the steps read, unless something failed, is held back or waits for a model or an encoder."""
    asks = any(job.settings.get_llm(task) != "off" for task in get_args(ModelTask) if task != "talk")
    if report.status is RunStatus.DONE and not asks and not is_encoder_away(job):
        replace_file(job.store.dir / SETTLED, _hash_inputs(job, outside).encode())


def _hash_inputs(job: Job, outside: list[tuple[str, int, int]]) -> str:
    """Return a hash of the settings, the code, what was handed out and the newest version of every table."""
    tables = [identify_newest_version(job.store.dir / f"{name}.lance") for name in TABLES if name != RUNS.name]
    return compute_content_id(job.settings.model_dump_json(), repr(tables), repr(outside))
