"""Classify a command: its program and action, without arguments, and what it is run for.

`uv run pytest -q FILE` and `uv run pytest` are the same command, run to test. Programs are listed in a table
(`programs.toml`). A project's own targets are classified by their names. Scripts give no habit.
"""

import re
import shlex
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from slowwave.schemas.vocabulary import ActionKind, CommandRole
from slowwave.tasks.habits.shell import SimpleCommand

LONGEST = 200
"""Most characters of a command as typed; a longer one is stored in its normal form."""
NAME = re.compile(r"[\w:.@/-]+")
PLAIN = re.compile(r"[\w@%+=:,./-]+")
AMOUNT = re.compile(r"\d+[smh]?|.*=.*")
"""Arguments of a wrapper before the program: `timeout 60`, `env A=b`."""


@dataclass(frozen=True)
class Command:
    """A simple command, classified for counting."""

    kind: ActionKind
    form: str | None = None
    """The program and its action, or None for a command that gives no habit."""
    line: str | None = None
    """The command as typed, without redirections."""
    role: CommandRole | None = None


@dataclass(frozen=True)
class _Programs:
    looks: dict[str, ActionKind]
    words: dict[str, frozenset[str]]
    roles: list[tuple[str, frozenset[str], CommandRole]]
    """The beginning of a command, options that it has, and its role; the most specific first."""
    targets: dict[str, CommandRole]


@cache
def _load_programs() -> _Programs:
    table = tomllib.loads(
        (Path(__file__).parent / "programs.toml").read_text(encoding="utf-8")
    )
    roles = []
    for role, names in table["roles"].items():
        for name in names:
            options = frozenset(part for part in name.split() if part.startswith("-"))
            roles.append(
                (
                    " ".join(part for part in name.split() if part not in options),
                    options,
                    CommandRole(role),
                )
            )
    return _Programs(
        looks={
            name: ActionKind(kind)
            for kind, names in table["looks"].items()
            for name in names
        },
        words={key: frozenset(names) for key, names in table["words"].items()},
        roles=sorted(roles, key=lambda entry: -entry[0].count(" ") - len(entry[1])),
        targets={
            word: CommandRole(role)
            for role, names in table["targets"].items()
            for word in names
        },
    )


def read_command(command: SimpleCommand) -> Command:
    """Return the kind, form and role of a command. A command that only writes text or edits in place is an edit."""
    programs = _load_programs()
    words = command.words
    if (
        words[0] in ("cat", "echo", "printf") and command.writes
    ) or find_edited_in_place(words):
        return Command(ActionKind.EDIT)
    if looks := programs.looks.get(" ".join(words[:2])) or programs.looks.get(words[0]):
        return Command(looks)
    before = count_wrappers(words)
    form, role = _find_form(words[before:], programs)
    if not form:
        return Command(ActionKind.OTHER)
    line = " ".join(
        word if PLAIN.fullmatch(word) else shlex.quote(word) for word in words
    )
    whole = " ".join([*words[:before], *form])
    return Command(
        kind=ActionKind.RUN,
        form=whole,
        line=line if len(line) <= LONGEST and "\n" not in line else whole,
        role=role,
    )


def count_wrappers(words: list[str]) -> int:
    """Return the number of words before the program: `uv run`, `timeout 60`, `env A=b`."""
    programs = _load_programs()
    at = 0
    while size := _match_words(words[at:-1], programs.words["wrappers"]):
        at = _skip_options(words, at + size, programs)
        while at < len(words) - 1 and AMOUNT.fullmatch(words[at]):
            at += 1
    return min(at, len(words) - 1)


def is_own_target(words: Sequence[str]) -> bool:
    """Return True if a command runs a script or target that the project itself names: `make x`, `npm run x`."""
    return bool(_match_words([*words], _load_programs().words["runners"]))


def find_edited_in_place(words: list[str]) -> list[str]:
    """Return the files that `sed -i` or `perl -i` changes."""
    is_editor = words[0] in ("sed", "perl")
    if not is_editor or not any(
        re.fullmatch(r"-[a-zA-Z]*i.*|--in-place.*", word) for word in words[1:]
    ):
        return []
    rest = [word for word in words[1:] if word and not word.startswith("-")]
    given = any(word in ("-e", "-f", "--expression", "--file") for word in words)
    return rest if given and words[0] == "sed" and len(rest) == 1 else rest[1:]


def _match_words(words: list[str], names: frozenset[str]) -> int:
    """Return the number of first words, at most two, that form one of the names; 0 if none do."""
    return next(
        (
            size
            for size in (2, 1)
            if len(words) >= size and " ".join(words[:size]) in names
        ),
        0,
    )


def _skip_options(words: list[str], at: int, programs: _Programs) -> int:
    """Return the place of the next word that is neither an option nor the value of one."""
    while at < len(words) and words[at].startswith("-") and len(words[at]) > 1:
        at += 2 if words[at] in programs.words["valued"] else 1
    return at


def _find_form(
    words: list[str], programs: _Programs
) -> tuple[list[str], CommandRole | None]:
    """Return the words that describe the action, and its role; no words for a program that gives no habit."""
    plain = _drop_options(words, programs)
    size = _match_words(plain, programs.words["runners"])
    if size and NAME.fullmatch("".join(plain[size : size + 1])):
        form = plain[: size + 1]
        return form, _find_target_role(form, programs)
    options, role = _match_role(plain[:1], words, programs)
    if options:  # `node --test`: the other words are its arguments
        return [plain[0], *options], role
    size = _match_words(plain, programs.words["one"] | programs.words["two"])
    depth = 2 if " ".join(plain[:size]) in programs.words["two"] else min(size, 1)
    form = plain[: max(size, 1) + depth]
    options, role = _match_role(form, words, programs)
    if not role:
        return [], None
    return [*form, *(option for option in options if option not in form)], role


def _drop_options(words: list[str], programs: _Programs) -> list[str]:
    """Return the program and its arguments that are neither options nor their values."""
    plain = words[:1]
    at = 1
    while (at := _skip_options(words, at, programs)) < len(words):
        plain.append(words[at])
        at += 1
    return plain


def _find_target_role(form: list[str], programs: _Programs) -> CommandRole | None:
    """Return the role of a runner with its target (`make test`): from the table, else from a word of the target."""
    for begin, options, role in programs.roles:
        if begin == " ".join(form) and not options:
            return role
    for part in re.split(r"[^a-zA-Z0-9]+", form[-1]):
        if target_role := programs.targets.get(part.lower()):
            return target_role
    return None


def _match_role(
    form: list[str], words: list[str], programs: _Programs
) -> tuple[list[str], CommandRole | None]:
    """Return the options that decide the role, and the role."""
    whole = f"{' '.join(form)} "
    for begin, options, role in programs.roles:
        if whole.startswith(f"{begin} ") and options.issubset(words):
            return sorted(options), role
    return [], None
