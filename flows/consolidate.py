"""Runs over what is stored: look for duplicates again, take a merge back, make topics or summaries anew.

    slowwave consolidate --workspace /home/ada/tidepool
    slowwave unmerge ID
    slowwave rebuild topics

Each forgets what it is about, and the night's own steps do the rest; observations stay.
"""

import pyarrow as pa
import pyarrow.compute as pc
from lancedb.expr import col, lit

from slowwave.flows.nightly import run_steps_after_read
from slowwave.flows.report import RunReport
from slowwave.flows.reprocess import FORGET, Selection, run_reprocess
from slowwave.flows.run import Caller, open_run, run_as_function
from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import MERGES, OBSERVATIONS, SESSIONS, SUMMARIES, TOPIC_HISTORY
from slowwave.schemas.vocabulary import SummaryScope
from slowwave.store.store import Store
from slowwave.tasks.dedupe.dedupe import Deduped, unmerge
from slowwave.tasks.supersede.supersede import KINDS, Superseded, unsupersede

REBUILT = ("topics", "summaries")


def run_consolidate(settings: Settings, workspace: str | None = None, call: Caller = run_as_function) -> RunReport:
    """Look for duplicates among all stored claims of a workspace, or all, and do what depends on what came out.

    Raises:
        StoreLocked: another run is at it.
    """
    return run_reprocess("dedupe", Selection(workspace=workspace), settings, call)


def run_rebuild(what: str, settings: Settings, call: Caller = run_as_function) -> RunReport:
    """Make topics (and their summaries) or summaries anew from the observations that are held.

    Raises:
        UsageError: neither topics nor summaries.
        StoreLocked: another run is at it.
    """
    if what not in REBUILT:
        raise UsageError(f"nothing called {what!r} can be rebuilt: one of {', '.join(REBUILT)} can")
    with open_run("rebuild", settings) as (job, report):
        chosen = Selection().select_sessions(job.store)
        if what == "topics":
            FORGET["assign"](job.store, chosen)
            job.store.delete_ids(TOPIC_HISTORY, job.store.read(TOPIC_HISTORY, ["event_id"])["event_id"].to_pylist())
            of_topics = job.store.read(SUMMARIES, ["summary_id"], col("scope") == lit(SummaryScope.TOPIC))
            job.store.delete_ids(SUMMARIES, of_topics["summary_id"].to_pylist())
        else:
            FORGET["rollup"](job.store, chosen)
        report.notes.append(f"{what} of {job.store.count(SESSIONS)} sessions made anew")
        run_steps_after_read(job, report, call)
    return report


def run_unmerge(merge_id: str, settings: Settings, call: Caller = run_as_function) -> RunReport:
    """Take a merge or a supersession back, for good, and do what depends on it.

    Raises:
        UsageError: no such merge, several whose ids begin so, or one that is taken back already.
        StoreLocked: another run is at it.
    """
    with open_run("unmerge", settings) as (job, report):
        merge = _find_merge(job.store, merge_id)
        undone = _undo_merge(job.store, merge)
        job.store.merge(MERGES, undone.merges)
        job.store.merge(OBSERVATIONS, undone.observations)
        report.notes.append(f"{merge['kind'][0].as_py()} {merge['merge_id'][0].as_py()} taken back")
        run_steps_after_read(job, report, call)
    return report


def _find_merge(store: Store, merge_id: str) -> pa.Table:
    rows = store.read(MERGES)
    found = rows.filter(pc.starts_with(rows["merge_id"], merge_id))
    if found.num_rows != 1 or not merge_id:
        raise UsageError(
            f"{found.num_rows} merges have an id that begins with {merge_id!r}: `slowwave merges` lists all"
        )
    if found["undone"][0].as_py():
        raise UsageError(f"merge {merge_id} is taken back already")
    return found


def _undo_merge(store: Store, merge: pa.Table) -> Deduped | Superseded:
    """Return the rows that change; the ledger's id is the whole one."""
    loser, winner, whole = (merge[name][0].as_py() for name in ("loser_id", "winner_id", "merge_id"))
    if merge["kind"][0].as_py() in KINDS:
        return unsupersede(store.read_ids(OBSERVATIONS, [loser]), merge, whole)
    pair = store.read_ids(OBSERVATIONS, [loser, winner])
    others = store.read(OBSERVATIONS, where=col("canonical_id") == lit(winner))
    others = others.filter(pc.not_equal(others["observation_id"], loser))
    return unmerge(pa.concat_tables([pair, others]), merge, whole)
