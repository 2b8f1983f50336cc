"""Whether dead ends are found, and told before they are tried again.

    python -m bench.nights.dead_ends FOLDER [--projects invoice-api storefront-web]

FOLDER has sessions of Claude Code, NAME.jsonl, and `labels.json`: `dead_ends` (session, attempt_uuid, failure_uuid),
`repeats` (dead_end: its place in that list, session, uuid of the call) and `normal_failures` (session, uuid). Sessions
are taken in order of time: before each call what earlier sessions of its project left is compared with it, as the hook
does. A dead end is right if its attempt or failure is that of a labelled one, or lies between, or is a labelled repeat.
A prompt is compared too, as its hook does. An alarm is false if its call or prompt isn't a labelled repeat.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from bench.harness import SCRATCH, Figures, run
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import MESSAGES, SESSIONS
from slowwave.schemas.vocabulary import Origin
from slowwave.tasks.dead_ends.find import find_in_session
from slowwave.tasks.dead_ends.match import find_named_commands, find_repeated
from slowwave.tasks.dead_ends.moves import Move
from slowwave.tasks.dead_ends.rows import (
    COLUMNS,
    build_rows,
    find_where_worked,
    read_sessions,
)
from slowwave.tasks.ingest.task import read_transcripts
from slowwave.tasks.job import Job
from slowwave.tasks.observe.statements import is_refusal

REFUSES = partial(is_refusal, in_layers=True)
MOST = 2
"""Dead ends that the hook tells of one call, at most."""
Row = dict[str, Any]


@dataclass
class Session:
    """A session that was read."""

    name: str
    """Of its file."""
    project: str
    row: Row
    moves: Sequence[Move]
    calls: Sequence[tuple[str, str, str]]
    """The transcript's id of the message, tool and arguments of each tool call; of a prompt no tool, and its text."""
    order: Mapping[str, int]
    """Place of each message by the transcript's id."""
    native: Mapping[str, str]
    """The transcript's id of each message."""


@dataclass
class Count:
    """What came of the sessions."""

    found: int = 0
    right: int = 0
    repeats: int = 0
    hit: set[int] = field(default_factory=set)
    told: set[int] = field(default_factory=set)
    calls: int = 0
    false: int = 0
    normal: int = 0
    notes: list[str] = field(default_factory=list)


def measure(
    folder: Path, scratch: Path = SCRATCH, *, projects: Sequence[str] = ()
) -> Figures:
    """Return precision, recall, repeats that were shown and false alarms."""
    labels = json.loads((folder / "labels.json").read_text(encoding="utf-8"))
    sessions = [
        one
        for one in read_folder(folder, scratch)
        if not projects or one.project in projects
    ]
    names = {one.name for one in sessions}
    count, before = Count(), list[Row]()
    for session in sessions:
        tell(session, before, labels, count)
        own = find_in_session(session.moves, REFUSES)
        judge(session, own, labels, count)
        for row in before:
            is_same = row["workspace"] == session.row["workspace"]
            if is_same and find_where_worked(row, session.moves, own):
                row["worked_in"] = session.name
        before += build_rows(session.row, own, "bench")
    wanted = [one for one in labels["dead_ends"] if one["session"] in names]
    repeats = [one for one in labels["repeats"] if one["session"] in names]
    normal = [one for one in labels["normal_failures"] if one["session"] in names]
    rows = [
        {
            "sessions": len(sessions),
            "dead ends": len(wanted),
            "found": count.found,
            "precision": share(count.right, count.found),
            "of them repeats": count.repeats,
            "recall": share(len(count.hit), len(wanted)),
        },
        {
            "repeats": len(repeats),
            "told before": share(len(count.told), len(repeats)),
            "calls": count.calls,
            "false alarms": count.false,
            "a call": share(count.false, count.calls),
        },
        {"normal failures": len(normal), "taken for dead ends": count.normal},
    ]
    return Figures(rows, notes=count.notes)


def share(part: int, whole: int) -> float:
    """Return a share; 0 of nothing."""
    return part / whole if whole else 0.0


