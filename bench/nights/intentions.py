"""Are the intentions of persons shown when they are due, and at no other time?

    python -m bench.nights.intentions FOLDER [--projects invoice-api storefront-web] [--encoder NAME]

FOLDER is that of `bench.nights.dead_ends`; its `labels.json` has `intentions` (session, uuid, quote, condition, due).
The sessions are taken in order of time, with a night before each that reads those before it. A session's first message
gets the intentions that are due on its day, each message of a person those that wait for a name in it, and each tool
call those that wait for its files and versions. A telling is right if a labelled intention is due in that session. An
intention that was not shown is counted by the step at which it was lost.
"""

import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.harness import ENCODER, SCRATCH, Figures, run
from bench.nights.dead_ends import Session, read_folder, share
from slowwave.cli.agents.running_session import list_done_by_moves
from slowwave.context.projects.intentions import Done, Intention, list_intentions
from slowwave.flows.nightly import run_night
from slowwave.memory import Memory
from slowwave.recall.release.view import View
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import CLAIMS
from slowwave.tasks.dead_ends.moves import MoveKind

Row = dict[str, Any]


@dataclass
class Tellings:
    """What came of the sessions."""

    told: set[int] = field(default_factory=set)
    lost: dict[int, str] = field(default_factory=dict)
    """The step at which each label that was not shown was lost."""
    moments: int = 0
    wrong: int = 0
    notes: list[str] = field(default_factory=list)


def measure(
    folder: Path,
    scratch: Path = SCRATCH,
    *,
    projects: Sequence[str] = (),
    encoder: str = ENCODER,
) -> Figures:
    """Return by condition the intentions that are due, those that were shown, and the tellings that are wrong."""
    labels = json.loads((folder / "labels.json").read_text(encoding="utf-8"))
    sessions = [
        one
        for one in read_folder(folder, scratch)
        if not projects or one.project in projects
    ]
    names = {one.name for one in sessions}
    due = [
        one for one in labels["intentions"] if one["due"] and one["session"] in names
    ]
    count = Tellings()
    for session, memory in replay(folder, sessions, scratch, encoder):
        view = memory.get_view()
        here = list_intentions(view, [session.row["workspace"]])
        judge(session, tell(session, here, memory), due, count)
        for n, label in enumerate(due):
            if label["due"]["session"] == session.name and n not in count.told:
                count.lost[n] = find_loss(label, here, view)
    losses = Counter(count.lost.values())
    lost = [{"lost": name, "intentions": number} for name, number in losses.items()]
    notes = [f"{name}: {due[n]['quote']}" for n, name in sorted(count.lost.items())]
    wrongs = {
        "tellings": count.moments,
        "wrong": count.wrong,
        "share": share(count.wrong, count.moments),
    }
    rows = count_by_condition(due, count.told)
    return Figures([*rows, wrongs, *lost], notes=[*count.notes, *notes])


def count_by_condition(due: Sequence[Row], told: set[int]) -> list[Row]:
    """Return a row a condition, and one of all: the number that were due, and the share that was shown."""
    rows: list[Row] = []
    conditions = Counter(one["condition"] for one in due)
    for condition, number in (*sorted(conditions.items()), ("all", len(due))):
        found = [n for n in told if condition in (due[n]["condition"], "all")]
        rows.append(
            {"condition": condition, "due": number, "told": share(len(found), number)}
        )
    return rows


def replay(
    folder: Path, sessions: Sequence[Session], scratch: Path, encoder: str
) -> Iterator[tuple[Session, Memory]]:
    """Yield each session but the first, in order, with the memory of a night that has read those before it."""
    settings = Settings(store=scratch / "night", encoder=encoder, keywords={"top": 0})
    read = scratch / "read"
    read.mkdir()
    for before, session in pairwise(sessions):
        shutil.copy2(folder / before.name, read)
        run_night([read], settings)
        yield session, Memory.open(settings.store)


def judge(
    session: Session, told: Iterable[Intention], due: Sequence[Row], count: Tellings
) -> None:
    """Count the intentions that are shown in a session."""
    seen: set[tuple[str, str]] = set()
    for one in told:
        if (one.id, one.text) in seen:
            continue
        seen.add((one.id, one.text))
        count.moments += 1
        right = [
            n
            for n, label in enumerate(due)
            if is_of(one, label) and label["due"]["session"] == session.name
        ]
        count.told.update(right)
        if not right:
            count.wrong += 1
            count.notes.append(f"{session.name}: told: {one.text}")


def find_loss(label: Row, intentions: Sequence[Intention], view: View) -> str:
    """Return the step at which a labelled intention was lost."""
    known = [one for one in intentions if is_of(one, label)]
    if any(one.is_waiting for one in known):
        return "condition not met"
    if known:
        return "condition not read"
    claims = view.read(CLAIMS, ["summary", "status"]).to_pylist()
    said = [one["summary"] for one in claims if is_same(one["summary"], label["quote"])]
    return "not read as an intention" if said else "no claim"


def is_of(one: Intention, label: Row) -> bool:
    """Return True if an intention holds the words of a label, or they it."""
    return is_same(one.text, label["quote"])


def is_same(text: str, quote: str) -> bool:
    """Return True if one of two texts holds the other."""
    text, quote = text.casefold(), quote.casefold()
    return quote in text or text.rstrip(".") in quote


def tell(
    session: Session, intentions: Sequence[Intention], memory: Memory
) -> Iterator[Intention]:
    """Yield the intentions to show in a session, in order. The output of a call counts at the next prompt or call."""
    begun = session.row["started_at"]
    today = datetime.astimezone(begun).date()
    yield from (one for one in intentions if one.comes(today))
    earlier = [one for one in intentions if one.met is None]
    done: list[Done] = []
    for move in session.moves:
        if move.kind is MoveKind.MODEL:
            continue
        if move.kind is MoveKind.PERSON:
            yield from memory.find_named(earlier, move.line)
        done += list_done_by_moves([replace(move, output="")])
        yield from (one for one in earlier if any(map(one.is_met_by, done)))
        done = list_done_by_moves([move])


if __name__ == "__main__":
    run(measure)
