"""The end of a forgetting: no byte left of it. Files and indexes, older releases, kept answers.

Then every file is looked through for canaries, and a certificate says what was found. Each part may be done again.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

from slowwave.engines.encoders.protocol import hide_url
from slowwave.last_answers import drop_answers
from slowwave.schemas.tables import TABLES
from slowwave.store.publishing import publish, read_releases
from slowwave.store.releases import Release
from slowwave.store.store import Store
from slowwave.store.upkeep import drop_all_but_live, rewrite_tables
from slowwave.tasks.experiment.definition import FOLDER
from slowwave.tasks.forget.lineage import drop_plan, read_plans
from slowwave.tasks.forget.proof import write_certificate
from slowwave.tasks.job import Job


def rewrite_store(job: Job) -> None:
    """Remove what no row has any more from the files: deleted rows, words of indexes."""
    shutil.rmtree(job.store.dir / FOLDER, ignore_errors=True)  # stores of an experiment's trials, copies of the vault
    for folder in job.store.dir.glob("*.lance"):  # a table that an earlier slowwave had, as its copies of vectors
        if folder.stem not in TABLES:
            shutil.rmtree(folder)
    rewrite_tables(job.store)


def release_rest(job: Job) -> None:
    """Release the tables as they are, with the scale of relevance of the release before; none if that has them so."""
    before = read_releases(job.store)
    scale = before[-1].calibration if before else None
    encoder = hide_url(job.settings.encoder) if job.settings.embeddings else None
    publish(job.store, job.run_id, before[-1].encoder if before else encoder, lambda draft: scale)


def drop_old(job: Job) -> None:
    """Drop every older release and the answers that this machine keeps of them."""
    drop_all_but_live(job.store)
    drop_answers(job.store)


SEALS: tuple[Callable[[Job], None], ...] = (rewrite_store, release_rest, drop_old)


def seal_plans(job: Job) -> list[Path]:
    """Carry the plans that are erased to their end; returns the certificates."""
    plans = [plan for plan in read_plans(job.store.dir) if plan.erased]
    if not plans:
        return []
    for part in SEALS:
        part(job)
    certificates = []
    for plan in plans:
        certificates.append(write_certificate(plan, job.store, find_live(job.store)))
        drop_plan(job.store.dir, plan)
    return certificates


def find_live(store: Store) -> Release | None:
    """Return the live release."""
    return next(iter(read_releases(store)[::-1]), None)
