"""Pairs of related claims asked of a language model: is one a reason for the other, or can't be without it?

A question shows a claim and up to ten earlier ones that the step tied to it; so it stays the same, and its answer
known, whatever other claims come. An answer counts for the claims it names; of one without an answer nothing is known.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pydantic import Field

from slowwave.engines.llm.protocol import AnswerModel, Completion, Request
from slowwave.schemas.vocabulary import RelationKind
from slowwave.tasks.llm.fence import mask_injections
from slowwave.tasks.llm.library import Library, limit_answer
from slowwave.tasks.relate.relate import Relation
from slowwave.text.fence import fence_entries, format_entry

VERSION = 1
PROMPTS = ("relate",)
CLAIMS_AT_ONCE = 10
TOKENS_A_CLAIM = 24
CLAIM_CHARS = 400
ASKED = (RelationKind.SAME_FILE, RelationKind.SAME_THING, RelationKind.FOLLOWS)
"""Kinds whose pairs are asked about."""


class Label(StrEnum):
    """How a claim stands to an earlier one, by the model."""

    SUPPORTS = "supports"
    SUPPORTED_BY = "supported_by"
    DEPENDS_ON = "depends_on"
    NEEDED_BY = "needed_by"
    NEITHER = "neither"


MEANT = {
    Label.SUPPORTS: (RelationKind.SUPPORTS, False),
    Label.SUPPORTED_BY: (RelationKind.SUPPORTS, True),
    Label.DEPENDS_ON: (RelationKind.DEPENDS_ON, False),
    Label.NEEDED_BY: (RelationKind.DEPENDS_ON, True),
}
"""The relation that a label tells, and whether it goes from the earlier claim."""


class LabelAnswer(AnswerModel):
    """What the model says of one earlier claim."""

    earlier: int = Field(ge=0, le=CLAIMS_AT_ONCE)
    answer: Label


class LabelsAnswer(AnswerModel):
    """What it says of all that it was shown."""

    relations: list[LabelAnswer]


@dataclass(frozen=True, slots=True)
class Question:
    """A claim, the closest relation to each of some earlier ones, and what to ask about them."""

    pairs: tuple[Relation, ...]
    request: Request


def build_questions(found: Iterable[Relation], texts: Mapping[str, str], library: Library) -> list[Question]:
    """Return what to ask about related claims, the closest first.

    Args:
        found: what ties them; one question a pair, whatever the kinds.
        texts: each claim's id -> what it says.
        library: where the prompt is.
    """
    closest: dict[tuple[str, str], Relation] = {}
    for one in sorted(found, key=lambda one: (-one.weight, one.kind)):
        if one.kind in ASKED:
            closest.setdefault((one.start, one.end), one)
    of = defaultdict[str, list[Relation]](list)
    for one in closest.values():
        of[one.start].append(one)
    asked = []
    for mine in of.values():
        mine.sort(key=lambda one: one.end)
        parts = [mine[at : at + CLAIMS_AT_ONCE] for at in range(0, len(mine), CLAIMS_AT_ONCE)]
        asked += [_build_question(n, some, texts, library) for n, some in enumerate(parts)]
    return sorted(asked, key=lambda one: (-max(pair.weight for pair in one.pairs), one.request.id))


def parse_labels(question: Question, completion: Completion) -> list[Relation]:
    """Return the relations that a good completion tells, each from what supports or depends."""
    known = dict(enumerate(question.pairs, 1))
    said = [(known.get(one.earlier), MEANT.get(one.answer)) for one in completion.value.relations]
    told = [(pair, *meant) for pair, meant in said if pair and meant]
    ends = [(pair, kind, (pair.end, pair.start) if turned else (pair.start, pair.end)) for pair, kind, turned in told]
    return [Relation(kind, *both, pair.weight, pair.reason) for pair, kind, both in ends]


def _build_question(number: int, pairs: Sequence[Relation], texts: Mapping[str, str], library: Library) -> Question:
    start = pairs[0].start
    shown = [_render("claim:", texts[start]), *(_render(f"{n}.", texts[pair.end]) for n, pair in enumerate(pairs, 1))]
    messages = library.load_prompt("relate").render_messages(**fence_entries(shown))
    tokens = TOKENS_A_CLAIM * (len(pairs) + 1)
    answer = limit_answer(LabelsAnswer, relations=len(pairs))
    return Question(tuple(pairs), Request(f"{start}/relate/{number}", messages, answer, tokens))


def _render(label: str, text: str) -> str:
    return format_entry(label, mask_injections(text)[:CLAIM_CHARS])
