"""Commands that leave rows out of the memory and take them in again, and the lists of both."""

from typing import Annotated

import typer

from slowwave.cli.common import (
    OUT,
    JsonOption,
    SpaceOption,
    StoreOption,
    end_run,
    load_settings,
    open_store,
    report_errors,
    report_errors_and_progress,
)

Ids = Annotated[
    list[str],
    typer.Argument(
        metavar="ID…",
        help="A session, a transcript file, a release (what came with it), a claim, a merge or change, or a note; "
        "`candidate` is what came with a night that is held back.",
    ),
]


def exclude(
    ids: Ids,
    why: Annotated[str, typer.Option("--why", help="Your reason; it is kept.")],
    store: StoreOption = None,
    space: SpaceOption = None,
) -> None:
    """Leave sessions, claims, merges or notes out of the memory.

    Later nights do not bring them back. Messages stay in the vault; what was distilled from them goes, and what
    depended on it is made anew.
    """
    with report_errors_and_progress():
        from slowwave.flows.exclude import run_exclude

        report = run_exclude(ids, why, load_settings(store, space))
        report.print(OUT)
        end_run(report)


def include(ids: Ids, store: StoreOption = None, space: SpaceOption = None) -> None:
    """Take in again what was left out; confirm an agent's note."""
    with report_errors_and_progress():
        from slowwave.flows.exclude import run_include

        report = run_include(ids, load_settings(store, space))
        report.print(OUT)
        end_run(report)


def excluded(as_json: JsonOption = False, store: StoreOption = None, space: SpaceOption = None) -> None:
    """List the sessions and claims that are left out, and why."""
    with report_errors():
        from slowwave.schemas.tables import EXCLUSIONS, OBSERVATIONS, SESSIONS

        opened = open_store(store, space)
        rows = opened.read(EXCLUSIONS, ["row_id", "kind", "why", "at"]).to_pylist()
        ids = [row["row_id"] for row in rows]
        sessions = opened.read_ids(SESSIONS, ids, ["session_id", "native_id", "path"]).to_pylist()
        claims = opened.read_ids(OBSERVATIONS, ids, ["observation_id", "summary"]).to_pylist()
        about = {row["session_id"]: (row["native_id"], row["path"]) for row in sessions}
        about |= {row["observation_id"]: (row["observation_id"][:12], row["summary"]) for row in claims}
        told = [
            {**row, "at": row["at"].isoformat(), "name": name, "text": text}
            for row in sorted(rows, key=lambda row: (row["at"], row["row_id"]))
            for name, text in [about.get(row["row_id"], (row["row_id"][:12], "forgotten since"))]
        ]
        if as_json:
            OUT.print_json(data=told)
            return
        for row in told:
            typer.echo(f"{row['kind']} {row['name']}  {row['at'][:10]}  {row['why']}\n    {row['text']}")
        if not told:
            typer.echo("Nothing is left out.")


def notes(
    unconfirmed: Annotated[bool, typer.Option("--unconfirmed", help="What agents noted and nobody confirmed.")] = False,
    as_json: JsonOption = False,
    store: StoreOption = None,
    space: SpaceOption = None,
) -> None:
    """List the notes, the oldest first: when, by whom, and whether a person confirmed or rejected them.

    `slowwave include ID` confirms an agent's note, `slowwave exclude ID --why …` rejects it.
    """
    with report_errors():
        from slowwave.store.notes import read_notes

        settings = load_settings(store, space)
        found = read_notes(settings.store / settings.space)
        found = [note for note in found if note.verdict == "unconfirmed" or not unconfirmed]
        if as_json:
            OUT.print_json(data=[vars(note) for note in found])
            return
        for note in found:
            by = f"{note.by} {note.speaker}" if note.speaker else note.by
            where = f"  {note.workspace}" if note.workspace else ""
            head = f"{note.id.removeprefix('note-')}  {note.at[:16]}  {by}  {note.verdict}{where}"
            for line in (head, f"    {' '.join(note.text.split())}"):
                # What would steer the terminal, and so hide what is confirmed, is printed as its code.
                typer.echo("".join(char if char.isprintable() else ascii(char)[1:-1] for char in line))
        if not found:
            typer.echo("No notes.")
