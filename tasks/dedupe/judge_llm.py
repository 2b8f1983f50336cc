"""The grey band, asked of a language model: pairs of claims the rules find neither one nor two. Requests and answers.

Pairs go out in batches, fenced as data. An answer counts for the pairs it names; a pair without one stays undecided,
and then the rules' no stands.
"""

from collections.abc import Mapping, Sequence

from pydantic import Field

from slowwave.engines.llm.protocol import AnswerModel, Completion
from slowwave.schemas.ids import compute_content_id
from slowwave.tasks.llm.fence import mask_injections
from slowwave.tasks.llm.library import Library, Question, limit_answer
from slowwave.text.fence import format_entry

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


Places = Mapping[int, int]
"""What a question is about: the places of its pairs among all that are asked, by their numbers in it."""


def build_batches(pairs: Sequence[Texts], library: Library) -> list[Question[Places]]:
    """Return what to ask; the same pairs give the same requests."""
    starts = range(0, len(pairs), PAIRS_AT_ONCE)
    return [_build_batch(start, pairs[start : start + PAIRS_AT_ONCE], library) for start in starts]


def read_verdicts(batch: Question[Places], completion: Completion) -> dict[int, bool]:
    """Return whether the pairs at some places are one: of those that the answer names."""
    return {batch.about[one.pair]: one.same for one in completion.value.pairs if one.pair in batch.about}


def _build_batch(start: int, pairs: Sequence[Texts], library: Library) -> Question[Places]:
    shown = {n: _render_pair(n, pair) for n, pair in enumerate(pairs, 1)}
    name = f"same/{compute_content_id(*(text for pair in pairs for text in pair))}/{start}"
    answer, tokens = limit_answer(PairsAnswer, pairs=len(pairs)), TOKENS_A_PAIR * (len(pairs) + 1)
    request = library.build_request("same", name, list(shown.values()), answer, tokens)
    return Question(request, {n: start + n - 1 for n in shown})


def _render_pair(number_: int, pair: Texts) -> str:
    left, right = (mask_injections(text)[:CLAIM_CHARS] for text in pair)
    return format_entry(f"{number_}.", f"{left}\nand: {right}")
