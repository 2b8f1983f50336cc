"""Read a model's answers: return the claims whose quotes support them as rows, and the others with the reason. Pure.

A claim is kept only if its quote stands in a message that it cites and its summary adds nothing to what was said there:
its words, numbers, dates, names and negations are checked (`grounding.explain_unfounded`). A detail that adds something
is removed from its claim and quarantined by itself. Four gates are columns and do not filter: `verified` is the quote,
`reusable` is the model's judgement (`lasts`), and the other two are read off the text. The method is grounding in
quotes: Bohnet et al., "Attributed Question Answering", 2022. A model's own message numbers are never trusted alone.
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
from slowwave.schemas.ids import compute_claim_id, compute_content_id
from slowwave.schemas.rows import ClaimRow, MessageRow
from slowwave.schemas.vocabulary import Origin
from slowwave.tasks.dedupe.guards import align_pair, figures, names
from slowwave.tasks.dedupe.normalise import normalise_claim
from slowwave.tasks.llm.chunks import Chunk, NumberedTurn
from slowwave.tasks.llm.fence import find_injections, has_injection, has_overlap
from slowwave.tasks.llm.grounding import GroundingContext, explain_unfounded
from slowwave.tasks.llm.library import Pack, RejectedAnswer, limit_answer
from slowwave.tasks.llm.quotes import (
    CLAUSE_END,
    Anchor,
    compute_support,
    find_best_anchor,
    is_comparable,
    is_unspaced,
)
from slowwave.tasks.observe.observe import SCHEMA
from slowwave.tasks.observe.units import PRONOUN

CONFIDENCE = {"high": 0.9, "medium": 0.6, "low": 0.3}
SAME = 85.0
"""Least `token_sort_ratio` at which two summaries that rest on the same quote are one claim."""
SURE = 97.0
"""Least likeness of a quote to a message that was not cited, to count as a quote of it."""
NEAR = 2
SUPPORT = 0.5
"""SUPPORT is the share of a summary's content words that must occur in the cited messages, or in the NEAR messages on
either side of them. Of the 619 sentences of `quotes.compute_support`, 99.2% reach it at their own place, and 15% at
another place of their session."""
TEXT_CHARS = 300
"""Most characters of a claim's summary, and of its detail."""
LEAST_WORDS = 4
"""A summary of fewer words is trivial."""


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
class ChunkRequest:
    """The request about one chunk of a session."""

    request: Request
    session_id: str
    pack: Pack
    chunk: Chunk


class FoundClaim(ClaimRow, total=False):
    """A claim of a model, with the fields by which claims of a session are compared."""

    span: tuple[int, int]
    """Start and end of the quote in its message."""
    place: tuple[int, int]
    """Order of speech."""
    by_person: bool
    no_detail: str | None
    """Why the model's detail was left out."""
    no_end: str | None
    """Why the end of the model's summary was left out."""


@dataclass(slots=True)
class ParsedClaims:
    """The claims of an answer, or of all answers about a session."""

    claims: list[FoundClaim] = field(default_factory=list)
    """Rows of SCHEMA."""
    rejected: list[RejectedAnswer] = field(default_factory=list)


@lru_cache(maxsize=64)
def build_claims_answer(categories: tuple[str, ...], limit: int) -> type[ClaimsAnswer]:
    """Return the answer's form: at most `limit` claims, each of one of the categories."""
    category: Any = Literal[categories]
    claim: Any = create_model(
        "ClaimAnswer", __base__=ClaimAnswer, category=(category, ...)
    )
    return limit_answer(
        create_model("ClaimsAnswer", __base__=ClaimsAnswer, claims=(list[claim], ...)),
        claims=limit,
    )


