"""The claims in a model's answers: those that stand on their quotes as rows, the others with the reason. Pure.

A claim is kept only if its quote stands in a message it cites, and if its summary says no more than what is said
there: its words, numbers, dates, names and negations (`quotes.unfounded`). A detail that says more is left off its
claim, and quarantined by itself. Three gates come from the model, corrected by what can be told without it, and are
columns, not filters; the fourth, `verified`, is the quote. The method of grounding in quotes: Bohnet et al.,
"Attributed Question Answering", 2022; a model's own numbers for places are never trusted alone.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

import pyarrow as pa
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json
from rapidfuzz import fuzz

from slowwave.engines.llm.protocol import Completion
from slowwave.schemas.ids import content_id
from slowwave.schemas.settings import ExtractSettings
from slowwave.schemas.tables import OBSERVATIONS
from slowwave.tasks.dedupe.guards import figures, names, pair_of
from slowwave.tasks.dedupe.normalise import read_claim
from slowwave.tasks.llm.chunks import Chunk, Turn
from slowwave.tasks.llm.fence import overlaps, steers, tainted
from slowwave.tasks.llm.grounding import Ground, unfounded
from slowwave.tasks.llm.quotes import Anchor, best_anchor, comparable, is_unspaced, plain, supported, too_short
from slowwave.tasks.observe.extract import CONFIDENCE, Part
from slowwave.tasks.observe.observe import COLUMNS, GOES_ON

GATES = ("reusable", "non_trivial", "specific", "verified", "gate_reasons")
SCHEMA = pa.schema([OBSERVATIONS.schema.field(c) for c in (*COLUMNS, *GATES)])
SAME = 85.0
"""token_sort_ratio of two summaries on one quote from which they are one claim."""
SURE = 97.0
"""Likeness from which a quote is taken to stand in a message that was not cited."""
SUPPORT = 0.5
"""Share of a summary's content words that must come up in its chunk (`quotes.supported`)."""
NEAR, NEAR_SUPPORT = 2, 0.5
"""The same in the messages it cites and this many on both sides of each. Of the 619 sentences of `quotes.supported`
99.2% have that share in their own place, 15% in another place of their session."""
LABEL = re.compile(r"^\[\d+\] (?:[^\n]*?, \w{3} \d{4}-\d\d-\d\d \d\d:\d\d|[^\n:]*):\s?")
"""What a turn is shown under (`chunks`): its number and time are nobody's words."""
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
    read, heard = Read(), _heard(part, rows)
    for n, raw in enumerate(_answers(completion)):
        row_id = f"{part.request.id}#{n}"
        try:
            answer = Answer(**raw)
        except ValidationError as error:
            read.rejected.append(Rejected(row_id, f"no claim: {error.errors()[0]['msg']}", str(raw)))
            continue
        made = _claim(answer, heard, part, extract, completion.model)
        if isinstance(made, str):
            read.rejected.append(Rejected(row_id, made, f"{answer.summary} | “{answer.quote}”"))
            continue
        read.claims.append(made)
        if made["no_detail"]:
            read.rejected.append(Rejected(f"{row_id}/detail", f"its detail: {made['no_detail']}", answer.detail))
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
    """The claims of a session's parts in order of speech; of those that say one thing the one nearest to its quote.

    Two claims are one when they are of one category, rest on overlapping quotes of one message, and read alike without
    a number or a name in the place of another. Of equals the first stays.
    """
    whole, kept = Read(), list[tuple[str, dict[str, Any]]]()
    for part, read in reads:
        whole.rejected += read.rejected
        for claim in read.claims:
            at = next((n for n, (_, c) in enumerate(kept) if _repeats(claim, c)), None)
            if at is None:
                kept.append((part, _with_own_id(claim, {c["observation_id"] for _, c in kept})))
                continue
            lost = part, claim
            if claim["nearness"] > kept[at][1]["nearness"]:
                others = {c["observation_id"] for n, (_, c) in enumerate(kept) if n != at}
                lost, kept[at] = kept[at], (part, _with_own_id(claim, others))
            row_id = f"{lost[0]}#{lost[1]['observation_id'][:8]}"
            whole.rejected.append(Rejected(row_id, f"repeats {kept[at][1]['observation_id']}", lost[1]["summary"]))
    whole.claims = sorted((claim for _, claim in kept), key=lambda claim: claim["place"])
    return whole


