"""`slowwave experiment`: which settings answer best, on labelled sets or on one's own past."""

from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from slowwave.cli.common import (
    OUT,
    JsonOption,
    SpaceOption,
    StoreOption,
    build_overrides,
    find_local_prefect_settings,
    import_prefect_quietly,
    load_settings,
    open_store,
    print_notes,
    report_errors,
    report_errors_and_progress,
)
from slowwave.schemas.errors import UsageError

if TYPE_CHECKING:
    from slowwave.schemas.settings import Settings
    from slowwave.tasks.experiment.findings import Findings


class RunsFiles(TyperGroup):
    """Takes a word that is no command for the file of `run`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that is meant, and its words."""
        return super().resolve_command(ctx, args if args[0] in self.commands else ["run", *args])


experiment = typer.Typer(
    cls=RunsFiles, no_args_is_help=True, help="Find out which settings answer best (`FILE.toml` says what)."
)
IdArgument = Annotated[str, typer.Argument(metavar="ID", help="An experiment's id, or its first characters.")]


@experiment.command("run")
def run(
    file: Annotated[Path, typer.Argument(help="The experiment: data, search, settings.")],
    report: Annotated[
        Path | None, typer.Option(help="The report's file; by default beside FILE, as .html.", show_default=False)
    ] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Without Prefect.")] = False,
    store: StoreOption = None,
    space: SpaceOption = None,
) -> None:
    """Run an experiment, or go on with one that was killed; no setting changes."""
    with report_errors_and_progress():
        from slowwave.tasks.experiment.report import check_report, render_report

        check_report()
        file, given = file.expanduser().absolute(), build_overrides(store, space)
        open_store(store, space)  # what is missing is told before Prefect is started
        if not plain and (theirs := find_local_prefect_settings()):
            print_notes([f"Prefect would obey {theirs} of this folder, whoever wrote it: this goes on plain"])
            plain = True
        if plain:
            from slowwave.flows.experiment import run_experiment

            found = run_experiment(file, given)
        else:
            import_prefect_quietly()
            from slowwave.flows.under_prefect import run_experiment_under_prefect

            found = run_experiment_under_prefect(str(file), given)
        to = report or file.with_suffix(".html")
        to.write_text(render_report(found), encoding="utf-8")
        OUT.print(f"{found.render_markdown()}\nThe report is {to}.", soft_wrap=True)
        if found.adopted:
            OUT.print(f"`slowwave experiment adopt {found.experiment_id[:8]}` would set it.", soft_wrap=True)


@experiment.command("list")
def list_experiments(as_json: JsonOption = False, store: StoreOption = None, space: SpaceOption = None) -> None:
    """List the experiments, the latest last."""
    with report_errors():
        from slowwave.tasks.experiment.findings import format_interval, format_params

        _, known = _read(store, space)
        if as_json:
            OUT.print_json(f"[{','.join(one.model_dump_json() for one in known)}]")
            return
        for one in known:
            gain = f"{one.metric} {format_interval(one.tested.gain, '+')} on test" if one.tested else "nothing to adopt"
            said = f"{one.experiment_id[:8]}  {one.name}: {one.tried} tried; {format_params(one.adopted)}; {gain}"
            OUT.print(said, soft_wrap=True)
        if not known:
            OUT.print("No experiments: `slowwave experiment FILE.toml` runs one.")


@experiment.command("compare")
def compare(a: IdArgument, b: IdArgument, store: StoreOption = None, space: SpaceOption = None) -> None:
    """Compare what two experiments ended with, on test; question by question where they asked the same."""
    with report_errors():
        from slowwave.flows.experiment import compare_experiments

        settings, known = _read(store, space)
        OUT.print(compare_experiments(settings, _pick(known, a), _pick(known, b)), soft_wrap=True)


@experiment.command("adopt")
def adopt(
    which: IdArgument,
    yes: Annotated[bool, typer.Option("--yes", help="Write without asking.")] = False,
    store: StoreOption = None,
    space: SpaceOption = None,
) -> None:
    """Write an experiment's best settings into your slowwave.toml, after showing what changes."""
    with report_errors():
        from slowwave.schemas.settings_files import find_user_file, get_default_path
        from slowwave.store.private import make_private_folder, replace_file
        from slowwave.tasks.experiment.adopt import set_in_toml
        from slowwave.tasks.experiment.definition import get_value

        found = _pick(_read(store, space)[1], which)
        OUT.print("\n".join(found.collect_verdicts()), soft_wrap=True)
        if not found.adopted:
            raise UsageError("nothing is written: the settings in force stay as they are")
        path = (find_user_file() or get_default_path()).resolve()
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        after = set_in_toml(before, found.adopted)
        change = unified_diff(before.splitlines(), after.splitlines(), str(path), str(path), lineterm="")
        OUT.print("\n".join(change) or f"{path} says so already.", soft_wrap=True)
        if after == before:
            return
        if not yes:
            typer.confirm(f"Write {path}?", abort=True)
        make_private_folder(path.parent)
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
        replace_file(path, after.encode())  # in one piece: a reader sees the old or the new
        path.chmod(mode)
        now = load_settings(store, space)
        for name, value in found.adopted.items():
            if get_value(now, name) != value:
                print_notes([f"{name} is {get_value(now, name)} all the same: the environment sets it"])


def _read(store: Path | None, space: str | None) -> "tuple[Settings, list[Findings]]":
    from slowwave.flows.experiment import read_experiments

    settings = load_settings(store, space)
    return settings, read_experiments(settings)


def _pick(known: "list[Findings]", which: str) -> "Findings":
    """Return the one experiment of an id.

    Raises:
        UsageError: none has it, or several begin so.
    """
    fit = [one for one in known if one.experiment_id.startswith(which)]
    if len(fit) != 1:
        raise UsageError(f"{len(fit) or 'no'} experiments have the id {which!r}: `slowwave experiment list` has them")
    return fit[0]
