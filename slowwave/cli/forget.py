"""`slowwave forget`: what was said is erased with all that was made of it, and a certificate says so."""

import sys
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slowwave.cli.common import ERR, OUT, command, end_run, print_json, show_loading
from slowwave.schemas.errors import UsageError
from slowwave.schemas.places import name_place
from slowwave.text.fence import escape_line

if TYPE_CHECKING:
    from slowwave.flows.forget import Preview
    from slowwave.schemas.settings import Settings
    from slowwave.tasks.forget.select import Wanted

UNREACHED = "Not reached: backups, disk snapshots, and other machines' copies; docs/forgetting.md says more."


@command(progress=True)
def forget(
    settings: "Settings",
    session: Annotated[list[str] | None, typer.Option(help="Sessions, by the transcript's own id.")] = None,
    message: Annotated[list[str] | None, typer.Option(help="Messages, by the transcript's own id or a hit's.")] = None,
    match: Annotated[
        list[str] | None, typer.Option(help="Messages that contain this text, tool output included.")
    ] = None,
    speaker: Annotated[list[str] | None, typer.Option(help="Messages by these people.")] = None,
    workspace: Annotated[list[str] | None, typer.Option(help="Messages of this workspace.")] = None,
    before: Annotated[datetime | None, typer.Option(help="Messages before this day.")] = None,
    note: Annotated[list[str] | None, typer.Option(help="Notes, by the id that `remember` printed.")] = None,
    source: Annotated[
        list[str] | None, typer.Option(help="Messages of this transcript format, or shared:NAME.")
    ] = None,
    check: Annotated[Path | None, typer.Option(help="Check a certificate against the current store.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be erased, then stop.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    rebuild: Annotated[bool, typer.Option("--rebuild/--no-rebuild", help="Recompute what depended on it now.")] = True,
    exports: Annotated[bool, typer.Option("--exports", help="Also delete exports that contain it.")] = False,
    everything: Annotated[bool, typer.Option("--everything", help="Delete the whole space with its folder.")] = False,
    as_json: bool = False,
) -> None:
    """Erase messages and all that derives from them; certify it.

    Options combine with AND; an option given twice means either value. Older releases are deleted, for good.
    Exit status 1: something of it is still there, or an error.
    """
    from slowwave.tasks.forget.select import Wanted

    # what is selected
    given = (session, message, match, speaker, workspace, note, source)
    wanted = Wanted(*(tuple(values or ()) for values in given), before=before)
    if (check is not None or everything) and wanted.kinds:
        raise UsageError("--check and --everything cannot be combined with options that select messages")
    # the space, a check of a certificate, or the messages
    if everything:
        _remove_space(settings, yes=yes)
    elif check is not None:
        _check(check, settings, as_json=as_json)
    else:
        _forget(wanted, settings, dry_run=dry_run, yes=yes, rebuild=rebuild, exports=exports, as_json=as_json)


def _remove_space(settings: "Settings", *, yes: bool) -> None:
    """Remove a space with its folder."""
    from slowwave.store.lock import remove_space
    from slowwave.store.store import Store

    space = Store.open(settings.store, settings.space)
    if not yes and (not sys.stdin.isatty() or not typer.confirm(f"Remove {name_place(space.dir)} for good?")):
        raise UsageError("nothing was removed: --yes does it without asking")
    remove_space(space.dir)
    OUT.print(f"{name_place(space.dir)} is removed.")


def _forget(
    wanted: "Wanted", settings: "Settings", *, dry_run: bool, yes: bool, rebuild: bool, exports: bool, as_json: bool
) -> None:
    with show_loading():
        from slowwave.flows.forget import preview_forgetting, run_forget, take_in_notes
    from slowwave.tasks.forget.proof import describe_certificate, load_certificate

    wanted.check()
    if not dry_run:
        if not yes and (as_json or not sys.stdin.isatty()):
            raise UsageError("nothing was forgotten: without a terminal, --yes must confirm it; --dry-run shows it")
        take_in_notes(settings)
    # What would go is shown, and asked about.
    seen = preview_forgetting(wanted, settings, search_files=not dry_run)
    if dry_run and as_json:
        print_json(asdict(seen))
    elif dry_run or not yes:
        _print_preview(seen)
    if dry_run:
        return
    if not yes:
        typer.confirm("Forget this for good?", abort=True)
    # Erase it, and print the certificates.
    report, paths = run_forget(wanted, settings, rebuild=rebuild, exports=exports)
    made = [(path, load_certificate(path)) for path in paths]
    old_exports = [export for _, certificate in made for export in certificate["exports"]]
    if as_json:
        result: dict[str, Any] = {
            "preview": asdict(seen),
            "certificates": [{"path": str(path), **certificate} for path, certificate in made],
            "release": report.release.name if report.release else None,
            "notes": report.collect_notes(),
        }
        print_json(result)
    else:
        for line in report.collect_notes():
            OUT.print(f"note: {escape_line(line)}")
        for path, certificate in made:
            OUT.print("\n".join(describe_certificate(path, certificate)))
        nothing = f"{'No message or title holds it' if seen.left else 'Nothing of it is there'}: nothing was forgotten."
        OUT.print(report.format_verdict() if made else nothing)
        _print_transcripts(seen)
        for export in old_exports:
            end = "Removed" if export["removed"] else "Still there"
            OUT.print(f"{end}, an export made before that held it: {escape_line(export['path'])}")
        if made:
            OUT.print(UNREACHED)
    is_found = any(certificate["scan"]["found"] for _, certificate in made)
    if is_found or seen.left or (exports and not all(export["removed"] for export in old_exports)):
        ERR.print(f"slowwave: something of it is still there{': --check names it' if made else ''}", style="red")
        raise typer.Exit(1)
    end_run(report)


def _print_preview(seen: "Preview") -> None:
    counts = ", ".join(f"{count:,} {name}" for name, count in seen.rows.items())
    OUT.print(f"Would go: {counts or 'nothing'}.")
    if not counts and seen.left is None:
        OUT.print("No table has it. Without --dry-run the notes of today are read, and each file is searched.")
    for line in seen.messages:
        OUT.print(f"  {escape_line(line)}")
    if (more := seen.rows.get("messages", 0) - len(seen.messages)) > 0:
        OUT.print(f"  and {more:,} more message{'s' * (more != 1)}")
    _print_transcripts(seen)
    for path in seen.exports:
        OUT.print(f"In an export made before, which --exports removes: {escape_line(path)}")


def _print_transcripts(seen: "Preview") -> None:
    for path in seen.transcripts:
        OUT.print(f"Still on disk, and not read again: {escape_line(path)}")
    if seen.left:
        OUT.print(f"Still in the space, as an id, a path or a claim: {escape_line(', '.join(seen.left))}")


def _check(path: Path, settings: "Settings", *, as_json: bool) -> None:
    from slowwave.store.store import Store
    from slowwave.tasks.forget.proof import check_certificate, load_certificate

    findings = check_certificate(Store.open(settings.store, settings.space), load_certificate(path))
    holds = all(finding.holds for finding in findings)
    if as_json:
        print_json({"holds": holds, "findings": [vars(finding) for finding in findings]})
    else:
        for finding in findings:
            OUT.print(f"{'holds ' if finding.holds else 'BROKEN'}  {finding.what}: {finding.told}")
    if not holds:
        raise typer.Exit(1)