def read_folder(folder: Path, scratch: Path) -> list[Session]:
    """Return the sessions of a folder, oldest first."""
    job = Job(Settings(store=scratch / "store", embeddings=False), "bench")
    read_transcripts(job, [folder])
    about = job.store.read(SESSIONS)
    messages = job.store.read(MESSAGES, [*COLUMNS, "native_id"])
    by_session: dict[str, list[Row]] = {}
    for row in messages.sort_by("seq").to_pylist():
        by_session.setdefault(row["session_id"], []).append(row)
    read = [
        make_session(row, moves, by_session[row["session_id"]])
        for row, moves in read_sessions(messages, about)
    ]
    return sorted(read, key=lambda one: str(one.row["started_at"]))


def make_session(row: Row, moves: Sequence[Move], messages: Sequence[Row]) -> Session:
    """Return a session with its tool calls."""
    return Session(
        name=Path(row["path"]).name,
        project=Path(row["workspace"] or "").name,
        row=row,
        moves=moves,
        calls=[call for message in messages for call in list_calls(message)],
        order={message["native_id"]: n for n, message in enumerate(messages)},
        native={message["message_id"]: message["native_id"] for message in messages},
    )


def list_calls(message: Row) -> Iterator[tuple[str, str, str]]:
    """Yield a message's tool calls; a person's message as a call of no tool."""
    if message["origin"] == Origin.HUMAN and message["text"]:
        yield message["native_id"], "", message["text"]
    for block in message["blocks"] or ():
        if block["type"] == "tool_call" and block["name"]:
            yield message["native_id"], block["name"], block["text"] or ""


def tell(session: Session, before: Sequence[Row], labels: Row, count: Count) -> None:
    """Count the calls of a session at which a dead end is shown."""
    here = [
        row
        for row in before
        if row["workspace"] == session.row["workspace"] and row["worked_in"] is None
    ]
    repeats = {
        one["uuid"]: n
        for n, one in enumerate(labels["repeats"])
        if one["session"] == session.name
    }
    told: set[str] = set()
    for message, tool, given in session.calls:
        count.calls += bool(tool)
        found = (
            find_repeated(tool, given, session.row["workspace"], here)
            if tool
            else find_named_commands(given, here)
        )
        fresh = [row for row in found if row["dead_end_id"] not in told][:MOST]
        told.update(row["dead_end_id"] for row in fresh)
        if fresh and message not in repeats:
            count.false += 1
            count.notes.append(
                f"{session.name}: told at {given[:90]}: {fresh[0]['attempt']}"
            )
        if found and message in repeats:
            count.told.add(repeats[message])
    for message, n in repeats.items():
        if n not in count.told:
            count.notes.append(f"{session.name}: not told at {message[:8]}")


def judge(session: Session, own: Iterable[Any], labels: Row, count: Count) -> None:
    """Count the dead ends of a session that are right."""
    wanted = [
        (n, one)
        for n, one in enumerate(labels["dead_ends"])
        if one["session"] == session.name
    ]
    repeats = {one["uuid"] for one in labels["repeats"]}
    normal = {one["uuid"] for one in labels["normal_failures"]}
    order = session.order
    for one in own:
        attempt, failure = (
            session.native[one.attempt.message],
            session.native[one.failure],
        )
        hits = {
            n
            for n, label in wanted
            if order[label["attempt_uuid"]]
            <= order[attempt]
            <= order[label["failure_uuid"]]
            or failure == label["failure_uuid"]
        }
        count.found += 1
        count.hit |= hits
        count.right += bool(hits) or attempt in repeats
        count.repeats += not hits and attempt in repeats
        count.normal += failure in normal and not hits and attempt not in repeats
        if not hits and attempt not in repeats:
            count.notes.append(f"{session.name}: no dead end: {one.attempt.line}")
    for n, label in wanted:
        if n not in count.hit:
            count.notes.append(f"{session.name}: not found: {label.get('what', '')}")


if __name__ == "__main__":
    run(measure)
