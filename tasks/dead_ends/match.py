"""Tell whether a tool call tries again what led to a dead end."""

import re
from collections.abc import Collection, Sequence

from slowwave.schemas.rows import DeadEndRow
from slowwave.tasks.checks.manifests import find_reader
from slowwave.tasks.dead_ends.find import get_name, weigh_share
from slowwave.tasks.dead_ends.moves import (
    TOKEN,
    Move,
    MoveKind,
    match_program,
    read_call_moves,
)

ALIKE = 0.5
"""Share of a dead end's names that a call has, at least, to be the same approach."""
TELLING = 4
ELSEWHERE = 0.6
"""Names of an edit, and the share of them, that make it the same approach in another file."""
AFTER = re.compile(r"&&|\|\|?|;")
"""What ends a command in a line."""


def find_repeated(
    tool: str,
    given: str,
    workspace: str | None,
    dead_ends: Sequence[DeadEndRow],
) -> list[DeadEndRow]:
    """Return the dead ends that a tool call tries again, the closest first.

    Args:
        tool: the tool's name.
        given: its arguments, as JSON or as text.
        workspace: the folder that its paths are relative to.
        dead_ends: rows of DEAD_ENDS of that workspace: kind, path, words, instead.
    """
    moves = read_call_moves(tool, given, None, workspace)
    likely = [
        (max((measure_likeness(move, row) for move in moves), default=0.0), row)
        for row in dead_ends
    ]
    likely.sort(key=lambda pair: -pair[0])
    return [row for share, row in likely if share >= ALIKE]


def measure_likeness(move: Move, row: DeadEndRow) -> float:
    """Return how much of a dead end's approach a move has, 0 to 1."""
    words = tuple(row["words"])
    if row["kind"] == MoveKind.EDIT:
        return _compare_edit(move, row)
    if row["kind"] == MoveKind.CHECK:
        return _compare_options(words, move.words)
    names = list_dependencies(words)
    if names and (move.kind is not MoveKind.EDIT or _is_manifest(move.path)):
        return _share(names, _list_added(move, names, row))
    if move.kind is MoveKind.EDIT:
        return _compare_written(words, move)
    if move.kind not in (MoveKind.RUN, MoveKind.CHECK):
        return 0.0
    return _compare_commands(words, move.words)


def _is_manifest(path: str | None) -> bool:
    """Return True if a file lists dependencies, by its name."""
    return find_reader((path or "").rpartition("/")[2]) is not None


def _list_added(
    move: Move,
    names: Collection[str],
    row: DeadEndRow,
) -> list[str]:
    """Return which of a dead end's dependencies a move adds, but for those in the version that was taken instead."""
    instead = {*(row.get("instead") or "").split()} - {*row["words"]}
    if move.kind is MoveKind.EDIT:
        lines = [line for line in move.list_fresh_lines() if line not in instead]
        return [name for name in names if any(name in line for line in lines)]
    taken = {word for word in instead if get_name(word) in names}
    return list_dependencies([word for word in move.words if word not in taken])


def _compare_edit(move: Move, row: DeadEndRow) -> float:
    """Return how much of an edit that was left a move brings in again."""
    brought = _leave_out_numbers(row["words"])
    if move.kind is MoveKind.RUN and _is_manifest(row["path"]):
        added = [
            frozenset(TOKEN.findall(name)) for name in list_dependencies(move.words)
        ]
        return float(any(names and names <= brought for names in added))
    if move.kind is not MoveKind.EDIT:
        return 0.0
    share = weigh_share(brought, move.added)
    is_same_file = move.path == row["path"]
    if is_same_file:
        given = _leave_out_numbers(move.added)
        is_part = len(given) > 1 and given <= brought
        return max(share, ALIKE) if is_part else share
    is_telling = len(brought) >= TELLING and share >= ELSEWHERE
    return share if is_telling else 0.0


def _leave_out_numbers(names: Collection[str]) -> frozenset[str]:
    """Return names without numbers, where there are others: with another number it is the same approach."""
    return frozenset(name for name in names if not name.isdigit()) or frozenset(names)


def _compare_options(words: Sequence[str], others: Sequence[str]) -> float:
    """Return 1 for a command of the same program with all options of one that failed by them; else 0."""
    options = {word for word in words if word.startswith("-")}
    is_same = words[:1] == tuple(others[:1]) and options <= {*others}
    return float(is_same and bool(options))


def _compare_written(words: Sequence[str], move: Move) -> float:
    """Return how much of a command stands in a line that an edit brings in, as in a script or a pipeline."""
    head = " ".join(words[:2])
    if len(words) < 2:
        return 0.0
    tails = (
        [
            word.strip("\"',")
            for word in AFTER.split(line[line.index(head) :])[0].split()
        ]
        for line in move.list_fresh_lines()
        if head in line
    )
    return max((_compare_commands(words, tail) for tail in tails), default=0.0)


def list_dependencies(words: Sequence[str]) -> list[str]:
    """Return the names that a command makes dependencies, without their versions."""
    size = match_program(tuple(words), "adds")
    return [
        get_name(word) for word in words[size:] if size and not word.startswith("-")
    ]


def _compare_commands(words: Sequence[str], others: Sequence[str]) -> float:
    """Return the share of a command's arguments that another one of the same program and action has."""
    head = 2 if len(words) > 1 and not words[1].startswith("-") else 1
    if words[:head] != tuple(others[:head]):
        return 0.0
    items = _list_items(words[head:])
    given = _list_items(others[head:])
    if not items:
        return 0.0 if any(not item.startswith("-") for item in given) else 1.0
    return _share(items, given)


def _list_items(words: Sequence[str]) -> list[str]:
    """Return options and arguments without values and versions, and without free text."""
    return [get_name(word) for word in words if word.strip("-") and " " not in word]


def _share(names: Collection[str], others: Collection[str]) -> float:
    return len({*names} & {*others}) / len({*names}) if names else 0.0
