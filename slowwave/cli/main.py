"""The `slowwave` command: `slowwave --help` lists what there is."""

from importlib.metadata import version
from typing import Annotated

import typer

from slowwave.cli.context import briefing, context
from slowwave.cli.inspect import config, quarantine, releases, rollback, runs, verify
from slowwave.cli.mcp import mcp
from slowwave.cli.memory import consolidate, junk, merges, rebuild, show, unmerge
from slowwave.cli.plan import plan
from slowwave.cli.recall import recall
from slowwave.cli.run import backfill, export, reprocess, run, sources
from slowwave.cli.summarize import summarize
from slowwave.cli.talk import talk

app = typer.Typer(
    help="Nightly memory for AI agents: transcripts in, a small versioned memory out, recall with sources.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
COMMANDS = (
    run,
    recall,
    context,
    briefing,
    sources,
    plan,
    summarize,
    verify,
    config,
    releases,
    rollback,
    quarantine,
    runs,
    backfill,
    reprocess,
    export,
    show,
    merges,
    unmerge,
    consolidate,
    rebuild,
    junk,
    talk,
    mcp,
)
for command in COMMANDS:
    app.command()(command)


def print_version(asked: bool) -> None:
    """Print name and version and end, where that was asked for."""
    if asked:
        typer.echo(f"slowwave {version('slowwave')}")
        raise typer.Exit()


@app.callback()
def take_options(
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Take options of the command itself."""


def main() -> None:
    """Run the console script."""
    app()
