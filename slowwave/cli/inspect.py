"""`slowwave status`, `inspect`, `config` and `check-claims`: a memory's state, ledgers, settings and code checks."""

import os
import shlex
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slowwave.cli.common import (
    HELD,
    INCOMPLETE,
    OUT,
    command,
    echo,
    print_json,
    print_table,
)
from slowwave.cli.opening import load_settings, open_anew
from slowwave.schemas.errors import TROUBLE, UsageError
from slowwave.schemas.vocabulary import RunStatus
from slowwave.text.fence import escape_line
from slowwave.text.words import count_noun

if TYPE_CHECKING:
    from pydantic import BaseModel

    from slowwave.flows.status import StatusLine
    from slowwave.schemas.settings import Settings

Data = dict[str, Any]
"""Settings by name, or what is printed as JSON."""
Rows = Sequence[Mapping[str, Any]]


@command
def inspect(
    settings: "Settings",
    ledger: Annotated[str, typer.Argument(help="The ledger to list.")],
    everything: Annotated[
        bool,
        typer.Option(
            "--all", help="Include rows that were undone, resolved or have lapsed."
        ),
    ] = False,
    as_json: bool = False,
) -> Rows | None:
    """List releases, runs, changes, quarantine and more.

    The ledgers are releases, runs, quarantine, junk (recurring text that is masked), merges, changes, notes, excluded,
    redactions, usage (which claims were returned, and their ratings), and spaces.
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
        OUT.say(note)
    return None


@command
def status(
    settings: "Settings",
    stats: Annotated[
        bool,
        typer.Option(
            "--stats", help="Add figures on answers, the web, models and tables."
        ),
    ] = False,
    as_json: bool = False,
) -> None:
    """Show what is covered, the last night and the next one.

    Exit status 0: all is well; 3: transcripts have waited for more than a day, the last run did not end well, or a
    forgetting is not finished; 4: what it made is held back; 1: there is no memory yet, or it can't be read.
    """
    from slowwave.flows.status import LAST_RUN, UNFINISHED, collect_status

    rows = collect_status(settings)
    last = next(row.value for row in rows if row.heading == LAST_RUN)
    behind = rows[0].value["behind"]
    unfinished = any(row.heading == UNFINISHED for row in rows)
    if stats:
        rows += _list_stats(settings, as_json=as_json)
    if as_json:
        print_json({heading.replace(" ", "_"): value for heading, _, value in rows})
    else:
        OUT.say(
            "\n".join(f"{heading:<12}{escape_line(text)}" for heading, text, _ in rows)
        )
    if last.get("status") == RunStatus.HELD:
        raise typer.Exit(HELD)
    ended_well = last.get("status") == RunStatus.DONE and not behind and not unfinished
    raise typer.Exit(0 if ended_well else INCOMPLETE)


def _list_stats(settings: "Settings", *, as_json: bool) -> "list[StatusLine]":
    """Return the metrics as lines, or as one value for JSON.

    The lines leave out timestamps. The last line names the metrics that are zero.
    """
    from slowwave.flows.metrics import list_metrics
    from slowwave.flows.status import StatusLine

    figures = list_metrics(settings)
    if as_json:
        by_name = {metric.name: metric.as_dict() for metric in figures}
        return [StatusLine("stats", "", by_name)]
    counted = [
        str(metric)
        for metric in figures
        if any(metric.values.values()) and "timestamp" not in metric.name
    ]
    zeros = [metric.about for metric in figures if not any(metric.values.values())]
    lines = [*counted, f"None: {'; '.join(zeros)}"]
    return [StatusLine("", line, None) for line in lines]


@command
def config(
    given: Data,
    alias: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[alias OLD NEW]",
            help="Set another name for a project, for example for a folder that moved.",
        ),
    ] = None,
    as_json: bool = False,
) -> Data | None:
    """Show each setting and its origin, or alias a project.

    After `config alias OLD NEW`, what was said under OLD, or in a folder below it, is found under NEW. OLD and NEW are
    paths, stored names of projects, or the last parts of stored paths. Nothing that is stored changes: the alias is a
    line of your settings file.
    """
    from slowwave.schemas.places import find_user_file
    from slowwave.schemas.settings import Settings
    from slowwave.schemas.settings_files import (
        find_project_file,
        load_project_excludes,
        load_user_settings,
    )

    settings = load_settings(**given)
    if alias:
        return _set_alias(settings, alias, as_json=as_json)
    # the settings in files, nested as there, each with the files that set it
    own = _map_to_path(str(find_user_file()), load_user_settings(Settings))
    if load_project_excludes():
        section = own.setdefault("read", {})
        section["exclude"] = " and ".join(
            filter(None, (section.get("exclude"), str(find_project_file())))
        )
    rows = [
        (name, value, f"--{name}" if name in given else origin, about)
        for name, value, origin, about in _list_settings(settings, (), own)
    ]
    return _print_settings(rows, as_json)


def _print_settings(
    rows: list[tuple[str, Any, str, str]], as_json: bool
) -> Data | None:
    if as_json:
        return {
            name: {"value": value, "from": origin} for name, value, origin, _ in rows
        }
    for (
        name,
        value,
        origin,
        about,
    ) in rows:
        # No table: at 80 columns it would cut the names.
        echo(f"{name} = {value}  ({origin})\n    {about}")
    return None


def _set_alias(
    settings: "Settings",
    words: list[str],
    *,
    as_json: bool,
) -> Data | None:
    """Write an alias into the user's settings file.

    Raises:
        UsageError: the words are not `alias OLD NEW`, a name may be one of several projects, both names are one
            workspace, or the file can't be changed.
    """
    from slowwave.memory import settle_project
    from slowwave.text.workspaces import match_workspaces, write_alias

    if words[:-2] != ["alias"]:
        raise UsageError(
            f"config can't {shlex.join(words)}: write `slowwave config alias OLD NEW`, or `slowwave config` to list all"
        )
    old, new = (
        settle_project(settings, word, near=True, own=True) for word in words[1:]
    )
    if not old or not new:
        raise UsageError("the name of a project is empty")
    if match_workspaces(new, [old]):
        raise UsageError(f"{old} and {new} are one project already")
    known = _has_workspace(settings, old)
    path = str(write_alias(old, new))
    if as_json:
        return {"old": old, "new": new, "known": known, "file": path}
    echo(f"{old} is {new} from now on ({path})")
    if not known:
        echo(f"note: nothing is stored under {old} yet")
    if not Path(new).is_absolute() and not _has_workspace(settings, new):
        echo(f"note: {new} is neither a known project nor a folder here")
    return None


def _has_workspace(settings: "Settings", workspace: str) -> bool:
    """Return True if the settings' store can be read and has rows of a workspace."""
    try:
        return open_anew(settings, None).has_workspace(workspace)
    except TROUBLE:
        return False


