"""`slowwave experiment`: which settings answer best, on labelled questions or on one's own past."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from slowwave.cli.common import (
    OUT,
    JsonOption,
    SpaceOption,
    StoreOption,
    build_overrides,
    open_store,
    report_errors_and_progress,
)

if TYPE_CHECKING:
    from slowwave.flows.experiment import Findings


def experiment(
    file: Annotated[Path, typer.Argument(help="The experiment: data, search, settings.")],
    as_json: JsonOption = False,
    store: StoreOption = None,
    space: SpaceOption = None,
) -> None:
    """Find out which settings answer best; no setting changes.

    An experiment that was killed goes on where it was.
    """
    with report_errors_and_progress():
        open_store(store, space)
        import orjson

        from slowwave.flows.experiment import run_experiment

        findings = run_experiment(file.expanduser().absolute(), build_overrides(store, space))
        if as_json:
            typer.echo(orjson.dumps(findings))  # NaN, where nothing was measured, becomes null
        else:
            print_findings(findings)


def print_findings(findings: "Findings") -> None:
    """Print each candidate's figures beside those of the settings in force, and what to write to adopt the best."""
    figures = [name for name, one in findings.in_force["train"].items() if one.mean == one.mean]
    sizes = ", ".join(f"{count} {split}" for split, count in findings.questions.items())
    table = Table("split", "settings", *figures, "gain", "p", title=f"{findings.name}: {sizes} questions")
    for split in ("validation", "test"):
        in_force = findings.in_force[split]
        table.add_row(split, "in force", *(str(in_force[name]) for name in figures))
        for candidate in (one for one in findings.candidates if one.split == split):
            settings = "\n".join(f"{name} = {value}" for name, value in candidate.params.items())
            cells = (str(candidate.figures[name]) for name in figures)
            table.add_row(split, settings, *cells, str(candidate.gain), f"{candidate.p:.3f}")
    OUT.print(table)
    OUT.print(
        f"{findings.tried} settings were tried on training; p is Holm's, for all that validation saw.", soft_wrap=True
    )
    if not findings.best:
        OUT.print(
            "None was better on validation than the settings in force: there is nothing to change.", soft_wrap=True
        )
        return
    gain = next(one.gain for one in findings.candidates if one.split == "test")
    sure = "" if gain.low > 0 else "\nOn test that may be chance: the interval of the gain holds 0."
    OUT.print(f"The best on validation, for your slowwave.toml:{sure}", soft_wrap=True)
    for name, value in findings.best.items():
        OUT.print(f"{name} = {str(value).lower() if isinstance(value, bool) else repr(value)}".replace("'", '"'))
