"""Take a merge or a supersession back: its claims are as they were, and the night's own steps do the rest.

slowwave unmerge ID
"""

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.flows.nightly import run_steps_after_read
from slowwave.flows.parts.report import RunReport
from slowwave.flows.parts.run import Caller, open_run, run_as_function
from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import MERGES, OBSERVATIONS
from slowwave.schemas.vocabulary import LedgerKind
from slowwave.store.store import Store
from slowwave.tasks.dedupe.dedupe import Deduped, unmerge
from slowwave.tasks.supersede.supersede import KINDS, Superseded, unsupersede


def run_unmerge(merge_id: str, settings: Settings, call: Caller = run_as_function) -> RunReport:
    """Take a merge or a supersession back, for good, and do what depends on it.

    Raises:
        UsageError: no such merge, several whose ids begin so, one that is taken back already, or a judgement.
        StoreLocked: another run is at it.
    """
    with open_run("unmerge", settings) as (job, report):
        undo_merge(job.store, merge_id, report)
        run_steps_after_read(job, report, call)
    return report


def undo_merge(store: Store, merge_id: str, report: RunReport) -> None:
    """Write a merge's claims as they were, and note it.

    Raises:
        UsageError: as `run_unmerge`.
    """
    merge = _find_merge(store, merge_id)
    undone = _restore_claims(store, merge)
    store.merge(MERGES, undone.merges)
    store.merge(OBSERVATIONS, undone.observations)
    report.notes.append(f"{merge['kind'][0].as_py()} {merge['merge_id'][0].as_py()} taken back")


def _find_merge(store: Store, merge_id: str) -> pa.Table:
    rows = store.read(MERGES)
    found = rows.filter(pc.starts_with(rows["merge_id"], merge_id))
    if found.num_rows != 1 or not merge_id:
        raise UsageError(
            f"{found.num_rows} merges have an id that begins with {merge_id!r}: `slowwave inspect merges` lists all"
        )
    if found["kind"][0].as_py() == LedgerKind.JUDGEMENT:
        raise UsageError(f"{merge_id} is a model's judgement: take back what came of it (`slowwave inspect changes`)")
    if found["undone"][0].as_py():
        raise UsageError(f"merge {merge_id} is taken back already")
    return found


def _restore_claims(store: Store, merge: pa.Table) -> Deduped | Superseded:
    """Return the rows that change; the ledger's id is the whole one."""
    loser, winner, whole = (merge[name][0].as_py() for name in ("loser_id", "winner_id", "merge_id"))
    if merge["kind"][0].as_py() in KINDS:
        return unsupersede(store.read_ids(OBSERVATIONS, [loser]), merge, whole)
    pair = store.read_ids(OBSERVATIONS, [loser, winner])
    others = store.read(OBSERVATIONS, where=pc.field("canonical_id") == winner)
    others = others.filter(pc.not_equal(others["observation_id"], loser))
    return unmerge(pa.concat_tables([pair, others]), merge, whole)
