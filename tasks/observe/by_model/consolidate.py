"""`consolidate`: a long session's claims, distilled chunk by chunk, brought to the session's final state.

What was decided in the first chunk and changed in the fifth must not survive as two claims. The model sees all claims
in order of speech and names those to drop, each with the claim that stands instead; it writes nothing itself, so every
claim that stays keeps its own verified quote. Where there are too many for one prompt they are taken by category.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from slowwave.engines.llm.protocol import AnswerModel, Completion, Request
from slowwave.tasks.llm.chunks import Counter
from slowwave.tasks.llm.claims import ParsedClaims, Rejected
from slowwave.tasks.llm.library import Library
from slowwave.tasks.observe.by_model.extract import TEMPLATE_TOKENS
from slowwave.text.fence import fence_entries, format_entry

MOST_DROPS = 60
ANSWER_TOKENS = 768


class Drop(AnswerModel):
    """A claim that no longer holds, and the one that stands instead, by their numbers."""

    claim: int = Field(ge=0, le=9_999)
    kept: int = Field(ge=0, le=9_999)
    why: Literal["amended", "repeated", "rejected"]


class DropsAnswer(AnswerModel):
    """What the model says of a session's claims."""

    drops: list[Drop] = Field(max_length=MOST_DROPS)


@dataclass(frozen=True, slots=True)
class Question:
    """One request, and the claims it is about by their numbers."""

    request: Request
    claims: Mapping[int, str]
    """Number to observation_id."""


def build_questions(
    session: str, claims: Sequence[Mapping[str, Any]], library: Library, count: Counter, window: int
) -> list[Question]:
    """Return what to ask about one session's claims (rows of `claims.SCHEMA`, in order of speech)."""
    shown = {n: _render_numbered_claim(n, claim) for n, claim in enumerate(claims, 1)}
    tokens = dict(zip(shown, count(list(shown.values())), strict=True))
    empty = library.load_prompt("consolidate").render_messages(**fence_entries([]))
    room = window - sum(count([m["content"] for m in empty])) - TEMPLATE_TOKENS - ANSWER_TOKENS
    groups = _group_claims(claims, tokens, room)
    return [_build_question(f"{session}/final/{n}", group, shown, claims, library) for n, group in enumerate(groups)]


def apply_drops(read: ParsedClaims, asked: Sequence[tuple[Question, Completion]]) -> ParsedClaims:
    """Return the session's claims without those that no longer hold; each of these is rejected with what stands
    instead.

    A drop counts only if both claims exist, what amends was said later, and the claim kept is kept in the end: drops
    in a circle are all left out.
    """
    by_id = {claim["observation_id"]: claim for claim in read.claims}
    drops: dict[str, tuple[str, str, str]] = {}
    for question, completion in asked:
        for drop in completion.value.drops:
            gone, kept = question.claims.get(drop.claim), question.claims.get(drop.kept)
            backwards = drop.why == "amended" and drop.kept < drop.claim
            if gone and kept and gone != kept and gone not in drops and not backwards:
                drops[gone] = (kept, drop.why, question.request.id)
    final = ParsedClaims(rejected=list(read.rejected))
    for oid, claim in by_id.items():
        stands = _find_replacement(oid, drops)
        if stands is None:
            final.claims.append(claim)
            continue
        _, why, request = drops[oid]
        reason = f"{why} within its session: “{by_id[stands]['summary']}” stands instead"
        final.rejected.append(Rejected(f"{request}#{oid[:8]}", reason, f"{claim['summary']} | “{claim['quote']}”"))
    return final


def _find_replacement(oid: str, drops: Mapping[str, tuple[str, str, str]]) -> str | None:
    """Return the claim at the end of the chain of drops; None for a claim that is kept or stands in a circle."""
    seen, at = {oid}, oid
    while at in drops:
        at = drops[at][0]
        if at in seen:
            return None
        seen.add(at)
    return None if at == oid else at


def _group_claims(claims: Sequence[Mapping[str, Any]], tokens: Mapping[int, int], room: int) -> list[list[int]]:
    """Return numbers of claims that go under one prompt: all, or by category, and then as many as fit."""
    if sum(tokens.values()) + len(tokens) <= room:
        return [list(tokens)]
    groups: list[list[int]] = []
    for category in sorted({claim["category"] for claim in claims}):
        used = room + 1
        for n in tokens:
            if claims[n - 1]["category"] != category:
                continue
            if used + tokens[n] + 1 > room:
                groups.append([])
                used = 0
            groups[-1].append(n)
            used += tokens[n] + 1
    return [group for group in groups if len(group) > 1]


def _build_question(
    name: str, group: Sequence[int], shown: Mapping[int, str], claims: Sequence[Mapping[str, Any]], library: Library
) -> Question:
    messages = library.load_prompt("consolidate").render_messages(**fence_entries([shown[n] for n in group]))
    request = Request(name, messages, DropsAnswer, ANSWER_TOKENS)
    return Question(request, {n: claims[n - 1]["observation_id"] for n in group})


def _render_numbered_claim(number: int, claim: Mapping[str, Any]) -> str:
    """Return a claim as the prompt shows it."""
    speaker = f", {claim['speaker']}" if claim["speaker"] else ""
    detail = f" ({claim['detail']})" if claim["detail"] else ""
    return format_entry(f"[{number}] {claim['category']}{speaker}:", f"{claim['summary']}{detail}")
