"""What a language model says of related claims; the budget of a night, and what stands of earlier nights."""

from collections.abc import Sequence, Set
from dataclasses import dataclass, field

import pyarrow as pa

from slowwave.engines.llm.protocol import LASTING
from slowwave.schemas.tables import RELATIONS
from slowwave.schemas.vocabulary import Status
from slowwave.tasks.job import Job, StepReport, is_model_key
from slowwave.tasks.llm.ask import (
    Model,
    compute_model_key,
    find_answered,
    get_model,
    keeps_model_rows,
    quarantine_rejected,
)
from slowwave.tasks.llm.claims import Rejected
from slowwave.tasks.relate import label_llm
from slowwave.tasks.relate.label_llm import Question, build_questions, parse_labels
from slowwave.tasks.relate.relate import Relation, build_rows, keep_best
from slowwave.tasks.relate.workspaces import Pending


@dataclass
class Labelled:
    """What a language model says of related claims."""

    rows: pa.Table
    """Rows of RELATIONS: what it said, and what was said before of pairs that have to wait."""
    waiting: set[str] = field(default_factory=set)
    """Workspaces in which some have to."""


def get_labelling_model(job: Job) -> Model | None:
    """Return the run's model, where settings let it label."""
    return get_model(job, "judge") if job.settings.relate.pairs else None


def compute_labels_key(model: Model) -> str:
    """Return what a model's labels depend on beside the claims."""
    return compute_model_key(model, "relate", label_llm.VERSION, label_llm.PROMPTS)


def label_relations(
    job: Job,
    model: Model | None,
    found: dict[str, list[Relation]],
    pending: Pending,
    held: pa.Table,
    report: StepReport,
) -> Labelled:
    """Return what the model says of the relations found, by workspace, the closest first; without one what it said of
    claims that are still there, unless settings are against it.

    held: RELATIONS as it is.
    """
    if model is None:
        return Labelled(list_labels(held, pending) if keeps_model_rows(job, model) else RELATIONS.make_empty_table())
    asked, left = choose_questions(job, model, build_unit_questions(found, pending, model))
    answers = model.ask([one.request for one in asked], "relate")
    told: list[Relation] = []
    rejected: list[Rejected] = []
    for one in asked:
        completion = answers[one.request.id]
        if completion.ok:
            told += parse_labels(one, completion)
        elif completion.error in LASTING:
            reason = f"{completion.error}: {completion.reason}"
            rejected.append(Rejected(one.request.id, reason, completion.text))
        else:
            left.append(one)
    settled = [one.request.id for one in asked if answers[one.request.id].ok]
    report.counts["rows in quarantine"] += quarantine_rejected(job.store, "relate", rejected, settled)
    pairs = [pair for one in left for pair in one.pairs]
    report.counts["pairs left for another night"] = len(pairs)
    model.record_usage(report)
    kept = list_labels(held, pending, {frozenset((pair.start, pair.end)) for pair in pairs})
    rows = pa.concat_tables([build_rows(keep_best(told), compute_labels_key(model)), kept])
    return Labelled(rows, {pending.home[pair.start] for pair in pairs})


def build_unit_questions(found: dict[str, list[Relation]], pending: Pending, model: Model) -> list[Question]:
    """Return what to ask about the relations of some workspaces, the closest first."""
    texts = {
        row["observation_id"]: "".join(
            (
                f"{row['speaker']}: " if row["speaker"] else "",
                row["summary"],
                f" ({row['detail']})" if row["detail"] else "",
            )
        )
        for row in pending.rows
        if pending.home[row["observation_id"]] in found
    }
    return build_questions((one for some in found.values() for one in some), texts, model.library)


def choose_questions(job: Job, model: Model, asked: Sequence[Question]) -> tuple[list[Question], list[Question]]:
    """Return the questions of this night, new ones until they have as many pairs as settings allow, and the others."""
    known = find_answered(job.store, [one.request for one in asked], model)
    left = job.settings.relate.pairs
    now, later = list[Question](), list[Question]()
    for one in asked:
        free = one.request.id in known
        (now if free or left > 0 else later).append(one)
        left -= 0 if free else len(one.pairs)
    return now, later


def list_labels(held: pa.Table, pending: Pending, among: Set[frozenset[str]] | None = None) -> pa.Table:
    """Return what models said of claims that are in force, and related anew; of the pairs in `among` alone, if any."""
    units = set(pending.units)
    active = {row["observation_id"] for row in pending.rows if row["status"] == Status.ACTIVE}
    kept = [
        row
        for row in held.to_pylist()
        if is_model_key(row["step_key"])
        and pending.home.get(row["from_id"]) in units
        and {row["from_id"], row["to_id"]} <= active
        and pending.home[row["from_id"]] == pending.home[row["to_id"]]
        and (among is None or frozenset((row["from_id"], row["to_id"])) in among)
    ]
    return pa.Table.from_pylist(kept, schema=RELATIONS.schema)
