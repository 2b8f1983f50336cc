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
from slowwave.tasks.llm.claims import Read, Rejected, claims_table, read_answer, without_repeats
from slowwave.tasks.llm.fence import left_out
from slowwave.tasks.observe import consolidate
from slowwave.tasks.observe.extract import Part, Plan, planned
from slowwave.tasks.observe.observe import observe

Answers = Mapping[str, Completion]
NOT_JUDGED = {"reusable": None, "non_trivial": None, "specific": None, "verified": True, "gate_reasons": None}
"""The gates of an extractive claim: its quote is cut from its message, and nobody looked at the others."""


@dataclass
class Distilled:
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

    def table(self) -> pa.Table:
        """The claims."""
        return claims_table(self.claims)


def distilled(messages: pa.Table, settings: Settings, model: Model, report: StepReport) -> Distilled:
    """Claims of every session in `messages` (rows of MESSAGES, the active ones, of whole sessions)."""
    try:
        plan = _planned(messages, settings, model)
    except EngineUnavailable as error:
        return _without_model(messages, settings, model, f"{error}")
    spoken = (turn.row["text"] for part in plan.parts for turn in part.chunk.turns)
    report.counts["passages left out that address the memory"] += left_out(spoken)[1]
    answers = model.ask(plan.requests, "observe")
    done = Distilled(notes=dict(plan.skipped))
    report.counts["sessions skipped"] += len(plan.skipped)
    reads: dict[str, Read] = {}
    for session, parts in _by_session(plan).items():
        read = _read(session, parts, answers, plan, settings, model, done, report)
        if read is not None:
            reads[session] = read
    final = _consolidated(reads, plan, model, done)
    for session in sorted(final):
        done.claims += final[session].claims
        done.rejected += final[session].rejected
        if not final[session].claims:
            done.notes.setdefault(session, "the model found no claim")
    _count(done, report)
    return done


def _planned(messages: pa.Table, settings: Settings, model: Model) -> Plan:
    return planned(messages, settings.observe, settings.extract, model.library, model.count, model.llm.context_window)


def _by_session(plan: Plan) -> dict[str, list[Part]]:
    parts: dict[str, list[Part]] = defaultdict(list)
    for part in plan.parts:
        parts[part.session_id].append(part)
    return parts


def _read(
    session: str,
    parts: Sequence[Part],
    answers: Answers,
    plan: Plan,
    settings: Settings,
    model: Model,
    done: Distilled,
    report: StepReport,
) -> Read | None:
    """A session's claims from all its parts; None where it has to wait."""
    failed = [part for part in parts if not answers[part.request.id].ok]
    waiting = [part for part in failed if model.postponed(answers[part.request.id])]
    if waiting:
        _wait(session, waiting, answers, done)
        return None
    reads: list[tuple[str, Read]] = []
    for part in parts:
        completion = answers[part.request.id]
        report.counts["answers in another script than the transcript"] += "language" in completion.flags
        if completion.ok:
            read = read_answer(part, completion, plan.rows[session], settings.extract)
        else:
            read = _failed_part(part, completion, plan, settings, model)
        reads.append((part.request.id, read))
    if failed:
        _note_failures(session, parts, failed, answers, model, done)
    return without_repeats(reads)


def _failed_part(part: Part, completion: Completion, plan: Plan, settings: Settings, model: Model) -> Read:
    """What is left of a part whose answer failed: the claims before a cut, else extractive ones if these may be."""
    read = Read()
    if completion.error == "cut":
        read = read_answer(part, completion, plan.rows[part.session_id], settings.extract)
    if not read.claims and model.extractive:
        read.claims = _extractive(part, settings)
    read.rejected.append(Rejected(part.request.id, _why(completion), completion.text))
    return read


def _wait(session: str, waiting: Sequence[Part], answers: Answers, done: Distilled) -> None:
    errors = [answers[part.request.id] for part in waiting]
    done.pending[session] = _why(errors[0])
    done.rejected += [
        Rejected(part.request.id, _why(error), error.text)
        for part, error in zip(waiting, errors, strict=True)
        if error.error != "budget"  # nothing went wrong: it is the next night's turn
    ]


