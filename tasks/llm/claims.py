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
from functools import lru_cache
from typing import Annotated, Any, Literal

import pyarrow as pa
from pydantic import Field, ValidationError, create_model
from pydantic_core import from_json, to_json
from rapidfuzz import fuzz

from slowwave.engines.llm.checks import parse_answer
from slowwave.engines.llm.protocol import AnswerModel, Completion, Request
from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.vocabulary import Origin
from slowwave.tasks.dedupe.guards import align_pair, figures, names
from slowwave.tasks.dedupe.normalise import normalise_claim
from slowwave.tasks.llm.chunks import Chunk, Turn
from slowwave.tasks.llm.fence import find_injections, has_injection, has_overlap
from slowwave.tasks.llm.grounding import GroundingContext, explain_unfounded
from slowwave.tasks.llm.library import Pack, Rejected, limit_answer
from slowwave.tasks.llm.quotes import compute_support, find_best_anchor, is_comparable, is_unspaced
from slowwave.tasks.observe.observe import SCHEMA
from slowwave.tasks.observe.units import PRONOUN

CONFIDENCE = {"high": 0.9, "medium": 0.6, "low": 0.3}
SAME = 85.0
"""token_sort_ratio of two summaries on one quote from which they are one claim."""
SURE = 97.0
"""Likeness from which a quote is taken to stand in a message that was not cited."""
NEAR, SUPPORT = 2, 0.5
"""Share of a summary's content words that must come up in the messages it cites and this many on both sides of each. Of
the 619 sentences of `quotes.compute_support` 99.2% have that share in their own place, 15% in another place of their
session."""
TEXT_CHARS = 300
"""Of a claim's summary and of its detail, at most."""
LEAST_WORDS = 4
"""A summary of fewer words says next to nothing."""


class ClaimAnswer(AnswerModel):
    """One claim as the model answers it: the quote before the words that rest on it."""

    messages: list[Annotated[int, Field(ge=0, le=9_999)]] = Field(max_length=4)
    quote: str = Field(max_length=300)
    category: str
    summary: str = Field(max_length=TEXT_CHARS)
    detail: str = Field(max_length=TEXT_CHARS)
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
def build_claims_answer(categories: tuple[str, ...], limit: int) -> type[ClaimsAnswer]:
    """Return the form of an answer with at most so many claims, each of one of these categories."""
    category: Any = Literal[categories]
    claim: Any = create_model("ClaimAnswer", __base__=ClaimAnswer, category=(category, ...))
    return limit_answer(create_model("ClaimsAnswer", __base__=ClaimsAnswer, claims=(list[claim], ...)), claims=limit)


def read_answer(part: Part, completion: Completion, rows: Sequence[Mapping[str, Any]]) -> ParsedClaims:
    """Return the claims of an answer that stand on their quotes, and the others with the reason.

    Args:
        part: what was asked.
        completion: its answer; of one that was cut the claims before the cut are read.
        rows: the session's messages, tool traffic too.
    """
    # what the model was shown
    turns = part.chunk.turns
    names = {str(row[key]) for row in rows for key in ("speaker", "workspace") if row[key]}
    shown = " ".join(turn.shown for turn in turns)
    evidence = _PromptEvidence(turns, {turn.number: turn.row for turn in turns}, shown, "\n".join(sorted(names)))
    # each claim is kept, or rejected with its reason
    read = ParsedClaims()
    for n, answer in enumerate(_parse_claims(completion)):
        row_id = f"{part.request.id}#{n}"
        made = _validate_claim(answer, evidence, part, completion.model)
        if isinstance(made, str):
            read.rejected.append(Rejected(row_id, made, f"{answer.summary} | “{answer.quote}”"))
            continue
        read.claims.append(made)
        if made["no_detail"]:
            read.rejected.append(Rejected(f"{row_id}/detail", f"its detail {made['no_detail']}", answer.detail))
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
            whole.append(parse_answer(ClaimAnswer, to_json(claim).decode())[0])
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
            first = next((other for other in whole.claims if _is_repeat(claim, other)), None)
            if first is None:
                # Two different claims on the same words are told apart by their summaries too.
                own = claim["observation_id"]
                taken = any(other["observation_id"] == own for other in whole.claims)
                unique = compute_content_id(own, claim["summary"]) if taken else own
                whole.claims.append({**claim, "observation_id": unique})
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

    turns: Sequence[Turn]
    rows: Mapping[int, Mapping[str, Any]]
    """Number to row of MESSAGES."""
    shown: str
    names: str
    """The workspace, and whoever speaks in the session: what a claim may name though the chunk does not."""

    def explain_unfounded(self, text: str, numbers: Collection[int]) -> str | None:
        """Return why a text is not what was said in those messages and the ones near them; None where it is."""
        places = [at for at, turn in enumerate(self.turns) if turn.number in numbers]
        near = [turn for at, turn in enumerate(self.turns) if any(abs(at - p) <= NEAR for p in places)]
        if compute_support(text, " ".join([*(turn.shown for turn in near), self.names])) < SUPPORT:
            return "speaks of something else than the messages it cites"
        chunk = "\n".join([*(turn.text for turn in self.turns), self.names])
        times = tuple(self.rows[n]["ts"] for n in numbers if self.rows[n]["ts"])
        why = explain_unfounded(text, GroundingContext("\n".join(turn.text for turn in near), chunk, times))
        return why and f"is not what was said: {why}"


