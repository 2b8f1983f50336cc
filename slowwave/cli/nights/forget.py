"""`slowwave forget`: what was said is erased with all that was made of it, and a certificate says so."""

import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slowwave.cli.common import (
    ERR,
    OUT,
    JsonOption,
    SpaceOption,
    StoreOption,
    end_run,
    load_settings,
    open_store,
    report_errors_and_progress,
)
from slowwave.schemas.errors import UsageError

if TYPE_CHECKING:
    from slowwave.flows.forget import Preview
    from slowwave.schemas.settings import Settings
    from slowwave.tasks.forget.select import Wanted

UNREACHED = "Not reached: backups, disk snapshots, and other machines' copies; docs/forgetting.md says more."


def forget(
    session: Annotated[
        list[str] | None, typer.Option(help="Sessions, by the transcript's own id.", show_default=False)
    ] = None,
    message: Annotated[
        list[str] | None, typer.Option(help="Messages, by the transcript's own id or a hit's.", show_default=False)
    ] = None,
    match: Annotated[
        str | None, typer.Option(help="Messages that hold this text, also in a tool's output.", show_default=False)
    ] = None,
    speaker: Annotated[list[str] | None, typer.Option(help="What these people said.", show_default=False)] = None,
    workspace: Annotated[str | None, typer.Option(help="What was said in this workspace.", show_default=False)] = None,
    before: Annotated[datetime | None, typer.Option(help="What was said before this day.", show_default=False)] = None,
    note: Annotated[
        list[str] | None, typer.Option(help="Notes, by the id that they were noted under.", show_default=False)
    ] = None,
    source: Annotated[
        str | None, typer.Option(help="What this format's transcripts say; shared:NAME.", show_default=False)
    ] = None,
    check: Annotated[
        Path | None, typer.Option(help="Hold a certificate against the store as it is.", show_default=False)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would go, and end.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    rebuild: Annotated[
        bool, typer.Option("--rebuild/--no-rebuild", help="Make anew at once what leaned on it.")
    ] = True,
    exports: Annotated[bool, typer.Option("--exports", help="Remove exports that hold it.")] = False,
    as_json: JsonOption = False,
    store: StoreOption = None,
    space: SpaceOption = None,
) -> None:
    """Erase what was said and all that was made of it; certify it.

    Of several options all must hold; one given twice means either. Older releases go, there is no way back. Exit
    status 1: something of it is still there, or an error.
    """
    with report_errors_and_progress():
        from slowwave.tasks.forget.select import Wanted

        settings = load_settings(store, space)
        wanted = Wanted(
            tuple(session or ()),
            tuple(message or ()),
            match,
            tuple(speaker or ()),
            workspace,
            before,
            tuple(note or ()),
            source,
        )
        if check is not None:
            if wanted.kinds:
                raise UsageError("--check takes a certificate alone: it forgets nothing")
            _check(check, settings, as_json=as_json)
        else:
            _forget(wanted, settings, dry_run=dry_run, yes=yes, rebuild=rebuild, exports=exports, as_json=as_json)


def _forget(
    wanted: "Wanted", settings: "Settings", *, dry_run: bool, yes: bool, rebuild: bool, exports: bool, as_json: bool
) -> None:
    from slowwave.flows.forget import preview_forgetting, run_forget, take_in_notes
    from slowwave.tasks.forget.certificate import load_certificate

    wanted.check()
    if not dry_run:
        if not yes and (as_json or not sys.stdin.isatty()):
            raise UsageError("nothing was forgotten: there is nobody to ask; --yes does it, --dry-run shows what goes")
        take_in_notes(settings)
    seen = preview_forgetting(wanted, settings)
    if dry_run:
        _print_preview(seen, as_json=as_json)
        return
    if not yes:
        _print_preview(seen, as_json=False)
        typer.confirm("Forget this for good?", abort=True)
    report, paths = run_forget(wanted, settings, rebuild=rebuild, exports=exports)
    made = [(path, load_certificate(path)) for path in paths]
    found = sum(one["scan"]["found"] for _, one in made)
    if as_json:
        told: dict[str, Any] = {
            "preview": seen.as_dict(),
            "certificates": [{"path": str(path), **one} for path, one in made],
            "release": report.release.name if report.release else None,
            "notes": report.collect_notes(),
        }
        OUT.print_json(data=told)
    else:
        for line in report.collect_notes():
            OUT.print(f"note: {line}", soft_wrap=True)
        for path, one in made:
            _print_certificate(path, one)
        OUT.print(report.format_verdict() if made else "Nothing of it is there: nothing was forgotten.", soft_wrap=True)
        _print_transcripts(seen)
        for held in [held for _, one in made for held in one["exports"]]:
            end = "Removed" if held["removed"] else "Still there"
            OUT.print(f"{end}, an export made before that held it: {held['path']}", soft_wrap=True)
        if made:
            OUT.print(UNREACHED, soft_wrap=True)
    if found or (exports and not all(held["removed"] for _, one in made for held in one["exports"])):
        ERR.print("slowwave: something of it is still there: --check names it", style="red", soft_wrap=True)
        raise typer.Exit(1)
    end_run(report)


def _print_preview(seen: "Preview", *, as_json: bool) -> None:
    if as_json:
        OUT.print_json(data=seen.as_dict())
        return
    counts = ", ".join(f"{count:,} {name}" for name, count in seen.counts.items())
    OUT.print(f"Would go: {counts or 'nothing'}.", soft_wrap=True)
    for line in seen.lines:
        OUT.print(f"  {line}", soft_wrap=True)
    if (more := seen.counts.get("messages", 0) - len(seen.lines)) > 0:
        OUT.print(f"  and {more:,} more message{'s' * (more != 1)}", soft_wrap=True)
    _print_transcripts(seen)
    for path in seen.exports:
        OUT.print(f"In an export made before, which --exports removes: {path}", soft_wrap=True)


def _print_transcripts(seen: "Preview") -> None:
    for path in seen.transcripts:
        OUT.print(f"Still on disk, and not read again: {path}", soft_wrap=True)


def _print_certificate(path: Path, one: dict[str, Any]) -> None:
    rows = ", ".join(f"{count:,} {name}" for name, count in one["rows"].items())
    scan = one["scan"]
    OUT.print(f"Forgotten: {rows}.", soft_wrap=True)
    OUT.print(
        f"{len(one['canaries']['marks'])} canaries found in {scan['found']} of {scan['files']:,} files "
        f"({scan['bytes'] / 1e6:,.1f} MB). Certificate: {path}",
        soft_wrap=True,
    )


def _check(path: Path, settings: "Settings", *, as_json: bool) -> None:
    from slowwave.tasks.forget.certificate import load_certificate
    from slowwave.tasks.forget.check import check_certificate

    found = check_certificate(open_store(settings.store, settings.space), load_certificate(path))
    holds = all(one.holds for one in found)
    if as_json:
        OUT.print_json(data={"holds": holds, "findings": [vars(one) for one in found]})
    else:
        for one in found:
            OUT.print(f"{'holds ' if one.holds else 'BROKEN'}  {one.what}: {one.told}", soft_wrap=True)
    if not holds:
        raise typer.Exit(1)
