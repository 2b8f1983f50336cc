"""`slowwave context QUERY` and `slowwave briefing`: what a model's prompt gets from the memory, within a budget."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

import typer

from slowwave.cli.asking.recall import make_filter_option
from slowwave.cli.common import (
    JsonOption,
    ReleaseOption,
    SpaceOption,
    StoreOption,
    load_settings,
    print_notes,
    report_errors,
    silence_note_logging,
)
from slowwave.schemas.filters import MessageFilters, spell_out_filters

if TYPE_CHECKING:
    from slowwave.context.build import Context
    from slowwave.context.tokens import Tokenizer
    from slowwave.memory import Memory

Budget = Annotated[int | None, typer.Option(help="Tokens, at most; by default the settings'.", show_default=False)]
TokenizerOption = Annotated[
    str | None,
    typer.Option("--tokenizer", help="minilm, bytes/4, tiktoken:ENCODING or a tokenizer.json.", show_default=False),
]


@spell_out_filters(make_filter_option)
def context(
    query: Annotated[str, typer.Argument(help="What the model will be asked, or a report of a problem.")],
    budget: Budget = None,
    automatic: Annotated[
        bool, typer.Option("--automatic", help="Nobody asked: a floor holds, as befits a hook.")
    ] = False,
    web: Annotated[
        bool, typer.Option("--web", help="Search the web as well, personal data left out of the query.")
    ] = False,
    tokenizer: TokenizerOption = None,
    as_json: JsonOption = False,
    store: StoreOption = None,
    space: SpaceOption = None,
    release: ReleaseOption = None,
    **filters: Unpack[MessageFilters],
) -> None:
    """Print a block for a prompt: what past sessions say on a query.

    It is packed into a budget of tokens, each line with its source.
    """
    with report_errors():
        memory, counter = open_memory(store, space, release), _load_optional_tokenizer(tokenizer)
        memory.refuse_unknown_workspace(filters.get("workspace"))
        results = None
        if web:
            from slowwave.web.aside import begin_search

            asked_for = memory.settings.web.model_copy(update={"enabled": True})
            results = begin_search(asked_for, query, memory.list_people())
        block = memory.context(
            query,
            budget,
            web=results or (),
            tokenizer=counter,
            format="json" if as_json else "markdown",
            automatic=automatic,
            **filters,
        )
        print_notes(results.answer.notes if results else ())
        _print_block(memory, block, "Nothing found.", as_json)


def briefing(
    budget: Budget = None,
    workspace: Annotated[
        str | None,
        typer.Option(help="Of this project; by default that of this folder, where known.", show_default=False),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Of all that is known, in whatever folder.")] = False,
    tokenizer: TokenizerOption = None,
    as_json: JsonOption = False,
    store: StoreOption = None,
    space: SpaceOption = None,
    release: ReleaseOption = None,
) -> None:
    """Print what is known, for the start of a conversation.

    Within a project that is known: of that project. The same bytes as long as the release is the same.
    """
    with report_errors():
        memory, counter = open_memory(store, space, release), _load_optional_tokenizer(tokenizer)
        place = None if everything else workspace or find_project(memory)
        block = memory.briefing(budget, tokenizer=counter, format="json" if as_json else "markdown", workspace=place)
        _print_block(memory, block, "Nothing known yet.", as_json)


def _print_block(memory: "Memory", block: "Context", nothing: str, as_json: bool) -> None:
    """Print the block, and on stderr what was amiss; note that it was handed out.

    Args:
        nothing: what stands for an empty block that is no JSON.
    """
    from slowwave.context.handed_out import note_block

    note_block(memory.root / memory.space, block)
    print_notes(block.notes)
    if block.stale and not block.text and block.reason:
        typer.echo(f"note: nothing is told: {block.reason}", err=True)
    if as_json:
        nothing = json.dumps({"stale": True} if block.stale else {})
    typer.echo(block.text or nothing)


def open_memory(store: Path | None, space: str | None, release: str | None = None) -> "Memory":
    """Return the memory that the settings and these words name, its notes not logged: who opens it prints them.

    Raises:
        UsageError, StoreError: as `Memory.open`.
    """
    from slowwave.memory import Memory

    silence_note_logging()
    settings = load_settings(store, space)
    return Memory.open(settings.store, settings.space, release)


def find_project(memory: "Memory", folder: str = ".") -> str | None:
    """Return the folder, this one unless named, where it lies in a project that the memory knows."""
    return folder if memory.has_workspace(folder) else None


def _load_optional_tokenizer(name: str | None) -> "Tokenizer | None":
    if name is None:
        return None
    from slowwave.context.tokens import load_tokenizer

    return load_tokenizer(name)
