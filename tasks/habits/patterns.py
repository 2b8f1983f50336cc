"""Actions as habits: files that change together, steps that follow each other, commands that recur.

The unit is a turn, from one thing that a person says to the next: whoever counts sessions ties everything to
everything. What an edit that failed would have changed counts for nothing.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from itertools import combinations, groupby
from typing import Any

import polars as pl
import pyarrow as pa

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import PATTERNS
from slowwave.schemas.vocabulary import ActionKind, HabitKind


@dataclass(frozen=True)
class Bounds:
    """What counts as a habit; raise VERSION in `task.py` with any of them."""

    support: int = 2
    """Turns in which files, steps or a command come together, at least."""
    chance: float = 0.1
    """Chance of as many common turns by accident, at most."""
    share: float = 0.3
    """Share of the rarer file's, or first step's, turns, at least."""
    files: int = 20
    """A turn that edits more files ties none of them together."""
    sequence: int = 3
    """Steps of a sequence, at most."""
    examples: int = 3
    """Latest turns whose messages a habit names."""


BOUNDS = Bounds()
LOOKED_OR_EDITED = (ActionKind.READ, ActionKind.EDIT, ActionKind.SEARCH)
Row = dict[str, Any]
Turn = tuple[str, int]
Items = tuple[str, ...]


@dataclass
class _Found:
    """Where something was done: by turn the message that shows it, in order of time."""

    turns: dict[Turn, Row] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)

    def add(self, turn: Turn, row: Row) -> None:
        self.turns[turn] = row
        self.rows.append(row)


def find_patterns(actions: pa.Table, exclude: Sequence[str], step_key: str) -> pa.Table:
    """Return rows of PATTERNS of the workspaces whose actions these are; rows of no workspace make none.

    Args:
        actions: rows of ACTIONS, all of each workspace.
        exclude: globs of files that are tied to nothing.
        step_key: of the step.
    """
    frame = pl.DataFrame(actions).filter(pl.col("workspace").is_not_null())
    begun = pl.col("at").min().over("session_id")
    frame = frame.sort("workspace", begun, "session_id", "seq", "part", nulls_last=True)
    rows = []
    for workspace, group in groupby(frame.iter_rows(named=True), key=lambda row: str(row["workspace"])):
        turns = {
            turn: list(some) for turn, some in groupby(group, key=lambda row: (row["session_id"], int(row["turn"])))
        }
        found = [*_find_co_edits(turns, exclude), *_find_sequences(turns), *_find_commands(turns)]
        rows += [_finish_row(workspace, step_key, one) for one in found]
    return pa.Table.from_pylist(rows, schema=PATTERNS.schema)


def _find_co_edits(turns: Mapping[Turn, list[Row]], exclude: Sequence[str]) -> Iterator[Row]:
    """Yield pairs of files: how much more often they change in one turn than chance would have it."""
    edits: Counter[str] = Counter()
    pairs: defaultdict[Items, _Found] = defaultdict(_Found)
    counted = 0
    for turn, rows in turns.items():
        latest = {row["path"]: row for row in rows if _is_edit(row) and not _is_excluded(row["path"], exclude)}
        if not latest or len(latest) > BOUNDS.files:
            continue
        counted += 1
        edits.update(latest.keys())
        for one, other in combinations(sorted(latest), 2):
            last = max((latest[one], latest[other]), key=lambda row: (row["seq"], row["part"]))
            pairs[one, other].add(turn, last)
    for (one, other), found in sorted(pairs.items()):
        support, alone = len(found.turns), (edits[one], edits[other])
        share, lift = support / min(alone), support * counted / (alone[0] * alone[1])
        if support < BOUNDS.support or share < BOUNDS.share:
            continue
        if compute_chance(support, *alone, counted) <= BOUNDS.chance:
            yield _make_row(HabitKind.CO_EDIT, (one, other), found, alone) | {"share": share, "lift": lift}


def compute_chance(together: int, one: int, other: int, turns: int) -> float:
    """Return the chance that two files, each in so many of the turns, meet in as many by accident.

    The tail of the hypergeometric distribution (Fisher's exact test, one-sided).
    """
    alike = (
        math.exp(_log_choose(one, n) + _log_choose(turns - one, other - n) - _log_choose(turns, other))
        for n in range(together, min(one, other) + 1)
        if other - n <= turns - one
    )
    return min(sum(alike), 1.0)


def _log_choose(of: int, some: int) -> float:
    return math.lgamma(of + 1) - math.lgamma(some + 1) - math.lgamma(of - some + 1)


def _find_sequences(turns: Mapping[Turn, list[Row]]) -> Iterator[Row]:
    """Yield steps that follow each other in their turns, oftener than the other way round; of one within a longer one
    that is as frequent, the longer alone.
    """
    found: defaultdict[Items, _Found] = defaultdict(_Found)
    single: Counter[str] = Counter()
    for turn, rows in turns.items():
        steps = [(step, row) for row in rows if (step := _name_step(row)) is not None]
        steps = [steps[at] for at in range(len(steps)) if not at or steps[at][0] != steps[at - 1][0]]
        single.update({step for step, _ in steps})
        for size in range(2, BOUNDS.sequence + 1):
            for at in range(len(steps) - size + 1):
                found[tuple(step for step, _ in steps[at : at + size])].add(turn, steps[at + size - 1][1])
    support = {items: len(one.turns) for items, one in found.items()}
    kept = {
        items
        for items, times in support.items()
        if times >= BOUNDS.support
        and times / single[items[0]] >= BOUNDS.share
        and times > support.get(items[::-1], 0)
        and _is_work(items)
    }
    for items in sorted(kept):
        wider = (other for other in kept if len(other) > len(items) and _contains(other, items))
        if not any(support[other] >= support[items] * 0.8 for other in wider):
            row = _make_row(HabitKind.SEQUENCE, items, found[items], [single[step] for step in items])
            yield row | {"share": support[items] / single[items[0]]}


def _find_commands(turns: Mapping[Turn, list[Row]]) -> Iterator[Row]:
    """Yield commands that recur, each in the folder that it runs in."""
    found: defaultdict[str, _Found] = defaultdict(_Found)
    for turn, rows in turns.items():
        for row in rows:
            if row["command"] is not None:
                found[_place_command(row["command"], row["path"])].add(turn, row)
    for name, one in sorted(found.items()):
        if len(one.turns) < BOUNDS.support:
            continue
        ended = [row["ok"] for row in one.rows if row["ok"] is not None]
        lines = Counter(_place_command(row["line"], row["path"]) for row in one.rows)
        line, times = min(lines.items(), key=lambda entry: (-entry[1], len(entry[0]), entry[0]))
        row = _make_row(HabitKind.COMMAND, (name,), one, [len(one.turns)])
        yield row | {
            "line": line if times >= BOUNDS.support and times * 2 >= len(one.rows) else name,
            "role": one.rows[0]["role"],
            "times": len(one.rows),
            "share": sum(ended) / len(ended) if len(ended) * 2 > len(one.rows) else None,
        }


def _make_row(kind: HabitKind, items: Items, found: _Found, alone: Sequence[int]) -> Row:
    times = [row["at"] for row in found.rows if row["at"] is not None]
    latest = list(dict.fromkeys(row["message_id"] for row in [*found.turns.values()][::-1]))
    return {
        "kind": kind,
        "items": list(items),
        "support": len(found.turns),
        "turns": list(alone),
        "times": len(found.turns),
        "sessions": len({session for session, _ in found.turns}),
        "first_at": min(times, default=None),
        "last_at": max(times, default=None),
        "examples": latest[: BOUNDS.examples],
    }


def _finish_row(workspace: str, step_key: str, row: Row) -> Row:
    pattern_id = compute_content_id(row["kind"], workspace, *row["items"])
    return {"pattern_id": pattern_id, "workspace": workspace, "step_key": step_key, **row}


def _is_edit(row: Row) -> bool:
    return row["kind"] == ActionKind.EDIT and row["path"] is not None and row["ok"] is not False


def _is_excluded(path: str, exclude: Sequence[str]) -> bool:
    name = path.rpartition("/")[2]
    return any(fnmatch(path, glob) or fnmatch(path, f"*/{glob}") or fnmatch(name, glob) for glob in exclude)


def _name_step(row: Row) -> str | None:
    """Return what an action is called in a sequence: a command by itself, else its kind; None for what is no step."""
    if row["command"] is not None:
        return _place_command(row["command"], row["path"])
    is_elsewhere = row["kind"] == ActionKind.EDIT and row["path"] is None
    return str(row["kind"]) if row["kind"] in LOOKED_OR_EDITED and not is_elsewhere else None


def _place_command(command: str, folder: str | None) -> str:
    return f"cd {folder} && {command}" if folder else command


def _is_work(items: Iterable[str]) -> bool:
    """Return whether something is changed or run: to look around is no workflow."""
    return any(item not in (ActionKind.READ, ActionKind.SEARCH) for item in items)


def _contains(wider: Items, items: Items) -> bool:
    return any(wider[at : at + len(items)] == items for at in range(len(wider) - len(items) + 1))
