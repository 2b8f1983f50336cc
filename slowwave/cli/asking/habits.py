"""`slowwave habits`: what agents did over and over in a project."""

import json
from typing import Annotated

import typer

from slowwave.cli.common import JsonOption, ReleaseOption, SpaceOption, StoreOption, report_errors

HEADINGS = {
    "co_edit": "Files that change together",
    "sequence": "Steps that follow each other",
    "command": "Commands",
}


def habits(
    workspace: Annotated[
        str | None,
        typer.Option(help="Of this project; by default that of this folder, where known.", show_default=False),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Of all projects, in whatever folder.")] = False,
    kind: Annotated[str | None, typer.Option(help="co_edit, sequence or command.", show_default=False)] = None,
    file: Annotated[
        list[str] | None, typer.Option("--file", help="Which others change with this file. May be repeated.")
    ] = None,
    as_json: JsonOption = False,
    store: StoreOption = None,
    space: SpaceOption = None,
    release: ReleaseOption = None,
) -> None:
    """Print what is done over and over in a project.

    Files that change together, steps that follow each other, commands; counted by turns, from one thing that a person
    says to the next.
    """
    with report_errors():
        from slowwave.cli.asking.context import find_project, open_memory

        memory = open_memory(store, space, release)
        place = None if everything else workspace or find_project(memory)
        found = memory.habits(place, kind, file or ())
        if as_json:
            typer.echo(json.dumps([one.as_dict() for one in found], ensure_ascii=False, indent=2))
            return
        told: list[str] = []
        for name, heading in HEADINGS.items():
            some = [one for one in found if one.kind == name]
            of = len({one.workspace for one in some}) > 1
            lines = [f"  {one.describe()}{f'  [{one.workspace}]' if of else ''}" for one in some]
            told += ["\n".join([heading, *lines])] if lines else []
        typer.echo("\n\n".join(told) or "No habits found.")
