"""Tell whether a tool call tries again what led to a dead end."""

import re
from collections.abc import Collection, Sequence
from pathlib import PurePosixPath

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
from slowwave.text.rarity import weigh_word

ALIKE = 0.5
"""Share of a dead end's names that a call has, at least, to be the same approach."""
SHORT = 2
"""Characters of an option of one letter."""
ENOUGH_NAMES = 4
ELSEWHERE = 0.6
"""Names of an edit, and the share of them, that make it the same approach in another file."""
HINTED = 0.5
HINT = 2.5
"""Share of the words that the names of the smaller of two edits of a file are made of, and the rarity of those that
both have, that make them the same approach."""
RARE = 3.0
"""Rarity of names that make an edit of another file of the folder, or of the name, the same approach."""
SELDOM = 6.5
"""Rarity of the words together by which a prompt names a command, at least."""
HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])|_")
"""Where a name has another word: lruCache, lru_cache."""
IMPORTED = (
    r"^import (?:[\w.]+(?: as \w+)?, ?)*%(name)s(?:\.[\w.]+)?(?: as \w+)?(?:,.*)?;?$"
    r"|^from %(name)s(?:\.[\w.]+)? import\b"
    r"|^(?:use|using|extern crate) %(name)s(?:(?:::|\.).*)?;$"
    r"|(?:^(?:import|export)\b[^\"'`]*|^\} from |\b(?:require|import) ?\(? ?)"
    r"[\"'`]%(name)s(?:/[^\"'`]*)?[\"'`]"
)
"""A statement that imports a dependency: Python's, Rust's and its like, JavaScript's and Ruby's."""
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
    moves = read_call_moves(tool=tool, given=given, failed=None, workspace=workspace)
    likely = [
        (max((measure_likeness(move, row) for move in moves), default=0.0), row)
        for row in dead_ends
    ]
    likely.sort(key=lambda pair: -pair[0])
    return [row for share, row in likely if share >= ALIKE]


def find_named_commands(
    prompt: str,
    dead_ends: Sequence[DeadEndRow],
) -> list[DeadEndRow]:
    """Return the dead ends whose command a prompt names: all of its rare words, which are rare enough together.

    Of a dependency a prompt does not tell whether it is to be used, or is refused or gone: the call tells.
    """
    said = {word.casefold() for word in TOKEN.findall(prompt)}
    found: list[DeadEndRow] = []
    for row in dead_ends:
        words = row["words"] if row["kind"] == MoveKind.RUN else []
        plain = [] if list_dependencies(words) else _list_plain(words)
        rare = [word for word in plain if weigh_word(word) >= RARE]
        is_seldom = sum(map(weigh_word, rare)) >= SELDOM
        if is_seldom and said.issuperset(rare):
            found.append(row)
    return found


def _list_plain(words: Sequence[str]) -> list[str]:
    """Return the words of a command without options, paths and values, in lower case."""
    return [word.casefold() for word in words if word.isalpha()]


def measure_likeness(move: Move, row: DeadEndRow) -> float:
    """Return the share of a dead end's approach that a move has, 0 to 1."""
    words = tuple(row["words"])
    if row["kind"] == MoveKind.WORDS:
        return float(move.brings_in(words))
    if row["kind"] == MoveKind.EDIT:
        return _compare_edit(move, row)
    if row["kind"] == MoveKind.CHECK:
        fewer = (row.get("instead") or "").split()
        dropped = [word for word in words if word not in fewer] or words
        return _compare_options((words[0], *dropped), move.words)
    if _is_of_those_that_worked(move.words, row):
        return 0.0
    names = list_dependencies(words)
    if names and (move.kind is not MoveKind.EDIT or _is_manifest(move.path)):
        return _share(names, _list_added(move, names, row))
    if names and _uses(move, names):
        return 1.0
    if move.kind is MoveKind.EDIT:
        return _compare_written(words, move)
    if move.kind not in (MoveKind.RUN, MoveKind.CHECK):
        return 0.0
    return _compare_commands(words, move.words)


def _is_of_those_that_worked(
    words: Sequence[str],
    row: DeadEndRow,
) -> bool:
    """Return True if a command is the one that was run instead of what failed, or like it has nothing of what failed.

    That is what the failed one has and the other lacks, if both are of the same program.
    """
    instead = (row.get("instead") or "").split()
    if not words or row["words"][0] not in instead:
        return False
    failed = {*map(get_name, row["words"])} - {*map(get_name, instead)}
    is_rid = bool(failed) and failed.isdisjoint(map(get_name, words))
    return is_rid or list(words) == instead[-len(words) :]


