"""Split a shell script into its simple commands: the words, and the folder of each.

shlex splits it. Only the grammar that agents use is parsed: lists, pipes, redirections, `cd`. The bodies of
here-documents are skipped. It never raises: text after an unclosed quote is ignored.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from posixpath import join, normpath

MOST = 20_000
"""Most characters of a script to read."""
UNREAD = re.compile(
    r"\\\n|^[ \t]*#.*|[ \t]#[^'\"\n]*$|(?<!\S)\d(?=[<>])|<<-?\s*(['\"]?)(\w+)\1(?P<rest>.*)\n(?:.*\n)*?[ \t]*\2[ \t]*$",
    re.MULTILINE,
)
"""Escaped line ends, comments, numbers of redirections, and here-documents except the rest of their first line."""
JOINTS = "();<>|&\n"
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
RESERVED = frozenset(
    {
        "then",
        "do",
        "else",
        "elif",
        "if",
        "while",
        "until",
        "!",
        "{",
        "}",
        "done",
        "fi",
        "esac",
    }
)
"""Words of the grammar before a command."""
HEADS = frozenset({"for", "case", "select", "function"})
"""Words that begin something other than a command."""


@dataclass
class SimpleCommand:
    """One program with its arguments."""

    words: list[str] = field(default_factory=list)
    folder: str | None = ""
    """The folder that it runs in, relative to the start of the script; None if unknown."""
    writes: list[str] = field(default_factory=list)
    """Files that its output goes to."""
    joint: str = ""
    """The operator after it: `&&`, `||`, `|`, `;`; empty at the end."""


def parse_script(script: str) -> list[SimpleCommand]:
    """Return the script's commands in order; a `cd` is not returned, but sets the folder of those after it."""
    commands: list[SimpleCommand] = []
    folder: str | None = ""
    for command in _split_commands(
        UNREAD.sub(lambda match: match["rest"] or " ", script[:MOST])
    ):
        while command.words and (
            command.words[0] in RESERVED or ASSIGNMENT.match(command.words[0])
        ):
            del command.words[0]
        if command.words[:1] in (["cd"], ["pushd"]):
            to = next(
                (word for word in command.words[1:] if not word.startswith("-")), None
            )
            if (
                to is None
                or (folder is None and not to.startswith("/"))
                or to[0] in "~$`"
                or "$" in to
            ):
                folder = None
            else:
                folder = normpath(join(folder or "", to))
        elif command.words and command.words[0] not in HEADS:
            command.folder = folder
            commands.append(command)
    return commands


def _split_commands(script: str) -> Iterator[SimpleCommand]:
    """Yield the commands between operators, including empty ones."""
    lexer = shlex.shlex(script, posix=True, punctuation_chars=JOINTS)
    lexer.whitespace = " \t\r"
    lexer.commenters = ""
    lexer.whitespace_split = True
    command = SimpleCommand()
    target = ""
    try:
        for token in lexer:
            if not set(token) <= set(JOINTS):
                if not target:
                    command.words.append(token)
                elif ">" in target and not target.endswith(">&"):
                    command.writes.append(token)
                target = ""
            elif "<" in token or ">" in token:
                target = token
            else:
                command.joint = next(
                    (joint for joint in ("&&", "||", "|") if joint in token), ";"
                )
                yield command
                command = SimpleCommand()
                target = ""
    except ValueError:  # a quote that is not closed
        pass
    yield command
