"""Claims of a group of sessions by the language model: all first prompts in one call, all second ones in another.

What no model answered is made extractively where the chain ends in `extractive`, message by message of just the parts
that failed; else it is quarantined. A session whose answers are still to be had is left for another night whole.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from slowwave.engines.llm.protocol import LASTING, Completion, EngineUnavailable
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import MESSAGES
from slowwave.tasks.job import StepReport
from slowwave.tasks.llm.ask import Model
from slowwave.tasks.llm.claims import ParsedClaims, Rejected, build_claims_table, drop_repeated_claims, read_answer
from slowwave.tasks.llm.fence import count_injections
from slowwave.tasks.observe.by_model import consolidate
from slowwave.tasks.observe.by_model.extract import Part, Plan, plan_requests
from slowwave.tasks.observe.observe import observe

Answers = Mapping[str, Completion]


@dataclass
class ExtractionResult:
    """What became of each session."""

    claims: list[dict[str, Any]] = field(default_factory=list)
    """Rows of claims.SCHEMA."""
    notes: dict[str, str] = field(default_factory=dict)
    """Session to why there is no claim, or less than there could be."""
    pending: dict[str, str] = field(default_factory=dict)
    """Session to why it waits for another night: nothing of it is written."""
    degraded: set[str] = field(default_factory=set)
    """Sessions done without the model for now: it is asked again another night."""
    rejected: list[Rejected] = field(default_factory=list)

    def build_table(self) -> pa.Table:
        """Return the claims."""
        return build_claims_table(self.claims)


def extract_claims(messages: pa.Table, settings: Settings, model: Model, report: StepReport) -> ExtractionResult:
    """Return claims of every session in `messages` (rows of MESSAGES, the active ones, of whole sessions)."""
    try:
        plan = _plan_extraction(messages, settings, model)
    except EngineUnavailable as error:
        return _observe_without_model(messages, settings, model, f"{error}")
    spoken = (turn.row["text"] for part in plan.parts for turn in part.chunk.turns)
    report.counts["passages left out that address the memory"] += count_injections(spoken)[1]
    answers = model.ask(plan.requests, "observe")
    done = ExtractionResult(notes=dict(plan.skipped))
    report.counts["sessions skipped"] += len(plan.skipped)
    reads: dict[str, ParsedClaims] = {}
    for session, parts in _group_parts_by_session(plan).items():
        read = _collect_session_claims(session, parts, answers, plan, settings, model, done, report)
        if read is not None:
            reads[session] = read
    final = _consolidate_claims(reads, plan, model, done)
    for session in sorted(final):
        done.claims += final[session].claims
        done.rejected += final[session].rejected
        if not final[session].claims:
            done.notes.setdefault(session, "the model found no claim")
    _count_outcomes(done, report)
    return done


def _plan_extraction(messages: pa.Table, settings: Settings, model: Model) -> Plan:
    return plan_requests(
        messages, settings.observe, settings.extract, model.library, model.count, model.llm.context_window
    )


def _group_parts_by_session(plan: Plan) -> dict[str, list[Part]]:
    parts: dict[str, list[Part]] = defaultdict(list)
    for part in plan.parts:
        parts[part.session_id].append(part)
    return parts


def _collect_session_claims(
    session: str,
    parts: Sequence[Part],
    answers: Answers,
    plan: Plan,
    settings: Settings,
    model: Model,
    done: ExtractionResult,
    report: StepReport,
) -> ParsedClaims | None:
    """Return a session's claims from all its parts; None where it has to wait."""
    failed = [part for part in parts if not answers[part.request.id].ok]
    waiting = [part for part in failed if model.is_postponed(answers[part.request.id])]
    if waiting:
        _defer_session(session, waiting, answers, done)
        return None
    reads: list[tuple[str, ParsedClaims]] = []
    for part in parts:
        completion = answers[part.request.id]
        if completion.ok:
            read = read_answer(part, completion, plan.rows[session])
        else:
            read = _recover_failed_part(part, completion, plan, settings, model)
        reads.append((part.request.id, read))
    if failed:
        _note_failures(session, parts, failed, answers, model, done)
    return drop_repeated_claims(reads)


def _recover_failed_part(
    part: Part, completion: Completion, plan: Plan, settings: Settings, model: Model
) -> ParsedClaims:
    """Return what is left of a part whose answer failed: the claims before a cut, else extractive ones if these may
    be.
    """
    read = ParsedClaims()
    if completion.error == "cut":
        read = read_answer(part, completion, plan.rows[part.session_id])
    if not read.claims and model.extractive:
        read.claims = _observe_part(part, settings)
    read.rejected.append(Rejected(part.request.id, _format_error(completion), completion.text))
    return read


