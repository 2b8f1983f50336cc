"""Claims by a language model: sessions are cut into chunks, and long sessions are consolidated. Pure.

Each session is cut into chunks (`slowwave.tasks.llm.chunks`), each chunk is one request, and an answer is a list of
claims with the numbers of the messages that they cite (`slowwave.tasks.llm.claims` reads it). A decision of the first
chunk that the fifth one changes must not remain as two claims. So if a session has several chunks, the model sees all
its claims in order of speech and names those to drop, each with the claim that replaces it. It does not write claims in
this second step, so every claim keeps its own verified quote. All first prompts are sent in one call, and all second
ones in another.

If the model fails for good on a part, that part is quarantined and the session's other parts are used. If an answer may
still come in a later run, the whole session waits and nothing of it is written.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa
from pydantic import Field

from slowwave.engines.llm.protocol import (
    AnswerModel,
    ChatMessage,
    Completion,
    EngineUnavailable,
    Request,
)
from slowwave.schemas.counters import Count, CountByKind
from slowwave.schemas.rows import MessageRow
from slowwave.schemas.settings import ExtractSettings, ObserveSettings, Settings
from slowwave.schemas.vocabulary import count_turns
from slowwave.tasks.job import StepReport
from slowwave.tasks.llm.ask import Answers, Model, explain_error
from slowwave.tasks.llm.chunks import Chunk, build_turns, split_into_chunks
from slowwave.tasks.llm.chunks import Counter as TokenCounter
from slowwave.tasks.llm.claims import (
    ChunkRequest,
    FoundClaim,
    ParsedClaims,
    build_claims_answer,
    drop_repeated_claims,
    read_answer,
)
from slowwave.tasks.llm.fence import count_injections
from slowwave.tasks.llm.library import (
    TEMPLATE_TOKENS,
    Library,
    Pack,
    Question,
    RejectedAnswer,
    format_bullets,
    index_questions,
    list_requests,
)
from slowwave.tasks.observe.coding import is_coding
from slowwave.text.fence import fence_entries, format_entry

VERSION = 7
"""Raised when the method changes: the sessions of claims made under an older version are pending again."""
PROMPTS = ("extract", "consolidate")
DROPS_TOKENS = 768
"""Name of the counter of messages in a run's requests. `slowwave plan` computes tokens per message from it."""


@dataclass(frozen=True, slots=True)
class ExtractionPlan:
    """The requests about some sessions."""

    parts: list[ChunkRequest]
    rows: dict[str, list[MessageRow]]
    """Rows of MESSAGES by session, in order of seq, including tool traffic."""
    skipped: dict[str, str]
    """Session to the reason why it has no request."""

    @property
    def requests(self) -> list[Request]:
        """All requests, in order of session and part."""
        return [part.request for part in self.parts]

    def count_messages(self) -> int:
        """Return the number of distinct messages in the requests; chunks may overlap."""
        return len(
            {turn.row["message_id"] for part in self.parts for turn in part.chunk.turns}
        )