def read_answer(
    part: ChunkRequest,
    completion: Completion,
    rows: Sequence[MessageRow],
) -> ParsedClaims:
    """Return the claims of an answer that their quotes support, and the rejected ones with the reason.

    Args:
        part: the request.
        completion: its answer. If it was cut, the claims before the cut are read.
        rows: all messages of the session, including tool traffic.
    """
    # the text that the model saw
    turns = part.chunk.turns
    names = {
        str(row[key]) for row in rows for key in ("speaker", "workspace") if row[key]
    }
    shown = " ".join(turn.shown for turn in turns)
    evidence = _PromptEvidence(
        turns=turns,
        rows={turn.number: turn.row for turn in turns},
        shown=shown,
        names="\n".join(sorted(names)),
    )
    # each claim is kept, or rejected with its reason
    read = ParsedClaims()
    for n, answer in enumerate(_parse_claims(completion)):
        row_id = f"{part.request.id}#{n}"
        made = _validate_claim(
            answer=answer, evidence=evidence, part=part, model=completion.model
        )
        if isinstance(made, str):
            read.rejected.append(
                RejectedAnswer(row_id, made, f"{answer.summary} | “{answer.quote}”")
            )
            continue
        read.claims.append(made)
        if made["no_end"]:
            read.rejected.append(
                RejectedAnswer(
                    f"{row_id}/end",
                    f"the end of its summary {made['no_end']}",
                    answer.summary,
                )
            )
        if made["no_detail"]:
            read.rejected.append(
                RejectedAnswer(
                    f"{row_id}/detail", f"its detail {made['no_detail']}", answer.detail
                )
            )
    return read


def _parse_claims(completion: Completion) -> list[ClaimAnswer]:
    """Return the claims of an answer. If it was cut, return the complete claims before the cut."""
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
    """Return the claims of a session's parts in order of speech, without repetitions. The first of equal claims is
    kept.

    A claim repeats another if both have overlapping quotes in one message and similar summaries, and no number or name
    differs between them. Of two categories, the first claim's is kept.
    """
    whole = ParsedClaims()
    for part, read in reads:
        whole.rejected += read.rejected
        for claim in read.claims:
            first = next(
                (other for other in whole.claims if _is_repeat(claim, other)), None
            )
            if first is None:
                # Two different claims on the same words get different ids by their summaries.
                own = claim["claim_id"]
                taken = any(other["claim_id"] == own for other in whole.claims)
                unique = compute_content_id(own, claim["summary"]) if taken else own
                whole.claims.append({**claim, "claim_id": unique})
                continue
            row_id = f"{part}#{claim['claim_id'][:8]}"
            whole.rejected.append(
                RejectedAnswer(row_id, f"repeats {first['claim_id']}", claim["summary"])
            )
    whole.claims.sort(key=lambda claim: claim["place"])
    return whole


def build_claims_table(claims: Iterable[Mapping[str, object]]) -> pa.Table:
    """Return claims as a table of SCHEMA."""
    return pa.Table.from_pylist(
        [{name: claim[name] for name in SCHEMA.names} for claim in claims],
        schema=SCHEMA,
    )


@dataclass(frozen=True, slots=True)
class _PromptEvidence:
    """The text that a model saw in one prompt. Claims are checked against it."""

    turns: Sequence[NumberedTurn]
    rows: Mapping[int, MessageRow]
    """Number to row of MESSAGES."""
    shown: str
    names: str
    """The workspaces and speakers of the session. A claim may name them even if the chunk does not."""

    def explain_unfounded(
        self,
        text: str,
        numbers: Collection[int],
        quote: str,
    ) -> str | None:
        """Return why the numbered messages and those near them do not support a text, or None if they do."""
        if not self.is_on_subject(text, numbers):
            return "speaks of something else than the messages it cites"
        near = self._find_near(numbers)
        chunk = "\n".join([*(turn.text for turn in self.turns), self.names])
        times = tuple(at for n in numbers if (at := self.rows[n]["ts"]))
        around = "\n".join(turn.text for turn in near)
        why = explain_unfounded(
            text, GroundingContext(near=around, chunk=chunk, times=times, quote=quote)
        )
        return why and f"is not what was said: {why}"

    def is_on_subject(self, text: str, numbers: Collection[int]) -> bool:
        """Return True if the numbered messages and those near them have enough of a text's words."""
        shown = [turn.shown for turn in self._find_near(numbers)]
        return compute_support(text, " ".join([*shown, self.names])) >= SUPPORT

    def _find_near(self, numbers: Collection[int]) -> list[NumberedTurn]:
        """Return the numbered messages and the NEAR ones on either side of each."""
        places = [at for at, turn in enumerate(self.turns) if turn.number in numbers]
        return [
            turn
            for at, turn in enumerate(self.turns)
            if any(abs(at - p) <= NEAR for p in places)
        ]


