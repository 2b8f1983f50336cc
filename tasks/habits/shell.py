"""A shell script as the simple commands in it: which words, in which folder, and whether the script's end tells theirs.

A small reader of the part of the shell's grammar that agents write: lists, pipes, redirections, here-documents, `cd`.
What it does not know (functions, substitutions within words) is passed over; it never raises. One pass over the text.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from posixpath import join, normpath

MOST = 20_000
"""Characters of a script that are read."""
TOKEN = re.compile(
    r"(?P<space>[ \t\r]+|\\\n|(?<!\S)#[^\n]*)"
    r"|(?P<redirect>\d*(?:<<<|<<-?|>>|[<>]&-?|<>|>\||[<>])|&>>?)"
    r"|(?P<joint>&&|\|\||\|&|;;|[;|&\n()])"
    r"|(?P<word>(?:\\.|'[^']*'|\"(?:\\.|[^\"\\])*\"|\$\([^()]*\)|`[^`]*`|[^\s;|&<>()\\'\"`])+)",
    re.DOTALL,
)
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
RESERVED = frozenset({"then", "do", "else", "elif", "if", "while", "until", "!", "{", "}", "done", "fi", "esac"})
"""Words of the grammar before a command."""
HEADS = frozenset({"for", "case", "select", "function"})
"""What begins something that is no command."""


@dataclass
class SimpleCommand:
    """One program with its arguments."""

    words: list[str] = field(default_factory=list)
    folder: str | None = ""
    """Where it runs, from where the script began; None where that can't be told."""
    writes: list[str] = field(default_factory=list)
    """Files that its output goes to."""
    joint: str = ""
    """What stands after it: `&&`, `||`, `|`, `;`; nothing at the end."""


def parse_script(script: str) -> list[SimpleCommand]:
    """Return the script's commands in order, without the `cd`s, which are told by the folders."""
    found: list[SimpleCommand] = []
    folder: str | None = ""
    for one in _split_commands(script[:MOST]):
        while one.words and (one.words[0] in RESERVED or ASSIGNMENT.match(one.words[0])):
            del one.words[0]
        if one.words[:1] in (["cd"], ["pushd"]):
            folder = _change_folder(folder, one.words)
        elif one.words and one.words[0] not in HEADS:
            one.folder = folder
            found.append(one)
    return found


def tell_outcomes(commands: list[SimpleCommand], failed: bool | None) -> list[bool | None]:
    """Return for each command whether it went well, as far as the end of the whole script tells.

    A script that went well and has `&&` alone says so of each; one that failed only of its single command. What a
    pipe, `||` or `;` hides is not known, but for what stands last.
    """
    if failed is None or not commands:
        return [None] * len(commands)
    known: list[bool | None] = [None] * len(commands)
    last = len(commands) - 1
    if not failed:
        known[last] = True
        for at in range(last - 1, -1, -1):
            if commands[at].joint != "&&":
                break
            known[at] = True
    elif last == 0 or commands[last - 1].joint in (";", "\n"):
        known[last] = False
    return known


def _split_commands(script: str) -> Iterator[SimpleCommand]:
    one, at, target, ends = SimpleCommand(), 0, "", list[str]()
    while at < len(script):
        token = TOKEN.match(script, at)
        at = token.end() if token else at + 1
        if token is None or token["space"]:
            continue
        if token["redirect"]:
            target = token["redirect"].lstrip("0123456789")
        elif token["word"]:
            word = _unquote(token["word"])
            if target in ("<<", "<<-"):
                ends.append(word)
            elif target in (">", ">>", ">|", "&>", "&>>"):
                one.writes.append(word)
            elif not target:
                one.words.append(word)
            target = ""
        else:
            target, one.joint = "", token["joint"].replace("|&", "|")
            if one.joint == "\n" and ends:
                at, ends = _skip_here_documents(script, at, ends), []
            yield one
            one = SimpleCommand()
    one.joint = ""
    yield one


def _skip_here_documents(script: str, at: int, ends: list[str]) -> int:
    """Return where the script goes on after the bodies that end in these lines."""
    for end in ends:
        while at < len(script):
            stop = script.find("\n", at)
            line, at = script[at : stop if stop >= 0 else len(script)], stop + 1 if stop >= 0 else len(script)
            if line.strip() == end:
                break
    return at


def _unquote(word: str) -> str:
    if not any(mark in word for mark in "'\"\\"):
        return word
    try:
        return "".join(shlex.split(word))
    except ValueError:
        return word


def _change_folder(folder: str | None, words: list[str]) -> str | None:
    """Return where `cd` leads; None for what only the shell that ran it knows."""
    to = next((word for word in words[1:] if not word.startswith("-")), None)
    if to is None or (folder is None and not to.startswith("/")) or to[0] in "~$`" or "$" in to:
        return None
    return normpath(join(folder or "", to))
