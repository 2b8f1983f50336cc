"""Read a session's tool calls and talk as moves: edits, commands, checks, and what takes them back."""

import re
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from slowwave.schemas.tool_calls import (
    EDITS,
    NEW,
    OLD,
    PATCH,
    list_paths,
    list_scripts,
    list_texts,
    parse_arguments,
    split_patch,
)
from slowwave.schemas.vocabulary import PROPOSED, ActionKind, CommandRole, Origin
from slowwave.tasks.habits.calls import locate, read_call
from slowwave.tasks.habits.commands import (
    count_wrappers,
    find_edited_in_place,
    is_own_target,
    read_command,
)
from slowwave.tasks.habits.shell import SimpleCommand, parse_script

MOST_SHOWN = 160
"""Characters of a command or of an edit's first line."""
MOST_READ = 20_000
"""Characters of an argument, or of a result, that are read."""
TOKEN = re.compile(r"[^\W_]\w*")
CODE = re.compile(r"\n|\s.*[();=]|[();=].*\s")
"""An argument that is a program by itself: a command with it only looks something up."""
SUBSTITUTION = re.compile(
    r"(?:^|[;\s\d$])s(?P<mark>[/|#,@!])(?P<old>(?:\\.|(?!(?P=mark)).)*)(?P=mark)"
    r"(?P<new>(?:\\.|(?!(?P=mark)).)*)(?P=mark)"
)
"""What `sed` replaces, and by what."""
PROSE = (".md", ".rst", ".txt", ".adoc", "")
"""Endings of files in which a dependency may be named without being used."""
COMPUTED = ("$(", "`", "<(")
"""Signs of a script that a shell fills in."""
REJECTED = "The user doesn't want to proceed with this tool use"
"""Claude Code's own words as a call's result: the person refused it."""
CHECKING = (
    CommandRole.TEST,
    CommandRole.BUILD,
    CommandRole.LINT,
    CommandRole.FORMAT,
)


class MoveKind(StrEnum):
    """What a move does."""

    EDIT = "edit"
    RUN = "run"
    CHECK = "check"
    """A command that tells whether the code is right: test, build, lint, format."""
    LOOK = "look"
    UNDO = "undo"
    COMMIT = "commit"
    PERSON = "person"
    MODEL = "model"
    WORDS = PROPOSED
    """A proposal that the model made in words."""


@dataclass(frozen=True, slots=True)
class Move:
    """One edit, simple command or message of a session."""

    kind: MoveKind
    line: str
    """As it is shown: the command, the first line that an edit adds, or what was said."""
    path: str | None = None
    words: tuple[str, ...] = ()
    """A command's program and arguments, without the words before it."""
    role: CommandRole | None = None
    """The role of a command."""
    added: frozenset[str] = frozenset()
    """The names that an edit brings in."""
    removed: frozenset[str] = frozenset()
    """The names that an edit takes out."""
    targets: tuple[str, ...] = ()
    """The paths or names of an undo; empty for all files."""
    text: str = ""
    """The text that an edit writes."""
    old: str = ""
    """The text that an edit replaces."""
    is_whole: bool = False
    """True if that is the whole file."""
    ok: bool | None = None
    output: str = ""
    is_refused: bool = False
    """True if the person refused the call."""
    message: str = ""
    result: str | None = None
    turn: int = 0
    at: datetime | None = None

    def list_fresh_lines(self) -> list[str]:
        """Return the lines that an edit brings in."""
        known = {line.strip() for line in self.old.splitlines()} | {""}
        fresh = (line.strip() for line in self.text.splitlines())
        return [line for line in fresh if line not in known]

    def brings_in(self, names: Collection[str]) -> bool:
        """Return True if a command has one of some names, or an edit of code brings it in; in lower case."""
        given = set[str]()
        if self.kind in (MoveKind.RUN, MoveKind.CHECK):
            given = set(TOKEN.findall(" ".join(self.words).casefold()))
        elif self.kind is MoveKind.EDIT and not self.is_prose:
            given = {name.casefold() for name in self.added}
        return any(given.issuperset(TOKEN.findall(name)) for name in names)

    @property
    def is_prose(self) -> bool:
        """Return True if its file is text for people, by its ending."""
        return PurePosixPath(self.path or "").suffix in PROSE


