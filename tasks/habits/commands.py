"""What a command is: its program and what that is to do, without arguments, and what it is run for.

`uv run pytest -q FILE` and `uv run pytest` are one command, run to test. Programs are told by a table
(`programs.toml`); a project's own scripts and targets by the names that it gave them.
"""

import re
import shlex
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from slowwave.schemas.vocabulary import ActionKind, CommandRole
from slowwave.tasks.habits.shell import SimpleCommand

LONGEST = 200
"""Characters of a command as typed; a longer one is told by its normal form alone."""
NAME_PARTS = re.compile(r"[^a-zA-Z0-9]+")
PLAIN = re.compile(r"[\w@%+=:,./-]+")
Words = tuple[str, ...]


@dataclass(frozen=True)
class Command:
    """What a simple command is, for counting."""

    kind: ActionKind
    form: str | None = None
    """Program and what it does; None for what no habit is made of."""
    line: str | None = None
    """As it was typed, without redirections."""
    role: CommandRole | None = None


@dataclass(frozen=True)
class _Programs:
    looks: dict[Words, ActionKind]
    wrappers: frozenset[Words]
    runners: frozenset[Words]
    depth: dict[Words, int]
    interpreters: frozenset[Words]
    valued: frozenset[str]
    roles: tuple[tuple[Words, frozenset[str], CommandRole], ...]
    """Words a command begins with, options it has, and the role: the most particular first."""
    scripts: dict[str, CommandRole]


@cache
def _load_programs() -> _Programs:
    table = tomllib.loads((Path(__file__).parent / "programs.toml").read_text(encoding="utf-8"))
    words = table["words"]
    roles = []
    for role, names in table["roles"].items():
        for name in names:
            parts = name.split()
            options = frozenset(part for part in parts[1:] if part.startswith("-"))
            roles.append((tuple(p for p in parts if p not in options), options, CommandRole(role)))
    roles.sort(key=lambda entry: -len(entry[0]) - len(entry[1]))
    return _Programs(
        {tuple(name.split()): ActionKind(kind) for kind, names in table["looks"].items() for name in names},
        frozenset(tuple(name.split()) for name in words["wrappers"]),
        frozenset(tuple(name.split()) for name in words["runners"]),
        {tuple(name.split()): depth for depth, key in ((1, "one"), (2, "two")) for name in words[key]},
        frozenset(tuple(name.split()) for name in words["interpreters"]),
        frozenset(words["valued"]),
        tuple(roles),
        {word: CommandRole(role) for role, names in table["scripts"].items() for word in names},
    )


def read_command(command: SimpleCommand) -> Command:
    """Return what a command is; one that only writes out a text, or edits in place, is an edit."""
    known, words = _load_programs(), command.words
    looks = known.looks.get(tuple(words[:2])) or known.looks.get(tuple(words[:1]))
    if words[0] in ("cat", "echo", "printf") and command.writes:
        return Command(ActionKind.EDIT)
    if words[0] in ("sed", "perl") and find_edited_in_place(words):
        return Command(ActionKind.EDIT)
    if looks is not None:
        return Command(looks)
    before = _count_wrapper_words(words, known)
    form, role = _find_form(words[before:], known, is_wrapped=before > 0)
    if form is None:
        return Command(ActionKind.OTHER)
    line = " ".join(word if PLAIN.fullmatch(word) else shlex.quote(word) for word in words)
    whole = " ".join([*words[:before], *form])
    return Command(ActionKind.RUN, whole, line if len(line) <= LONGEST and "\n" not in line else whole, role)


def find_edited_in_place(words: list[str]) -> list[str]:
    """Return the files that `sed -i` or `perl -i` changes."""
    if not any(re.fullmatch(r"-[a-zA-Z]*i.*|--in-place.*", word) for word in words[1:]):
        return []
    rest = [word for word in words[1:] if word and not word.startswith("-")]
    given = any(word in ("-e", "-f", "--expression", "--file") for word in words)
    return rest if given and words[0] == "sed" and len(rest) == 1 else rest[1:]


def _count_wrapper_words(words: list[str], known: _Programs) -> int:
    """Return how many words stand before the program that is meant."""
    at = 0
    while at < len(words) - 1:
        size = next((n for n in (2, 1) if tuple(words[at : at + n]) in known.wrappers), 0)
        if not size or at + size >= len(words):
            break
        at = _skip_options(words, at + size, known)
        while at < len(words) - 1 and (
            re.fullmatch(r"\d+[smh]?", words[at]) or "=" in words[at]
        ):  # `timeout 60`, `env A=b`
            at += 1
    return min(at, len(words) - 1)


def _skip_options(words: list[str], at: int, known: _Programs) -> int:
    """Return the place of the next word that is no option, nor the value of one."""
    while at < len(words) and words[at].startswith("-") and len(words[at]) > 1:
        at += 2 if words[at] in known.valued else 1
    return at


def _find_form(words: list[str], known: _Programs, *, is_wrapped: bool) -> tuple[list[str] | None, CommandRole | None]:
    """Return the words that say what is done, and the role; None for a program that makes no habit."""
    plain = _drop_options(words, known)
    if not plain:
        return None, None
    for size in (2, 1):
        if tuple(plain[:size]) in known.runners and len(plain) > size and _is_name(plain[size]):
            exact = {begin: role for begin, options, role in known.roles if not options}
            form = plain[: size + 1]
            return form, exact.get(tuple(form)) or _find_script_role(plain[size], known)
    options, role = _match_role(plain[:1], words, known)
    if options:  # `node --test`: what else stands there is what it is done to
        return [plain[0], *options], role
    for size in (2, 1):
        if tuple(plain[:size]) in known.interpreters and len(plain) > size and _is_script(plain[size]):
            return plain[: size + 1], CommandRole.RUN
    size = next((n for n in (2, 1) if tuple(plain[:n]) in known.depth), 1)
    form = plain[: size + known.depth.get(tuple(plain[:size]), 0)]
    matched, role = _match_role(form, words, known)
    if role is not None:
        return [*form, *(option for option in matched if option not in form)], role
    own = _is_script(plain[0]) and (is_wrapped or plain[0].startswith(("./", "scripts/", "bin/")))
    return (plain[:1], CommandRole.RUN) if own else (None, None)


def _drop_options(words: list[str], known: _Programs) -> list[str]:
    """Return the program and the words after it that are neither options nor their values."""
    plain, at = words[:1], 1
    while (at := _skip_options(words, at, known)) < len(words):
        plain.append(words[at])
        at += 1
    return plain


def _match_role(form: list[str], words: list[str], known: _Programs) -> tuple[list[str], CommandRole | None]:
    """Return the options that tell the role apart, and the role."""
    for begin, options, role in known.roles:
        if tuple(form[: len(begin)]) == begin and options.issubset(words):
            return sorted(options), role
    return [], None


def _find_script_role(name: str, known: _Programs) -> CommandRole | None:
    parts = (part.lower() for part in NAME_PARTS.split(name))
    return next((known.scripts[part] for part in parts if part in known.scripts), None)


def _is_name(word: str) -> bool:
    return bool(re.fullmatch(r"[\w:.@/-]+", word))


def _is_script(word: str) -> bool:
    """Return whether a word names a file of the project that is run: by a folder or an ending."""
    return bool(re.fullmatch(r"[\w.@-][/\w.@-]*", word)) and ("/" in word or "." in word.strip("."))
