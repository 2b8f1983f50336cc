"""The claims in a model's answers: those that stand on their quotes as rows, the others with the reason. Pure.

A claim is kept only if its quote stands in a message it cites, and if its summary speaks of what is said there. Three
gates come from the model, corrected by what can be told without it, and are columns, not filters; the fourth,
`verified`, is the quote. The method of grounding in quotes: Bohnet et al., "Attributed Question Answering", 2022; a
model's own numbers for places are never trusted alone.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json
from rapidfuzz import fuzz

from schemas.extract_settings import ExtractSettings
from schemas.ids import content_id
from schemas.observations import OBSERVATIONS
from slowwave.engines.llm import Completion
from tasks.chunks import Chunk
from tasks.extract import CONFIDENCE, Part
from tasks.fence import overlaps, steers, tainted
from tasks.observe import COLUMNS, GOES_ON
from tasks.quotes import Anchor, best_anchor, plain, supported, too_short

GATES = ("reusable", "non_trivial", "specific", "verified", "gate_reasons")
SCHEMA = pa.schema([OBSERVATIONS.schema.field(c) for c in (*COLUMNS, *GATES)])
SAME = 85.0
"""token_sort_ratio of two summaries on one quote from which they are one claim."""
SURE = 97.0
"""Likeness from which a quote is taken to stand in a message that was not cited."""
SUPPORT = 0.5
"""Share of a summary's content words that must come up in its chunk (`quotes.supported`)."""
NEAR, NEAR_SUPPORT = 2, 0.4
"""The same in the messages it cites and this many on both sides of each. Of the 617 sentences of `quotes.supported`
99.4% have that share in their own place, 15% in another place of their session."""
LEAST_WORDS = 4
"""A summary of fewer words says next to nothing."""


class Answer(BaseModel):
    """One claim as the model answers it."""

    messages: list[int]
    quote: str
    category: str
    summary: str
    detail: str
    files: list[str]
    speaker: str
    confidence: Literal["high", "medium", "low"]
    reusable: bool
    non_trivial: bool
    specific: bool
    doubt: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """A claim, or a whole part, that could not be used."""

    row_id: str
    """`<session>/<part>`, or `<session>/<part>#<claim>`."""
    reason: str
    excerpt: str


@dataclass(slots=True)
class Read:
    """What an answer, or a session's answers together, gave."""

    claims: list[dict[str, Any]] = field(default_factory=list)
    """Rows of SCHEMA."""
    rejected: list[Rejected] = field(default_factory=list)


def read_answer(
    part: Part, completion: Completion, rows: Sequence[Mapping[str, Any]], extract: ExtractSettings
) -> Read:
    """The claims of an answer that stand on their quotes, and the others with the reason.

    Args:
        part: what was asked.
        completion: its answer; of one that was cut the claims before the cut are read.
        rows: the session's messages, tool traffic too.
        extract: how near a quote must come.
    """
    read, texts = Read(), {turn.number: turn.row for turn in part.chunk.turns}
    tools = [plain(_traffic(row)) for row in rows if row["origin"] == "tool"]
    for n, raw in enumerate(_answers(completion)):
        row_id = f"{part.request.id}#{n}"
        try:
            answer = Answer(**raw)
        except ValidationError as error:
            read.rejected.append(Rejected(row_id, f"no claim: {error.errors()[0]['msg']}", str(raw)))
            continue
        made = _claim(answer, texts, tools, part, extract, completion.model)
        if isinstance(made, str):
            read.rejected.append(Rejected(row_id, made, f"{answer.summary} | “{answer.quote}”"))
        else:
            read.claims.append(made)
    return read


def _answers(completion: Completion) -> list[Any]:
    """The claims of an answer as they were generated; of a cut one those that are whole."""
    if completion.ok:
        return list(completion.value["claims"])
    try:
        value = from_json(completion.text, allow_partial=True)
    except ValueError:
        return []
    claims = value.get("claims") if isinstance(value, dict) else None
    whole = [claim for claim in claims if isinstance(claim, dict)] if isinstance(claims, list) else []
    return whole[:-1] if whole and set(whole[-1]) != set(Answer.model_fields) else whole


def without_repeats(reads: Iterable[tuple[str, Read]]) -> Read:
    """The claims of a session's parts in order of speech; one that says again what another says is rejected.

    Two claims are one when they are of one category, rest on overlapping quotes of one message, and read alike.
    """
    whole = Read()
    for part, read in reads:
        whole.rejected += read.rejected
        for claim in read.claims:
            twin = next((c for c in whole.claims if _repeats(claim, c)), None)
            if twin is None:
                ids = {c["observation_id"] for c in whole.claims}
                whole.claims.append(_with_own_id(claim, ids))
            else:
                row_id = f"{part}#{claim['observation_id'][:8]}"
                whole.rejected.append(Rejected(row_id, f"repeats {twin['observation_id']}", claim["summary"]))
    whole.claims.sort(key=lambda claim: claim["place"])
    return whole


