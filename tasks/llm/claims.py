"""The claims in a model's answers: those that stand on their quotes as rows, the others with the reason. Pure.

A claim is kept only if its quote stands in a message it cites, and if its summary says no more than what is said there:
its words, numbers, dates, names and negations (`grounding.explain_unfounded`). A detail that says more is left off its
claim, and quarantined by itself. Three gates are columns, not filters: `reusable` is the model's word (`lasts`), the
others are what can be told without it; the fourth, `verified`, is the quote. The method of grounding in quotes: Bohnet
et al., "Attributed Question Answering", 2022; a model's own numbers for places are never trusted alone.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Annotated, Any, Literal

import pyarrow as pa
from pydantic import Field, ValidationError, create_model
from pydantic_core import from_json
from rapidfuzz import fuzz

from slowwave.engines.llm.protocol import AnswerModel, Completion, Request
from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import OBSERVATIONS
from slowwave.schemas.vocabulary import Origin
from slowwave.tasks.dedupe.guards import align_pair, figures, names
from slowwave.tasks.dedupe.normalise import normalise_claim
from slowwave.tasks.llm.chunks import Chunk, Turn
from slowwave.tasks.llm.fence import find_injections, has_injection, has_overlap
from slowwave.tasks.llm.grounding import GroundingContext, explain_unfounded
from slowwave.tasks.llm.library import Pack, Rejected, limit_answer
from slowwave.tasks.llm.quotes import (
    Anchor,
    compute_support,
    find_best_anchor,
    is_comparable,
    is_unspaced,
)
from slowwave.tasks.observe.observe import COLUMNS, GATE_COLUMNS
from slowwave.tasks.observe.units import PRONOUN

CONFIDENCE = {"high": 0.9, "medium": 0.6, "low": 0.3}
SCHEMA = pa.schema([OBSERVATIONS.schema.field(c) for c in (*COLUMNS, *GATE_COLUMNS)])
SAME = 85.0
"""token_sort_ratio of two summaries on one quote from which they are one claim."""
SURE = 97.0
"""Likeness from which a quote is taken to stand in a message that was not cited."""
NEAR, SUPPORT = 2, 0.5
"""Share of a summary's content words that must come up in the messages it cites and this many on both sides of each. Of
the 619 sentences of `quotes.compute_support` 99.2% have that share in their own place, 15% in another place of their
session."""
LEAST_WORDS = 4
"""A summary of fewer words says next to nothing."""


class ClaimAnswer(AnswerModel):
    """One claim as the model answers it: the quote before the words that rest on it."""

    messages: list[Annotated[int, Field(ge=0, le=9_999)]] = Field(max_length=4)
    quote: str = Field(max_length=300)
    category: str
    summary: str = Field(max_length=300)
    detail: str = Field(max_length=300)
    files: list[Annotated[str, Field(max_length=160)]] = Field(max_length=5)
    confidence: Literal["high", "medium", "low"]
    lasts: bool


class ClaimsAnswer(AnswerModel):
    """The claims of a chunk."""

    claims: list[ClaimAnswer]


@dataclass(frozen=True, slots=True)
class Part:
    """One request: a chunk of a session."""

    request: Request
    session_id: str
    pack: Pack
    chunk: Chunk


@dataclass(slots=True)
class ParsedClaims:
    """What an answer, or a session's answers together, gave."""

    claims: list[dict[str, Any]] = field(default_factory=list)
    """Rows of SCHEMA."""
    rejected: list[Rejected] = field(default_factory=list)


@lru_cache(maxsize=64)
def build_claims_answer(categories: tuple[str, ...], most: int) -> type[ClaimsAnswer]:
    """Return the form of an answer with at most so many claims, each of one of these categories."""
    category: Any = Literal[categories]
    claim: Any = create_model("ClaimAnswer", __base__=ClaimAnswer, category=(category, ...))
    return limit_answer(create_model("ClaimsAnswer", __base__=ClaimsAnswer, claims=(list[claim], ...)), claims=most)


def read_answer(part: Part, completion: Completion, rows: Sequence[Mapping[str, Any]]) -> ParsedClaims:
    """Return the claims of an answer that stand on their quotes, and the others with the reason.

    Args:
        part: what was asked.
        completion: its answer; of one that was cut the claims before the cut are read.
        rows: the session's messages, tool traffic too.
    """
    read, heard = ParsedClaims(), _build_prompt_evidence(part, rows)
    for n, answer in enumerate(_parse_claims(completion)):
        row_id = f"{part.request.id}#{n}"
        made = _validate_claim(answer, heard, part, completion.model)
        if isinstance(made, str):
            read.rejected.append(Rejected(row_id, made, f"{answer.summary} | “{answer.quote}”"))
            continue
        read.claims.append(made)
        if made["no_detail"]:
            read.rejected.append(Rejected(f"{row_id}/detail", f"its detail: {made['no_detail']}", answer.detail))
    return read


