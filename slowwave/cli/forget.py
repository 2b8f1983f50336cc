"""`slowwave forget`: erase messages and everything derived from them, and write a certificate."""

import sys
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slowwave.cli.common import (
    ERR,
    OUT,
    PROJECT,
    command,
    end_run,
    print_json,
    show_loading,
)
from slowwave.schemas.errors import UsageError
from slowwave.schemas.places import name_place
from slowwave.text.fence import escape_line
from slowwave.text.words import count_rows

if TYPE_CHECKING:
    from slowwave.flows.forget import Preview
    from slowwave.flows.parts.report import RunReport
    from slowwave.schemas.settings import Settings
    from slowwave.tasks.forget.select import Wanted

SessionsOption = Annotated[
    list[str] | None, typer.Option(help="Sessions, by the transcript's own id.")
]
MessagesOption = Annotated[
    list[str] | None,
    typer.Option(help="Messages, by the transcript's own id or a hit's."),
]
MatchOption = Annotated[
    list[str] | None,
    typer.Option(help="Messages that contain this text, tool output included."),
]
SpeakersOption = Annotated[
    list[str] | None, typer.Option(help="Messages by these people.")
]
NotesOption = Annotated[
    list[str] | None, typer.Option(help="Notes, by the id that `remember` printed.")
]
SourcesOption = Annotated[
    list[str] | None,
    typer.Option(help="Messages of this transcript format, or shared:NAME."),
]
UNREACHED = "Not reached: backups, disk snapshots, and other machines' copies; docs/forgetting.md says more."


@command(progress=True)
def forget(
    settings: "Settings",
    session: SessionsOption = None,
    message: MessagesOption = None,
    match: MatchOption = None,
    speaker: SpeakersOption = None,
    workspace: Annotated[
        list[str] | None, typer.Option(*PROJECT, help="Messages of this project.")
    ] = None,
    before: Annotated[
        datetime | None, typer.Option(help="Messages before this day.")
    ] = None,
    note: NotesOption = None,
    source: SourcesOption = None,
    check: Annotated[
        Path | None, typer.Option(help="Check a certificate against the current store.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be erased, then stop.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask for confirmation.")
    ] = False,
    rebuild: Annotated[
        bool,
        typer.Option(
            "--rebuild/--no-rebuild", help="Recompute what depended on it now."
        ),
    ] = True,
    exports: Annotated[
        bool, typer.Option("--exports", help="Also delete exports that contain it.")
    ] = False,
    everything: Annotated[
        bool,
        typer.Option("--everything", help="Delete the whole space with its folder."),
    ] = False,
    as_json: bool = False,
) -> None:
    """Erase messages and all that derives from them; certify it.

    Options combine with AND; an option given twice means either value. Older releases are deleted, for good.
    Exit status 1: something of it is still there, or an error.
    """
    from slowwave.tasks.forget.select import Wanted

    wanted = Wanted(
        sessions=tuple(session or ()),
        messages=tuple(message or ()),
        matches=tuple(match or ()),
        speakers=tuple(speaker or ()),
        workspaces=tuple(workspace or ()),
        before=before,
        notes=tuple(note or ()),
        sources=tuple(source or ()),
    )
    if (check is not None or everything) and wanted.kinds:
        raise UsageError(
            "--check and --everything cannot be combined with options that select messages"
        )
    if everything:
        _remove_space(settings, yes=yes)
    elif check is not None:
        _check(check, settings, as_json=as_json)
    else:
        _forget(
            wanted,
            settings,
            dry_run=dry_run,
            yes=yes,
            rebuild=rebuild,
            exports=exports,
            as_json=as_json,
        )


def _remove_space(settings: "Settings", *, yes: bool) -> None:
    """Remove a space with its folder."""
    from slowwave.store.lock import remove_space
    from slowwave.store.store import Store

    space = Store.open(settings.store, settings.space)
    if not yes and (
        not sys.stdin.isatty()
        or not typer.confirm(f"Remove {name_place(space.dir)} for good?")
    ):
        raise UsageError("nothing was removed: --yes does it without asking")
    remove_space(space.dir)
    OUT.print(f"{name_place(space.dir)} is removed.")


@dataclass
class _Erasure:
    """The result of a forgetting."""

    preview: "Preview"
    """What was selected, before it was erased."""
    report: "RunReport"
    certificates: list[tuple[Path, dict[str, Any]]]
    """Each certificate, with its file."""

    @property
    def exports(self) -> list[dict[str, Any]]:
        """The earlier exports that contained it."""
        return [
            export
            for _, certificate in self.certificates
            for export in certificate["exports"]
        ]

    def is_complete(self, *, exports: bool) -> bool:
        """Return True if nothing of it was found afterwards; with `exports`, also in no export."""
        if (
            any(certificate["scan"]["found"] for _, certificate in self.certificates)
            or self.preview.left
        ):
            return False
        return not exports or all(export["removed"] for export in self.exports)


