"""The `slowwave` command: `slowwave --help` lists what there is."""

from typing import Annotated

import typer

from slowwave.cli.backup import backup, restore, spaces
from slowwave.cli.claims import claims
from slowwave.cli.context import briefing, context
from slowwave.cli.doctor import memory
from slowwave.cli.exclude import exclude, excluded, include, revert, reverted
from slowwave.cli.experiment import experiment
from slowwave.cli.forget import forget
from slowwave.cli.habits import habits
from slowwave.cli.hook import NeverBlocking, hook
from slowwave.cli.inspect import config, quarantine, runs, topics, verify
from slowwave.cli.install import install, uninstall
from slowwave.cli.mcp import mcp
from slowwave.cli.memory import changes, junk, merges, show, unmerge
from slowwave.cli.notes import notes
from slowwave.cli.plan import plan
from slowwave.cli.probes import probes
from slowwave.cli.project import project
from slowwave.cli.recall import recall
from slowwave.cli.related import related
from slowwave.cli.releases import check, diff, gc, promote, reject, releases, rollback
from slowwave.cli.remember import remember
from slowwave.cli.reprocess import reprocess
from slowwave.cli.run import export, import_bundle, run, sources
from slowwave.cli.skill import skill
from slowwave.cli.talk import talk
from slowwave.cli.usage import rate, stats

app = typer.Typer(
    help="Nightly memory for AI agents: transcripts in, recall with sources.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
COMMANDS = {
    "Every day": (run, recall, context, briefing, claims, related, show, remember, rate, talk, mcp),
    "Where agents look": (project, skill, install, uninstall),
    "Look": (habits, sources, plan, verify, check, diff, stats, config),
    "Redo and keep": (
        reprocess,
        unmerge,
        promote,
        reject,
        rollback,
        revert,
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
LEDGERS = (releases, runs, quarantine, topics, merges, changes, junk, excluded, reverted)
"""What `slowwave inspect` shows."""

ledgers = typer.Typer(no_args_is_help=True, help="List releases, runs, merges, changes, junk and more.")
for ledger in LEDGERS:
    ledgers.command()(ledger)
for heading, commands in COMMANDS.items():
    for command in commands:
        app.command(rich_help_panel=heading)(command)
app.command(cls=NeverBlocking, hidden=True)(hook)  # clients call it; `slowwave install` names it to them
app.add_typer(ledgers, name="inspect", rich_help_panel="Look")
doctor = typer.Typer(no_args_is_help=True, help="Show what is wrong with notes kept elsewhere.")
doctor.callback()(lambda: None)  # with one command alone typer would drop its name
doctor.command()(memory)
app.add_typer(doctor, name="doctor", rich_help_panel="Look")
app.add_typer(notes, name="notes", rich_help_panel="Redo and keep")
app.add_typer(spaces, name="spaces", rich_help_panel="Redo and keep")
app.add_typer(probes, name="probes", rich_help_panel="Redo and keep")
app.add_typer(experiment, name="experiment", rich_help_panel="Look")


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
