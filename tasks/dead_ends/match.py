"""Tell whether a tool call tries again what led to a dead end."""

from collections.abc import Collection, Sequence
from typing import Any

from slowwave.tasks.checks.manifests import READERS
from slowwave.tasks.dead_ends.find import get_name, get_share
from slowwave.tasks.dead_ends.moves import (
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
Row = dict[str, Any]


def find_repeated(
    tool: str, given: str, workspace: str | None, dead_ends: Sequence[Row]
) -> list[Row]:
    """Return the dead ends that a tool call tries again, the closest first.

    Args:
        tool: the tool's name.
        given: its arguments, as JSON or as text.
        workspace: the folder that its paths are relative to.
        dead_ends: rows of DEAD_ENDS of that workspace: kind, path, words.
    """
    moves = read_call_moves(tool, given, None, workspace)
    likely = [
        (max((measure_likeness(move, row) for move in moves), default=0.0), row)
        for row in dead_ends
    ]
    likely.sort(key=lambda pair: -pair[0])
    return [row for share, row in likely if share >= ALIKE]


def measure_likeness(move: Move, row: Row) -> float:
    """Return how much of a dead end's approach a move has, 0 to 1."""
    if row["kind"] == MoveKind.EDIT:
        brought = frozenset(row["words"])
        share = get_share(brought, move.added)
        is_same_file = move.path == row["path"]
        is_part = len(move.added) > 1 and move.added <= brought
        share = max(share, ALIKE) if is_part and is_same_file else share
        is_telling = len(row["words"]) >= TELLING and share >= ELSEWHERE
        is_edit = move.kind is MoveKind.EDIT
        return share if is_edit and (is_same_file or is_telling) else 0.0
    words = tuple(row["words"])
    names = list_dependencies(words)
    if names and move.kind is MoveKind.EDIT:
        is_manifest = (move.path or "").rpartition("/")[2] in READERS
        return (
            _share(names, [name for name in names if name in move.text])
            if is_manifest
            else 0.0
        )
    if move.kind not in (MoveKind.RUN, MoveKind.CHECK):
        return 0.0
    if names:
        return _share(names, list_dependencies(move.words))
    return _compare_commands(words, move.words)


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
    return [get_name(word) for word in words if word and " " not in word]


def _share(names: Collection[str], others: Collection[str]) -> float:
    return len({*names} & {*others}) / len({*names}) if names else 0.0
