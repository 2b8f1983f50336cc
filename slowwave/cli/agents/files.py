"""`slowwave project` and `slowwave skill`: write a project's current facts into files that its agents load."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slowwave.cli.common import OUT, PROJECT, command, echo, print_warnings
from slowwave.schemas.errors import UsageError
from slowwave.text.marked import (
    find_marked,
    read_as_it_is,
    remove_marked,
    replace_marked,
    write_whole,
)
from slowwave.text.words import count_noun

if TYPE_CHECKING:
    from collections.abc import Iterable

    from slowwave.context.projects.projection import PageLine, Pages
    from slowwave.memory import Memory

BLOCK_BUDGET = 1_000
SKILL_BUDGET = 2_000
SKILL = "SKILL.md"
RULE = "---\ndescription: What earlier sessions settled about this project\nalwaysApply: true\n---\n"
"""Front matter of Cursor's rules."""


class Target(StrEnum):
    """The agent that reads the file."""

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
CODEX_READS = 32_768
"""Bytes that Codex 0.171 reads of a project's AGENTS.md files, from the top of the repository down."""
Workspace = Annotated[
    str | None,
    typer.Option(*PROJECT, help="The project; default: that of this folder."),
]
Confidence = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=1,
        help="Least confidence of a claim; default: 0.7, or 0.5 if two sessions said it.",
        show_default=False,
    ),
]
Budget = Annotated[int, typer.Option(min=0, help="Most tokens of the block.")]
Force = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Write into a file that has no marks, or whose block loses most lines in a moved folder.",
    ),
]


@command
def project(
    memory: "Memory",
    to: Annotated[
        Target | None,
        typer.Option(help="Which file: CLAUDE.md, AGENTS.md, .cursor/rules/."),
    ] = None,
    workspace: Workspace = None,
    budget: Budget = BLOCK_BUDGET,
    out: Annotated[
        Path | None,
        typer.Option(help="Another file, such as MEMORY.md; - prints the block."),
    ] = None,
    pages: Annotated[
        Path | None,
        typer.Option(help="Write small pages into this folder, for ls and grep."),
    ] = None,
    min_confidence: Confidence = None,
    force: Force = False,
) -> None:
    """Keep a project's current facts in CLAUDE.md and similar files.

    Only the text between two marks is replaced; the same claims give the same bytes.
    """
    if to is None and out is None and pages is None:
        raise UsageError(
            "say where: --to claude, codex, agents or cursor, --out FILE, or --pages DIR"
        )
    from slowwave.context.projects.projection import (
        build_block,
        build_pages,
        collect_told_claims,
        explain_empty,
    )
    from slowwave.context.projects.standing import SETTLED
    from slowwave.context.tokens import resolve_tokenizer
    from slowwave.store.logs import log_recall
    from slowwave.tasks.llm.fence import has_injection

    view = memory.get_view()
    places = _find_places(memory, workspace, needed=bool(to or out))
    if to or out:
        claims = collect_told_claims(
            view=view,
            places=places,
            categories=SETTLED,
            steers=has_injection,
            min_confidence=min_confidence,
        )
        count = resolve_tokenizer(None, memory.settings.context.tokenizer)
        block, written_lines = build_block(
            claims=claims,
            title="What earlier sessions settled",
            budget=budget,
            count=count,
        )
        file = out or _find_file(to or Target.AGENTS, places)
        _tell_loss(memory=memory, places=places, file=file, block=block, force=force)
        if _keep_block(
            block=block, file=file, to=to, empty=explain_empty(view, places)
        ):
            log_recall(
                memory.root / memory.space,
                _collect_words(written_lines),
            )
    if pages is not None:
        due, written_claims = build_pages(
            view=view,
            places=places,
            steers=has_injection,
            min_confidence=min_confidence,
        )
        if _keep_pages(due, pages):
            log_recall(
                memory.root / memory.space,
                {claim.id: [claim.text] for claim in written_claims},
            )
    print_warnings(memory.warnings)