def _defer_session(session: str, waiting: Sequence[Part], answers: Answers, done: ExtractionResult) -> None:
    errors = [answers[part.request.id] for part in waiting]
    done.pending[session] = _format_error(errors[0])
    done.rejected += [
        Rejected(part.request.id, _format_error(error), error.text)
        for part, error in zip(waiting, errors, strict=True)
        if error.error != "budget"  # nothing went wrong: it is the next night's turn
    ]


def _note_failures(
    session: str, parts: Sequence[Part], failed: Sequence[Part], answers: Answers, model: Model, done: ExtractionResult
) -> None:
    errors = [answers[part.request.id].error for part in failed]
    how = "extractive, or as far as the answer came" if model.extractive else "left out, or as far as the answer came"
    kinds = ", ".join(sorted({str(error) for error in errors}))
    done.notes[session] = f"{len(failed)} of {len(parts)} parts {how}: {kinds}"
    if any(not _is_final(answers[part.request.id]) for part in failed):
        done.degraded.add(session)


def _consolidate_claims(
    reads: Mapping[str, ParsedClaims], plan: Plan, model: Model, done: ExtractionResult
) -> dict[str, ParsedClaims]:
    """Return the sessions' claims at their final state; those of several parts are put to the model once more."""
    parts = Counter(part.session_id for part in plan.parts)
    asked: dict[str, list[consolidate.Question]] = {}
    for session, read in reads.items():
        if parts[session] > 1 and len(read.claims) > 1:
            window = model.llm.context_window
            asked[session] = consolidate.build_questions(session, read.claims, model.library, model.count, window)
    answers = model.ask([q.request for questions in asked.values() for q in questions], "consolidate")
    final = dict(reads)
    for session, questions in asked.items():
        errors = [q for q in questions if not answers[q.request.id].ok]
        if any(model.is_postponed(answers[q.request.id]) for q in errors):
            done.pending[session] = _format_error(answers[errors[0].request.id])
            del final[session]
            continue
        good = [(q, answers[q.request.id]) for q in questions if answers[q.request.id].ok]
        final[session] = consolidate.apply_drops(reads[session], good)
        final[session].rejected += [
            Rejected(q.request.id, f"not consolidated: {_format_error(answers[q.request.id])}", "") for q in errors
        ]
        if any(not _is_final(answers[q.request.id]) for q in errors):
            done.degraded.add(session)
    return final


def _observe_part(part: Part, settings: Settings) -> list[dict[str, Any]]:
    """Return claims of one part's messages without the model, as rows of claims.SCHEMA with their places."""
    rows = {turn.row["message_id"]: dict(turn.row) for turn in part.chunk.turns}
    table = pa.Table.from_pylist(list(rows.values()), schema=MESSAGES.schema)
    seen = observe(table, settings.observe, min_messages=1)
    return [_add_place(claim, rows[claim["message_ids"][0]]) for claim in seen.claims.to_pylist()]


def _add_place(claim: dict[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    start = max(0, row["text"].find(claim["quote"]))
    return {**claim, "span": (start, start + len(claim["quote"])), "place": (row["seq"], start)}


def _observe_without_model(messages: pa.Table, settings: Settings, model: Model, why: str) -> ExtractionResult:
    """Return every session extractively, or left for another night, since no engine can be had."""
    done = ExtractionResult()
    sessions = sorted(set(messages["session_id"].to_pylist()))
    if not model.extractive:
        done.pending = dict.fromkeys(sessions, why)
        done.rejected = [Rejected(f"{session}/all", why, "") for session in sessions]
        return done
    seen = observe(messages, settings.observe)
    done.claims = seen.claims.to_pylist()
    done.notes = {**dict.fromkeys(sessions, f"extractive: {why}"), **seen.skipped}
    done.degraded = set(sessions)
    return done


def _count_outcomes(done: ExtractionResult, report: StepReport) -> None:
    """Count what became of the claims: every one the model made is kept or rejected with a reason."""
    report.counts["claims kept"] += len(done.claims)
    report.counts["claims and parts rejected"] += len(done.rejected)
    report.counts["sessions left for another night"] += len(done.pending)
    report.counts["sessions done without the model"] += len(done.degraded)


def _is_final(completion: Completion) -> bool:
    return completion.error is None or completion.error in LASTING


def _format_error(completion: Completion) -> str:
    return f"{completion.error}: {completion.reason}"