def plan_requests(
    messages: pa.Table,
    observe: ObserveSettings,
    extract: ExtractSettings,
    library: Library,
    count: TokenCounter,
    window: int,
    min_messages: int = 2,
) -> ExtractionPlan:
    """Return requests for every session in `messages`.

    In: rows of MESSAGES, the active ones, of whole sessions, in any order. `window` is the model's context window, and
    `count` counts tokens as the model does. No request exceeds the window. Sessions of fewer than `min_messages` spoken
    messages are in `skipped`. A chunk begins with up to 200 tokens of the one before.

    Raises:
        EngineUnavailable: the window is too small for the prompt itself and an answer.
    """
    sessions: dict[str, list[MessageRow]] = defaultdict(list)
    for row in messages.to_pylist():
        sessions[row["session_id"]].append(row)
    in_order = {
        key: sorted(sessions[key], key=lambda row: int(row["seq"]))
        for key in sorted(sessions)
    }
    plan = ExtractionPlan([], in_order, {})
    overheads: dict[str, int] = {}
    for session, rows in plan.rows.items():
        turns = build_turns(rows)
        if not turns or count_turns(rows) < min_messages:
            plan.skipped[session] = (
                f"{len(turns)} spoken messages, {min_messages} needed"
            )
            continue
        pack = _choose_pack(rows, observe, library)
        if pack.name not in overheads:
            overheads[pack.name] = _count_overhead(
                pack=pack, extract=extract, library=library, count=count
            )
        room = _compute_room(window, overheads[pack.name], extract)
        chunks = split_into_chunks(
            turns=turns, room=room, overlap=min(200, room // 4), count=count
        )
        plan.parts.extend(
            _build_chunk_requests(
                session, chunks, pack=pack, extract=extract, library=library
            )
        )
    return plan


def _choose_pack(
    rows: Sequence[MessageRow], observe: ObserveSettings, library: Library
) -> Pack:
    """Return the pack that is set; if it is `auto`, the coding pack for a session about code, else the personal one."""
    if observe.pack != "auto":
        return library.load_pack(observe.pack)
    return library.load_pack("coding" if is_coding(rows) else "personal")


def _count_overhead(
    pack: Pack,
    extract: ExtractSettings,
    library: Library,
    count: TokenCounter,
) -> int:
    """Return the tokens of a prompt without its transcript, for the longest part number and workspace."""
    empty = _build_messages(
        library=library,
        pack=pack,
        extract=extract,
        shown=[],
        part=99,
        parts=99,
        where=" in " + "w" * 120,
    )
    return sum(count([message["content"] for message in empty])) + TEMPLATE_TOKENS


def _compute_room(window: int, overhead: int, extract: ExtractSettings) -> int:
    """Return the tokens of transcript in one request.

    Raises:
        EngineUnavailable: fewer than 50 are left.
    """
    room = min(extract.chunk_tokens, window - overhead - extract.answer_tokens)
    if room < 50:
        raise EngineUnavailable(
            "extraction",
            f"a context window of {window:,} tokens leaves {room} for a transcript beside a prompt of "
            f"{overhead:,} and an answer of {extract.answer_tokens:,}: lower extract.answer_tokens",
        )
    return room


def _build_chunk_requests(
    session: str,
    chunks: Sequence[Chunk],
    *,
    pack: Pack,
    extract: ExtractSettings,
    library: Library,
) -> list[ChunkRequest]:
    """Return a request for each chunk of a session."""
    answer = build_claims_answer(tuple(pack.categories), extract.max_claims)
    requests = []
    for n, chunk in enumerate(chunks):
        workspace = chunk.turns[0].row["workspace"]
        where = f" in {' '.join(str(workspace).split())[:120]}" if workspace else ""
        shown = [turn.shown for turn in chunk.turns]
        prompt = _build_messages(
            library=library,
            pack=pack,
            extract=extract,
            shown=shown,
            part=n + 1,
            parts=len(chunks),
            where=where,
        )
        request = Request(
            f"{session}/{n}", prompt, answer, max_tokens=extract.answer_tokens
        )
        requests.append(
            ChunkRequest(
                request=request,
                session_id=session,
                pack=pack,
                chunk=chunk,
            )
        )
    return requests


def _build_messages(
    library: Library,
    pack: Pack,
    extract: ExtractSettings,
    shown: Sequence[str],
    **place: object,
) -> tuple[ChatMessage, ...]:
    """Return the prompt: the constant text, then the pack's example as a finished part, then the transcript."""
    prompt = library.load_prompt("extract")
    constants: dict[str, object] = {
        "max_claims": extract.max_claims,
        "about": pack.about,
        "categories": format_bullets(
            f"{name}: {meaning}" for name, meaning in pack.categories.items()
        ),
        "ignore": format_bullets(pack.ignore),
    }
    system, user = prompt.render_messages(**constants, **place, **fence_entries(shown))
    if pack.example is None:
        return system, user
    lines = pack.example.transcript.strip().splitlines()
    _, before = prompt.render_messages(
        **constants, part=1, parts=1, where="", **fence_entries(lines)
    )
    return (
        system,
        before,
        {"role": "assistant", "content": pack.example.answer.strip()},
        user,
    )


class Drop(AnswerModel):
    """A claim that no longer holds, and the one that stands instead, by their numbers; 0 if none does."""

    claim: int = Field(ge=0, le=9_999)
    kept: int = Field(ge=0, le=9_999)
    why: Literal["amended", "repeated", "rejected"]


class DropsAnswer(AnswerModel):
    """What the model says of a session's claims."""

    drops: list[Drop] = Field(max_length=60)


Numbers = Mapping[int, str]
"""The claims of a question about one session: number to claim_id."""


def build_questions(
    session: str,
    claims: Sequence[FoundClaim],
    library: Library,
    count: TokenCounter,
    window: int,
) -> list[Question[Numbers]]:
    """Return the questions about one session's claims (rows of `claims.SCHEMA`, in order of speech)."""
    shown = {
        number: _format_claim(number, claim) for number, claim in enumerate(claims, 1)
    }
    # Each question has as many claims as fit its prompt, in order of speech. A claim is never asked about alone.
    room = library.count_room(
        prompt="consolidate", window=window, count=count, tokens=DROPS_TOKENS
    )
    groups: list[list[int]] = []
    used = room
    for number, size in zip(shown, count(list(shown.values())), strict=True):
        used += size + 1
        if used > room:
            groups.append([])
            used = size + 1
        groups[-1].append(number)
    questions: list[Question[Numbers]] = []
    for n, group in enumerate(group for group in groups if len(group) > 1):
        entries = [shown[number] for number in group]
        request = library.build_request(
            prompt="consolidate",
            name=f"{session}/final/{n}",
            entries=entries,
            answer=DropsAnswer,
            tokens=DROPS_TOKENS,
        )
        questions.append(
            Question(
                request,
                {number: claims[number - 1]["claim_id"] for number in group},
            )
        )
    return questions


def _format_claim(number: int, claim: FoundClaim) -> str:
    """Return a claim as the prompt shows it."""
    speaker = claim["speaker"] or ("user" if claim["by_person"] else "assistant")
    detail = f" ({claim['detail']})" if claim["detail"] else ""
    return format_entry(
        f"[{number}] {claim['category']}, {speaker}:", f"{claim['summary']}{detail}"
    )


@dataclass(frozen=True, slots=True)
class _AcceptedDrop:
    """A valid drop of a claim."""

    kept: str | None
    """Id of the claim that replaces it, or None."""
    why: str
    request_id: str


def apply_drops(
    read: ParsedClaims, answers: Sequence[tuple[Question[Numbers], Completion]]
) -> ParsedClaims:
    """Return the session's claims without those that no longer hold. Each of these is rejected, with the claim that
    replaces it.

    A drop is valid if both claims exist (a rejected claim needs no other), if an amendment was said later than what it
    amends, and if the claim that is kept does not itself give way to the dropped one. Of two claims that say the same,
    a person's is kept, and not an agent's repetition of it.
    """
    by_id = {claim["claim_id"]: claim for claim in read.claims}
    drops = _collect_drops(by_id, answers)
    kept = [claim for claim in read.claims if claim["claim_id"] not in drops]
    final = ParsedClaims(kept, list(read.rejected))
    for dropped in by_id:
        if dropped in drops:
            final.rejected.append(_reject_dropped(dropped, drops, by_id))
    return final


def _collect_drops(
    by_id: Mapping[str, FoundClaim],
    answers: Sequence[tuple[Question[Numbers], Completion]],
) -> dict[str | None, _AcceptedDrop]:
    """Return the valid drops of all answers, by the id of the dropped claim."""
    drops: dict[str | None, _AcceptedDrop] = {}
    for question, completion in answers:
        for drop in completion.value.drops:
            dropped, kept = _resolve_drop(drop, question.about, by_id)
            is_reversed = drop.why == "amended" and 0 < drop.kept < drop.claim
            is_complete = dropped and (
                kept or (drop.kept == 0 and drop.why == "rejected")
            )
            if (
                not is_complete
                or is_reversed
                or dropped in drops
                or _find_kept(kept, drops) == dropped
            ):
                continue
            drops[dropped] = _AcceptedDrop(kept, drop.why, question.request.id)
    return drops


def _resolve_drop(
    drop: Drop, numbers: Numbers, by_id: Mapping[str, FoundClaim]
) -> tuple[str | None, str | None]:
    """Return the ids of the dropped and the kept claim. If they say the same, a person's claim is the kept one."""
    dropped = numbers.get(drop.claim)
    kept = numbers.get(drop.kept)
    if (
        dropped
        and kept
        and drop.why == "repeated"
        and by_id[dropped]["by_person"] > by_id[kept]["by_person"]
    ):
        return kept, dropped
    return dropped, kept


def _reject_dropped(
    dropped: str,
    drops: Mapping[str | None, _AcceptedDrop],
    by_id: Mapping[str, FoundClaim],
) -> RejectedAnswer:
    """Return the quarantine entry of a dropped claim."""
    claim = by_id[dropped]
    drop = drops[dropped]
    stands = _find_kept(drop.kept, drops)
    instead = f": “{by_id[stands]['summary']}” stands instead" if stands else ""
    reason = f"{drop.why} within its session{instead}"
    excerpt = f"{claim['summary']} | “{claim['quote']}”"
    return RejectedAnswer(f"{drop.request_id}#{dropped[:8]}", reason, excerpt)


def _find_kept(
    key: str | None, drops: Mapping[str | None, _AcceptedDrop]
) -> str | None:
    """Return the claim at the end of a chain of drops."""
    while key in drops:
        key = drops[key].kept
    return key


@dataclass
class ExtractionResult:
    """The outcome of each session."""

    claims: list[FoundClaim] = field(default_factory=list)
    """Rows of claims.SCHEMA."""
    notes: dict[str, str] = field(default_factory=dict)
    """Session to why it has no claims, or fewer than possible."""
    pending: dict[str, str] = field(default_factory=dict)
    """Session to why it waits for another run. Nothing of it is written."""
    rejected: list[RejectedAnswer] = field(default_factory=list)


def extract_claims(
    messages: pa.Table,
    settings: Settings,
    model: Model,
    report: StepReport,
) -> ExtractionResult:
    """Return claims of every session in `messages` (rows of MESSAGES, the active ones, of whole sessions)."""
    # 1. Plan the requests. If no engine knows its window, every session waits.
    try:
        window = model.llm.context_window
        plan = plan_requests(
            messages=messages,
            observe=settings.observe,
            extract=settings.extract,
            library=model.library,
            count=model.count,
            window=window,
        )
    except EngineUnavailable as error:
        sessions = sorted(set(messages["session_id"].to_pylist()))
        done = ExtractionResult(pending=dict.fromkeys(sessions, f"{error}"))
        _count_outcomes(done, report)
        return done
    _count_plan(plan, report)
    # 2. Ask the model about each chunk.
    done = ExtractionResult(notes=dict(plan.skipped))
    reads = _ask_about_chunks(plan, model, done)
    # 3. Ask about sessions of several chunks again: which claims say the same or were taken back?
    chunks_of = Counter(part.session_id for part in plan.parts)
    many = {
        session
        for session, read in reads.items()
        if chunks_of[session] > 1 and len(read.claims) > 1
    }
    final = _consolidate_claims(reads=reads, many=many, model=model, done=done)
    for session in sorted(final):
        done.claims += final[session].claims
        done.rejected += final[session].rejected
        if not final[session].claims:
            done.notes.setdefault(session, "the model found no claim")
    _count_outcomes(done, report)
    return done


def _ask_about_chunks(
    plan: ExtractionPlan, model: Model, done: ExtractionResult
) -> dict[str, ParsedClaims]:
    """Return the claims of each session, without the sessions that wait. `done` gets what was rejected or failed."""

    def read(part: ChunkRequest, completion: Completion) -> ParsedClaims:
        return read_answer(part, completion, plan.rows[part.session_id])

    answers = model.ask(
        step="observe",
        items=index_questions(plan.parts),
        build=list_requests,
        read=read,
    )
    done.rejected = answers.rejected
    parts_of: dict[str, list[ChunkRequest]] = defaultdict(list)
    for part in plan.parts:
        parts_of[part.session_id].append(part)
    reads: dict[str, ParsedClaims] = {}
    for session, parts in parts_of.items():
        claims = _join_parts(
            session=session, parts=parts, answers=answers, read=read, done=done
        )
        if claims is not None:
            reads[session] = claims
    return reads


def _count_plan(plan: ExtractionPlan, report: StepReport) -> None:
    """Count what is asked and what is left out in the step's report."""
    spoken = (turn.row["text"] for part in plan.parts for turn in part.chunk.turns)
    report.counts[Count.INJECTIONS] += count_injections(spoken)[1]
    report.counts[Count.SESSIONS_SKIPPED] += len(plan.skipped)
    report.counts[Count.MESSAGES_SHOWN] += plan.count_messages()


def _join_parts(
    session: str,
    parts: Sequence[ChunkRequest],
    answers: Answers[ParsedClaims],
    read: Callable[[ChunkRequest, Completion], ParsedClaims],
    done: ExtractionResult,
) -> ParsedClaims | None:
    """Return the claims of a session's parts, or None if the answer to one may still come.

    The first waiting error is written to `done.pending`. Parts that failed for good are written to `done.notes`; of an
    answer that was cut, the claims before the cut are kept.
    """
    failed = {
        part.request.id: answers.errors[part.request.id]
        for part in parts
        if part.request.id in answers.errors
    }
    late = [
        explain_error(error)
        for name, error in failed.items()
        if name in answers.waiting
    ]
    if late:
        done.pending[session] = late[0]
        return None
    if failed:
        kinds = ", ".join(sorted({str(error.error) for error in failed.values()}))
        done.notes[session] = (
            f"{len(failed)} of {len(parts)} parts left out, or as far as the answer came: {kinds}"
        )
    claims: list[tuple[str, ParsedClaims]] = []
    for part in parts:
        name = part.request.id
        if name not in failed:
            claims.append((name, answers.values[name]))
        elif failed[name].error == "cut":
            claims.append((name, read(part, failed[name])))
    return drop_repeated_claims(claims)


def _consolidate_claims(
    reads: Mapping[str, ParsedClaims],
    many: Collection[str],
    model: Model,
    done: ExtractionResult,
) -> dict[str, ParsedClaims]:
    """Return the sessions' claims in their final state. The model is asked again about the sessions in `many`.

    Sessions whose answers may still come are left out, and written to `done.pending`.
    """
    window = model.llm.context_window if many else 0
    questions_of = {
        session: build_questions(
            session=session,
            claims=reads[session].claims,
            library=model.library,
            count=model.count,
            window=window,
        )
        for session in sorted(many)
    }
    questions = index_questions(
        question for asked in questions_of.values() for question in asked
    )
    answers = model.ask(
        step="consolidate",
        items=questions,
        build=list_requests,
        read=lambda _, answer: answer,
    )
    done.rejected += answers.rejected
    final = dict(reads)
    for session, asked in questions_of.items():
        names = {question.request.id for question in asked}
        if late := sorted(names & answers.waiting):
            done.pending[session] = explain_error(answers.errors[late[0]])
            del final[session]
            continue
        answered = [
            (q, answers.values[q.request.id])
            for q in asked
            if q.request.id in answers.values
        ]
        final[session] = apply_drops(reads[session], answered)
    return final


def _count_outcomes(done: ExtractionResult, report: StepReport) -> None:
    """Count claims in the step's report. Every claim that the model made is kept, or rejected with a reason."""
    report.counts[Count.CLAIMS_KEPT] += len(done.claims)
    report.counts[Count.CLAIMS_REJECTED] += len(done.rejected)
    report.kinds[CountByKind.WAITING]["sessions"] += len(done.pending)
