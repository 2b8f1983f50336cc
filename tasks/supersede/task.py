"""Claims that a later claim changes, found over all that is held."""

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import MARKS, MERGES, OBSERVATIONS
from slowwave.schemas.vocabulary import LedgerKind
from slowwave.store.store import Store
from slowwave.tasks.dedupe.task import read_undone_pairs
from slowwave.tasks.job import Job, StepReport, compute_step_key, report_step
from slowwave.tasks.pending import mark_done
from slowwave.tasks.supersede.model import compute_model_digest
from slowwave.tasks.supersede.supersede import VERSION, supersede
from slowwave.tasks.vectors import describe_encoder

UNIT = "observations"
"""The step judges all claims against each other, so one mark stands for all."""
DECIDING = ["observation_id", "status", "canonical_id", "superseded_by", "workspace", "summary", "speaker", "category"]
"""With `vector` and `observed_at`, which no settings of this step change, what the outcome depends on."""


def supersede_observations(job: Job) -> StepReport:
    """Judge the claims against the later ones when any is new; the ledger is written before the claims."""
    with report_step("supersede") as report:
        encoder = describe_encoder(job.settings)
        key = compute_step_key("supersede", 1, VERSION, compute_model_digest(), encoder)
        undone = read_undone_pairs(job.store)
        if is_done(job.store, compute_input_key(job.store, key, undone)):
            return report
        rows = job.store.read(OBSERVATIONS)
        report.rows_in = rows.num_rows
        found = supersede(rows, key, undone=undone)
        superseded = pc.sum(pc.equal(found.merges["kind"], LedgerKind.SUPERSESSION)).as_py() or 0
        job.store.merge(MERGES, found.merges)
        job.store.delete_ids(MERGES, find_settled_doubts(job.store, found.merges))
        report.rows_out = job.store.merge(OBSERVATIONS, found.observations)
        report.counts["superseded"] = superseded
        report.counts["active again"] = found.observations.num_rows - superseded
        report.counts["doubted"] = found.merges.num_rows - superseded
        mark_done(job.store, "supersede", [(UNIT, compute_input_key(job.store, key, undone), None)])
    return report


def find_settled_doubts(store: Store, found: pa.Table) -> list[str]:
    """Return ids of the open doubts in the ledger that were not found again: what is known by now leaves none."""
    where = (pc.field("kind") == LedgerKind.DOUBT) & ~pc.field("undone")
    known: list[str] = store.read(MERGES, ["merge_id"], where)["merge_id"].to_pylist()
    return sorted(set(known) - set(found["merge_id"].to_pylist()))


def compute_input_key(store: Store, key: str, undone: set[tuple[str, str]]) -> str:
    """Return hash of the step's key and of what it would be given, as the store is now."""
    rows = store.read(OBSERVATIONS, DECIDING).sort_by("observation_id")
    said = (pc.fill_null(rows[name], "\0").to_pylist() for name in DECIDING)
    return compute_content_id(
        key, *(compute_content_id(*row) for row in zip(*said, strict=True)), *map(repr, sorted(undone))
    )


def is_done(store: Store, now: str) -> bool:
    """Return whether the step has judged just this."""
    rows: pa.Table = store.read(MARKS, ["unit_id", "input_key"], pc.field("step") == "supersede")
    return {"unit_id": UNIT, "input_key": now} in rows.to_pylist()