@cache
def load_programs() -> dict[str, frozenset[str]]:
    """Return the table of commands that add, remove, restore and commit."""
    content = (Path(__file__).parent / "programs.toml").read_text(encoding="utf-8")
    return {name: frozenset(words) for name, words in tomllib.loads(content).items()}


def match_program(words: tuple[str, ...], table: str) -> int:
    """Return the number of a command's first words that the table has as one entry; 0 if it has none of them."""
    entries = load_programs()[table]
    return next((size for size in (3, 2, 1) if " ".join(words[:size]) in entries), 0)


def read_moves(
    messages: Sequence[Mapping[str, Any]], workspace: str | None
) -> list[Move]:
    """Return the moves of a session, in order.

    Args:
        messages: active rows of MESSAGES of one session in order: message_id, origin, text, blocks, ts.
        workspace: the session's.
    """
    results = {
        block["call_id"]: (block, row["message_id"])
        for row in messages
        for block in row["blocks"] or ()
        if block["type"] == "tool_result" and block["call_id"]
    }
    moves: list[Move] = []
    turn = 0
    for row in messages:
        place = {"message": row["message_id"], "at": row["ts"]}
        is_person = row["origin"] == Origin.HUMAN
        if row["text"] and (is_person or row["origin"] == Origin.MODEL):
            turn += is_person
            kind = MoveKind.PERSON if is_person else MoveKind.MODEL
            moves.append(Move(kind, row["text"][:MOST_READ], turn=turn, **place))
        for block in row["blocks"] or ():
            if block["type"] == "tool_call" and block["name"]:
                result, message = results.get(block["call_id"], ({}, None))
                failed, outcome = _read_outcome(result, message)
                more = {**outcome, "turn": turn, **place}
                given = block["text"] or ""
                moves += read_call_moves(
                    tool=block["name"],
                    given=given,
                    failed=failed,
                    workspace=workspace,
                    outcome=more,
                )
    return _compare_with_written(moves)


def _read_outcome(
    result: Mapping[str, Any], message: str | None
) -> tuple[bool | None, dict[str, Any]]:
    """Return True if a call failed (None if it has no result), and the columns of its outcome."""
    output = (result.get("text") or "")[:MOST_READ]
    failed = result.get("is_error")
    if failed is None and message is not None:
        failed = False
    is_refused = output.startswith(REJECTED)
    return failed, {"output": output, "result": message, "is_refused": is_refused}


def _compare_with_written(moves: list[Move]) -> list[Move]:
    """Return the moves, a file that is written again with what it brings in and takes out."""
    written: dict[str, str] = {}
    compared: list[Move] = []
    for move in moves:
        path = move.path
        if move.kind is MoveKind.EDIT and path and move.is_whole:
            if path in written:
                added, removed = _compare_names(written[path], move.text)
                move = replace(move, added=added, removed=removed)
            if move.ok:
                written[path] = move.text
        compared.append(move)
    return compared


def read_call_moves(
    tool: str,
    given: str,
    failed: bool | None,
    workspace: str | None,
    outcome: Mapping[str, Any] | None = None,
) -> list[Move]:
    """Return the moves of one tool call.

    Args:
        tool: the tool's name.
        given: its arguments, as JSON or as text.
        failed: whether its result is an error; None if it has no result.
        workspace: the session's; paths are relative to it.
        outcome: more columns of the moves.
    """
    arguments = parse_arguments(given)
    kinds = {
        action.kind
        for action in read_call(tool=tool, given="{}", failed=None, workspace=None)
    }
    ok = None if failed is None else not failed
    more = dict(outcome or {})
    if PATCH in given:
        return [
            Move(MoveKind.EDIT, ok=ok, **edit, **more)
            for edit in _read_patch(given, workspace)
        ]
    script = next(iter(list_scripts(arguments)), "")
    edit = _read_edit(arguments, workspace)
    if edit is not None and (edit["added"] or edit["removed"]):
        return [Move(MoveKind.EDIT, ok=ok, **edit, **more)]
    # a tool of an unknown name that takes a script runs it
    if not script or (kinds & {ActionKind.READ, ActionKind.SEARCH}):
        return []
    return list(
        _read_script(script=script[:MOST_READ], ok=ok, workspace=workspace, more=more)
    )