def _uses(move: Move, names: Collection[str]) -> bool:
    """Return True if an edit of code brings in a line that imports a dependency."""
    if move.is_prose:
        return False
    patterns = [re.compile(IMPORTED % {"name": re.escape(name)}) for name in names]
    lines = move.list_fresh_lines()
    return any(pattern.search(line) for pattern in patterns for line in lines)


def _is_manifest(path: str | None) -> bool:
    """Return True if a file lists dependencies, by its name."""
    return find_reader((path or "").rpartition("/")[2]) is not None


def _list_added(
    move: Move,
    names: Collection[str],
    row: DeadEndRow,
) -> list[str]:
    """Return the dependencies of a dead end that a move adds, except in the version that was taken instead."""
    instead = {*(row.get("instead") or "").split()} - {*row["words"]}
    if move.kind is MoveKind.EDIT:
        lines = [line for line in move.list_fresh_lines() if line not in instead]
        return [
            name
            for name in names
            if any(
                re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", line)
                for line in lines
            )
        ]
    taken = {word for word in instead if get_name(word) in names}
    return list_dependencies([word for word in move.words if word not in taken])


def _compare_edit(move: Move, row: DeadEndRow) -> float:
    """Return the share of an abandoned edit that a move brings in again."""
    brought = _leave_out_numbers(row["words"])
    if move.kind is MoveKind.RUN and _is_manifest(row["path"]):
        added = [
            frozenset(TOKEN.findall(name)) for name in list_dependencies(move.words)
        ]
        return float(any(names and names <= brought for names in added))
    if move.kind is not MoveKind.EDIT:
        return 0.0
    share = weigh_share(brought, move.added)
    if move.path == row["path"]:
        given = _leave_out_numbers(move.added)
        is_part = len(given) > 1 and given <= brought
        is_same = is_part or _hints(brought, given)
        return max(share, ALIKE) if is_same else share
    is_rare = sum(weigh_word(name.lower()) for name in brought & move.added) >= RARE
    is_near = is_rare and _is_near(move.path, row["path"])
    is_same = (len(brought) >= ENOUGH_NAMES or is_near) and share >= ELSEWHERE
    return share if is_same else 0.0


def _is_near(path: str | None, other: str | None) -> bool:
    """Return True if two files are called alike, or lie in the same folder below the project's."""
    first = PurePosixPath(path or "")
    second = PurePosixPath(other or "")
    is_inside = first.parent.name != "" and first.parent == second.parent
    return first.name == second.name or is_inside


def _hints(brought: Collection[str], given: Collection[str]) -> bool:
    """Return True if names are made of the same words: `functools.cache` hints at `lru_cache`."""
    tried = _split_names(brought)
    words = _split_names(given)
    shared = tried & words
    least = HINTED * min(len(tried), len(words))
    return sum(map(weigh_word, shared)) >= HINT and len(shared) >= least


def _split_names(names: Collection[str]) -> frozenset[str]:
    """Return the lower-case words that names are made of."""
    words = (word.lower() for name in names for word in HUMP.split(name))
    return frozenset(word for word in words if word.isalpha())


def _leave_out_numbers(names: Collection[str]) -> frozenset[str]:
    """Return the names without numbers, if any are: with another number it is the same approach."""
    return frozenset(name for name in names if not name.isdigit()) or frozenset(names)


def _compare_options(words: Sequence[str], others: Sequence[str]) -> float:
    """Return 1 for a command of the same program with all options that another one failed by; else 0."""
    options = {word for word in words if word.startswith("-")}
    is_same = words[:1] == tuple(others[:1]) and all(
        _has_option(option, others) for option in options
    )
    return float(is_same and bool(options))


def _has_option(option: str, words: Sequence[str]) -> bool:
    """Return True if a command has an option, or the long form of one of a letter, which begins with it."""
    is_short = len(option) == SHORT
    return any(
        word == option or (is_short and word.startswith(f"-{option}")) for word in words
    )


def _compare_written(words: Sequence[str], move: Move) -> float:
    """Return the share of a command that stands in a line which an edit brings in, as in a script or a pipeline."""
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
