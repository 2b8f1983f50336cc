"""The grey band, asked of a language model: pairs of claims the rules find neither one nor two. Requests and answers.

Pairs go out in batches, fenced as data. An answer counts for the pairs it names; a pair without one stays undecided,
and then the rules' no stands.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import Field

from slowwave.engines.llm.protocol import AnswerModel, Completion, Request
from slowwave.schemas.ids import compute_content_id
from slowwave.tasks.llm.fence import mask_injections
from slowwave.tasks.llm.library import Library, limit_answer
from slowwave.text.fence import fence_entries, format_entry

VERSION = 1
PROMPTS = ("same",)
PAIRS_AT_ONCE = 10
TOKENS_A_PAIR = 24
CLAIM_CHARS = 400

Texts = tuple[str, str]
"""The two claims of a pair."""


class PairAnswer(AnswerModel):
    """What the model says of one pair."""

    pair: int = Field(ge=0, le=99)
    same: bool


class PairsAnswer(AnswerModel):
    """What it says of a batch."""

    pairs: list[PairAnswer]


@dataclass(frozen=True, slots=True)
class Batch:
    """One request, and the places of its pairs among all that are asked, by their number in it."""

    request: Request
    places: Mapping[int, int]


def build_batches(pairs: Sequence[Texts], library: Library) -> list[Batch]:
    """Return what to ask; the same pairs give the same requests."""
    starts = range(0, len(pairs), PAIRS_AT_ONCE)
    return [_build_batch(start, pairs[start : start + PAIRS_AT_ONCE], library) for start in starts]


def collect_verdicts(asked: Sequence[Batch], answers: Mapping[str, Completion], pairs: int) -> list[bool | None]:
    """Return for each pair whether it is one; None where the model did not say, or was not asked."""
    said: list[bool | None] = [None] * pairs
    for batch in asked:
        completion = answers.get(batch.request.id)
        for one in completion.value.pairs if completion is not None and completion.ok else ():
            if one.pair in batch.places:
                said[batch.places[one.pair]] = one.same
    return said


def _build_batch(start: int, pairs: Sequence[Texts], library: Library) -> Batch:
    shown = {n: _render_pair(n, pair) for n, pair in enumerate(pairs, 1)}
    messages = library.load_prompt("same").render_messages(**fence_entries(list(shown.values())))
    request = Request(
        f"same/{compute_content_id(*(text for pair in pairs for text in pair))}/{start}",
        messages,
        limit_answer(PairsAnswer, pairs=len(pairs)),
        TOKENS_A_PAIR * len(pairs) + TOKENS_A_PAIR,
    )
    return Batch(request, {n: start + n - 1 for n in shown})


def _render_pair(number_: int, pair: Texts) -> str:
    left, right = (mask_injections(text)[:CLAIM_CHARS] for text in pair)
    return format_entry(f"{number_}.", f"{left}\nand: {right}")
