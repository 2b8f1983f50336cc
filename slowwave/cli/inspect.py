"""`slowwave status`, `inspect` and `config`: the state of a memory, its ledgers, and the current settings."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slowwave.cli.common import HELD, INCOMPLETE, OUT, command, echo, load_settings, print_json, print_table
from slowwave.schemas.errors import UsageError
from slowwave.schemas.vocabulary import RunStatus
from slowwave.text.fence import escape_line

if TYPE_CHECKING:
    from pydantic import BaseModel

    from slowwave.flows.status import StatusLine
    from slowwave.schemas.settings import Settings

Row = dict[str, Any]


@command
def inspect(
    settings: "Settings",
    ledger: Annotated[str, typer.Argument(help="The ledger to list.")],
    everything: Annotated[
        bool, typer.Option("--all", help="Include rows that were undone, resolved or have lapsed.")
    ] = False,
    as_json: bool = False,
) -> list[Row] | None:
    """List releases, runs, changes, quarantine and more.

    The ledgers are releases, runs, quarantine, junk (recurring text that is masked), merges, changes, notes, excluded,
    usage (which claims were returned, and their ratings), and spaces.
    """
    from slowwave.flows.ledgers import LEDGERS

    if ledger not in LEDGERS:
        raise UsageError(f"there is no ledger {ledger!r}: {', '.join(LEDGERS)}")
    listing = LEDGERS[ledger](settings, everything)
    if as_json:
        return listing.rows
    # as a table
    if listing.rows:
        print_table(listing.table)
    else:
        OUT.print(f"Nothing in {ledger}.")
    for note in listing.notes:
        OUT.print(note)
    return None


@command
def status(
    settings: "Settings",
    stats: Annotated[bool, typer.Option("--stats", help="Add figures on answers, the web, models and tables.")] = False,
    as_json: bool = False,
) -> None:
    """Show what is covered, the last night and the next one.

    Exit status 0: all is well; 3: transcripts have waited for more than a day, the last run did not end well, or a
    forgetting is not finished; 4: what it made is held back; 1: there is no memory yet, or it can't be read.
    """
    from slowwave.flows.status import collect_status

    rows = collect_status(settings)
    more = _list_figures(settings, as_json=as_json) if stats else []
    if as_json:
        print_json({heading.replace(" ", "_"): value for heading, _, value in [*rows, *more]})
    else:
        OUT.print("\n".join(f"{heading:<12}{escape_line(text)}" for heading, text, _ in [*rows, *more]))
    raise typer.Exit(_find_exit_status(rows))


def _list_figures(settings: "Settings", *, as_json: bool) -> list["StatusLine"]:
    """Return the figures of `--stats`: as one value for JSON, else as a line for each figure that is not zero."""
    from slowwave.flows.metrics import list_metrics
    from slowwave.flows.status import StatusLine

    figures = list_metrics(settings)
    if as_json:
        return [StatusLine("stats", "", {metric.name: metric.as_dict() for metric in figures})]
    counted = [metric for metric in figures if any(metric.values.values()) and "timestamp" not in metric.name]
    none = "; ".join(metric.about for metric in figures if not any(metric.values.values()))
    return [StatusLine("", line, None) for line in (*(str(metric) for metric in counted), f"None: {none}")]


def _find_exit_status(rows: Sequence["StatusLine"]) -> int:
    """Return the exit status that the help of `slowwave status` describes."""
    from slowwave.flows.status import UNFINISHED

    last = next(row.value for row in rows if row.heading == "last run")
    if last.get("status") == RunStatus.HELD:
        return HELD
    behind = rows[0].value["behind"]
    unfinished = any(row.heading == UNFINISHED for row in rows)
    ended_well = last.get("status") == RunStatus.DONE and not behind and not unfinished
    return 0 if ended_well else INCOMPLETE


@command
def config(as_json: bool = False) -> Row | None:
    """Show every current setting and where it comes from."""
    from slowwave.schemas.settings import Settings
    from slowwave.schemas.settings_files import (
        find_project_file,
        find_user_file,
        load_project_excludes,
        load_user_settings,
    )

    # the names that files set, nested as in the files, each with its file
    own = _map_to_path(str(find_user_file()), load_user_settings(Settings))
    if load_project_excludes():
        section = own.setdefault("read", {})
        section["exclude"] = " and ".join(filter(None, (section.get("exclude"), str(find_project_file()))))
    rows = _list_settings(load_settings(), (), own)
    if as_json:
        return {name: {"value": value, "from": origin} for name, value, origin, _ in rows}
    for name, value, origin, about in rows:  # a table would cut the names at 80 columns
        echo(f"{name} = {value}  ({origin})\n    {about}")
    return None


def _map_to_path(path: str, table: Row) -> Row:
    return {name: _map_to_path(path, value) if isinstance(value, dict) else path for name, value in table.items()}


def _list_settings(model: "BaseModel", above: tuple[str, ...], files: Row) -> list[tuple[str, Any, str, str]]:
    """Return every setting of a model: its dotted name, value, origin and description."""
    from pydantic import BaseModel

    environment = {name.upper() for name in os.environ}
    rows: list[tuple[str, Any, str, str]] = []
    for name, field in type(model).model_fields.items():
        value, names = getattr(model, name), (*above, name)
        if isinstance(value, BaseModel):
            rows += _list_settings(value, names, files.get(name, {}))
            continue
        # A whole section may be given as JSON in one variable: SLOWWAVE_PYRAMID='{"step": 5}'.
        variables = ["SLOWWAVE_" + "__".join(names[:n]).upper() for n in range(len(names), 0, -1)]
        origin = next((variable for variable in variables if variable in environment), files.get(name, "default"))
        plain = value if isinstance(value, bool | int | float | str) else str(value)
        rows.append((".".join(names), plain, origin, field.description or ""))
    return rows
