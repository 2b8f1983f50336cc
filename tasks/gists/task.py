"""A gist of every spoken message that lacks one. Only run where gists are on: off costs nothing."""

from collections.abc import Mapping

import polars as pl
import pyarrow as pa
from prefect import task
from prefect.cache_policies import NO_CACHE

from slowwave.engines.llm.protocol import LASTING, Completion, EngineUnavailable, Request, failed
from slowwave.schemas.errors import UsageError
from slowwave.schemas.ids import content_id
from slowwave.schemas.tables import GISTS, MESSAGES
from slowwave.tasks.gists.gists import VERSION, gists
from slowwave.tasks.job import Job, StepReport, reporting, step_key
from slowwave.tasks.llm.ask import Model, model_key, model_of, quarantine
from slowwave.tasks.llm.claims import Rejected
from slowwave.tasks.pending import batches, inactive_messages, lacking, spoken_messages
from slowwave.tasks.progress import progress
from slowwave.tasks.summarize import narrate

BATCH = 2_000


@task(name="gists", cache_policy=NO_CACHE)
def write_gists(job: Job) -> StepReport:
    """Summarise each message that has no gist by the strategy in force.

    Raises:
        UsageError: the strategy is `llm` and settings name no model.
    """
    strategy = job.settings.gists
    with reporting("gists") as report:
        model = model_of(job) if strategy == "llm" else None
        if strategy == "llm" and model is None:
            raise UsageError("gists = llm needs a language model: name one in llm (SLOWWAVE_LLM, --llm)")
        key = gists_key(job, model)
        taken_back = job.store.read_ids(GISTS, sorted(inactive_messages(job.store)), ["message_id"])
        job.store.delete_ids(GISTS, taken_back["message_id"].to_pylist())
        pending = lacking(job.store, spoken_messages(job.store), GISTS, key)
        report.rows_in = pending.height
        with progress("gists", pending.height) as advance:
            for batch in batches(pending, BATCH):
                report.rows_out += _write(job, batch, key, model, report)
                advance(batch.height)
        if model:
            model.account(report)
    return report


def gists_key(job: Job, model: Model | None) -> str:
    """What a gist depends on besides its message."""
    key = step_key("gists", VERSION, job.settings.gists)
    if model is None:
        return key
    words = str(job.settings.extract.gist_words)
    return model_key(model, "gists", narrate.VERSION, narrate.GIST_PROMPTS, key, words)


def _write(job: Job, batch: pl.DataFrame, key: str, model: Model | None, report: StepReport) -> int:
    messages = job.store.read_ids(MESSAGES, batch["message_id"].to_list()).sort_by("message_id")
    if model:
        rows = _by_model(job, messages, key, model, report)
        report.counts.update(rows.column("strategy").to_pylist())
        return _changed(job, rows)
    rows = gists(messages, job.settings.gists, key)  # type: ignore[arg-type]
    report.counts.update(rows.column("strategy").to_pylist())
    return job.store.merge(GISTS, rows)


def _changed(job: Job, rows: pa.Table) -> int:
    """Write what is new; gists made again without the model because it is still away are the same rows."""
    before = job.store.versions([GISTS])
    job.store.merge_changed(GISTS, rows)
    return int(rows.num_rows) if job.store.versions([GISTS]) != before else 0


def _by_model(job: Job, messages: pa.Table, key: str, model: Model, report: StepReport) -> pa.Table:
    """Gists by the model; extractive ones where it failed for good, or for now if the chain says so."""
    answers = _answers(job, messages, model)
    made = {i.split("/")[0]: gist for i, c in answers.items() if c.ok and (gist := narrate.gist_of(c))}
    waiting = {i.split("/")[0] for i, c in answers.items() if model.postponed(c)}
    degraded = {i.split("/")[0] for i, c in answers.items() if c.error and c.error not in LASTING} - waiting
    rejected = [Rejected(i, f"{c.error}: {c.reason}", c.text) for i, c in answers.items() if _failed(c)]
    ids = set(messages["message_id"].to_pylist())
    report.counts["gists left for another night"] += len(waiting)
    report.counts["rows in quarantine"] += quarantine(job.store, "gists", rejected, ids)
    tables = [
        gists(_only(messages, ids - waiting - degraded), "llm", key, lambda _: made),
        gists(_only(messages, degraded), "extractive", content_id(key, "degraded")),
    ]
    return pa.concat_tables(tables)


def _answers(job: Job, messages: pa.Table, model: Model) -> Mapping[str, Completion]:
    rows = messages.select(["message_id", "text"]).to_pylist()
    wanted = [row for row in rows if row["text"].strip() and narrate.wants_gist(row, job.settings.extract)]
    try:
        requests = narrate.gist_requests(wanted, model.library, model.count, model.llm.context_window)
    except EngineUnavailable as error:
        bare = [Request(f"{row['message_id']}/gist", ()) for row in wanted]
        return {request.id: failed(request, "unavailable", str(error), model.llm) for request in bare}
    return model.ask(requests, "gists")


def _failed(completion: Completion) -> bool:
    """Whether an answer goes to quarantine: one that was not asked for lack of budget does not."""
    return (completion.error or "budget") != "budget" or (completion.ok and narrate.gist_of(completion) is None)


def _only(messages: pa.Table, ids: set[str]) -> pa.Table:
    wanted = pa.array([m in ids for m in messages["message_id"].to_pylist()], pa.bool_())
    return messages.filter(wanted)
