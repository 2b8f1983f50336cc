"""Relations of the workspaces in which a claim changed since; others are left alone.

Where there is a language model it labels what was found: which claims support, or depend on, which. A workspace whose
questions had to wait is done again by the next night, which has the first answers in the completions cache.
"""

import pyarrow as pa

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import MARKS, RELATIONS
from slowwave.tasks.job import Job, StepReport, compute_step_key, report_step
from slowwave.tasks.llm.ask import Model, keeps_model_rows
from slowwave.tasks.pending import mark_done
from slowwave.tasks.relate.label_llm import Question
from slowwave.tasks.relate.relate import VERSION, build_rows
from slowwave.tasks.relate.task_llm import (
    build_unit_questions,
    choose_questions,
    compute_labels_key,
    get_labelling_model,
    label_relations,
)
from slowwave.tasks.relate.workspaces import find_pending, find_unit_relations
from slowwave.tasks.vectors import describe_encoder


def relate_claims(job: Job) -> StepReport:
    """Write how claims hang together, for workspaces whose claims or changes differ from when they were last related.

    A relation belongs to the workspace of the claim it goes from, and goes when either claim does.
    """
    with report_step("relate") as report:
        store, model = job.store, get_labelling_model(job)
        pending, held = find_pending(store, compute_input_key(job, model)), store.read(RELATIONS)
        found = {unit: find_unit_relations(store, unit, pending) for unit in pending.units}
        labelled = label_relations(job, model, found, pending, held, report)
        rows = build_rows((one for some in found.values() for one in some), compute_relate_key(job))
        rows = pa.concat_tables([rows, labelled.rows])
        ids, home = set(rows["relation_id"].to_pylist()), pending.home
        stale = [
            row["relation_id"]
            for row in held.select(["relation_id", "from_id", "to_id"]).to_pylist()
            if home.get(row["from_id"]) in found or not {row["from_id"], row["to_id"]} <= home.keys()
        ]
        report.rows_in = sum(unit in found for unit in home.values())
        report.rows_out = store.merge_changed(RELATIONS, rows)
        store.delete_ids(RELATIONS, [one for one in stale if one not in ids])
        report.counts.update(rows["kind"].to_pylist())
        gone = pending.done.keys() - pending.inputs.keys()
        store.delete_ids(MARKS, [compute_content_id("relate", unit) for unit in gone])
        mark_done(store, "relate", [(unit, pending.inputs[unit], None) for unit in found.keys() - labelled.waiting])
    return report


def list_questions(job: Job, model: Model) -> list[Question]:
    """Return what the step would ask the model about the claims that the store has now; nothing is asked."""
    pending = find_pending(job.store, compute_input_key(job, model))
    found = {unit: find_unit_relations(job.store, unit, pending) for unit in pending.units}
    return choose_questions(job, model, build_unit_questions(found, pending, model))[0]


def compute_relate_key(job: Job) -> str:
    """Return what relations depend on beside the claims."""
    return compute_step_key("relate", VERSION, describe_encoder(job.settings))


def compute_input_key(job: Job, model: Model | None) -> str:
    """Return what a workspace's relations and labels depend on beside the claims."""
    by = compute_labels_key(model) if model else "kept" if keeps_model_rows(job, model) else "none"
    return compute_content_id(compute_relate_key(job), by)