def claims_table(claims: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Claims as a table of SCHEMA."""
    return pa.Table.from_pylist([{name: claim[name] for name in SCHEMA.names} for claim in claims], schema=SCHEMA)


def _claim(
    answer: Answer,
    texts: Mapping[int, Mapping[str, Any]],
    tools: Sequence[str],
    part: Part,
    extract: ExtractSettings,
    model: str,
) -> dict[str, Any] | str:
    """A row of SCHEMA, or why there is none."""
    if not answer.summary.strip():
        return "says nothing"
    if answer.category not in part.pack.categories:
        return f"no category {answer.category!r} in the pack {part.pack.name}"
    cited = [n for n in dict.fromkeys(answer.messages) if n in texts]
    found = _found(answer.quote, cited, texts, extract.quote_score)
    if found is None:
        return _why_not_found(answer, cited, tools)
    n, anchor = found
    if overlaps((anchor.start, anchor.end), tainted(texts[n]["text"])) or steers(
        texts[n]["text"][anchor.start : anchor.end]
    ):
        return "its quote is an instruction to the memory, not something said in the conversation"
    if steers(f"{answer.summary}\n\n{answer.detail}"):
        return "it is itself an instruction to the memory"
    if supported(answer.summary, " ".join(turn.shown for turn in part.chunk.turns)) < SUPPORT:
        return "its summary speaks of what never comes up in the transcript"
    if supported(answer.summary, _around(part.chunk, {n, *cited})) < NEAR_SUPPORT:
        return "its summary speaks of something else than the messages it cites"
    return _row(answer, texts[n], anchor, [texts[i]["message_id"] for i in cited], part, model)


def _around(chunk: Chunk, numbers: Collection[int]) -> str:
    """Those messages and the ones near them."""
    places = [place for place, turn in enumerate(chunk.turns) if turn.number in numbers]
    return " ".join(turn.shown for place, turn in enumerate(chunk.turns) if any(abs(place - p) <= NEAR for p in places))


def _found(
    quote: str, cited: Sequence[int], texts: Mapping[int, Mapping[str, Any]], least: float
) -> tuple[int, Anchor] | None:
    """Where the quote stands: in a message that is cited, else, if beyond doubt, in another of the chunk."""
    mine = best_anchor(quote, ((n, texts[n]["text"]) for n in cited), least)
    return mine or best_anchor(quote, ((n, row["text"]) for n, row in texts.items()), SURE)


def _why_not_found(answer: Answer, cited: Sequence[int], tools: Sequence[str]) -> str:
    quote = plain(answer.quote.strip())
    if not too_short(quote) and any(quote in tool for tool in tools):
        return "its quote stands in a tool's output, not in anybody's words"
    if not cited:
        return f"cites no message of its chunk: {answer.messages}"
    return "its quote does not stand in the messages it cites"


def _row(
    answer: Answer, row: Mapping[str, Any], anchor: Anchor, cited: Sequence[str], part: Part, model: str
) -> dict[str, Any]:
    quote = row["text"][anchor.start : anchor.end]
    gates, reasons = _gates(answer)
    shown = " ".join(turn.shown for turn in part.chunk.turns)
    return {
        "observation_id": content_id(row["session_id"], answer.category, quote, row["message_id"]),
        "session_id": row["session_id"],
        "workspace": row["workspace"],
        "summary": " ".join(answer.summary.split()),
        "detail": " ".join(answer.detail.split()) or None,
        "category": answer.category,
        "pack": part.pack.name,
        "files": [f for f in dict.fromkeys(answer.files) if f.strip() and f in shown],
        "quote": quote,
        "message_ids": list(dict.fromkeys([row["message_id"], *cited])),
        "speaker": row["speaker"],
        "confidence": CONFIDENCE[answer.confidence],
        "observed_at": row["ts"],
        "observer": model,
        **gates,
        "verified": True,
        "gate_reasons": reasons,
        "span": (anchor.start, anchor.end),
        "place": (row["seq"], anchor.start),
    }


def _gates(answer: Answer) -> tuple[dict[str, bool], list[str]]:
    """Three gates with the reasons of those that are shut: the model's word, and two things that can be seen."""
    gates = {"reusable": answer.reusable, "non_trivial": answer.non_trivial, "specific": answer.specific}
    doubt = " ".join(answer.doubt.split()) or "the model says so"
    reasons = [f"{name}: {doubt}" for name, open_ in gates.items() if not open_]
    if gates["specific"] and GOES_ON.match(answer.summary):
        gates["specific"] = False
        reasons.append("specific: the summary begins with a pronoun")
    if gates["non_trivial"] and len(answer.summary.split()) < LEAST_WORDS and len(answer.summary) < 20:
        gates["non_trivial"] = False
        reasons.append("non_trivial: the summary says next to nothing")
    return gates, reasons


def _repeats(claim: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two claims of a session are one."""
    if (claim["category"], claim["message_ids"][0]) != (other["category"], other["message_ids"][0]):
        return False
    return (
        overlaps(claim["span"], [other["span"]]) and fuzz.token_sort_ratio(claim["summary"], other["summary"]) >= SAME
    )


def _with_own_id(claim: dict[str, Any], taken: set[str]) -> dict[str, Any]:
    """The claim; two different ones on the same words are told apart by their summaries too."""
    if claim["observation_id"] not in taken:
        return claim
    return {**claim, "observation_id": content_id(claim["observation_id"], claim["summary"])}


def _traffic(row: Mapping[str, Any]) -> str:
    """What a tool's message holds."""
    return "\n".join(block["text"] for block in row["blocks"] if block["text"])
