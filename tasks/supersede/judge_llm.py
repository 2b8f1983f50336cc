"""Pairs of claims asked of a language model: does the later change the earlier? Requests and answers, a pair each.

Whoever says `changes` shows the words that do: they must stand in the later claim, and better there than in the earlier
(a phrase that both have changes nothing). Else the answer counts as unsure.
"""

from typing import Literal

from pydantic import Field

from slowwave.engines.llm.protocol import AnswerModel, Completion, Request
from slowwave.schemas.ids import compute_content_id
from slowwave.tasks.dedupe.judge_llm import CLAIM_CHARS
from slowwave.tasks.llm.fence import mask_injections
from slowwave.tasks.llm.library import Library
from slowwave.tasks.llm.quotes import find_anchor
from slowwave.tasks.supersede.verdicts import Answer, Answered, ClaimShown, Pair
from slowwave.text.fence import fence_entries, format_entry

VERSION = 1
PROMPTS = ("change",)
BESIDE_CHARS = 200
QUOTE_CHARS = 200
ANSWER_TOKENS = 96


class ChangeAnswer(AnswerModel):
    """What the model says of a pair. The quote first: what is answered then follows from it."""

    quote: str = Field(max_length=QUOTE_CHARS)
    answer: Literal[Answer.UNRELATED, Answer.REPEATS, Answer.REFINES, Answer.CHANGES]


def build_request(pair: Pair, library: Library) -> Request:
    """Return what to ask about a pair, the earlier claim first."""
    entries = [line for name, claim in zip(("earlier", "later"), pair, strict=True) for line in _render(name, claim)]
    messages = library.load_prompt("change").render_messages(**fence_entries(entries))
    return Request(f"{compute_content_id(pair[0].id, pair[1].id)}/change", messages, ChangeAnswer, ANSWER_TOKENS)


def parse_answer(completion: Completion, pair: Pair) -> Answered:
    """Return what a good completion says, and the later claim's own words for it."""
    answer, quote = completion.value.answer, completion.value.quote
    before, there = (find_anchor(quote, claim.text) for claim in pair)
    found = there is not None and (before is None or there.score > before.score)
    if answer is Answer.CHANGES and not found:
        answer = Answer.UNSURE
    return answer, pair[1].text[there.start : there.end] if there is not None else ""


def _render(name: str, claim: ClaimShown) -> list[str]:
    who = f", {' '.join(claim.speaker.split())[:60]}" if claim.speaker else ""
    again = f", said again until {claim.last:%a %Y-%m-%d %H:%M}" if claim.last > claim.at else ""
    label = f"{name}{who}, {claim.at:%a %Y-%m-%d %H:%M}{again}:"
    beside = [format_entry("  beside it:", mask_injections(text)[:BESIDE_CHARS]) for text in claim.beside]
    return [format_entry(label, mask_injections(claim.text)[:CLAIM_CHARS]), *beside]