def _map_to_path(path: str, table: Data) -> Data:
    return {
        name: _map_to_path(path, value) if isinstance(value, dict) else path
        for name, value in table.items()
    }


def _list_settings(
    model: "BaseModel",
    above: tuple[str, ...],
    files: Data,
) -> list[tuple[str, Any, str, str]]:
    """Return every setting below a model: its dotted name, its value, its origin and its description.

    The origin is an environment variable, a file, or "default".
    """
    from pydantic import BaseModel

    environment = {name.upper() for name in os.environ}
    rows: list[tuple[str, Any, str, str]] = []
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        names = (*above, name)
        if isinstance(value, BaseModel):
            rows += _list_settings(value, names, files.get(name, {}))
            continue
        # A whole section may be given as JSON in one variable: SLOWWAVE_PYRAMID='{"step": 5}'.
        variables = [
            "SLOWWAVE_" + "__".join(names[:n]).upper() for n in range(len(names), 0, -1)
        ]
        origin = next(
            (variable for variable in variables if variable in environment),
            files.get(name, "default"),
        )
        while isinstance(origin, dict):  # a table whose keys a person chose
            origin = next(iter(origin.values()), "default")
        plain = value if isinstance(value, bool | int | float | str) else str(value)
        rows.append((".".join(names), plain, origin, field.description or ""))
    return rows


@command
def check_claims(settings: "Settings", as_json: bool = False) -> Rows | None:
    """Compare claims with the code that they are about, now.

    Looked at is HEAD of each checkout of git on this machine that claims and passages name as their folder; the night
    does the same. Listed is what they name that the code had and does not have any more, each with the file and line
    that had it. Nothing of a checkout is run, and none of its files is changed.
    """
    from slowwave.flows.check_claims import run_claim_check
    from slowwave.flows.ledgers import count_compared, list_failed_checks

    report = run_claim_check(settings)
    rows = list_failed_checks(settings)
    if as_json:
        return rows
    for step in report.steps:
        for line in (*step.notes, *step.failed):
            echo(escape_line(line))
    for claim, of_claim in groupby(rows, itemgetter("claim", "text")):
        echo(f"{claim[0][:12]}  {escape_line(claim[1])}")
        for row in of_claim:
            place = ":".join(str(part) for part in (row["path"], row["line"]) if part)
            note = escape_line(f"{row['note']} {place}")
            echo(f"{' ' * 14}{note}".rstrip())
    echo(_count_failed(len(rows), count_compared(settings)))
    if report.failures:
        raise typer.Exit(INCOMPLETE)
    return None


def _count_failed(number: int, compared: int) -> str:
    """Return the number of names that the code does not bear out, as a sentence; `compared` were looked up."""
    if not compared:
        return (
            "Nothing was compared: no claim names code of a checkout on this machine."
        )
    if not number:
        return f"The code still has every name in the claims ({compared:,})."
    names = count_noun(number, "name")
    are = "is" if number == 1 else "are"
    return f"{names} in the claims {are} gone from the code, or {are} different there."


check_claims.__name__ = "check-claims"
