"""Whether a night's steps have anything to do: not where all that they read is as the last night left it."""

import os
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
PACKAGE = Path(__file__).parents[2]


def is_settled(job: Job) -> bool:
    """Return whether every input of the steps, and the steps themselves, are what the last night ended with."""
    file = job.store.dir / SETTLED
    return file.is_file() and file.read_text() == _hash_inputs(job)


def note_settled(job: Job, report: RunReport) -> None:
    """Write down what the steps read, unless something failed, is held back or waits for a model or an encoder."""
    asks = any(job.settings.get_llm(task) != "off" for task in get_args(ModelTask) if task != "talk")
    if report.status is RunStatus.DONE and not asks and not is_encoder_away(job):
        replace_file(job.store.dir / SETTLED, _hash_inputs(job).encode())


def _hash_inputs(job: Job) -> str:
    """Return a hash of the settings, the code, what was handed out and the newest version of every table."""
    tables = [identify_newest_version(job.store.dir / f"{name}.lance") for name in TABLES if name != RUNS.name]
    code = (Path(folder, name) for folder, _, names in os.walk(PACKAGE, followlinks=True) for name in names)
    files = sorted([*job.store.dir.glob("*.jsonl"), *(file for file in code if file.suffix != ".pyc")])
    stats = [(str(file), status.st_size, status.st_mtime_ns) for file in files for status in [file.stat()]]
    return compute_content_id(job.settings.model_dump_json(), repr(tables), repr(stats))