def _forget(
    wanted: "Wanted",
    settings: "Settings",
    *,
    dry_run: bool,
    yes: bool,
    rebuild: bool,
    exports: bool,
    as_json: bool,
) -> None:
    """Show the selected messages, ask for confirmation, and erase them."""
    with show_loading():
        from slowwave.flows.forget import preview_forgetting, run_forget, take_in_notes
    from slowwave.tasks.forget.proof import load_certificate

    wanted.check()
    if not dry_run:
        if not yes and (as_json or not sys.stdin.isatty()):
            raise UsageError(
                "nothing was forgotten: without a terminal, --yes must confirm it; --dry-run shows it"
            )
        take_in_notes(settings)
    preview = preview_forgetting(wanted, settings, search_files=not dry_run)
    if dry_run and as_json:
        print_json(asdict(preview))
    elif dry_run or not yes:
        _print_preview(preview)
    if dry_run:
        return
    if not yes:
        OUT.print("This can't be undone: all older releases are deleted too.")
        typer.confirm("Forget this for good?", abort=True)
    report, paths = run_forget(wanted, settings, rebuild=rebuild, exports=exports)
    erasure = _Erasure(
        preview, report, [(path, load_certificate(path)) for path in paths]
    )
    if as_json:
        print_json(_describe_erasure(erasure))
    else:
        _print_erasure(erasure)
    if not erasure.is_complete(exports=exports):
        where = ": --check names it" if erasure.certificates else ""
        ERR.print(f"slowwave: something of it is still there{where}", style="red")
        raise typer.Exit(1)
    end_run(report)


def _describe_erasure(erasure: _Erasure) -> dict[str, Any]:
    """Return the result of a forgetting as data."""
    release = erasure.report.release
    return {
        "preview": asdict(erasure.preview),
        "certificates": [
            {"path": str(path), **certificate}
            for path, certificate in erasure.certificates
        ],
        "release": release.name if release else None,
        "notes": erasure.report.collect_notes(),
    }


def _print_erasure(erasure: _Erasure) -> None:
    """Print the notes and certificates of a forgetting, and the transcripts and exports that still have it."""
    from slowwave.tasks.forget.proof import describe_certificate

    for line in erasure.report.collect_notes():
        OUT.print(f"note: {escape_line(line)}")
    for path, certificate in erasure.certificates:
        OUT.print("\n".join(describe_certificate(path, certificate)))
    if erasure.certificates:
        OUT.print(erasure.report.format_verdict())
    elif erasure.preview.left:
        OUT.print("No message or title contains it: nothing was forgotten.")
    else:
        OUT.print("Nothing of it is there: nothing was forgotten.")
    _print_transcripts(erasure.preview)
    for export in erasure.exports:
        end = "Removed" if export["removed"] else "Still there"
        OUT.print(
            f"{end}, an earlier export that contained it: {escape_line(export['path'])}"
        )
    if erasure.certificates:
        OUT.print(UNREACHED)


def _print_preview(preview: "Preview") -> None:
    counts = count_rows(preview.rows)
    OUT.print(f"Would go: {counts or 'nothing'}.")
    if not counts and preview.left is None:
        OUT.print(
            "No table contains it. Without --dry-run, today's notes and every file are searched too."
        )
    for line in preview.messages:
        OUT.print(f"  {escape_line(line)}")
    if (more := preview.rows.get("messages", 0) - len(preview.messages)) > 0:
        OUT.print(f"  and {more:,} more message{'s' * (more != 1)}")
    _print_transcripts(preview)
    for path in preview.exports:
        OUT.print(f"In an earlier export, which --exports removes: {escape_line(path)}")


def _print_transcripts(preview: "Preview") -> None:
    for path in preview.transcripts:
        OUT.print(f"Stays on disk, and is not read again: {escape_line(path)}")
    if preview.left:
        OUT.print(
            f"Still in the space, as an id, a path or a claim: {escape_line(', '.join(preview.left))}"
        )


def _check(
    path: Path,
    settings: "Settings",
    *,
    as_json: bool,
) -> None:
    from slowwave.store.store import Store
    from slowwave.tasks.forget.proof import check_certificate, load_certificate

    findings = check_certificate(
        Store.open(settings.store, settings.space), load_certificate(path)
    )
    holds = all(finding.holds for finding in findings)
    if as_json:
        print_json(
            {"holds": holds, "findings": [vars(finding) for finding in findings]}
        )
    else:
        for finding in findings:
            OUT.print(
                f"{'holds ' if finding.holds else 'BROKEN'}  {finding.what}: {finding.told}"
            )
    if not holds:
        raise typer.Exit(1)
