"""Pairs of related claims asked of a language model: is one a reason for the other, or can't be without it?

A question shows a claim and up to ten earlier ones that the step tied to it; so it stays the same, and its answer
known, whatever other claims come. An answer counts for the claims it names; of one without an answer nothing is known.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Literal

from pydantic import Field

from slowwave.engines.llm.protocol import AnswerModel, Completion
from slowwave.schemas.vocabulary import RelationKind
from slowwave.tasks.job import Job, StepReport
from slowwave.tasks.llm.ask import Model, compute_model_key, find_answered, quarantine_rejected
from slowwave.tasks.llm.fence import mask_injections
from slowwave.tasks.llm.library import Library, Question, index_questions, limit_answer, list_requests
from slowwave.tasks.relate.relate import Relation
from slowwave.text.fence import format_entry

VERSION = 1
CLAIMS_AT_ONCE = 10
TOKENS_A_CLAIM = 24
CLAIM_CHARS = 400


MEANT = {
    "supports": (RelationKind.SUPPORTS, False),
    "supported_by": (RelationKind.SUPPORTS, True),
    "depends_on": (RelationKind.DEPENDS_ON, False),
    "needed_by": (RelationKind.DEPENDS_ON, True),
}
"""The relation that an answer tells, and whether it goes from the earlier claim."""


class LabelAnswer(AnswerModel):
    """What the model says of one earlier claim."""

    earlier: int = Field(ge=0, le=CLAIMS_AT_ONCE)
    answer: Literal["supports", "supported_by", "depends_on", "needed_by", "neither"]


class LabelsAnswer(AnswerModel):
    """What it says of all that it was shown."""

    relations: list[LabelAnswer]


Pairs = tuple[Relation, ...]
"""What a question is about: the closest relation of a claim to each of some earlier ones."""


def compute_labels_key(model: Model) -> str:
    """Return what a model's labels depend on beside the claims."""
    return compute_model_key(model, "relate", VERSION, ("relate",))


def build_questions(found: Iterable[Relation], texts: Mapping[str, str], library: Library) -> list[Question[Pairs]]:
    """Return what to ask about related claims, the closest first.

    Args:
        found: what ties them; one question a pair, whatever the kinds. A contradiction is not asked about.
        texts: each claim's id -> what it says.
        library: where the prompt is.
    """
    closest: dict[tuple[str, str], Relation] = {}
    for one in sorted(found, key=lambda one: (-one.weight, one.kind)):
        if one.kind != RelationKind.CONTRADICTS:
            closest.setdefault((one.start, one.end), one)
    questions = []
    for start, some in groupby(sorted(closest.values(), key=lambda one: one[1:3]), key=lambda one: one.start):
        all_pairs = tuple(some)
        for at in range(0, len(all_pairs), CLAIMS_AT_ONCE):
            pairs = all_pairs[at : at + CLAIMS_AT_ONCE]
            shown = [("claim:", start), *((f"{n}.", pair.end) for n, pair in enumerate(pairs, 1))]
            entries = [format_entry(label, mask_injections(texts[claim])[:CLAIM_CHARS]) for label, claim in shown]
            name, answer = f"{start}/relate/{at // CLAIMS_AT_ONCE}", limit_answer(LabelsAnswer, relations=len(pairs))
            request = library.build_request("relate", name, entries, answer, TOKENS_A_CLAIM * len(shown))
            questions.append(Question(request, pairs))
    return sorted(questions, key=lambda one: (-max(pair.weight for pair in one.about), one.request.id))


def parse_labels(question: Question[Pairs], completion: Completion) -> list[Relation]:
    """Return the relations that a good completion tells, each from what supports or depends."""
    pairs = dict(enumerate(question.about, 1))
    told = [(pairs.get(one.earlier), MEANT.get(one.answer)) for one in completion.value.relations]
    return [
        Relation(meant[0], *((pair.end, pair.start) if meant[1] else (pair.start, pair.end)), pair.weight, pair.reason)
        for pair, meant in told
        if pair and meant
    ]


def choose_questions(
    job: Job, model: Model, asked: Sequence[Question[Pairs]]
) -> tuple[list[Question[Pairs]], list[Question[Pairs]]]:
    """Return the questions of this night, new ones until they have as many pairs as settings allow, and the others."""
    known = find_answered(job.store, [one.request for one in asked], model)
    left = job.settings.relate.pairs
    now, later = list[Question[Pairs]](), list[Question[Pairs]]()
    for one in asked:
        free = one.request.id in known
        (now if free or left > 0 else later).append(one)
        left -= 0 if free else len(one.about)
    return now, later


def ask_labels(
    job: Job, model: Model, questions: Sequence[Question[Pairs]], report: StepReport
) -> tuple[list[Relation], list[Relation]]:
    """Return what the model says, the closest pairs first, and the pairs that wait for another night."""
    asked, left = choose_questions(job, model, questions)
    answers = model.ask("relate", index_questions(asked), list_requests, parse_labels, patient=True)
    quarantine_rejected(job.store, "relate", answers.rejected, answers.values, report)
    left += [one for one in asked if one.request.id in answers.waiting]
    waiting = [pair for one in left for pair in one.about]
    report.counts["pairs left for another night"] = len(waiting)
    model.record_usage(report)
    return [one for labels in answers.values.values() for one in labels], waiting