@dataclass(frozen=True, slots=True)
class _QuotePlace:
    """The place of a claim's quote, and the messages that the claim cites."""

    row: MessageRow
    """The row of MESSAGES in which the quote stands."""
    anchor: Anchor
    cited: list[int]
    """Numbers of the cited messages that the chunk has."""
    numbers: set[int]
    """The number of the quote's message, and `cited`."""

    @property
    def quote(self) -> str:
        """The message's own words at the place."""
        return str(self.row["text"][self.anchor.start : self.anchor.end])


def _validate_claim(
    answer: ClaimAnswer,
    evidence: _PromptEvidence,
    part: ChunkRequest,
    model: str,
) -> FoundClaim | str:
    """Return the claim as a row of SCHEMA, or the reason to reject it."""
    answer = answer.model_copy(
        update={
            name: _drop_broken_word(getattr(answer, name))
            for name in ("summary", "detail")
        }
    )
    if not answer.summary.strip():
        return "says nothing"
    if answer.category not in part.pack.categories:
        return f"no category {answer.category!r} in the pack {part.pack.name}"
    place = _find_quote(answer, evidence)
    if isinstance(place, str):
        return place
    if injected := _explain_injection(answer, place):
        return injected
    no_end = evidence.explain_unfounded(answer.summary, place.numbers, place.quote)
    if no_end:
        founded = _find_founded_beginning(answer.summary, evidence, place)
        if not founded:
            return f"its summary {no_end}"
        answer = answer.model_copy(update={"summary": founded})
    claim = _build_claim_row(
        answer,
        evidence,
        place=place,
        pack=part.pack,
        model=model,
    )
    claim["no_end"] = no_end
    return claim


def _find_founded_beginning(
    summary: str, evidence: _PromptEvidence, place: _QuotePlace
) -> str:
    """Return the longest beginning of a summary, up to a clause's end, that its sources support; empty if none does.

    Nobody said no to React where "the front stays with templates, not React" answers who wished for it. Without that
    end the claim is true. The fewer words a text has, the sooner they are anywhere: if those of the whole summary are
    not near, the quote itself must have enough of the beginning's.
    """
    is_on_subject = evidence.is_on_subject(summary, place.numbers)
    ends = [match.start() for match in CLAUSE_END.finditer(summary)][::-1]
    for end in ends:
        beginning = f"{summary[:end].rstrip()}."
        is_whole = len(beginning.split()) >= LEAST_WORDS or is_unspaced(beginning)
        is_closed = beginning.count("(") == beginning.count(")")
        is_near = is_on_subject or compute_support(beginning, place.quote) >= SUPPORT
        why = evidence.explain_unfounded(beginning, place.numbers, place.quote)
        if is_whole and is_closed and is_near and not why:
            return beginning
    return ""


def _find_quote(answer: ClaimAnswer, evidence: _PromptEvidence) -> _QuotePlace | str:
    """Return the place of the claim's quote, or the reason to reject the claim.

    The quote must stand in a cited message, or almost word for word (SURE) in another message of the chunk.
    """
    cited = [n for n in dict.fromkeys(answer.messages) if n in evidence.rows]
    found = find_best_anchor(
        answer.quote, ((n, evidence.rows[n]["text"]) for n in cited)
    )
    found = found or find_best_anchor(
        answer.quote, ((n, row["text"]) for n, row in evidence.rows.items()), SURE
    )
    if found is None and cited:
        return "its quote does not stand in the messages it cites"
    if found is None:
        return f"cites no message of its chunk: {answer.messages}"
    number, anchor = found
    return _QuotePlace(
        row=evidence.rows[number], anchor=anchor, cited=cited, numbers={number, *cited}
    )


