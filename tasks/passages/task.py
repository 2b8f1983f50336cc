"""Passages of every spoken message, with their vectors: what recall searches of the vault."""

import polars as pl
from prefect import task
from prefect.cache_policies import NO_CACHE

from slowwave.schemas.tables import MESSAGES, PASSAGES
from slowwave.tasks.job import Job, StepReport, reporting, step_key
from slowwave.tasks.passages.cut import VERSION, passages
from slowwave.tasks.pending import batches, inactive_messages, lacking, spoken_messages
from slowwave.tasks.progress import progress
from slowwave.tasks.vectors import encoder_for, with_vectors

BATCH = 200
COLUMNS = ["message_id", "session_id", "seq", "role", "speaker", "text", "ts", "workspace", "origin"]


def passages_key(job: Job) -> str:
    """What a passage depends on besides its message."""
    return step_key("passages", VERSION, job.settings.encoder if job.settings.embeddings else "no vectors")


@task(name="passages", cache_policy=NO_CACHE)
def write_passages(job: Job) -> StepReport:
    """Cut and encode the messages that have no passages yet; those of messages taken back are removed."""
    with reporting("passages") as report:
        key = passages_key(job)
        spoken = spoken_messages(job.store)
        _forget(job, inactive_messages(job.store))
        pending = lacking(job.store, spoken, PASSAGES, key)
        report.rows_in = pending.height
        with progress("passages", pending.height) as advance:
            for batch in batches(pending, BATCH):
                report.rows_out += _write(job, batch, key)
                advance(batch.height)
    return report


def _write(job: Job, batch: pl.DataFrame, key: str) -> int:
    ids = batch["message_id"].to_list()
    messages = job.store.read_ids(MESSAGES, ids, COLUMNS).sort_by([("session_id", "ascending"), ("seq", "ascending")])
    rows = with_vectors(job.store, passages(messages, key), "text", encoder_for(job.settings))
    _forget(job, set(ids))  # passages under an older key
    return job.store.append(PASSAGES, rows)


def _forget(job: Job, message_ids: set[str]) -> None:
    old = job.store.read_ids(PASSAGES, sorted(message_ids), ["passage_id"], by="message_id")
    job.store.delete_ids(PASSAGES, old.column("passage_id").to_pylist())