def _read_edit(
    arguments: Mapping[str, Any], workspace: str | None
) -> dict[str, Any] | None:
    """Return path, text and names of an edit by old and new text, or of a written file; None for another call."""
    path = next(iter(list_paths(arguments)), None)
    if path is None:
        return None
    parts = [arguments, *_list_objects(arguments.get(EDITS))]
    old = [text[:MOST_READ] for part in parts for text in list_texts(part, OLD)]
    new = [text[:MOST_READ] for part in parts for text in list_texts(part, NEW)]
    edit = _describe_edit(
        path=path, old="\n".join(old), new="\n".join(new), workspace=workspace
    )
    return {**edit, "is_whole": bool(new) and not old and "content" in arguments}


def _list_objects(value: object) -> list[Mapping[str, Any]]:
    return (
        [part for part in value if isinstance(part, dict)]
        if isinstance(value, list)
        else []
    )


def _describe_edit(
    path: str,
    old: str,
    new: str,
    workspace: str | None,
) -> dict[str, Any]:
    """Return the columns of an edit."""
    added, removed = _compare_names(old, new)
    known = {line.strip() for line in old.splitlines()}
    fresh = (line.strip() for line in new.splitlines())
    first = next((line for line in fresh if line and line not in known), "")
    return {
        "path": locate(path, workspace) or path,
        "line": first[:MOST_SHOWN],
        "text": new,
        "old": old,
        "added": added,
        "removed": removed,
    }


