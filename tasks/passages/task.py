"""Write the passages of every spoken message, with their vectors. Recall searches them."""

from collections.abc import Sequence

import polars as pl

from slowwave.engines.encoders.protocol import watch_encoding
from slowwave.schemas.tables import MESSAGES, PASSAGES
from slowwave.tasks.isolate import do_apart, note_failed_units
from slowwave.tasks.job import Job, StepReport, compute_step_key, report_step
from slowwave.tasks.passages.cut import VERSION, build_passages
from slowwave.tasks.pending import (
    find_missing_messages,
    read_inactive_ids,
    read_spoken_messages,
    read_trust,
)
from slowwave.tasks.progress import show_progress, spread_progress
from slowwave.tasks.trust import VERSION as TRUST_VERSION
from slowwave.tasks.vectors import (
    attach_vectors_if_there,
    describe_encoder,
    fill_missing_vectors,
)

BATCH = 1_000
ORDER = [("session_id", "ascending"), ("seq", "ascending")]
COLUMNS = [
    "message_id",
    "session_id",
    "seq",
    "role",
    "speaker",
    "text",
    "ts",
    "workspace",
    "origin",
]


def write_passages(job: Job) -> StepReport:
    """Cut and encode the messages without passages, and remove the passages of messages that are no longer active."""
    with report_step("passages") as report:
        key = compute_step_key(
            "passages", VERSION, TRUST_VERSION, describe_encoder(job.settings)
        )
        spoken = read_spoken_messages(job.store)
        _delete_passages(job, read_inactive_ids(job.store))
        fill_missing_vectors(job=job, table=PASSAGES, column="text", report=report)
        pending = find_missing_messages(
            store=job.store, spoken=spoken, table=PASSAGES, key=key
        )
        report.rows_in = pending.height
        with show_progress("passages", pending.height) as advance:
            failed: dict[str, Exception] = {}
            for batch in pending.iter_slices(BATCH * job.executor.at_once):

                def write(sessions: Sequence[str], batch: pl.DataFrame = batch) -> None:
                    ids = batch.filter(pl.col("session_id").is_in(sessions))[
                        "message_id"
                    ].to_list()
                    messages = job.store.read_ids(MESSAGES, ids, COLUMNS).sort_by(ORDER)
                    trust = read_trust(job, sessions)
                    rows = build_passages(messages, key, trust=trust)
                    with (
                        spread_progress(advance, len(ids), rows.num_rows) as tick,
                        watch_encoding(tick),
                    ):
                        rows = attach_vectors_if_there(
                            job=job, rows=rows, column="text", report=report
                        )
                    _delete_passages(job, set(ids))  # passages under an older key
                    report.rows_out += job.store.append(PASSAGES, rows)

                failed |= do_apart(
                    batch["session_id"].unique(maintain_order=True).to_list(), write
                )
        note_failed_units(job=job, report=report, kind="session", failed=failed)
    return report


def _delete_passages(job: Job, message_ids: set[str]) -> None:
    """Delete the passages of messages."""
    old = job.store.read_ids(
        PASSAGES, sorted(message_ids), ["passage_id"], by="message_id"
    )
    job.store.delete_ids(PASSAGES, old.column("passage_id").to_pylist())
