"""Find habits in actions: files that change together, steps that follow each other, commands that recur.

The unit is a turn: from one message of a person to the next. A session is too long a unit: it would relate everything
in it. Failed edits are not counted. For the bounds see docs/decisions/012-habits-and-relations.md; raise VERSION in
`task.py` when you change one.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatch
from itertools import chain, combinations, groupby
from math import comb
from typing import cast

import polars as pl
import pyarrow as pa

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.rows import ActionRow, PatternRow
from slowwave.schemas.tables import PATTERNS
from slowwave.schemas.vocabulary import ActionKind, HabitKind

SUPPORT = 2
"""Least number of turns in which files, steps or a command occur together."""
CHANCE = 0.1
"""Highest probability that the common turns are an accident."""
SHARE = 0.3
"""Least share of the turns of the rarer file, or of the first step."""
MOST_FILES = 20
"""A turn that edits more files relates none of them."""
LONGEST = 3
EXAMPLES = 3
"""Most steps of a sequence; most turns whose messages a habit names, the latest."""
Turn = tuple[str, int]
Items = tuple[str, ...]


def find_patterns(actions: pa.Table, exclude: Sequence[str], step_key: str) -> pa.Table:
    """Return rows of PATTERNS for the workspaces of some actions; actions without a workspace give none.

    Args:
        actions: rows of ACTIONS, all of each workspace.
        exclude: globs of files that are related to nothing.
        step_key: the step's key.
    """
    frame = pl.DataFrame(actions).filter(pl.col("workspace").is_not_null())
    begun = pl.col("at").min().over("session_id")
    frame = frame.sort("workspace", begun, "session_id", "seq", "part", nulls_last=True)
    # Add the folder that a command runs in.
    folder = (
        pl.when(pl.col("path").str.len_chars() > 0)
        .then(pl.format("cd {} && ", "path"))
        .otherwise(pl.lit(""))
    )
    is_run = pl.col("command").is_not_null()
    frame = frame.with_columns(
        pl.when(is_run).then(folder + pl.col(name)).alias(name)
        for name in ("command", "line")
    )
    rows = []
    actions = cast(Iterator[ActionRow], frame.iter_rows(named=True))
    for workspace, group in groupby(actions, key=lambda row: str(row["workspace"])):
        turns = {
            turn: list(actions_of) for turn, actions_of in groupby(group, key=_get_turn)
        }
        for row in (
            *_find_co_edits(turns, exclude),
            *_find_sequences(turns),
            *_find_commands(turns),
        ):
            pattern_id = compute_content_id(row["kind"], workspace, *row["items"])
            rows.append(
                {
                    "pattern_id": pattern_id,
                    "workspace": workspace,
                    "step_key": step_key,
                    **row,
                }
            )
    return pa.Table.from_pylist(rows, schema=PATTERNS.schema)


def _get_turn(row: ActionRow) -> Turn:
    return row["session_id"], int(row["turn"])


def _find_co_edits(
    turns: Mapping[Turn, list[ActionRow]], exclude: Sequence[str]
) -> Iterator[PatternRow]:
    """Yield pairs of files that change in the same turn more often than by chance."""
    edits: Counter[str] = Counter()
    pairs = defaultdict[tuple[str, str], list[ActionRow]](list)
    counted = 0
    for rows in turns.values():
        latest = _find_latest_edits(rows, exclude)
        if latest and len(latest) <= MOST_FILES:
            counted += 1
            edits.update(latest.keys())
            for pair in combinations(sorted(latest), 2):
                pairs[pair].append(
                    max(
                        (latest[path] for path in pair),
                        key=lambda row: (row["seq"], row["part"]),
                    )
                )
    for (first, second), rows in sorted(pairs.items()):
        support = len(rows)
        alone = (edits[first], edits[second])
        share = support / min(alone)
        lift = support * counted / (alone[0] * alone[1])
        if (
            support >= SUPPORT
            and share >= SHARE
            and compute_chance(
                together=support,
                first=edits[first],
                second=edits[second],
                turns=counted,
            )
            <= CHANCE
        ):
            yield _make_row(
                kind=HabitKind.CO_EDIT, items=(first, second), rows=rows, alone=alone
            ) | {
                "share": share,
                "lift": lift,
            }


def _find_latest_edits(
    rows: Sequence[ActionRow], exclude: Sequence[str]
) -> dict[str, ActionRow]:
    """Return the last edit of each file that did not fail, except of excluded files."""
    edits = dict[str, ActionRow]()
    for row in rows:
        path = row["path"]
        if row["kind"] != ActionKind.EDIT or row["ok"] is False or not path:
            continue
        if not _is_excluded(path, exclude):
            edits[path] = row
    return edits


def compute_chance(
    together: int,
    first: int,
    second: int,
    turns: int,
) -> float:
    """Return the probability that two files occur in at least `together` common turns by accident.

    The tail of the hypergeometric distribution (Fisher's exact test, one-sided); `first` and `second` are the turns
    with each file, `turns` the number of all.
    """
    alike = (
        comb(first, n) * comb(turns - first, second - n)
        for n in range(together, min(first, second) + 1)
    )
    return sum(alike) / comb(turns, second)


def _find_sequences(turns: Mapping[Turn, list[ActionRow]]) -> Iterator[PatternRow]:
    """Yield sequences of steps more frequent than their reverse, unless a longer one is about as frequent."""
    places, single = _count_sequences(turns)
    support = {items: len(rows) for items, rows in places.items()}
    frequent = [
        items for items in sorted(support) if _is_frequent(items, support, single)
    ]
    for items in frequent:
        wider = [other for other in frequent if _extends(other, items)]
        if not any(support[other] >= support[items] * 0.8 for other in wider):
            alone = [single[step] for step in items]
            row = _make_row(
                kind=HabitKind.SEQUENCE,
                items=items,
                rows=[*places[items].values()],
                alone=alone,
            )
            yield row | {"share": support[items] / alone[0]}


def _count_sequences(
    turns: Mapping[Turn, list[ActionRow]],
) -> tuple[Mapping[Items, dict[Turn, ActionRow]], Counter[str]]:
    """Return the turns of each sequence, with its last action, and the number of turns of each step.

    A step that is repeated in a row counts once.
    """
    places = defaultdict[Items, dict[Turn, ActionRow]](dict)
    single: Counter[str] = Counter()
    for turn, rows in turns.items():
        named = ((step, row) for row in rows if (step := _name_step(row)))
        steps = [next(run) for _, run in groupby(named, key=lambda pair: pair[0])]
        single.update({step for step, _ in steps})
        for size in range(2, LONGEST + 1):
            for run in zip(*(steps[at:] for at in range(size)), strict=False):
                places[tuple(step for step, _ in run)][turn] = run[-1][1]
    return places, single


def _is_frequent(
    items: Items, support: Mapping[Items, int], single: Mapping[str, int]
) -> bool:
    """Return True if a sequence is frequent enough to be a habit; to only read and search is not one."""
    if support[items] < SUPPORT or support[items] / single[items[0]] < SHARE:
        return False
    return support[items] > support.get(items[::-1], 0) and not {*items} <= {
        ActionKind.READ,
        ActionKind.SEARCH,
    }


def _extends(longer: Items, items: Items) -> bool:
    """Return True if a longer sequence begins or ends with this one."""
    return len(longer) > len(items) and items in (
        longer[: len(items)],
        longer[-len(items) :],
    )


def _find_commands(turns: Mapping[Turn, list[ActionRow]]) -> Iterator[PatternRow]:
    """Yield commands that recur, each with the folder that it runs in."""
    by_command = defaultdict[str, list[ActionRow]](list)
    for row in chain.from_iterable(turns.values()):
        if row["command"]:
            by_command[row["command"]].append(row)
    for name, rows in sorted(by_command.items()):
        found = len({*map(_get_turn, rows)})
        habit = _make_row(
            kind=HabitKind.COMMAND, items=(name,), rows=rows, alone=[found]
        )
        if habit["support"] < SUPPORT:
            continue
        ended = [row["ok"] for row in rows if row["ok"] is not None]
        is_known = len(ended) * 2 > len(rows)
        habit["line"] = _find_usual_line(rows) or name
        habit["role"] = rows[0]["role"]
        habit["times"] = len(rows)
        habit["share"] = sum(ended) / len(ended) if is_known else None
        yield habit


def _find_usual_line(rows: Sequence[ActionRow]) -> str | None:
    """Return the line that at least half of the calls of a command have, and enough of them; None if there is none."""
    lines = Counter(row["line"] or "" for row in rows)
    line, times = min(
        lines.items(), key=lambda entry: (-entry[1], len(entry[0]), entry[0])
    )
    return line if times >= SUPPORT and times * 2 >= len(rows) else None


def _make_row(
    kind: HabitKind,
    items: Items,
    rows: Sequence[ActionRow],
    alone: Sequence[int],
) -> PatternRow:
    """Return a habit shown by these rows, which are in order of time."""
    times = [row["at"] for row in rows if row["at"] is not None]
    turns = {_get_turn(row): row["message_id"] for row in rows}
    return {
        "kind": kind,
        "items": list(items),
        "support": len(turns),
        "turns": list(alone),
        "times": len(turns),
        "sessions": len({session for session, _ in turns}),
        "first_at": min(times, default=None),
        "last_at": max(times, default=None),
        "examples": list(dict.fromkeys([*turns.values()][::-1]))[:EXAMPLES],
    }


def _is_excluded(path: str, exclude: Sequence[str]) -> bool:
    name = path.rpartition("/")[2]
    return any(
        fnmatch(path, glob) or fnmatch(path, f"*/{glob}") or fnmatch(name, glob)
        for glob in exclude
    )


def _name_step(row: ActionRow) -> str | None:
    """Return an action's name in a sequence: the command, else the kind; None if it is not a step."""
    is_elsewhere = row["kind"] == ActionKind.EDIT and row["path"] is None
    is_step = (
        row["kind"] in (ActionKind.READ, ActionKind.EDIT, ActionKind.SEARCH)
        and not is_elsewhere
    )
    return row["command"] or (str(row["kind"]) if is_step else None)