def _validate_claim(answer: ClaimAnswer, evidence: _PromptEvidence, part: Part, model: str) -> dict[str, Any] | str:
    """Return a row of SCHEMA, or why there is none."""
    answer = answer.model_copy(
        update={name: _drop_broken_word(getattr(answer, name)) for name in ("summary", "detail")}
    )
    if not answer.summary.strip():
        return "says nothing"
    if answer.category not in part.pack.categories:
        return f"no category {answer.category!r} in the pack {part.pack.name}"
    cited = [n for n in dict.fromkeys(answer.messages) if n in evidence.rows]
    # The quote stands in a message that is cited, else, if beyond doubt, in another of the chunk.
    quoted = find_best_anchor(answer.quote, ((n, evidence.rows[n]["text"]) for n in cited))
    quoted = quoted or find_best_anchor(answer.quote, ((n, row["text"]) for n, row in evidence.rows.items()), SURE)
    if quoted is None:
        nowhere = f"cites no message of its chunk: {answer.messages}"
        return "its quote does not stand in the messages it cites" if cited else nowhere
    n, anchor = quoted
    row, numbers = evidence.rows[n], {n, *cited}
    quote = row["text"][anchor.start : anchor.end]
    if has_overlap((anchor.start, anchor.end), find_injections(row["text"])) or has_injection(quote):
        return "its quote is an instruction to the memory, not something said in the conversation"
    if has_injection(f"{answer.summary}\n\n{answer.detail}"):
        return "it is itself an instruction to the memory"
    if strange := evidence.explain_unfounded(answer.summary, numbers):
        return f"its summary {strange}"
    gates, reasons = _compute_gates(answer, is_comparable(answer.summary, evidence.shown))
    no_detail = evidence.explain_unfounded(answer.detail, numbers) if answer.detail.strip() else None
    return {
        "observation_id": compute_content_id(row["session_id"], answer.category, quote, row["message_id"]),
        "session_id": row["session_id"],
        "workspace": row["workspace"],
        "summary": " ".join(answer.summary.split()),
        "detail": None if no_detail else " ".join(answer.detail.split()) or None,
        "category": answer.category,
        "pack": part.pack.name,
        "files": [f for f in dict.fromkeys(answer.files) if f.strip() and f in evidence.shown],
        "quote": quote,
        "message_ids": list(dict.fromkeys([row["message_id"], *(evidence.rows[n]["message_id"] for n in cited)])),
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


def _drop_broken_word(text: str) -> str:
    """Return a text that was stopped at its limit without its last word, of which a part may be missing."""
    words, _, _ = text.rpartition(" ")
    return words if words and len(text) >= TEXT_CHARS else text


def _compute_gates(answer: ClaimAnswer, comparable: bool) -> tuple[dict[str, bool], list[str]]:
    """Return three gates with the reasons of those that are shut: the model's word, and three visible signs."""
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
