"""The `slowwave` command: its groups of commands, other tools' names, and the commands of plugins."""

import logging
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from slowwave.cli.agents.files import project, skill
from slowwave.cli.agents.hook import hook
from slowwave.cli.agents.install import install, uninstall
from slowwave.cli.agents.serve import mcp, report, ui
from slowwave.cli.ask import briefing, context, correct, recall, recent, remember
from slowwave.cli.forget import forget
from slowwave.cli.inspect import check_claims, config, inspect, status
from slowwave.cli.night import plan, reprocess, run
from slowwave.cli.opening import format_version
from slowwave.cli.releases import diff, exclude, include, promote, rollback
from slowwave.cli.schedule import schedule
from slowwave.cli.show import show
from slowwave.cli.store import backup, check, export, import_learnings, restore
from slowwave.schemas.plugins import find_plugins, load_plugin

LOG = logging.getLogger(__name__)
COMMANDS = {
    "Every day": (
        run,
        schedule,
        status,
        plan,
        recall,
        recent,
        context,
        briefing,
        show,
        ui,
        report,
        remember,
        correct,
    ),
    "Where agents look": (mcp, install, uninstall, skill, project),
    "Undo and redo": (diff, rollback, promote, exclude, include, forget, reprocess),
    "Keep": (export, import_learnings, check, backup, restore),
    "Look inside": (inspect, check_claims, config),
}
"""Commands by their heading in `slowwave --help`."""
RENAMED = {
    "claims": "show claims",
    "related": "show related",
    "habits": "show habits",
    "topics": "show topics",
    "summarize": "reprocess summaries --missing",
    "generate-skill": "skill",
    "consolidate": "run",
    "nightly": "run",
    "search": "recall",
    "assemble": "context",
}
"""Names of commands in other memory tools, and the command that does the same here."""


GROUP = "slowwave.commands"
PLUGINS = "Plugins"
"""Entry point group of the commands that plugins add, and their heading in the help."""


class Commands(TyperGroup):
    """The group of all commands. A command of another tool's name gets an error that names the command here.

    A plugin's command is loaded when it is called or listed.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, the plugins' last."""
        own = super().list_commands(ctx)
        return [*own, *sorted(find_plugins(GROUP).keys() - set(own))]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command by its name; None if there is none."""
        if (
            own := super().get_command(ctx, cmd_name)
        ) is not None or cmd_name not in find_plugins(GROUP):
            return own
        try:
            return make_plugin_command(cmd_name)
        except Exception as broken:
            # Deliberately broad: importing a package can raise anything.
            LOG.warning(
                "the command %r can't be loaded: %s: %s",
                cmd_name,
                type(broken).__name__,
                broken,
            )
            return None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the first argument names."""
        if args and args[0] in RENAMED:
            ctx.fail(f"`slowwave {args[0]}` is called `slowwave {RENAMED[args[0]]}`.")
        return super().resolve_command(ctx, args)


def make_plugin_command(name: str) -> Any:
    """Return the command that a plugin's function makes.

    Raises:
        UsageError: a package that it needs is missing.
    """
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    alone.command(name, rich_help_panel=PLUGINS)(load_plugin(GROUP, name))
    return typer.main.get_command(alone)


app = typer.Typer(
    cls=Commands,
    help="Nightly memory for AI agents: transcripts in, recall with sources.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for heading, commands in COMMANDS.items():
    for command in commands:
        app.command(rich_help_panel=heading)(command)


@app.command(
    "hook",
    hidden=True,
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)
def call_hook(context: typer.Context) -> None:
    """Answer a hook. Clients call it, and come here only if `slowwave.__main__` does not run."""
    hook(context.args)


def print_version(is_given: bool) -> None:
    """Print the name and version and exit, if `--version` is given."""
    if is_given:
        typer.echo(format_version())
        raise typer.Exit()


@app.callback()
def take_options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=print_version,
            is_eager=True,
            help="Print the version and end.",
        ),
    ] = False,
) -> None:
    """Take options of the command itself."""


def main() -> None:
    """Run the console script."""
    app()
