"""A gist of every spoken message that lacks one. Only run where gists are on: off costs nothing."""

from prefect import task
from prefect.cache_policies import NO_CACHE

from schemas.gists import GISTS
from schemas.messages import MESSAGES
from tasks.gists import VERSION, gists
from tasks.job import Job, StepReport, reporting, step_key
from tasks.night.pending import batches, lacking, spoken_messages
from tasks.progress import progress

BATCH = 2_000


@task(name="gists", cache_policy=NO_CACHE)
def write_gists(job: Job) -> StepReport:
    """Summarise each message that has no gist by the strategy in force."""
    strategy = job.settings.gists
    with reporting("gists") as report:
        key = step_key("gists", VERSION, strategy)
        pending = lacking(job.store, spoken_messages(job.store), GISTS, key)
        report.rows_in = pending.height
        with progress("gists", pending.height) as advance:
            for batch in batches(pending, BATCH):
                messages = job.store.read_ids(MESSAGES, batch["message_id"].to_list())
                rows = gists(messages.sort_by("message_id"), strategy, key)
                report.rows_out += job.store.merge(GISTS, rows)
                report.counts.update(rows.column("strategy").to_pylist())
                advance(batch.height)
    return report
