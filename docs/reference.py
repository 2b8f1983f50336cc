"""The reference of the commands, docs/commands.md, as the program itself has them.

python docs/reference.py > docs/commands.md
"""

from collections.abc import Iterator
from typing import Any

import typer

from slowwave.cli.common import SHARED
from slowwave.cli.main import (
    COMMANDS,
    GROUP,
    PLUGINS,
    RENAMED,
    app,
    make_plugin_command,
)
from slowwave.schemas.plugins import find_plugins

HEAD = """# The commands

Written by `python docs/reference.py > docs/commands.md`; `slowwave COMMAND --help` says the same. Almost every
command takes `--store DIR` (where the memory is) and `--space NAME` (the user or tenant); those that read take
`--release r3` (an earlier state), and `--json` prints JSON. Dates are given in ISO and
UTC, as JSON has them; text shows days in the speaker's time zone, or in this machine's if the speaker's is unknown.
"""
EXIT = """
## Exit status

0: done. 1: an error, printed as one line, or what `check` or `forget` found. 2: the command was not understood.
3: a night that released the rest, while a step failed or a file that was named gave nothing. 4: a night that is held
back: `slowwave diff --candidate` shows it, `slowwave promote` releases it.
"""


def render_reference() -> str:
    """Return the reference as Markdown."""
    known: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    lines = [HEAD]
    for heading, commands in COMMANDS.items():
        lines += [f"## {heading}\n"]
        for command in commands:
            lines += [*_render_command(known[command.__name__]), ""]
    lines += [f"## {PLUGINS}\n"]
    for name in sorted(find_plugins(GROUP)):
        lines += [*_render_command(make_plugin_command(name)), ""]
    renamed = ", ".join(f"`{theirs}` is `{ours}`" for theirs, ours in RENAMED.items())
    return "\n".join(lines) + f"\nNames from other memories: {renamed}.\n{EXIT}"


def _render_command(command: Any) -> Iterator[str]:
    """Yield the lines of one command: how it is called, what it does, its options."""
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    words = " ".join(_name_argument(one) for one in arguments)
    yield f"### `{f'slowwave {command.name} {words}'.strip()}`\n"
    yield from (
        " ".join(part.split()) + "\n" for part in (command.help or "").split("\n\n")
    )
    shared = {"help", *SHARED}
    for one in command.params:
        if one.name not in shared:
            name = (
                _name_argument(one)
                if one in arguments
                else ", ".join([*one.opts, *one.secondary_opts])
            )
            yield f"- `{name}`: {' '.join((one.help or '').split())}"


def _name_argument(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    return f"[{name}]" if not argument.required else name


if __name__ == "__main__":
    print(render_reference(), end="")