def _parse_claims(completion: Completion) -> list[ClaimAnswer]:
    """Return the claims of an answer; of a cut one those before the cut that are whole."""
    if completion.ok:
        return list(completion.value.claims)
    try:
        value = from_json(completion.text, allow_partial=True)
    except ValueError:
        return []
    claims = value.get("claims") if isinstance(value, dict) else None
    whole: list[ClaimAnswer] = []
    for claim in claims if isinstance(claims, list) else ():
        with suppress(ValidationError):
            whole.append(ClaimAnswer.model_validate(claim))
    return whole


def drop_repeated_claims(reads: Iterable[tuple[str, ParsedClaims]]) -> ParsedClaims:
    """Return the claims of a session's parts in order of speech; of those that say one thing the first.

    Two claims are one when they are of one category, rest on overlapping quotes of one message, and read alike without
    a number or a name in the place of another.
    """
    whole = ParsedClaims()
    for part, read in reads:
        whole.rejected += read.rejected
        for claim in read.claims:
            first = next((one for one in whole.claims if _is_repeat(claim, one)), None)
            if first is None:
                whole.claims.append(_ensure_unique_id(claim, {one["observation_id"] for one in whole.claims}))
                continue
            row_id = f"{part}#{claim['observation_id'][:8]}"
            whole.rejected.append(Rejected(row_id, f"repeats {first['observation_id']}", claim["summary"]))
    whole.claims.sort(key=lambda claim: claim["place"])
    return whole


