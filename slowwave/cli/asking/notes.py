"""Commands on notes: list them, and say which of an agent's hold."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from slowwave.cli.common import (
    OUT,
    JsonOption,
    SpaceOption,
    StoreOption,
    end_run,
    load_settings,
    report_errors,
    report_errors_and_progress,
)
from slowwave.schemas.errors import UsageError

if TYPE_CHECKING:
    from slowwave.store.notes import Note

notes = typer.Typer(no_args_is_help=True, help="List notes; confirm or reject what agents noted.")
Ids = Annotated[list[str], typer.Argument(metavar="ID…", help="A note's id, or its first characters.")]
Why = Annotated[str, typer.Option("--why", help="Your reason; it is kept.")]


@notes.command("list")
def list_notes(
    unconfirmed: Annotated[bool, typer.Option("--unconfirmed", help="What agents noted and nobody confirmed.")] = False,
    as_json: JsonOption = False,
    store: StoreOption = None,
    space: SpaceOption = None,
) -> None:
    """List the notes, the oldest first: when, by whom, and what a person said of it."""
    with report_errors():
        found = _read(store, space, only_unconfirmed=unconfirmed)
        if as_json:
            OUT.print_json(data=[vars(one) for one in found])
            return
        for one in found:
            typer.echo(_format_note(one))
        if not found:
            typer.echo("No notes.")


@notes.command("confirm")
def confirm(ids: Ids, store: StoreOption = None, space: SpaceOption = None) -> None:
    """Confirm what an agent noted: from then on it counts as your own word."""
    with report_errors():
        from slowwave.store.notes import find_note, review_note

        settings = load_settings(store, space)
        folder = settings.store / settings.space
        found = [find_note(folder, one) for one in ids]
        for one in found:
            review_note(folder, one, "confirmed")
            OUT.print(f"Confirmed {one.id}.", highlight=False)


@notes.command("reject")
def reject(ids: Ids, why: Why = "rejected", store: StoreOption = None, space: SpaceOption = None) -> None:
    """Reject notes: nothing is distilled from them any more."""
    with report_errors_and_progress():
        from slowwave.store.notes import find_note

        settings = load_settings(store, space)
        _reject([find_note(settings.store / settings.space, one) for one in ids], why, store, space)


@notes.command("review")
def review(store: StoreOption = None, space: SpaceOption = None) -> None:
    """Go through what agents noted, one by one."""
    with report_errors_and_progress():
        from slowwave.store.notes import review_note

        waiting = _read(store, space, only_unconfirmed=True)
        if not waiting:
            typer.echo("Nothing waits for a word.")
            return
        if not is_terminal():
            raise UsageError("there is nobody to ask: `slowwave notes confirm ID`, `slowwave notes reject ID`")
        settings = load_settings(store, space)
        refused = []
        for one in waiting:
            typer.echo(_format_note(one))
            answer = typer.prompt("confirm, reject, skip or quit", default="skip")[:1].casefold()
            if answer == "q":
                break
            if answer == "c":
                review_note(settings.store / settings.space, one, "confirmed")
            refused += [one] if answer == "r" else []
        if refused:
            _reject(refused, "rejected", store, space)


def is_terminal() -> bool:
    """Return whether somebody can be asked."""
    return sys.stdin.isatty()


def _read(store: StoreOption, space: SpaceOption, *, only_unconfirmed: bool) -> "list[Note]":
    from slowwave.store.notes import read_notes

    settings = load_settings(store, space)
    found = read_notes(settings.store / settings.space)
    return [one for one in found if one.verdict == "unconfirmed"] if only_unconfirmed else found


def _reject(found: "list[Note]", why: str, store: StoreOption, space: SpaceOption) -> None:
    from slowwave.flows.notes import reject_notes

    report = reject_notes(found, why, load_settings(store, space))
    if report:
        report.print(OUT)
        end_run(report)
    else:
        typer.echo("Nothing of it was distilled.")


def _format_note(one: "Note") -> str:
    """Return a note in two lines; what would steer the terminal, and so hide what is confirmed, stands as it is."""
    by = f"{one.by} {one.speaker}" if one.speaker else one.by
    where = f"  {one.workspace}" if one.workspace else ""
    lines = (f"{one.id.removeprefix('note-')}  {one.at[:16]}  {by}  {one.verdict}{where}", " ".join(one.text.split()))
    return "\n    ".join("".join(c if c.isprintable() else ascii(c)[1:-1] for c in line) for line in lines)
