"""Write a gist of every spoken message that has none. The step runs only if the setting `gists` is on."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial

import polars as pl
import pyarrow as pa

from slowwave.engines.llm.protocol import Completion, Request
from slowwave.schemas.counters import CountByKind
from slowwave.schemas.errors import EncoderFailed
from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.rows import MessageRow
from slowwave.schemas.tables import GISTS, MESSAGES
from slowwave.tasks.gists.gists import VERSION, Gist, build_gists, find_own_gist
from slowwave.tasks.job import Job, StepReport, compute_step_key, report_step
from slowwave.tasks.llm.ask import (
    Model,
    Unusable,
    compute_model_key,
    get_model,
    quarantine_rejected,
)
from slowwave.tasks.llm.grounding import GroundingContext, explain_unfounded
from slowwave.tasks.pending import (
    find_missing_messages,
    read_inactive_ids,
    read_spoken_messages,
)
from slowwave.tasks.progress import show_progress
from slowwave.tasks.summarize import by_model
from slowwave.tasks.vectors import (
    describe_encoder,
    encode_as_kept,
    get_encoder_if_there,
    give_up_encoder,
)

BATCH = 2_000
COLUMNS = ["message_id", "session_id", "text", "ts", "blocks"]


def write_gists(job: Job, sessions: frozenset[str] | None = None) -> StepReport:
    """Write a gist of each spoken message that has none under the current settings. Delete those of retracted messages.

    With `sessions`, write gists only in these sessions.
    """
    with report_step("gists") as report:
        model = get_model(job, "extract") if job.settings.gists == "llm" else None
        key = compute_gists_key(job, model)
        taken_back = job.store.read_ids(
            GISTS, sorted(read_inactive_ids(job.store)), ["message_id"]
        )
        job.store.delete_ids(GISTS, taken_back["message_id"].to_pylist())
        pending = find_missing_messages(
            store=job.store,
            spoken=read_spoken_messages(job.store),
            table=GISTS,
            key=key,
        )
        if sessions is not None:
            pending = pending.filter(pl.col("session_id").is_in(sorted(sessions)))
        report.rows_in = pending.height
        with show_progress("gists", pending.height) as advance:
            for batch in pending.iter_slices(BATCH):
                report.rows_out += _write_gist_batch(
                    job=job, batch=batch, key=key, model=model, report=report
                )
                advance(batch.height)
        if model:
            model.record_usage(report)
    return report


def compute_gists_key(job: Job, model: Model | None) -> str:
    """Return the hash of everything that a gist depends on besides its message."""
    key = compute_step_key(
        "gists", VERSION, job.settings.gists, describe_encoder(job.settings)
    )
    if model is None:
        return key
    words = str(job.settings.extract.gist_words)
    return compute_model_key(
        model, "gists", by_model.VERSION, by_model.GIST_PROMPTS, key, words
    )


def _write_gist_batch(
    job: Job,
    batch: pl.DataFrame,
    key: str,
    model: Model | None,
    report: StepReport,
) -> int:
    """Write a batch's gists and return the number of rows written.

    If the model or the encoder was missing, a gist is made without it and gets a key that is pending next night. Only
    gists have such a fallback: a gist is shown beside its message, and no other row is made from it.
    """
    table = job.store.read_ids(
        MESSAGES, batch["message_id"].to_list(), COLUMNS
    ).sort_by("message_id")
    rows = {row["message_id"]: row for row in table.to_pylist() if row["text"].strip()}
    own = {
        message: gist
        for message, row in rows.items()
        if (gist := find_own_gist(row["blocks"] or ()))
    }
    others = {message: row for message, row in rows.items() if message not in own}
    made, waiting = (
        _ask_model(job=job, rows=others, model=model, report=report)
        if model
        else ({}, set())
    )
    made |= own
    left = [message for message in rows if message not in made]
    gists, is_away = _make_gists(
        job, [rows[message]["text"] for message in left], report
    )
    made |= dict(zip(left, gists, strict=True))
    later = waiting.union(left if is_away else ())
    degraded = compute_content_id(key, "degraded")
    table = pa.Table.from_pylist(
        [
            {
                **rows[message],
                **asdict(gist),
                "step_key": degraded if message in later else key,
            }
            for message, gist in made.items()
        ],
        schema=GISTS.schema,
    )
    report.kinds[CountByKind.GISTS].update(table["strategy"].to_pylist())
    return job.store.merge_changed(GISTS, table)


def _ask_model(
    job: Job,
    rows: Mapping[str, MessageRow],
    model: Model,
    report: StepReport,
) -> tuple[dict[str, Gist], set[str]]:
    """Return the model's gists by message, and the messages that wait for another night.

    An answer that its message does not support goes to quarantine.
    """
    items = {
        f"{i}/gist": row
        for i, row in rows.items()
        if by_model.needs_gist(row, job.settings.extract)
    }

    def build(batch: Sequence[MessageRow]) -> list[Request]:
        return by_model.build_gist_requests(
            rows=batch,
            library=model.library,
            count=model.count,
            window=model.llm.context_window,
        )

    answers = model.ask(step="gists", items=items, build=build, read=_read_gist)
    quarantine_rejected(
        store=job.store,
        step="gists",
        rejected=answers.rejected,
        settled=rows,
        report=report,
    )
    report.kinds[CountByKind.WAITING]["gists"] += len(answers.waiting)
    waiting = {items[name]["message_id"] for name in answers.waiting}
    return {
        items[name]["message_id"]: gist for name, gist in answers.values.items()
    }, waiting


def _read_gist(row: MessageRow, completion: Completion) -> Gist:
    """Return the gist in an answer.

    Raises:
        Unusable: the answer has no gist, or its message does not support it.
    """
    gist = by_model.parse_gist(completion)
    times = (row["ts"],) if row["ts"] else ()
    strange = (
        explain_unfounded(
            gist.summary, GroundingContext(row["text"], row["text"], times)
        )
        if gist
        else None
    )
    if gist is None or strange:
        raise Unusable(strange or "the answer is not a gist")
    return gist


def _make_gists(
    job: Job, texts: list[str], report: StepReport
) -> tuple[list[Gist], bool]:
    """Return gists made without a model, and True if they lack the encoder that the settings name."""
    encoder = (
        get_encoder_if_there(job, report)
        if texts and job.settings.gists != "truncated"
        else None
    )
    if encoder is not None:
        try:
            return build_gists(texts, partial(encode_as_kept, encoder=encoder)), False
        except EncoderFailed as gone:
            give_up_encoder(job, report, gone)
    return build_gists(
        texts, None
    ), job.settings.embeddings and job.settings.gists != "truncated"
