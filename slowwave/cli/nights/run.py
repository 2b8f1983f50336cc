"""Commands that read transcripts or write files: run, sources, export; and the options of what asks a model."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from slowwave.cli.common import (
    OUT,
    JsonOption,
    KeyFileOption,
    SpaceOption,
    StoreOption,
    build_overrides,
    end_run,
    find_local_prefect_settings,
    import_prefect_quietly,
    load_settings,
    print_notes,
    report_errors,
    report_errors_and_progress,
)
from slowwave.schemas.errors import UsageError

Paths = Annotated[list[Path] | None, typer.Argument(help="Files and folders; none: the installed tools' transcripts.")]
Plain = Annotated[bool, typer.Option("--plain", help="Without Prefect: the same steps as plain functions.")]
LlmOption = Annotated[
    str | None,
    typer.Option(
        "--llm", help="Language model: off, vllm:MODEL, openai:MODEL@URL, … > extractive.", show_default=False
    ),
]
MaxTokens = Annotated[
    int | None,
    typer.Option("--max-tokens", help="Tokens this run may spend; then it stops cleanly.", show_default=False),
]
EngineOption = Annotated[
    str | None,
    typer.Option(
        "--engine", help="extractive: make again without a model what a model made; else it stands.", show_default=False
    ),
]
GistsOption = Annotated[
    str | None, typer.Option("--gists", help="off, extractive, llm or truncated.", show_default=False)
]


def build_llm_overrides(llm: str | None, max_tokens: int | None, engine: str | None = None) -> dict[str, Any]:
    """Return the settings that `--llm`, `--max-tokens` and `--engine` name; `--llm` is the model of every task.

    Raises:
        UsageError: a model and none.
    """
    if engine == "extractive" and llm not in (None, "off"):
        raise UsageError("--engine extractive is without a model: leave --llm out")
    tasks = ("extract", "summaries", "topics", "judge", "talk")
    return {
        "llm": llm,
        "models": None if llm is None else dict.fromkeys(tasks, ""),
        "engine": engine,
        "model": None if max_tokens is None else {"max_tokens": max_tokens},
    }


def run(
    paths: Paths = None,
    plain: Plain = False,
    llm: LlmOption = None,
    max_tokens: MaxTokens = None,
    engine: EngineOption = None,
    gists: GistsOption = None,
    embeddings: Annotated[bool | None, typer.Option("--embeddings/--no-embeddings", show_default=False)] = None,
    redact: Annotated[bool | None, typer.Option("--redact/--no-redact", show_default=False)] = None,
    store: StoreOption = None,
    space: SpaceOption = None,
) -> None:
    """Do a night: read what is new, distil it, release it.

    Exit status 0: all was done; 3: something failed and is tried again next night, or a named file gave nothing, and
    the rest is released; 4: what was made is outside the bounds of `gates` and held back; 1: nothing was released.
    """
    with report_errors_and_progress():
        from slowwave.tasks.ingest.formats.registry import check_paths

        asked = build_llm_overrides(llm, max_tokens, engine)
        given = build_overrides(store, space, gists=gists, embeddings=embeddings, redact=redact, **asked)
        settings = load_settings(**given)
        absolute = check_paths(path.expanduser().absolute() for path in paths or [])
        if not plain and (theirs := find_local_prefect_settings()):
            print_notes([f"Prefect would obey {theirs} of this folder, whoever wrote it: the night goes on plain"])
            plain = True
        if plain:
            from slowwave.flows.nightly import run_night

            report = run_night(absolute, settings)
        else:
            import_prefect_quietly()
            from slowwave.flows.under_prefect import run_night_under_prefect

            report = run_night_under_prefect([str(path) for path in absolute], given)
        report.print(OUT)
        end_run(report)


def sources(
    paths: Paths = None,
    as_json: JsonOption = False,
    store: StoreOption = None,
    space: SpaceOption = None,
) -> None:
    """List what a night would read, and what can't be read."""
    with report_errors():
        from slowwave.flows.sources import list_sources

        listed = list_sources([p.expanduser().absolute() for p in paths or []], load_settings(store, space))
        if as_json:
            OUT.print_json(data=[vars(one) for one in listed])
            return
        table = Table("tool", "where", "files", "size", "state")
        for one in listed:
            state = one.problem or f"{one.new:,} new or changed"
            table.add_row(one.tool, one.where, f"{one.files:,}", f"{one.bytes / 1e6:,.1f} MB", state)
        OUT.print(table)


def export(
    to: Annotated[Path, typer.Argument(help="A folder that is made; with --learnings a file.")],
    form: Annotated[
        str | None,
        typer.Option("--format", help="parquet, lance, jsonl, graphml; of learnings json, md.", show_default=False),
    ] = None,
    table: Annotated[list[str] | None, typer.Option(help="Only these tables.")] = None,
    release: Annotated[
        str | None, typer.Option(help="A release's name; none: the live one.", show_default=False)
    ] = None,
    learnings: Annotated[
        bool, typer.Option("--learnings", help="Claims with quotes, redacted anew, for somebody else's memory.")
    ] = False,
    workspace: Annotated[
        str | None, typer.Option(help="Learnings of this workspace alone.", show_default=False)
    ] = None,
    encrypted: Annotated[
        bool, typer.Option("--encrypted", help="Parquet by a passphrase: --key-file, SLOWWAVE_BACKUP_KEY.")
    ] = False,
    key_file: KeyFileOption = None,
    store: StoreOption = None,
    space: SpaceOption = None,
) -> None:
    """Write the released tables, or learnings to share."""
    with report_errors_and_progress():
        if learnings:
            from slowwave.flows.share import export_learnings

            if table or encrypted or key_file:
                raise UsageError("--learnings writes claims alone, in plain: leave out --table and --encrypted")
            count = export_learnings(load_settings(store, space), to, workspace, form or "json", release)
            OUT.print(f"{count:,} learnings written to {to}", soft_wrap=True)
            return
        if workspace:
            raise UsageError("--workspace goes with --learnings: tables are written whole")
        from slowwave.flows.export import export_tables
        from slowwave.store.crypt import read_key

        phrase = read_key(key_file) if encrypted or key_file else None
        if encrypted and not phrase:
            raise UsageError("--encrypted needs a passphrase: --key-file or SLOWWAVE_BACKUP_KEY; nothing was written")
        manifest: dict[str, Any] = export_tables(
            load_settings(store, space), to, form or "parquet", table or [], release, phrase
        )
        for name, facts in manifest["tables"].items():
            OUT.print(f"{facts['rows']:>10,}  {name}", highlight=False)
        OUT.print(f"Release {manifest['release']} written to {to}", highlight=False, soft_wrap=True)


def import_bundle(
    file: Annotated[Path, typer.Argument(help="What `slowwave export --learnings` wrote as json.")],
    name: Annotated[str, typer.Option("--as", help="Whose learnings they are.")],
    workspace: Annotated[
        list[str] | None,
        typer.Option(help="PATH that stands for them here, or NAME=PATH for each.", show_default=False),
    ] = None,
    store: StoreOption = None,
    space: SpaceOption = None,
) -> None:
    """Take in another memory's learnings.

    They count less than what was said here, and retire nothing of it.
    """
    with report_errors_and_progress():
        from slowwave.flows.share import import_learnings

        report = import_learnings(load_settings(store, space), file.expanduser(), name, workspace or [])
        report.print(OUT)
        end_run(report)


import_bundle.__name__ = "import"  # no name that Python lets a function be defined by