def claims_table(claims: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Claims as a table of SCHEMA."""
    return pa.Table.from_pylist([{name: claim[name] for name in SCHEMA.names} for claim in claims], schema=SCHEMA)


@dataclass(frozen=True, slots=True)
class _Heard:
    """What a model was shown under one prompt, as claims are checked against it."""

    chunk: Chunk
    texts: Mapping[int, Mapping[str, Any]]
    """Number to row of MESSAGES."""
    shown: str
    names: str
    """The workspace, and whoever speaks in the session: what a claim may name though the chunk does not."""
    tools: Sequence[str]

    def ground(self, numbers: Collection[int]) -> Ground:
        """What a claim that cites those messages stands on."""
        near = "\n".join(_words_of(turn) for turn in self.around(numbers))
        return Ground(near, f"{self.shown}\n{self.names}", tuple(_times(self.texts[n] for n in numbers)))

    def shown_near(self, numbers: Collection[int]) -> str:
        """Those messages and the ones near them as they were shown, and `names`."""
        return " ".join([*(turn.shown for turn in self.around(numbers)), self.names])

    def around(self, numbers: Collection[int]) -> list[Turn]:
        """Those messages and the ones near them."""
        turns = self.chunk.turns
        places = [place for place, turn in enumerate(turns) if turn.number in numbers]
        return [turn for place, turn in enumerate(turns) if any(abs(place - p) <= NEAR for p in places)]


def _heard(part: Part, rows: Sequence[Mapping[str, Any]]) -> _Heard:
    turns = part.chunk.turns
    shown = " ".join(turn.shown for turn in turns)
    people = {str(row["speaker"]) for row in rows if row["speaker"]}
    places = {str(row["workspace"]) for row in rows if row["workspace"]}
    tools = [plain(_traffic(row)) for row in rows if row["origin"] == "tool"]
    names = "\n".join(sorted(people | places))
    return _Heard(part.chunk, {turn.number: turn.row for turn in turns}, shown, names, tools)


def _words_of(turn: Turn) -> str:
    """What was said in a turn, without the label it is shown under."""
    return LABEL.sub("", turn.shown, count=1)


def _times(rows: Iterable[Mapping[str, Any]]) -> Iterable[datetime]:
    return (row["ts"] for row in rows if row["ts"])


def _claim(answer: Answer, heard: _Heard, part: Part, extract: ExtractSettings, model: str) -> dict[str, Any] | str:
    """A row of SCHEMA, or why there is none."""
    if not answer.summary.strip():
        return "says nothing"
    if answer.category not in part.pack.categories:
        return f"no category {answer.category!r} in the pack {part.pack.name}"
    cited = [n for n in dict.fromkeys(answer.messages) if n in heard.texts]
    found = _found(answer.quote, cited, heard.texts, extract.quote_score)
    if found is None:
        return _why_not_found(answer, cited, heard.tools)
    n, anchor = found
    text = heard.texts[n]["text"]
    if overlaps((anchor.start, anchor.end), tainted(text)) or steers(text[anchor.start : anchor.end]):
        return "its quote is an instruction to the memory, not something said in the conversation"
    if steers(f"{answer.summary}\n\n{answer.detail}"):
        return "it is itself an instruction to the memory"
    strange = _why_not_said(answer.summary, {n, *cited}, heard)
    if strange:
        return f"its summary {strange}"
    return _row(answer, heard.texts[n], anchor, cited, part, heard, model)


def _why_not_said(summary: str, numbers: Collection[int], heard: _Heard) -> str | None:
    """Why a summary is not what was said in those messages; None where it is."""
    if supported(summary, f"{heard.shown} {heard.names}") < SUPPORT:
        return "speaks of what never comes up in the transcript"
    if supported(summary, heard.shown_near(numbers)) < NEAR_SUPPORT:
        return "speaks of something else than the messages it cites"
    strange = unfounded(summary, heard.ground(numbers))
    return f"is not what was said: {strange}" if strange else None


def _no_detail(detail: str, numbers: Collection[int], heard: _Heard) -> str | None:
    """Why a detail is left off its claim; None where it is kept, and where there is none."""
    if not detail.strip():
        return None
    if supported(detail, heard.shown_near(numbers)) < NEAR_SUPPORT:
        return "speaks of something else than the messages it cites"
    return unfounded(detail, heard.ground(numbers))


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
    answer: Answer,
    row: Mapping[str, Any],
    anchor: Anchor,
    cited: Sequence[int],
    part: Part,
    heard: _Heard,
    model: str,
) -> dict[str, Any]:
    quote, numbers = row["text"][anchor.start : anchor.end], {n for n, r in heard.texts.items() if r is row} | {*cited}
    gates, reasons = _gates(answer, comparable(answer.summary, heard.shown))
    no_detail = _no_detail(answer.detail, numbers, heard)
    return {
        "observation_id": content_id(row["session_id"], answer.category, quote, row["message_id"]),
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
        "nearness": _nearness(answer.summary, quote),
        "no_detail": no_detail,
    }


def _nearness(summary: str, quote: str) -> tuple[bool, float]:
    """How near a summary is to the words it rests on: whether it denies as often as they do, and the share it has."""
    return bool(read_claim(summary).negated) == bool(read_claim(quote).negated), supported(summary, quote)


def _gates(answer: Answer, comparable: bool) -> tuple[dict[str, bool], list[str]]:
    """Three gates with the reasons of those that are shut: the model's word, and three things that can be seen."""
    gates = {"reusable": answer.reusable, "non_trivial": answer.non_trivial, "specific": answer.specific}
    doubt = " ".join(answer.doubt.split()) or "the model says so"
    reasons = [f"{name}: {doubt}" for name, open_ in gates.items() if not open_]
    if gates["specific"] and GOES_ON.match(answer.summary):
        gates["specific"] = False
        reasons.append("specific: the summary begins with a pronoun")
    if gates["specific"] and not comparable:
        gates["specific"] = False
        reasons.append("specific: in another script than the transcript, so its words can't be looked up there")
    short = len(answer.summary.split()) < LEAST_WORDS and len(answer.summary) < 20
    if gates["non_trivial"] and short and not is_unspaced(answer.summary):
        gates["non_trivial"] = False
        reasons.append("non_trivial: the summary says next to nothing")
    return gates, reasons


def _repeats(claim: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two claims of a session are one."""
    if (claim["category"], claim["message_ids"][0]) != (other["category"], other["message_ids"][0]):
        return False
    if not overlaps(claim["span"], [other["span"]]):
        return False
    if fuzz.token_sort_ratio(claim["summary"], other["summary"]) < SAME:
        return False
    pair = pair_of(read_claim(claim["summary"]), read_claim(other["summary"]))
    return figures(pair) is None and names(pair) is None


def _with_own_id(claim: dict[str, Any], taken: set[str]) -> dict[str, Any]:
    """The claim; two different ones on the same words are told apart by their summaries too."""
    if claim["observation_id"] not in taken:
        return claim
    return {**claim, "observation_id": content_id(claim["observation_id"], claim["summary"])}


def _traffic(row: Mapping[str, Any]) -> str:
    """What a tool's message holds."""
    return "\n".join(block["text"] for block in row["blocks"] if block["text"])
