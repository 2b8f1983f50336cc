"""`slowwave skill`: what a project goes by, as a SKILL.md that agents load."""

from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated

import typer

from slowwave.cli.common import OUT, command, echo, find_project, print_notes
from slowwave.schemas.errors import UsageError

if TYPE_CHECKING:
    from slowwave.memory import Memory

BUDGET = 1_500
FILE = "SKILL.md"


@command
def skill(
    memory: "Memory",
    workspace: Annotated[str | None, typer.Option(help="The project; by default that of this folder.")] = None,
    days: Annotated[int | None, typer.Option(min=1, help="Only of so many days before the release.")] = None,
    min_confidence: Annotated[float, typer.Option(min=0, max=1, help="Confidence from which a claim is told.")] = 0.5,
    budget: Annotated[int, typer.Option(min=0, help="Tokens of the block, at most.")] = BUDGET,
    out: Annotated[
        Path | None, typer.Option(help="The file, or the folder of the skill; without, it is printed.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Of the skill; by default its folder's.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Add the block to a file that has no marks.")] = False,
) -> None:
    """Write SKILL.md: a project's decisions, conventions, commands.

    Each line names its session and message. Between two marks; what stands around them stays. The same release gives
    the same bytes.
    """
    from slowwave.context.handed_out import note_skill_lines
    from slowwave.context.projects.skill import (
        build_front_matter,
        build_skill,
        collect_skill_lines,
        make_skill_name,
    )
    from slowwave.context.tokens import resolve_tokenizer
    from slowwave.store.workspaces import anchor_workspace, require_workspaces
    from slowwave.tasks.llm.fence import has_injection
    from slowwave.text.marked import find_marked, read_as_it_is, replace_marked, write_whole

    view = memory.get_view()
    place = workspace or find_project(memory)
    if place is None:
        raise UsageError("this folder is no project that the memory knows: name one with --workspace")
    places = require_workspaces(anchor_workspace(place), view.workspaces)
    file = out and (out / FILE if out.is_dir() or not out.suffix else out)
    title = PurePath(places[0].replace("\\", "/")).name or places[0]
    called = make_skill_name(name or (file.absolute().parent.name if file and file.name == FILE else title))
    if name and called != name:
        raise UsageError(f"name is {name!r}; it is a-z, 0-9 and single hyphens, at most 64 long, as {called!r}")
    lines = collect_skill_lines(view, places, has_injection, min_confidence, days)
    count = resolve_tokenizer(None, memory.settings.context.tokenizer)
    block, told = build_skill(lines, title, budget, count)
    front = build_front_matter(called, title, lines)
    print_notes(memory.notes)
    if file is None:
        echo(replace_marked(front, block), nl=False)
        note_skill_lines(memory.root / memory.space, told)
        return
    before = read_as_it_is(file)
    try:
        marked = find_marked(before) is not None
        text = replace_marked(before if before.startswith("---") else front + before, block)
    except UsageError as broken:
        raise UsageError(f"{file}: {broken}") from None
    if before and not force and not marked:
        raise UsageError(f"{file} has no marks of slowwave's: --force adds the block below what stands there")
    changed = bool(before or told) and write_whole(file, text)
    if changed:
        note_skill_lines(memory.root / memory.space, told)
    done = f"{len(told)} line{'s' * (len(told) != 1)}, {'written' if changed else 'as they were'}"
    OUT.print(f"{file}: {done}.")
