"""Whether what persons mean to do later is told when it is due, and nothing else.

    python -m bench.nights.intentions FOLDER [--projects invoice-api storefront-web]

FOLDER is that of `bench.nights.dead_ends`; its `labels.json` has `intentions` (session, uuid, quote, condition, due).
One night reads all sessions; then each session is gone through in order: its first message gets what is due on its day,
each message of a person what it names, each tool call what its files and versions are waited for by. What was said in
the session itself or later is left out. A telling is right if a labelled intention is due in that session.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.harness import SCRATCH, Figures, run
from bench.nights.dead_ends import Session, read_folder, share
from slowwave.context.projects.intentions import Intention, list_intentions
from slowwave.flows.nightly import run_night
from slowwave.memory import Memory
from slowwave.schemas.settings import Settings
from slowwave.tasks.dead_ends.moves import MoveKind

Row = dict[str, Any]


def measure(
    folder: Path, scratch: Path = SCRATCH, *, projects: Sequence[str] = ()
) -> Figures:
    """Return by condition the intentions that are due, those that were told, and the tellings that are wrong."""
    labels = json.loads((folder / "labels.json").read_text(encoding="utf-8"))
    settings = Settings(
        store=scratch / "night", encoder="hash-384", keywords={"top": 0}
    )
    run_night([folder], settings)
    view = Memory.open(settings.store).get_view()
    sessions = [
        one
        for one in read_folder(folder, scratch)
        if not projects or one.project in projects
    ]
    names = {one.name for one in sessions}
    due = [
        one for one in labels["intentions"] if one["due"] and one["session"] in names
    ]
    told, wrong, notes = set[int](), 0, list[str]()
    moments = 0
    for session in sessions:
        here = list_intentions(view, [session.row["workspace"]])
        seen: set[str] = set()
        for one in tell(session, here):
            if one.id in seen:
                continue
            seen.add(one.id)
            moments += 1
            hits = [n for n, label in enumerate(due) if is_of(one, label)]
            right = [n for n in hits if due[n]["due"]["session"] == session.name]
            told.update(right)
            if not right:
                wrong += 1
                notes.append(f"{session.name}: told: {one.text}")
    rows = []
    conditions = Counter(one["condition"] for one in due)
    for condition, number in sorted(conditions.items()):
        found = sum(due[n]["condition"] == condition for n in told)
        rows.append(
            {"condition": condition, "due": number, "told": share(found, number)}
        )
    rows.append(
        {"condition": "all", "due": len(due), "told": share(len(told), len(due))}
    )
    wrongs = [{"tellings": moments, "wrong": wrong, "share": share(wrong, moments)}]
    notes += [
        f"not told: {label['quote']}" for n, label in enumerate(due) if n not in told
    ]
    return Figures([*rows, *wrongs], notes=notes)


def is_of(one: Intention, label: Row) -> bool:
    """Return True if an intention holds the words of a label, or they it."""
    text, quote = one.text.casefold(), label["quote"].casefold()
    return quote in text or text.rstrip(".") in quote


def tell(session: Session, intentions: Sequence[Intention]) -> Iterator[Intention]:
    """Yield what is told in a session, in order."""
    begun = session.row["started_at"]
    earlier = [one for one in intentions if one.said_at and one.said_at < begun]
    today = datetime.astimezone(begun).date()
    yield from (one for one in earlier if one.is_due(today))
    for move in session.moves:
        if move.kind is MoveKind.PERSON:
            yield from (one for one in earlier if one.is_named(move.line))
        elif move.kind is not MoveKind.MODEL:
            paths = [move.path] if move.path else []
            text = f"{move.line}\n{move.text}"
            yield from (
                one
                for one in earlier
                if one.is_about_file(paths) or one.has_version(text)
            )


if __name__ == "__main__":
    run(measure)