@command
def skill(
    memory: "Memory",
    workspace: Workspace = None,
    days: Annotated[
        int | None,
        typer.Option(
            min=1, help="Only claims of the last DAYS days before the release."
        ),
    ] = None,
    min_confidence: Confidence = None,
    budget: Budget = SKILL_BUDGET,
    out: Annotated[
        Path | None,
        typer.Option(help="The file, or the skill's folder; by default it is printed."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the skill; default: its folder's.")
    ] = None,
    force: Force = False,
) -> None:
    """Write SKILL.md: a project's decisions, conventions, commands.

    Each line names its session and message. Only the text between two marks is replaced; the same release gives the
    same bytes.
    """
    from slowwave.context.projects.projection import explain_empty
    from slowwave.context.projects.skill import (
        build_front_matter,
        build_skill,
        collect_skill_lines,
        find_first_day,
    )
    from slowwave.context.tokens import resolve_tokenizer
    from slowwave.store.logs import log_recall
    from slowwave.tasks.llm.fence import has_injection

    # Most of this function's weight is the declaration of its options and its late imports.
    places = _find_places(memory, workspace)
    file = out and (out / SKILL if out.is_dir() or not out.suffix else out)
    title = memory.name_project(places[0]) or places[0]
    called = _name_skill(name, file, title)
    view = memory.get_view()
    lines = collect_skill_lines(
        view=view,
        places=places,
        steers=has_injection,
        min_confidence=min_confidence,
        days=days,
    )
    count = resolve_tokenizer(None, memory.settings.context.tokenizer)
    empty = explain_empty(view, places, find_first_day(view, days))
    block, written_lines = build_skill(
        lines=lines, title=title, budget=budget, count=count, empty=empty
    )
    front = build_front_matter(called, title, lines)
    print_warnings(memory.warnings)
    if file is None:
        echo(replace_marked(front, block), nl=False)
        changed = True
    else:
        _tell_loss(memory=memory, places=places, file=file, block=block, force=force)
        changed = _write_skill(file, front, block, force=force)
    if changed:
        log_recall(
            memory.root / memory.space,
            _collect_words(written_lines),
        )


def _collect_words(lines: "Iterable[PageLine]") -> dict[str, list[str]]:
    """Return the words of lines by the ids of their claims."""
    return {
        claim: words for line in lines for claim, words in line.words_by_claim.items()
    }


def _name_skill(
    name: str | None,
    file: Path | None,
    title: str,
) -> str:
    """Return the skill's name: the given one, else its folder's, else the project's title.

    Raises:
        UsageError: the given name is not valid.
    """
    from slowwave.context.projects.skill import make_skill_name

    called = make_skill_name(
        name or (file.absolute().parent.name if file and file.name == SKILL else title)
    )
    if name and called != name:
        raise UsageError(
            f"name is {name!r}; it is a-z, 0-9 and single hyphens, at most 64 long, as {called!r}"
        )
    return called


def _write_skill(
    file: Path,
    front: str,
    block: str,
    *,
    force: bool,
) -> bool:
    """Put a skill's block into its file, below the front matter; return True if the file changed.

    Raises:
        UsageError: the file has text but no marks, and `force` is False; or its marks are not one pair.
    """
    before = read_as_it_is(file)
    text = _put_block(
        file, before if before.startswith("---") else front + before, block
    )
    if before and not force and find_marked(before) is None:
        raise UsageError(
            f"{file} has no marks of slowwave's: --force adds the block below what stands there"
        )
    count = _count_lines(block)
    changed = bool(before or count) and write_whole(file, text, bounded=True)
    _print_line_count(file, count, changed)
    return changed


def _find_places(
    memory: "Memory",
    workspace: str | None,
    *,
    needed: bool = True,
) -> tuple[str, ...]:
    """Return the names of the named project, or of this folder's; empty if there is none and `needed` is False.

    Raises:
        UsageError: the memory does not know the project.
    """
    from slowwave.text.workspaces import (
        anchor_workspace,
        match_workspaces,
        require_workspaces,
    )

    known = memory.get_view().workspaces
    if workspace:
        return require_workspaces(anchor_workspace(workspace), known)
    # a file is written for this folder: one above it may hold several projects
    places = match_workspaces(anchor_workspace("."), known)
    if needed and not places:
        raise UsageError(
            "the memory knows no project in this folder: name one with --project"
        )
    return places


def _find_file(to: Target, places: tuple[str, ...]) -> Path:
    """Return the agent's file in the top folder of the project.

    Raises:
        UsageError: the project's folder is not on this machine.
    """
    from slowwave.text.workspaces import (
        anchor_workspace,
        find_project_root,
        match_workspaces,
    )

    folder = (
        Path.cwd()
        if match_workspaces(anchor_workspace("."), places)
        else next(filter(Path.is_dir, map(Path, places)), None)
    )
    if folder is None:
        raise UsageError(f"{places[0]} is not a folder here: name the file with --out")
    return (find_project_root(folder) or folder).resolve() / FILES[to]


def _put_block(
    file: Path,
    text: str,
    block: str,
) -> str:
    """Replace the block between the marks of a file's text; remove it if the block is empty.

    Raises:
        UsageError: the marks are not one pair; the message names the file.
    """
    try:
        return replace_marked(text, block) if block else remove_marked(text)
    except UsageError as broken:
        raise UsageError(f"{file}: {broken}") from None


def _write_block(
    file: Path,
    block: str,
    opening: str = "",
) -> bool:
    """Put the block into a file, or remove it if it is empty; return True if the file changed.

    A new file begins with `opening`. A file that contains nothing else without the block is deleted.
    """
    before = read_as_it_is(file)
    after = _put_block(file, before or (opening if block else ""), block)
    if before and after in ("", opening) and not file.is_symlink():
        file.unlink()
        return True
    return bool(block or before) and write_whole(file, after, bounded=True)


def _tell_loss(
    memory: "Memory",
    places: tuple[str, ...],
    file: Path,
    block: str,
    *,
    force: bool,
) -> None:
    """Print a warning if a file's block is about to lose most of its lines.

    Raises:
        UsageError: it loses them and the project's folder was probably moved, and `force` is False.
    """
    from slowwave.context.projects.moved import describe_moved
    from slowwave.store.store import Store

    before = _count_lines("" if str(file) == "-" else _read_block(file))
    after = _count_lines(block)
    if 2 * after >= before:
        return
    lost = f"{file}: {after} of {count_noun(before, 'line')} would be left"
    store = Store.open(memory.root, memory.space)
    moved = describe_moved(store, memory.list_workspaces(), places)
    if not moved:
        print_warnings([lost.replace("would be", "are")])
    elif not force:
        raise UsageError(
            f"{lost}, so nothing was written. {moved}; --force writes what is left"
        )


def _read_block(file: Path) -> str:
    """Return the block in a file; empty if it has none.

    Raises:
        UsageError: its marks are not one pair; the message names the file.
    """
    text = read_as_it_is(file)
    try:
        start, end = find_marked(text) or (0, 0)
    except UsageError as broken:
        raise UsageError(f"{file}: {broken}") from None
    return text[start:end]


def _count_lines(block: str) -> int:
    """Return the number of lines that tell something."""
    return block.replace("\r\n", "\n").count("\n- ")


def _print_line_count(
    file: Path,
    count: int,
    changed: bool,
) -> None:
    OUT.print(
        f"{file}: {count_noun(count, 'line')}, {'written' if changed else 'as they were'}."
    )


def _find_unread(file: Path) -> list[str]:
    """Return a warning if Codex, which reads the files of the folders above first, stops above the block's end."""
    if file.name != FILES[Target.CODEX]:
        return []
    text = read_as_it_is(file)
    _, end = find_marked(text) or (0, 0)
    needed = len(text[:end].encode("utf-8", "surrogateescape")) + _count_above(file)
    if needed <= CODEX_READS:
        return []
    return [
        f"{file}: Codex reads {CODEX_READS:,} bytes of a project's {file.name} files, and slowwave's lines end at "
        f"{needed:,}: shorten the files, or raise project_doc_max_bytes in ~/.codex/config.toml"
    ]


def _count_above(file: Path) -> int:
    """Return the bytes of the files of this name in the folders above, up to the top of the repository."""
    from slowwave.text.workspaces import find_project_root

    folder = file.absolute().parent
    root = find_project_root(folder)
    above = [
        path / file.name
        for path in folder.parents
        if root is not None and path.is_relative_to(root)
    ]
    return sum(path.stat().st_size for path in above if path.is_file())


def _keep_block(
    block: str,
    file: Path,
    to: Target | None,
    empty: str,
) -> bool:
    """Put the block into its file, or print it; return True if it was printed or the file changed.

    `empty` says why there are no lines.
    """
    if str(file) == "-":
        echo(block or empty)
        return True
    changed = _write_block(file, block, RULE if to is Target.CURSOR else "")
    if block:
        _print_line_count(file, _count_lines(block), changed)
        print_warnings(_find_unread(file))
    else:
        OUT.print(f"{file}: {empty}{' The old block was removed.' if changed else ''}")
    return changed


def _keep_pages(due: "Pages", folder: Path) -> bool:
    """Write the pages `due`, and remove the block from all other pages; return True if one was written.

    Raises:
        UsageError: a page is a link to a place outside the folder.
    """
    from slowwave.context.projects.projection import FOLDERS

    if out := [
        page
        for page in (*due, *FOLDERS)
        if not (folder / page).resolve().is_relative_to(folder.resolve())
    ]:
        raise UsageError(
            f"{folder / out[0]} is a link out of the folder: nothing was written"
        )
    written = sum(_write_block(folder / name, block) for name, block in due.items())
    there = [path for kind in FOLDERS for path in sorted((folder / kind).glob("*.md"))]
    removed = sum(
        _write_block(path, "")
        for path in there
        if path.relative_to(folder).as_posix() not in due
    )
    for kind in FOLDERS:
        if (folder / kind).is_dir() and not any((folder / kind).iterdir()):
            (folder / kind).rmdir()
    OUT.print(f"{folder}: {len(due)} pages, {written} written, {removed} removed.")
    return written > 0