def build_claims_table(claims: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Return claims as a table of SCHEMA."""
    return pa.Table.from_pylist([{name: claim[name] for name in SCHEMA.names} for claim in claims], schema=SCHEMA)


@dataclass(frozen=True, slots=True)
class _PromptEvidence:
    """What a model was shown under one prompt, as claims are checked against it."""

    chunk: Chunk
    texts: Mapping[int, Mapping[str, Any]]
    """Number to row of MESSAGES."""
    shown: str
    names: str
    """The workspace, and whoever speaks in the session: what a claim may name though the chunk does not."""

    def build_grounding_context(self, numbers: Collection[int]) -> GroundingContext:
        """Return what a claim that cites those messages stands on."""
        near = "\n".join(turn.text for turn in self.find_nearby_turns(numbers))
        chunk = "\n".join([*(turn.text for turn in self.chunk.turns), self.names])
        return GroundingContext(near, chunk, tuple(_collect_times(self.texts[n] for n in numbers)))

    def render_nearby(self, numbers: Collection[int]) -> str:
        """Return those messages and the ones near them as they were shown, and `names`."""
        return " ".join([*(turn.shown for turn in self.find_nearby_turns(numbers)), self.names])

    def find_nearby_turns(self, numbers: Collection[int]) -> list[Turn]:
        """Return those messages and the ones near them."""
        turns = self.chunk.turns
        places = [place for place, turn in enumerate(turns) if turn.number in numbers]
        return [turn for place, turn in enumerate(turns) if any(abs(place - p) <= NEAR for p in places)]


def _build_prompt_evidence(part: Part, rows: Sequence[Mapping[str, Any]]) -> _PromptEvidence:
    turns = part.chunk.turns
    shown = " ".join(turn.shown for turn in turns)
    people = {str(row["speaker"]) for row in rows if row["speaker"]}
    places = {str(row["workspace"]) for row in rows if row["workspace"]}
    names = "\n".join(sorted(people | places))
    return _PromptEvidence(part.chunk, {turn.number: turn.row for turn in turns}, shown, names)


def _collect_times(rows: Iterable[Mapping[str, Any]]) -> Iterable[datetime]:
    return (row["ts"] for row in rows if row["ts"])


def _validate_claim(answer: ClaimAnswer, heard: _PromptEvidence, part: Part, model: str) -> dict[str, Any] | str:
    """Return a row of SCHEMA, or why there is none."""
    if not answer.summary.strip():
        return "says nothing"
    if answer.category not in part.pack.categories:
        return f"no category {answer.category!r} in the pack {part.pack.name}"
    cited = [n for n in dict.fromkeys(answer.messages) if n in heard.texts]
    found = _locate_quote(answer.quote, cited, heard.texts)
    if found is None:
        nowhere = f"cites no message of its chunk: {answer.messages}"
        return "its quote does not stand in the messages it cites" if cited else nowhere
    n, anchor = found
    text = heard.texts[n]["text"]
    if has_overlap((anchor.start, anchor.end), find_injections(text)) or has_injection(text[anchor.start : anchor.end]):
        return "its quote is an instruction to the memory, not something said in the conversation"
    if has_injection(f"{answer.summary}\n\n{answer.detail}"):
        return "it is itself an instruction to the memory"
    strange = _explain_unsupported_summary(answer.summary, {n, *cited}, heard)
    if strange:
        return f"its summary {strange}"
    return _build_claim_row(answer, heard.texts[n], anchor, cited, part, heard, model)


def _explain_unsupported_summary(summary: str, numbers: Collection[int], heard: _PromptEvidence) -> str | None:
    """Return why a summary is not what was said in those messages; None where it is."""
    if compute_support(summary, heard.render_nearby(numbers)) < SUPPORT:
        return "speaks of something else than the messages it cites"
    strange = explain_unfounded(summary, heard.build_grounding_context(numbers))
    return f"is not what was said: {strange}" if strange else None


def _explain_dropped_detail(detail: str, numbers: Collection[int], heard: _PromptEvidence) -> str | None:
    """Return why a detail is left off its claim; None where it is kept, and where there is none."""
    if not detail.strip():
        return None
    if compute_support(detail, heard.render_nearby(numbers)) < SUPPORT:
        return "speaks of something else than the messages it cites"
    return explain_unfounded(detail, heard.build_grounding_context(numbers))


def _locate_quote(
    quote: str, cited: Sequence[int], texts: Mapping[int, Mapping[str, Any]]
) -> tuple[int, Anchor] | None:
    """Return where the quote stands: in a message that is cited, else, if beyond doubt, in another of the chunk."""
    mine = find_best_anchor(quote, ((n, texts[n]["text"]) for n in cited))
    return mine or find_best_anchor(quote, ((n, row["text"]) for n, row in texts.items()), SURE)


def _build_claim_row(
    answer: ClaimAnswer,
    row: Mapping[str, Any],
    anchor: Anchor,
    cited: Sequence[int],
    part: Part,
    heard: _PromptEvidence,
    model: str,
) -> dict[str, Any]:
    quote, numbers = row["text"][anchor.start : anchor.end], {n for n, r in heard.texts.items() if r is row} | {*cited}
    gates, reasons = _compute_gates(answer, is_comparable(answer.summary, heard.shown))
    no_detail = _explain_dropped_detail(answer.detail, numbers, heard)
    return {
        "observation_id": compute_content_id(row["session_id"], answer.category, quote, row["message_id"]),
        "session_id": row["session_id"],
        "workspace": row["workspace"],
        "summary": " ".join(answer.summary.split()),
        "detail": None if no_detail else " ".join(answer.detail.split()) or None,
        "category": answer.category,
        "pack": part.pack.name,
        "files": [f for f in dict.fromkeys(answer.files) if f.strip() and f in heard.shown],
        "quote": quote,
        "message_ids": list(dict.fromkeys([row["message_id"], *(heard.texts[n]["message_id"] for n in cited)])),
        "speaker": row["speaker"],
        "confidence": CONFIDENCE[answer.confidence],
        "observed_at": row["ts"],
        "observer": model,
        **gates,
        "verified": True,
        "gate_reasons": reasons,
        "span": (anchor.start, anchor.end),
        "place": (row["seq"], anchor.start),
        "by_person": row["origin"] == Origin.HUMAN,
        "no_detail": no_detail,
    }


def _compute_gates(answer: ClaimAnswer, comparable: bool) -> tuple[dict[str, bool], list[str]]:
    """Return three gates with the reasons of those that are shut: the model's word, and three things that can be
    seen.
    """
    short = len(answer.summary.split()) < LEAST_WORDS and len(answer.summary) < 20
    reasons = {
        "reusable: the model says that it does not last": not answer.lasts,
        "specific: the summary begins with a pronoun": PRONOUN.match(answer.summary) is not None,
        "specific: in another script than the transcript, so its words can't be looked up there": not comparable,
        "non_trivial: the summary says next to nothing": short and not is_unspaced(answer.summary),
    }
    shut = [reason for reason, holds in reasons.items() if holds]
    gates = ("reusable", "non_trivial", "specific")
    return {gate: not any(reason.startswith(gate) for reason in shut) for gate in gates}, shut


def _is_repeat(claim: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two claims of a session are one."""
    if (claim["category"], claim["message_ids"][0]) != (other["category"], other["message_ids"][0]):
        return False
    if not has_overlap(claim["span"], [other["span"]]):
        return False
    if fuzz.token_sort_ratio(claim["summary"], other["summary"]) < SAME:
        return False
    pair = align_pair(normalise_claim(claim["summary"]), normalise_claim(other["summary"]))
    return figures(pair) is None and names(pair) is None


def _ensure_unique_id(claim: dict[str, Any], taken: set[str]) -> dict[str, Any]:
    """Return the claim; two different ones on the same words are told apart by their summaries too."""
    if claim["observation_id"] not in taken:
        return claim
    return {**claim, "observation_id": compute_content_id(claim["observation_id"], claim["summary"])}
