"""Claims by a language model: sessions in chunks, their claims, and of a long session the final state. Pure.

Each session is cut into chunks (`slowwave.tasks.llm.chunks`), each chunk is one request, and an answer is a list of
claims with the numbers of the messages they stand on (`slowwave.tasks.llm.claims` reads it). What was decided in the
first chunk and changed in the fifth must not survive as two claims: of a session of several chunks the model sees all
claims in order of speech and names those to drop, each with the claim that stands instead. It writes nothing itself, so
every claim that stays keeps its own verified quote. All first prompts go out in one call, all second ones in another.

A part that the model fails for good is quarantined, and the session's other parts count. A session whose answers are
still to be had waits for another night whole: nothing of it is written.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa
from pydantic import Field

from slowwave.engines.llm.protocol import AnswerModel, Completion, EngineUnavailable, Message, Request
from slowwave.schemas.settings import ExtractSettings, ObserveSettings, Settings
from slowwave.schemas.vocabulary import count_turns
from slowwave.tasks.job import StepReport
from slowwave.tasks.llm.ask import Model, explain_error
from slowwave.tasks.llm.chunks import Counter as TokenCounter
from slowwave.tasks.llm.chunks import build_turns, split_into_chunks
from slowwave.tasks.llm.claims import ParsedClaims, Part, build_claims_answer, drop_repeated_claims, read_answer
from slowwave.tasks.llm.fence import count_injections
from slowwave.tasks.llm.library import (
    TEMPLATE_TOKENS,
    Library,
    Pack,
    Question,
    Rejected,
    format_bullets,
    index_questions,
    list_requests,
)
from slowwave.tasks.observe.coding import is_coding
from slowwave.text.fence import fence_entries, format_entry

VERSION = 4
"""Raised when the method changes: every claim made under an older one is pending again."""
PROMPTS = ("extract", "consolidate")
DROPS_TOKENS = 768
SHOWN = "messages shown to the model"
"""Counter of the messages in the requests of a run, by which `slowwave plan` measures tokens a message."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What the model is to be asked about some sessions."""

    parts: list[Part]
    rows: dict[str, list[dict[str, Any]]]
    """Rows of MESSAGES by session, in order of seq: tool traffic too."""
    skipped: dict[str, str]
    """Session to the reason it is not asked about."""

    @property
    def requests(self) -> list[Request]:
        """Every request, in order of session and part."""
        return [part.request for part in self.parts]

    def count_messages(self) -> int:
        """Return the number of messages in the requests; parts may overlap."""
        return len({turn.row["message_id"] for part in self.parts for turn in part.chunk.turns})


