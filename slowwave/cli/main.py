"""The `slowwave` command: `slowwave --help` lists what there is."""

from typing import Annotated

import typer

from slowwave.cli.agents.hook import NeverBlocking, hook
from slowwave.cli.agents.install import install, uninstall
from slowwave.cli.agents.mcp import mcp
from slowwave.cli.agents.project import project
from slowwave.cli.agents.skill import skill
from slowwave.cli.asking.claims import claims
from slowwave.cli.asking.context import briefing, context
from slowwave.cli.asking.habits import habits
from slowwave.cli.asking.memory import changes, junk, merges, show
from slowwave.cli.asking.recall import recall
from slowwave.cli.asking.related import related
from slowwave.cli.asking.remember import remember
from slowwave.cli.asking.talk import talk
from slowwave.cli.asking.usage import rate, stats
from slowwave.cli.nights.exclude import exclude, excluded, include, notes
from slowwave.cli.nights.experiment import experiment
from slowwave.cli.nights.forget import forget
from slowwave.cli.nights.plan import plan
from slowwave.cli.nights.reprocess import reprocess
from slowwave.cli.nights.run import export, import_bundle, run, sources
from slowwave.cli.stores.backup import backup, restore, spaces
from slowwave.cli.stores.inspect import config, quarantine, runs, topics, verify
from slowwave.cli.stores.probes import probes
from slowwave.cli.stores.releases import check, diff, gc, promote, releases, repair, rollback

app = typer.Typer(
    help="Nightly memory for AI agents: transcripts in, recall with sources.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
COMMANDS = {
    "Every day": (run, recall, context, briefing, claims, related, show, remember, rate, talk, mcp),
    "Where agents look": (project, skill, install, uninstall),
    "Look": (habits, sources, plan, verify, check, diff, stats, experiment, config),
    "Redo and keep": (
        reprocess,
        repair,
        promote,
        rollback,
        exclude,
        include,
        forget,
        gc,
        backup,
        restore,
        export,
        import_bundle,
    ),
}
"""By the heading that `slowwave --help` lists them under; `inspect` is with those that look."""
LEDGERS = (releases, runs, quarantine, topics, merges, changes, junk, notes, excluded)
"""What `slowwave inspect` shows."""

ledgers = typer.Typer(no_args_is_help=True, help="List releases, runs, merges, changes, junk and more.")
for ledger in LEDGERS:
    ledgers.command()(ledger)
for heading, commands in COMMANDS.items():
    for command in commands:
        app.command(rich_help_panel=heading)(command)
app.command(cls=NeverBlocking, hidden=True)(hook)  # clients call it; `slowwave install` names it to them
app.add_typer(ledgers, name="inspect", rich_help_panel="Look")
app.add_typer(spaces, name="spaces", rich_help_panel="Redo and keep")
app.add_typer(probes, name="probes", rich_help_panel="Redo and keep")


def print_version(asked: bool) -> None:
    """Print name and version and end, where that was asked for."""
    if asked:
        from importlib.metadata import version

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
