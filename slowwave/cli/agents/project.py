"""`slowwave project`: what stands about a project, kept where its agents look anyway."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slowwave.cli.common import OUT, command, echo, find_project, print_notes
from slowwave.schemas.errors import UsageError

if TYPE_CHECKING:
    from slowwave.context.projects.projection import Pages
    from slowwave.memory import Memory

BUDGET = 1_000
RULE = "---\ndescription: What earlier sessions settled about this project\nalwaysApply: true\n---\n"
"""What a rule of Cursor's begins with."""


class Target(StrEnum):
    """Whose file it is."""

    CLAUDE = "claude"
    CODEX = "codex"
    AGENTS = "agents"
    CURSOR = "cursor"


FILES = {
    Target.CLAUDE: "CLAUDE.md",
    Target.CODEX: "AGENTS.md",
    Target.AGENTS: "AGENTS.md",
    Target.CURSOR: ".cursor/rules/slowwave.mdc",
}


@command
def project(
    memory: "Memory",
    to: Annotated[Target | None, typer.Option(help="Whose file: CLAUDE.md, AGENTS.md, .cursor/rules/.")] = None,
    workspace: Annotated[str | None, typer.Option(help="The project; by default that of this folder.")] = None,
    budget: Annotated[int, typer.Option(min=0, help="Tokens of the block, at most.")] = BUDGET,
    out: Annotated[Path | None, typer.Option(help="Another file, as MEMORY.md; - prints the block.")] = None,
    pages: Annotated[Path | None, typer.Option(help="A folder of small pages, to ls and grep.")] = None,
    min_confidence: Annotated[float, typer.Option(min=0, max=1, help="Confidence from which a claim is told.")] = 0.5,
) -> None:
    """Keep what stands about a project in CLAUDE.md and the like.

    Between two marks; what stands around them stays. The same claims give the same bytes.
    """
    if to is None and out is None and pages is None:
        raise UsageError("say where: --to claude, codex, agents or cursor, --out FILE, or --pages DIR")
    from slowwave.context.handed_out import note_claims
    from slowwave.context.projects.projection import build_block, build_pages, collect_told_claims
    from slowwave.context.projects.standing import STANDING
    from slowwave.context.tokens import resolve_tokenizer
    from slowwave.store.workspaces import anchor_workspace, require_workspaces
    from slowwave.tasks.llm.fence import has_injection

    view = memory.get_view()
    place = workspace or find_project(memory)
    if place is None and (to or out):
        raise UsageError("this folder is no project that the memory knows: name one with --workspace")
    places = require_workspaces(anchor_workspace(place), view.workspaces) if place else ()
    if to or out:
        claims = collect_told_claims(view, places, STANDING, has_injection, min_confidence)
        count = resolve_tokenizer(None, memory.settings.context.tokenizer)
        block, told = build_block(claims, "What earlier sessions settled", budget, count)
        if _keep_block(block, out or _find_file(to or Target.AGENTS, places), to):
            note_claims(memory.root / memory.space, told)
    if pages is not None:
        due, told = build_pages(view, places, has_injection, min_confidence)
        if _keep_pages(due, pages):
            note_claims(memory.root / memory.space, told)
    print_notes(memory.notes)


def _find_file(to: Target, places: tuple[str, ...]) -> Path:
    """Return the file at the top of the project that is here.

    Raises:
        UsageError: its folder is not on this machine.
    """
    from slowwave.store.workspaces import find_project_root, find_workspaces

    folder = Path.cwd() if find_workspaces(".", places) else next(filter(Path.is_dir, map(Path, places)), None)
    if folder is None:
        raise UsageError(f"{places[0]} is no folder here: name the file with --out")
    return (find_project_root(folder) or folder).resolve() / FILES[to]


@contextmanager
def _name_file(path: Path) -> Iterator[None]:
    """Name the file in what is told of its marks.

    Raises:
        UsageError: in place of one that does not.
    """
    try:
        yield
    except UsageError as broken:
        raise UsageError(f"{path}: {broken}") from None


def _keep_block(block: str, file: Path, to: Target | None) -> bool:
    """Put the block into the file, or take it out where nothing stands; or print it. Return whether that is news."""
    from slowwave.text.marked import read_as_it_is, remove_marked, replace_marked, write_whole

    if str(file) == "-":
        echo(block or "Nothing stands about it yet.")
        return True
    before = read_as_it_is(file)
    start = RULE if to is Target.CURSOR and not before else before
    with _name_file(file):
        after = replace_marked(start, block) if block else remove_marked(before)
    if before and after in ("", RULE) and not file.is_symlink():  # it was made for the block alone
        file.unlink()
        OUT.print(f"{file}: taken out, nothing stands.")
        return True
    changed = bool(block or before) and write_whole(file, after)
    lines = block.count("\n- ")
    OUT.print(f"{file}: {lines} line{'s' * (lines != 1)}, {'written' if changed else 'as they were'}.")
    return changed


def _keep_pages(due: "Pages", folder: Path) -> bool:
    """Write the pages that are due, and take out of the others what is ours; return whether one was written."""
    from slowwave.context.projects.projection import FOLDERS
    from slowwave.text.marked import find_marked, read_as_it_is, remove_marked, replace_marked, write_whole

    written = removed = 0
    if out := [one for one in (*due, *FOLDERS) if not (folder / one).resolve().is_relative_to(folder.resolve())]:
        raise UsageError(f"{folder / out[0]} is a link out of the folder: nothing was written")
    for name, block in due.items():
        with _name_file(folder / name):
            written += write_whole(folder / name, replace_marked(read_as_it_is(folder / name), block))
    old = [path for kind in FOLDERS for path in sorted((folder / kind).glob("*.md"))]
    for path in old:
        text = read_as_it_is(path)
        with _name_file(path):
            if path.relative_to(folder).as_posix() in due or find_marked(text) is None:
                continue
            rest = remove_marked(text)
        removed += 1
        if rest:
            write_whole(path, rest)
        else:
            path.unlink()
    for kind in FOLDERS:
        if (folder / kind).is_dir() and not any((folder / kind).iterdir()):
            (folder / kind).rmdir()
    OUT.print(f"{folder}: {len(due)} pages, {written} written, {removed} taken out.")
    return written > 0
