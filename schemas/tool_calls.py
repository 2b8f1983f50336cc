"""The forms of agents' tool calls: arguments as JSON, scripts, and patches as Codex writes them.

All that reads a call reads it by these functions: the night's actions and moves, and what an intention waits for.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

PATCH = "*** Begin Patch"
PATCH_FILE = re.compile(
    r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.*\S)\s*$", re.MULTILINE
)
"""Lines that name a file in Codex's patches."""
SCRIPTS = ("command", "cmd", "script", "CommandLine")
"""Arguments that are a script."""
PATHS = ("path", "file")
"""How the names of arguments end that are a file's path."""
OLD = ("old",)
"""How the names of arguments begin that are the text an edit replaces."""
NEW = ("new", "content", "file_text", "insert")
"""How the names of arguments begin that are the text an edit writes."""
EDITS = "edits"
"""The argument that has the edits of one call, each with its old and new text."""
SHELL_OPTION = re.compile("-.*c")
"""The option before a shell's script: `bash -lc SCRIPT`."""


def parse_arguments(given: str) -> dict[str, Any]:
    """Return a call's arguments; empty if they aren't a JSON object."""
    try:
        parsed = orjson.loads(given)
    except orjson.JSONDecodeError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


def join_words(value: object) -> str:
    """Return a script: a text as it is, the words of a list joined, and of a shell's words its script.

    Anything else is empty.
    """
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        return ""
    is_shell = len(value) > 2 and SHELL_OPTION.fullmatch(value[-2])
    return value[-1] if is_shell else " ".join(value)


def list_scripts(arguments: Mapping[str, Any]) -> list[str]:
    """Return the scripts among a call's arguments."""
    scripts = (join_words(arguments.get(name)) for name in SCRIPTS)
    return [script for script in scripts if script]


def list_paths(arguments: Mapping[str, Any]) -> list[str]:
    """Return the paths of files among a call's arguments."""
    return [
        value
        for name, value in arguments.items()
        if isinstance(value, str) and name.lower().endswith(PATHS)
    ]


def list_texts(arguments: Mapping[str, Any], names: tuple[str, ...]) -> list[str]:
    """Return the texts among some arguments whose names begin with one of `names`."""
    return [
        value
        for name, value in arguments.items()
        if isinstance(value, str) and name.startswith(names)
    ]


def list_patched_files(given: str) -> list[str]:
    """Return the files that a patch names; empty without a patch."""
    return [path for path, _ in split_patch(given)]


def split_patch(given: str) -> Iterator[tuple[str, str]]:
    """Yield each file that a patch names, with the lines below its name.

    A patch in the text of a script has its line breaks as `\\n`.
    """
    text = given if given.lstrip().startswith(PATCH) else given.replace("\\n", "\n")
    heads = [*PATCH_FILE.finditer(text)]
    ends = [*(head.start() for head in heads[1:]), len(text)]
    # without a file there is one end more
    for head, end in zip(heads, ends, strict=False):
        yield head[1].removesuffix("\\"), text[head.end() : end]