def plan_requests(
    messages: pa.Table,
    observe: ObserveSettings,
    extract: ExtractSettings,
    library: Library,
    count: TokenCounter,
    window: int,
    min_messages: int = 2,
) -> Plan:
    """Return requests for every session in `messages`.

    In: rows of MESSAGES, the active ones, of whole sessions, in any order. `window` is the model's context window and
    `count` counts tokens as it does. No request exceeds the window. Sessions of fewer than `min_messages` spoken
    messages are in `skipped`; a chunk begins with up to 200 tokens of the last.

    Raises:
        EngineUnavailable: the window is too small for the prompt itself and an answer.
    """
    sessions: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in messages.to_pylist():
        sessions[row["session_id"]].append(row)
    in_order = {key: sorted(sessions[key], key=lambda row: int(row["seq"])) for key in sorted(sessions)}
    plan = Plan([], in_order, {})
    overhead: dict[str, int] = {}
    for session, rows in plan.rows.items():
        turns = build_turns(rows)
        if not turns or count_turns(rows) < min_messages:
            plan.skipped[session] = f"{len(turns)} spoken messages, {min_messages} needed"
            continue
        # the pack that is set, else by the look of the session
        by_look = "coding" if observe.pack == "auto" and is_coding(dict(row) for row in rows) else "personal"
        pack = library.load_pack(by_look if observe.pack == "auto" else observe.pack)
        if pack.name not in overhead:
            # tokens of a prompt without its transcript
            empty = _build_messages(library, pack, extract, [], part=99, parts=99, where=" in " + "w" * 120)
            overhead[pack.name] = sum(count([message["content"] for message in empty])) + TEMPLATE_TOKENS
        # what of the window a part of the session may take
        room = min(extract.chunk_tokens, window - overhead[pack.name] - extract.answer_tokens)
        if room < 50:
            raise EngineUnavailable(
                "extraction",
                f"a context window of {window:,} tokens leaves {room} for a transcript beside a prompt of "
                f"{overhead[pack.name]:,} and an answer of {extract.answer_tokens:,}: lower extract.answer_tokens",
            )
        chunks = split_into_chunks(turns, room, min(200, room // 4), count)
        for n, chunk in enumerate(chunks):
            workspace = chunk.turns[0].row["workspace"]
            where = f" in {' '.join(str(workspace).split())[:120]}" if workspace else ""
            shown = [turn.shown for turn in chunk.turns]
            prompt = _build_messages(library, pack, extract, shown, part=n + 1, parts=len(chunks), where=where)
            answer = build_claims_answer(tuple(pack.categories), extract.max_claims)
            request = Request(f"{session}/{n}", prompt, answer, extract.answer_tokens)
            plan.parts.append(Part(request, session, pack, chunk))
    return plan


def _build_messages(
    library: Library, pack: Pack, extract: ExtractSettings, shown: Sequence[str], **place: object
) -> tuple[Message, ...]:
    """Return the prompt: what is always the same, the pack's example as a part already done, the transcript last."""
    prompt = library.load_prompt("extract")
    constants: dict[str, object] = {
        "max_claims": extract.max_claims,
        "about": pack.about,
        "categories": format_bullets(f"{name}: {meaning}" for name, meaning in pack.categories.items()),
        "ignore": format_bullets(pack.ignore),
    }
    system, user = prompt.render_messages(**constants, **place, **fence_entries(shown))
    if pack.example is None:
        return system, user
    lines = pack.example.transcript.strip().splitlines()
    _, before = prompt.render_messages(**constants, part=1, parts=1, where="", **fence_entries(lines))
    return system, before, {"role": "assistant", "content": pack.example.answer.strip()}, user


class Drop(AnswerModel):
    """A claim that no longer holds, and the one that stands instead, by their numbers; 0 where none does."""

    claim: int = Field(ge=0, le=9_999)
    kept: int = Field(ge=0, le=9_999)
    why: Literal["amended", "repeated", "rejected"]


class DropsAnswer(AnswerModel):
    """What the model says of a session's claims."""

    drops: list[Drop] = Field(max_length=60)


Numbers = Mapping[int, str]
"""The claims of a question about a session: number to observation_id."""


def build_questions(
    session: str, claims: Sequence[Mapping[str, Any]], library: Library, count: TokenCounter, window: int
) -> list[Question[Numbers]]:
    """Return the questions about one session's claims (rows of `claims.SCHEMA`, in order of speech)."""
    # as the prompt shows them
    shown: dict[int, str] = {}
    for number, claim in enumerate(claims, 1):
        speaker = claim["speaker"] or ("user" if claim["by_person"] else "assistant")
        detail = f" ({claim['detail']})" if claim["detail"] else ""
        shown[number] = format_entry(f"[{number}] {claim['category']}, {speaker}:", f"{claim['summary']}{detail}")
    # as many under one prompt as fit, in order of speech; none alone
    room = library.count_room("consolidate", window, count, DROPS_TOKENS)
    groups: list[list[int]] = []
    used = room
    for number, size in zip(shown, count(list(shown.values())), strict=True):
        used += size + 1
        if used > room:
            groups.append([])
            used = size + 1
        groups[-1].append(number)
    return [
        Question(
            library.build_request(
                "consolidate", f"{session}/final/{n}", [shown[n] for n in group], DropsAnswer, DROPS_TOKENS
            ),
            {n: claims[n - 1]["observation_id"] for n in group},
        )
        for n, group in enumerate(group for group in groups if len(group) > 1)
    ]


def apply_drops(read: ParsedClaims, answers: Sequence[tuple[Question[Numbers], Completion]]) -> ParsedClaims:
    """Return the session's claims without those that no longer hold; each of these is rejected with what stands
    instead.

    A drop counts only if both claims exist (what was rejected may have none in its place), if what amends was said
    later, and if the claim kept does not give way to the one that goes. Of two that say the same, a person's stays and
    not an agent's restatement of it.
    """
    # what each answer drops: a person's claim never for an agent's repetition of it, none for an earlier one
    by_id = {claim["observation_id"]: claim for claim in read.claims}
    drops: dict[str | None, tuple[str | None, str, str]] = {}
    for question, completion in answers:
        for drop in completion.value.drops:
            gone, staying = question.about.get(drop.claim), question.about.get(drop.kept)
            backwards = drop.why == "amended" and 0 < drop.kept < drop.claim
            if gone and staying and drop.why == "repeated" and by_id[gone]["by_person"] > by_id[staying]["by_person"]:
                gone, staying = staying, gone
            is_drop = staying or (drop.kept == 0 and drop.why == "rejected")
            if gone and is_drop and gone not in drops and not backwards and _find_kept(staying, drops) != gone:
                drops[gone] = (staying, drop.why, question.request.id)
    # what is left, and why the others went
    final = ParsedClaims([c for c in read.claims if c["observation_id"] not in drops], list(read.rejected))
    for oid in [oid for oid in by_id if oid in drops]:
        claim, (staying, why, request) = by_id[oid], drops[oid]
        stands = _find_kept(staying, drops)
        instead = f": “{by_id[stands]['summary']}” stands instead" if stands else ""
        reason, excerpt = f"{why} within its session{instead}", f"{claim['summary']} | “{claim['quote']}”"
        final.rejected.append(Rejected(f"{request}#{oid[:8]}", reason, excerpt))
    return final


def _find_kept(key: str | None, drops: Mapping[str | None, tuple[str | None, str, str]]) -> str | None:
    """Return the claim at the end of the chain of drops."""
    while key in drops:
        key = drops[key][0]
    return key


@dataclass
class ExtractionResult:
    """What became of each session."""

    claims: list[dict[str, Any]] = field(default_factory=list)
    """Rows of claims.SCHEMA."""
    notes: dict[str, str] = field(default_factory=dict)
    """Session to why there is no claim, or less than there could be."""
    pending: dict[str, str] = field(default_factory=dict)
    """Session to why it waits for another night: nothing of it is written."""
    rejected: list[Rejected] = field(default_factory=list)


def extract_claims(messages: pa.Table, settings: Settings, model: Model, report: StepReport) -> ExtractionResult:
    """Return claims of every session in `messages` (rows of MESSAGES, the active ones, of whole sessions)."""
    # what to ask; if no engine tells its window, every session waits
    try:
        window = model.llm.context_window
        plan = plan_requests(messages, settings.observe, settings.extract, model.library, model.count, window)
    except EngineUnavailable as error:
        sessions = sorted(set(messages["session_id"].to_pylist()))
        done = ExtractionResult(pending=dict.fromkeys(sessions, f"{error}"))
        _count_outcomes(done, report)
        return done
    spoken = (turn.row["text"] for part in plan.parts for turn in part.chunk.turns)
    report.counts["passages left out that address the memory"] += count_injections(spoken)[1]
    report.counts["sessions skipped"] += len(plan.skipped)
    report.counts[SHOWN] += plan.count_messages()

    def read(part: Part, completion: Completion) -> ParsedClaims:
        return read_answer(part, completion, plan.rows[part.session_id])

    # one answer a part of a session
    answers = model.ask("observe", index_questions(plan.parts), list_requests, read)
    done = ExtractionResult(notes=dict(plan.skipped), rejected=answers.rejected)
    by_session: dict[str, list[Part]] = defaultdict(list)
    for part in plan.parts:
        by_session[part.session_id].append(part)
    # the claims of each session: one with a part that is late waits, one with a part that failed is told of
    reads: dict[str, ParsedClaims] = {}
    for session, parts in by_session.items():
        failed = {
            part.request.id: answers.errors[part.request.id] for part in parts if part.request.id in answers.errors
        }
        if late := [explain_error(error) for name, error in failed.items() if name in answers.waiting]:
            done.pending[session] = late[0]
            continue
        if failed:
            kinds = ", ".join(sorted({str(error.error) for error in failed.values()}))
            done.notes[session] = f"{len(failed)} of {len(parts)} parts left out, or as far as the answer came: {kinds}"
        for part in parts:
            if part.request.id in failed:
                answer = failed[part.request.id]
                # of a cut answer the claims before the cut
                answers.values[part.request.id] = read(part, answer) if answer.error == "cut" else ParsedClaims()
        reads[session] = drop_repeated_claims((part.request.id, answers.values[part.request.id]) for part in parts)
    # sessions of several parts are asked which claims say the same, or were taken back
    many = {session for session, read_ in reads.items() if len(by_session[session]) > 1 and len(read_.claims) > 1}
    final = _consolidate_claims(reads, many, model, done)
    for session in sorted(final):
        done.claims += final[session].claims
        done.rejected += final[session].rejected
        if not final[session].claims:
            done.notes.setdefault(session, "the model found no claim")
    _count_outcomes(done, report)
    return done


def _consolidate_claims(
    reads: Mapping[str, ParsedClaims], many: Collection[str], model: Model, done: ExtractionResult
) -> dict[str, ParsedClaims]:
    """Return the sessions' claims at their final state; those of `many` are put to the model again."""
    window = model.llm.context_window if many else 0
    questions_of = {s: build_questions(s, reads[s].claims, model.library, model.count, window) for s in sorted(many)}
    questions = index_questions(question for questions_here in questions_of.values() for question in questions_here)
    answers = model.ask("consolidate", questions, list_requests, lambda _, answer: answer)
    done.rejected += answers.rejected
    final = dict(reads)
    # sessions whose answers are late wait for another night
    for session, questions_here in questions_of.items():
        names = {question.request.id for question in questions_here}
        if late := sorted(names & answers.waiting):
            done.pending[session] = explain_error(answers.errors[late[0]])
            del final[session]
            continue
        good = [(q, answers.values[q.request.id]) for q in questions_here if q.request.id in answers.values]
        final[session] = apply_drops(reads[session], good)
    return final


def _count_outcomes(done: ExtractionResult, report: StepReport) -> None:
    """Count what became of the claims: every one the model made is kept or rejected with a reason."""
    report.counts["claims kept"] += len(done.claims)
    report.counts["claims and parts rejected"] += len(done.rejected)
    report.counts["sessions left for another night"] += len(done.pending)
