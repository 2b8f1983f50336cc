"""Commands on a whole space: check and repair it, back it up, export from it, and import into it."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slowwave.cli.common import (
    ERR,
    OUT,
    PROJECT,
    KeyFileOption,
    command,
    end_run,
    print_json,
    print_report,
    show_loading,
)
from slowwave.cli.opening import load_settings
from slowwave.schemas.errors import UsageError
from slowwave.text.fence import escape_line
from slowwave.text.times.days import format_minute

if TYPE_CHECKING:
    from slowwave.flows.parts.report import RunReport
    from slowwave.schemas.settings import Settings


@command(progress=True)
def check(
    settings: "Settings",
    quick: Annotated[
        bool, typer.Option("--quick", help="Compare sizes only; read no file.")
    ] = False,
    repair: Annotated[
        bool,
        typer.Option("--repair", help="Repair what is damaged, and list what is lost."),
    ] = False,
    as_json: bool = False,
) -> None:
    """Verify the store's files and hash chains; repair it.

    Exit status 1: something was altered, truncated or lost. --repair keeps intact messages, reads others again from
    their transcripts if they still exist, and recomputes damaged derived tables and indexes; exit status 1: damage is
    left, 3: a step failed.
    """
    if repair:
        with show_loading():
            from slowwave.flows.parts.repair import run_repair

        print_report(report := run_repair(settings))
    from slowwave.flows.parts.check import find_damage

    checked, messages, damage = find_damage(settings, quick=quick)
    if repair and not damage:
        end_run(report)
        return
    if as_json and not repair:
        print_json(
            {
                "damage": damage,
                "checked": checked.releases,
                "unchecked": checked.unchecked,
            }
        )
    else:
        for line in damage:
            ERR.print(escape_line(line), style="red")
        older = (
            f"; {checked.unchecked} without a manifest, not checked"
            if checked.unchecked
            else ""
        )
        releases = f"{checked.releases:,} release{'s' * (checked.releases != 1)}"
        OUT.print(
            f"{', '.join(filter(None, (releases, messages)))} checked: {len(damage)} damaged{older}"
        )
    if damage:
        raise typer.Exit(1)


@command
def backup(
    settings: "Settings",
    file: Annotated[Path, typer.Argument(help="The file to create.")],
    key_file: KeyFileOption = None,
) -> None:
    """Write the space to one backup file, with a hash of each file.

    It is encrypted if --key-file, SLOWWAVE_BACKUP_KEY or SLOWWAVE_BACKUP_KEY_COMMAND gives a passphrase or an age key.
    """
    from slowwave.store.backup.age import read_key
    from slowwave.store.backup.archive import back_up
    from slowwave.store.place import check_writable

    key = read_key(key_file)
    check_writable(settings, settings.store if key else file)
    made = back_up(root=settings.store, space=settings.space, file=file, key=key)
    how = "encrypted" if key else "not encrypted"
    OUT.print(
        f"{len(made['files']):,} files of space {made['space']}, live {made['release']}, in {file}: {how}."
    )


@command
def restore(
    given: dict[str, Any],
    file: Annotated[Path, typer.Argument(help="A file written by `slowwave backup`.")],
    key_file: KeyFileOption = None,
) -> None:
    """Restore a space from a backup, after comparing its hashes.

    --space names the restored space; by default it keeps its name.
    """
    from slowwave.store.backup.age import read_key
    from slowwave.store.backup.archive import restore as bring_back
    from slowwave.store.place import check_writable
    from slowwave.tasks.forget.proof import list_certificates

    settings = load_settings(**given)
    check_writable(settings)
    made = bring_back(
        root=settings.store, space=given.get("space"), file=file, key=read_key(key_file)
    )
    at = format_minute(datetime.fromisoformat(made["made_at"]))
    OUT.print(
        f"Space {made['space']} is restored: {len(made['files']):,} files compared; live is {made['release']} of {at}."
    )
    since = list_certificates(settings.store / made["space"], made["made_at"])
    if since:
        names = ", ".join(certificate.name for certificate in since)
        OUT.say(
            f"What was forgotten after {at} (see {names} of space {made['space']}) "
            "is in it again: `slowwave forget` it there too."
        )


@command(progress=True)
def export(
    settings: "Settings",
    to: Annotated[
        Path,
        typer.Argument(
            help="A new folder, or with --learnings a new file. {release}, {date} and {space} in it are replaced."
        ),
    ],
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="parquet, lance, jsonl or graphml; for learnings json or md.",
        ),
    ] = None,
    table: Annotated[list[str] | None, typer.Option(help="Only these tables.")] = None,
    release: Annotated[
        str | None, typer.Option(help="A release's name; default: the live one.")
    ] = None,
    learnings: Annotated[
        bool,
        typer.Option(
            "--learnings",
            help="Claims with quotes, redacted again, for another memory.",
        ),
    ] = False,
    workspace: Annotated[
        str | None, typer.Option(*PROJECT, help="Only learnings of this project.")
    ] = None,
    encrypted: Annotated[
        bool,
        typer.Option(
            "--encrypted",
            help="Encrypt Parquet with a passphrase (--key-file, SLOWWAVE_BACKUP_KEY).",
        ),
    ] = False,
    key_file: KeyFileOption = None,
    internal: Annotated[
        bool, typer.Option("--internal", help="Also columns of use to nights alone.")
    ] = False,
    partition_by: Annotated[
        str | None,
        typer.Option(
            help="day or workspace (the project): Parquet in a folder for each, as Hive names them."
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="RELEASE",
            help="Only rows that are new or differ since this release, and the keys of those that are gone.",
        ),
    ] = None,
) -> None:
    """Write the released tables, or learnings to share with others."""
    if learnings:
        if table or encrypted or key_file or internal or partition_by or since:
            raise UsageError(
                "--learnings writes claims alone, in one plain file: leave out --table, --encrypted,"
                " --internal, --partition-by and --since"
            )
        _export_learnings(
            settings=settings,
            to=to,
            workspace=workspace,
            form=form or "json",
            release=release,
        )
        return
    if workspace:
        raise UsageError("--project goes with --learnings: tables are written whole")
    with show_loading():
        from slowwave.flows.export import export_tables
        from slowwave.store.backup.age import read_key

    phrase = read_key(key_file) if encrypted or key_file else None
    if encrypted and not phrase:
        raise UsageError(
            "--encrypted needs a passphrase: --key-file or SLOWWAVE_BACKUP_KEY; nothing was written"
        )
    manifest = export_tables(
        settings=settings,
        to=to,
        form=form or "parquet",
        tables=table or [],
        release=release,
        phrase=phrase,
        internal=internal,
        partition_by=partition_by,
        since=since,
    )
    _print_export(manifest)


def _export_learnings(
    settings: "Settings",
    to: Path,
    workspace: str | None,
    form: str,
    release: str | None,
) -> None:
    with show_loading():
        from slowwave.flows.export import export_learnings, place_learnings

    to = place_learnings(settings, to, release)
    count = export_learnings(
        settings=settings, to=to, workspace=workspace, form=form, release=release
    )
    OUT.print(f"{count:,} learnings written to {to}")


def _print_export(manifest: dict[str, Any]) -> None:
    """Print the rows of each table, and where they are."""
    removed = {"removed": manifest["removed"]} if "removed" in manifest else {}
    for name, facts in (manifest["tables"] | removed).items():
        OUT.print(f"{facts['rows']:>10,}  {name}")
    how = "written to" if manifest["written"] else "was exported before, and is in"
    OUT.print(f"Release {manifest['release']} {how} {manifest['to']}")


@command(progress=True)
def import_learnings(
    settings: "Settings",
    file: Annotated[
        Path, typer.Argument(help="JSON written by `slowwave export --learnings`.")
    ],
    name: Annotated[str, typer.Option("--as", help="A name for their author.")],
    workspace: Annotated[
        list[str] | None,
        typer.Option(
            *PROJECT, help="Local PATH of their project, or NAME=PATH for each."
        ),
    ] = None,
) -> "RunReport":
    """Import another memory's learnings.

    They rank below the memory's own claims, and never supersede them.
    """
    with show_loading():
        from slowwave.flows.share import import_learnings as take_in

    return take_in(
        settings=settings, file=file.expanduser(), name=name, workspaces=workspace or []
    )


# No name that Python lets a function be defined by.
import_learnings.__name__ = "import"
