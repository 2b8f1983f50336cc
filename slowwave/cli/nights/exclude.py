"""Commands that leave sessions out of what is distilled, and take them in again."""

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


def exclude(
    names: Annotated[list[str], typer.Argument(metavar="SESSION|FILE|RELEASE…", help="What came with r3, say.")],
    why: Annotated[str, typer.Option("--why", help="Your reason; it is kept.")],
    store: StoreOption = None,
    space: SpaceOption = None,
) -> None:
    """Leave sessions out of the memory, also in later nights.

    Their messages stay in the vault; all that was distilled from them goes, and what leaned on it is made anew.
    """
    with report_errors_and_progress():
        from slowwave.flows.exclude import run_exclude

        report = run_exclude(names, why, load_settings(store, space))
        report.print(OUT)
        end_run(report)


def include(
    names: Annotated[list[str], typer.Argument(metavar="SESSION|FILE…", help="What was left out.")],
    store: StoreOption = None,
    space: SpaceOption = None,
) -> None:
    """Take in again what was left out."""
    with report_errors_and_progress():
        from slowwave.flows.exclude import run_include

        report = run_include(names, load_settings(store, space))
        report.print(OUT)
        end_run(report)


def revert(
    row: Annotated[str, typer.Argument(metavar="ID", help="A claim, or a merge or change, by its first characters.")],
    why: Annotated[str, typer.Option("--why", help="Your reason; it is kept.")] = "",
    undo: Annotated[bool, typer.Option("--undo", help="Let a claim that was taken back count again.")] = False,
    store: StoreOption = None,
    space: SpaceOption = None,
) -> None:
    """Take a claim back for good, with what repeats it; or a merge.

    No later night brings it back, neither from its session nor in the same words from another.
    """
    with report_errors_and_progress():
        from slowwave.flows.revert import run_restore, run_revert

        settings = load_settings(store, space)
        report = run_restore(row, settings) if undo else run_revert(row, why, settings)
        report.print(OUT)
        end_run(report)


def reverted(as_json: JsonOption = False, store: StoreOption = None, space: SpaceOption = None) -> None:
    """List the claims that were taken back, and why."""
    with report_errors():
        from slowwave.schemas.tables import OBSERVATIONS, REVERTS

        opened = open_store(store, space)
        rows = opened.read(REVERTS, ["observation_id", "why", "at"]).sort_by("at").to_pylist()
        claims = opened.read_ids(OBSERVATIONS, [row["observation_id"] for row in rows], ["observation_id", "summary"])
        known = {row["observation_id"]: row["summary"] for row in claims.to_pylist()}
        told = [{**row, "at": row["at"].isoformat(), "summary": known.get(row["observation_id"])} for row in rows]
        if as_json:
            OUT.print_json(data=told)
            return
        for row in told:
            said = row["summary"] or "forgotten since"
            typer.echo(f"{row['observation_id'][:12]}  {row['at'][:10]}  {row['why']}\n    {said}")
        if not told:
            typer.echo("Nothing is taken back.")


def excluded(as_json: JsonOption = False, store: StoreOption = None, space: SpaceOption = None) -> None:
    """List the sessions that are left out, and why."""
    with report_errors():
        from slowwave.schemas.tables import EXCLUSIONS, SESSIONS

        opened = open_store(store, space)
        rows = opened.read(EXCLUSIONS, ["session_id", "why", "at"]).to_pylist()
        about = opened.read_ids(SESSIONS, [row["session_id"] for row in rows], ["session_id", "native_id", "path"])
        known = {row["session_id"]: row for row in about.to_pylist()}
        told = [{**known[row["session_id"]], "why": row["why"], "at": row["at"].isoformat()} for row in rows]
        told.sort(key=lambda row: (row["at"], row["session_id"]))
        if as_json:
            OUT.print_json(data=told)
            return
        for row in told:
            typer.echo(f"{row['native_id']}  {row['at'][:10]}  {row['why']}\n    {row['path']}")
        if not told:
            typer.echo("Nothing is left out.")