def _explain_injection(answer: ClaimAnswer, place: _QuotePlace) -> str | None:
    """Return the reason to reject a claim that addresses the memory, or None if it does not."""
    span = (place.anchor.start, place.anchor.end)
    if has_overlap(span, find_injections(place.row["text"])) or has_injection(
        place.quote
    ):
        return "its quote is an instruction to the memory, not something said in the conversation"
    if has_injection(f"{answer.summary}\n\n{answer.detail}"):
        return "it is itself an instruction to the memory"
    return None


def _build_claim_row(
    answer: ClaimAnswer,
    evidence: _PromptEvidence,
    *,
    place: _QuotePlace,
    pack: Pack,
    model: str,
) -> FoundClaim:
    """Return the row of a claim that passed the checks, with the fields by which `drop_repeated_claims` compares it."""
    row = place.row
    gates, reasons = _compute_gates(
        answer, is_comparable(answer.summary, evidence.shown)
    )
    no_detail = (
        evidence.explain_unfounded(answer.detail, place.numbers, place.quote)
        if answer.detail.strip()
        else None
    )
    detail = None if no_detail else " ".join(answer.detail.split()) or None
    cited_ids = [evidence.rows[number]["message_id"] for number in place.cited]
    return {
        "claim_id": compute_claim_id(row["session_id"], row["message_id"], place.quote),
        "session_id": row["session_id"],
        "workspace": row["workspace"],
        "summary": " ".join(answer.summary.split()),
        "detail": detail,
        "category": answer.category,
        "pack": pack.name,
        "files": [
            file
            for file in dict.fromkeys(answer.files)
            if file.strip() and file in evidence.shown
        ],
        "quote": place.quote,
        "message_ids": list(dict.fromkeys([row["message_id"], *cited_ids])),
        "speaker": row["speaker"],
        "confidence": CONFIDENCE[answer.confidence],
        "observed_at": row["ts"],
        "utc_offset": row["utc_offset"],
        "observer": model,
        **gates,
        "verified": True,
        "gate_reasons": reasons,
        "span": (place.anchor.start, place.anchor.end),
        "place": (row["seq"], place.anchor.start),
        "by_person": row["origin"] == Origin.HUMAN,
        "no_detail": no_detail,
        "no_end": None,
    }


def _drop_broken_word(text: str) -> str:
    """Return a text without its last word if its length is at the limit: the word may be incomplete."""
    words, _, _ = text.rpartition(" ")
    return words if words and len(text) >= TEXT_CHARS else text


def _compute_gates(answer: ClaimAnswer, comparable: bool) -> tuple[ClaimRow, list[str]]:
    """Return three gates, and the reasons of those that are False."""
    short = len(answer.summary.split()) < LEAST_WORDS and len(answer.summary) < 20
    reasons = {
        "reusable: the model says that it does not last": not answer.lasts,
        "specific: the summary begins with a pronoun": PRONOUN.match(answer.summary)
        is not None,
        "specific: in another script than the transcript, so its words can't be looked up there": not comparable,
        "non_trivial: the summary says next to nothing": short
        and not is_unspaced(answer.summary),
    }
    shut = [reason for reason, holds in reasons.items() if holds]
    shut_gates = {reason.partition(":")[0] for reason in shut}
    gates: ClaimRow = {
        "reusable": "reusable" not in shut_gates,
        "non_trivial": "non_trivial" not in shut_gates,
        "specific": "specific" not in shut_gates,
    }
    return gates, shut


def _is_repeat(claim: FoundClaim, other: FoundClaim) -> bool:
    """Return True if two claims of a session say the same."""
    if claim["message_ids"][0] != other["message_ids"][0]:
        return False
    if not has_overlap(claim["span"], [other["span"]]):
        return False
    if fuzz.token_sort_ratio(claim["summary"], other["summary"]) < SAME:
        return False
    pair = align_pair(
        normalise_claim(claim["summary"]), normalise_claim(other["summary"])
    )
    return figures(pair) is None and names(pair) is None