def _compare_names(old: str, new: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names that a text brings in over an earlier one, and those that it takes out."""
    before = frozenset(TOKEN.findall(old))
    after = frozenset(TOKEN.findall(new))
    return after - before, before - after


def _read_patch(given: str, workspace: str | None) -> Iterator[dict[str, Any]]:
    """Yield the edits of a patch as Codex writes it."""
    for path, text in split_patch(given):
        lines = text[:MOST_READ].splitlines()
        old = "\n".join(line[1:] for line in lines if line.startswith("-"))
        new = "\n".join(line[1:] for line in lines if line.startswith("+"))
        yield _describe_edit(path=path, old=old, new=new, workspace=workspace)


def _read_script(
    script: str,
    ok: bool | None,
    workspace: str | None,
    more: Mapping[str, Any],
) -> Iterator[Move]:
    """Yield the moves of a script. Of one that failed the last command counts as failed; the others are unknown."""
    commands = [
        command
        for command in parse_script(script)
        if not match_program(tuple(command.words), "says") or command.writes
    ]
    is_computed = any(mark in script for mark in COMPUTED)
    heads = [
        command
        for command, before in zip(commands, [None, *commands], strict=False)
        if before is None or before.joint != "|"
    ]
    all_ran = all(command.joint in ("&&", "|") for command in commands[:-1])
    for command in heads:
        # what a pipe ends with counts for what it begins with
        is_last = command is heads[-1]
        ended = ok if is_last or (ok and all_ran) else None
        for move in _read_simple(
            command=command, ok=ended, workspace=workspace, more=more
        ):
            # words that a shell fills in are not known
            is_guess = is_computed and move.kind in (MoveKind.RUN, MoveKind.CHECK)
            yield replace(move, kind=MoveKind.LOOK) if is_guess else move


def _read_simple(
    command: SimpleCommand,
    ok: bool | None,
    workspace: str | None,
    more: Mapping[str, Any],
) -> Iterator[Move]:
    """Yield the moves of one command."""
    words = tuple(command.words[count_wrappers(command.words) :])
    line = " ".join(command.words).split("\n")[0][:MOST_SHOWN]
    meaning = read_command(command)
    edited = find_edited_in_place(command.words)
    if not edited and meaning.kind is ActionKind.EDIT:
        edited = [path for path in command.writes if not path.startswith("/dev/")]
    named = {"line": line, "words": words, "role": meaning.role, "ok": ok, **more}
    if edited or meaning.kind is ActionKind.EDIT:
        written = _read_substitutions(command.words) or {
            "added": frozenset(TOKEN.findall(" ".join(command.words[1:]))),
            "text": line,
        }
        for path in edited:
            place = locate(path, workspace, command.folder or "") or path
            yield Move(MoveKind.EDIT, path=place, **written, **named)
    elif (targets := find_undone_targets(words)) is not None:
        yield Move(MoveKind.UNDO, targets=targets, **named)
    elif match_program(words, "commits"):
        yield Move(MoveKind.COMMIT, **named)
    else:
        yield Move(_classify(words, meaning.kind, meaning.role), **named)


def _read_substitutions(words: Sequence[str]) -> dict[str, Any]:
    """Return text and names of what `sed` or `perl` puts in place of something; empty without one."""
    found = [match for word in words[1:] for match in SUBSTITUTION.finditer(word)]
    if words[0] not in ("sed", "perl") or not found:
        return {}
    old = "\n".join(match["old"] for match in found)
    new = "\n".join(match["new"] for match in found)
    added, removed = _compare_names(old, new)
    return {"added": added, "removed": removed, "text": new, "old": old}


def _classify(
    words: tuple[str, ...], kind: ActionKind, role: CommandRole | None
) -> MoveKind:
    """Return the kind of a command that neither edits nor undoes."""
    if kind in (ActionKind.READ, ActionKind.SEARCH) or any(map(CODE.search, words)):
        return MoveKind.LOOK
    adds = load_programs()["adds"]
    is_manager = f"{words[0]} add" in adds or f"{words[0]} install" in adds
    is_target = is_own_target(words) and (
        len(words) < 2 or words[1] == "run" or not is_manager
    )
    return MoveKind.CHECK if role in CHECKING or is_target else MoveKind.RUN


def find_undone_targets(words: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the paths or names that a command takes back, empty for all; None if it takes nothing back."""
    table = load_programs()
    if table["aborts"].intersection(words) or match_program(words, "reverts"):
        return ()
    if match_program(words, "drops"):
        return ()
    if any(word.endswith("@none") for word in words) and match_program(words, "adds"):
        return tuple(word for word in words if word.endswith("@none"))
    if size := match_program(words, "removes"):
        return tuple(word for word in words[size:] if not word.startswith("-"))
    if words[:2] == ("git", "reset"):
        return () if "--hard" in words else None
    return _find_restored_targets(words, table)


def _find_restored_targets(
    words: tuple[str, ...], table: Mapping[str, Any]
) -> tuple[str, ...] | None:
    """Return the paths that a command restores from git, empty for all; None if it restores nothing."""
    size = match_program(words, "restores")
    is_other = table["others"].intersection(words) or table["keeps"].intersection(
        words[size : size + 1]
    )
    if not size or is_other:
        return None
    if "--" in words:
        return _drop_all([*words[words.index("--") + 1 :]])
    rest = [word for word in words[size:] if not word.startswith("-")]
    # a checkout without a dot: a later step decides if this is a branch or a file
    if words[1:2] == ("checkout",) and not rest:
        return None
    return _drop_all(rest) if words[1:2] in (("checkout",), ("restore",)) else ()


def _drop_all(paths: list[str]) -> tuple[str, ...]:
    """Return the paths; empty if the whole folder is among them."""
    return () if "." in paths else tuple(paths)
