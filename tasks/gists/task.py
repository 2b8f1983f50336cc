"""A gist of every spoken message that lacks one. Only run where gists are on: off costs nothing."""

from collections.abc import Mapping
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.engines.llm.protocol import LASTING, Completion, EngineUnavailable, Request, make_failure
from slowwave.schemas.errors import UsageError
from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import GISTS, MESSAGES
from slowwave.tasks.gists.gists import VERSION, Gist, build_gists
from slowwave.tasks.job import Job, StepReport, compute_step_key, fits_model_key, report_step
from slowwave.tasks.llm.ask import (
    Model,
    compute_model_key,
    get_model,
    keeps_model_rows,
    quarantine_rejected,
)
from slowwave.tasks.llm.claims import Rejected
from slowwave.tasks.llm.grounding import GroundingContext, explain_unfounded
from slowwave.tasks.pending import find_missing_messages, iter_batches, read_inactive_ids, read_spoken_messages
from slowwave.tasks.progress import show_progress
from slowwave.tasks.summarize import narrate

BATCH = 2_000


def write_gists(job: Job) -> StepReport:
    """Summarise each message that has no gist by the strategy in force.

    Raises:
        UsageError: the strategy is `llm` and settings name no model.
    """
    strategy = job.settings.gists
    with report_step("gists") as report:
        model = get_model(job, "extract") if strategy == "llm" else None
        if strategy == "llm" and model is None:
            raise UsageError("gists = llm needs a language model: name one in llm (SLOWWAVE_LLM, --llm)")
        key = compute_gists_key(job, model)
        taken_back = job.store.read_ids(GISTS, sorted(read_inactive_ids(job.store)), ["message_id"])
        job.store.delete_ids(GISTS, taken_back["message_id"].to_pylist())
        by_model = (
            (pc.field("strategy") == "llm") | fits_model_key("step_key") if keeps_model_rows(job, model) else None
        )
        pending = find_missing_messages(job.store, read_spoken_messages(job.store), GISTS, key, by_model)
        if by_model is not None:
            report.counts["gists that a model wrote, left as they are"] = job.store.count(GISTS, by_model)
        report.rows_in = pending.height
        with show_progress("gists", pending.height) as advance:
            for batch in iter_batches(pending, BATCH):
                report.rows_out += _write_gist_batch(job, batch, key, model, report)
                advance(batch.height)
        if model:
            model.record_usage(report)
    return report


def compute_gists_key(job: Job, model: Model | None) -> str:
    """Return what a gist depends on besides its message."""
    key = compute_step_key("gists", VERSION, job.settings.gists)
    if model is None:
        return key
    words = str(job.settings.extract.gist_words)
    return compute_model_key(model, "gists", narrate.VERSION, narrate.GIST_PROMPTS, key, words)


def _write_gist_batch(job: Job, batch: pl.DataFrame, key: str, model: Model | None, report: StepReport) -> int:
    messages = job.store.read_ids(MESSAGES, batch["message_id"].to_list()).sort_by("message_id")
    if model:
        rows = _generate_gists(job, messages, key, model, report)
        report.counts.update(rows.column("strategy").to_pylist())
        return _merge_changed_gists(job, rows)
    rows = build_gists(messages, job.settings.gists, key)  # type: ignore[arg-type]
    report.counts.update(rows.column("strategy").to_pylist())
    return job.store.merge(GISTS, rows)


def _merge_changed_gists(job: Job, rows: pa.Table) -> int:
    """Write what is new; gists made again without the model because it is still away are the same rows."""
    before = job.store.read_versions([GISTS])
    job.store.merge_changed(GISTS, rows)
    return int(rows.num_rows) if job.store.read_versions([GISTS]) != before else 0


def _generate_gists(job: Job, messages: pa.Table, key: str, model: Model, report: StepReport) -> pa.Table:
    """Return gists by the model; extractive ones where it failed for good, or for now if the chain says so."""
    answers = _request_gists(job, messages, model)
    made, rejected = _read_gists(answers, {row["message_id"]: row for row in messages.to_pylist()})
    waiting = {i.split("/")[0] for i, c in answers.items() if model.is_postponed(c)}
    degraded = {i.split("/")[0] for i, c in answers.items() if c.error and c.error not in LASTING} - waiting
    ids = set(messages["message_id"].to_pylist())
    report.counts["gists left for another night"] += len(waiting)
    report.counts["rows in quarantine"] += quarantine_rejected(job.store, "gists", rejected, ids)
    tables = [
        build_gists(_filter_messages(messages, ids - waiting - degraded), "llm", key, lambda _: made),
        build_gists(_filter_messages(messages, degraded), "extractive", compute_content_id(key, "degraded")),
    ]
    return pa.concat_tables(tables)


def _request_gists(job: Job, messages: pa.Table, model: Model) -> Mapping[str, Completion]:
    rows = messages.select(["message_id", "text"]).to_pylist()
    wanted = [row for row in rows if row["text"].strip() and narrate.needs_gist(row, job.settings.extract)]
    try:
        requests = narrate.build_gist_requests(wanted, model.library, model.count, model.llm.context_window)
    except EngineUnavailable as error:
        bare = [Request(f"{row['message_id']}/gist", ()) for row in wanted]
        return {request.id: make_failure(request, "unavailable", str(error), model.llm) for request in bare}
    return model.ask(requests, "gists")


def _read_gists(
    answers: Mapping[str, Completion], rows: Mapping[str, Mapping[str, Any]]
) -> tuple[dict[str, Gist], list[Rejected]]:
    """Return the gists that say what their messages say, by message, and what goes to quarantine: any other answer, but
    for those that were not asked for lack of budget.
    """
    made: dict[str, Gist] = {}
    rejected: list[Rejected] = []
    for request, answer in answers.items():
        row = rows[request.split("/")[0]]
        gist = narrate.parse_gist(answer) if answer.ok else None
        times = (row["ts"],) if row["ts"] else ()
        strange = explain_unfounded(gist.summary, GroundingContext(row["text"], row["text"], times)) if gist else None
        if gist and not strange:
            made[row["message_id"]] = gist
        elif answer.error != "budget":
            reason = strange or (f"{answer.error}: {answer.reason}" if answer.error else "the answer is no gist")
            rejected.append(Rejected(request, reason, answer.text))
    return made, rejected


def _filter_messages(messages: pa.Table, ids: set[str]) -> pa.Table:
    wanted = pa.array([m in ids for m in messages["message_id"].to_pylist()], pa.bool_())
    return messages.filter(wanted)