def _note_failures(
    session: str, parts: Sequence[Part], failed: Sequence[Part], answers: Answers, model: Model, done: Distilled
) -> None:
    errors = [answers[part.request.id].error for part in failed]
    how = "extractive, or as far as the answer came" if model.extractive else "left out, or as far as the answer came"
    kinds = ", ".join(sorted({str(error) for error in errors}))
    done.notes[session] = f"{len(failed)} of {len(parts)} parts {how}: {kinds}"
    if any(not _lasting(answers[part.request.id]) for part in failed):
        done.degraded.add(session)


def _consolidated(reads: Mapping[str, Read], plan: Plan, model: Model, done: Distilled) -> dict[str, Read]:
    """The sessions' claims at their final state; those of several parts are put to the model once more."""
    parts = Counter(part.session_id for part in plan.parts)
    asked: dict[str, list[consolidate.Question]] = {}
    for session, read in reads.items():
        if parts[session] > 1 and len(read.claims) > 1:
            window = model.llm.context_window
            asked[session] = consolidate.questions(session, read.claims, model.library, model.count, window)
    answers = model.ask([q.request for questions in asked.values() for q in questions], "consolidate")
    final = dict(reads)
    for session, questions in asked.items():
        errors = [q for q in questions if not answers[q.request.id].ok]
        if any(model.postponed(answers[q.request.id]) for q in errors):
            done.pending[session] = _why(answers[errors[0].request.id])
            del final[session]
            continue
        good = [(q, answers[q.request.id]) for q in questions if answers[q.request.id].ok]
        final[session] = consolidate.settled(reads[session], good)
        final[session].rejected += [
            Rejected(q.request.id, f"not consolidated: {_why(answers[q.request.id])}", "") for q in errors
        ]
        if any(not _lasting(answers[q.request.id]) for q in errors):
            done.degraded.add(session)
    return final


def _extractive(part: Part, settings: Settings) -> list[dict[str, Any]]:
    """Claims of one part's messages without the model, as rows of claims.SCHEMA with their places."""
    rows = {turn.row["message_id"]: dict(turn.row) for turn in part.chunk.turns}
    table = pa.Table.from_pylist(list(rows.values()), schema=MESSAGES.schema)
    seen = observe(table, settings.observe.model_copy(update={"min_messages": 1}))
    return [_with_gates(claim, rows[claim["message_ids"][0]]) for claim in seen.claims.to_pylist()]


def _with_gates(claim: dict[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    start = max(0, row["text"].find(claim["quote"]))
    return {**claim, **NOT_JUDGED, "span": (start, start + len(claim["quote"])), "place": (row["seq"], start)}


def _without_model(messages: pa.Table, settings: Settings, model: Model, why: str) -> Distilled:
    """Every session extractively, or left for another night, since no engine can be had."""
    done = Distilled()
    sessions = sorted(set(messages["session_id"].to_pylist()))
    if not model.extractive:
        done.pending = dict.fromkeys(sessions, why)
        done.rejected = [Rejected(f"{session}/all", why, "") for session in sessions]
        return done
    seen = observe(messages, settings.observe)
    done.claims = [{**claim, **NOT_JUDGED} for claim in seen.claims.to_pylist()]
    done.notes = {**dict.fromkeys(sessions, f"extractive: {why}"), **seen.skipped}
    done.degraded = set(sessions)
    return done


def _count(done: Distilled, report: StepReport) -> None:
    """What became of the claims: every one the model made is kept or rejected with a reason."""
    report.counts["claims kept"] += len(done.claims)
    report.counts["claims and parts rejected"] += len(done.rejected)
    report.counts["sessions left for another night"] += len(done.pending)
    report.counts["sessions done without the model"] += len(done.degraded)


def _lasting(completion: Completion) -> bool:
    return completion.error is None or completion.error in LASTING


def _why(completion: Completion) -> str:
    return f"{completion.error}: {completion.reason}"
