"""Summaries of some sessions, now: what the night would write of them, and only what is new."""

from dataclasses import dataclass
from datetime import datetime

from slowwave.flows.parts.report import RunReport
from slowwave.flows.parts.run import Caller, open_run, run_as_function
from slowwave.flows.parts.selection import Selection
from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import SUMMARIES
from slowwave.tasks.publish.task import find_run_release, publish_release
from slowwave.tasks.summarize.task import roll_up
from slowwave.text.pyramid import compute_master_id


@dataclass(frozen=True)
class Summary:
    """A session's account."""

    session: str
    """The transcript's own id."""
    title: str | None
    text: str
    first_at: datetime | None
    last_at: datetime | None


def summarize_sessions(
    selection: Selection, settings: Settings, call: Caller = run_as_function
) -> tuple[RunReport, list[Summary]]:
    """Bring the chosen sessions' summaries up to date, release them, and return each one's master.

    Raises:
        StoreMissing: there is no store.
        UsageError: a session that the vault does not hold, or a selection without one.
        StoreLocked: a run is at it.
    """
    with open_run("summarize", settings) as (job, report):
        chosen = selection.select_sessions(job.store)
        if chosen.is_empty():
            raise UsageError("no session that is chosen is in the vault")
        report.steps.append(call(roll_up, job, frozenset(chosen["session_id"])))
        report.steps.append(call(publish_release, job))
        report.release = find_run_release(job)
        masters = {compute_master_id(row["session_id"]): row["native_id"] for row in chosen.iter_rows(named=True)}
        rows = job.store.read_ids(SUMMARIES, masters).to_pylist()
    found = [Summary(masters[r["summary_id"]], r["title"], r["text"], r["first_at"], r["last_at"]) for r in rows]
    return report, sorted(found, key=lambda one: (one.last_at is None, one.last_at, one.session))
