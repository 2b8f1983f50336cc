"""Commands on whole spaces: one as a file and back, list them, remove one."""

from pathlib import Path
from typing import Annotated

import typer

from slowwave.cli.common import OUT, JsonOption, KeyFileOption, SpaceOption, StoreOption, load_settings, report_errors
from slowwave.schemas.errors import UsageError

spaces = typer.Typer(no_args_is_help=True, help="List spaces, or remove one with all that is in it.")


def backup(
    file: Annotated[Path, typer.Argument(help="A file that is made.")],
    key_file: KeyFileOption = None,
    store: StoreOption = None,
    space: SpaceOption = None,
) -> None:
    """Write the space into one file, each of its files with its hash.

    Encrypted where --key-file, SLOWWAVE_BACKUP_KEY or SLOWWAVE_BACKUP_KEY_COMMAND gives a passphrase or an age key.
    """
    with report_errors():
        from slowwave.store.backup import back_up
        from slowwave.store.crypt import read_key

        settings, key = load_settings(store, space), read_key(key_file)
        made = back_up(settings.store, settings.space, file, key)
        how = "encrypted" if key else "not encrypted"
        told = f"{len(made['files']):,} files of space {made['space']}, live {made['release']}, in {file}: {how}."
        OUT.print(told, highlight=False, soft_wrap=True)


def restore(
    file: Annotated[Path, typer.Argument(help="What `slowwave backup` wrote.")],
    name: Annotated[
        str | None, typer.Option("--as", help="The space's name; else its own.", show_default=False)
    ] = None,
    key_file: KeyFileOption = None,
    store: StoreOption = None,
) -> None:
    """Make a space of a backup that is as its hashes say."""
    with report_errors():
        from slowwave.store.backup import restore as bring_back
        from slowwave.store.crypt import read_key
        from slowwave.tasks.forget.certificate import list_certificates

        settings = load_settings(store, name)
        made = bring_back(settings.store, name, file, read_key(key_file))
        told = f"{len(made['files']):,} files compared; live is {made['release']} of {made['made_at'][:10]}."
        OUT.print(told, highlight=False, soft_wrap=True)
        since = list_certificates(settings.store / made["space"], made["made_at"])
        known = f", as {', '.join(one.name for one in since)} of space {made['space']} did" if since else ""
        OUT.print(
            f"What was forgotten after {made['made_at']}{known}, stands in it again: `slowwave forget` it there too.",
            highlight=False,
            soft_wrap=True,
        )


@spaces.command("list")
def list_spaces(as_json: JsonOption = False, store: StoreOption = None) -> None:
    """List the store's spaces: size on disk and live release."""
    with report_errors():
        from slowwave.store.crypt import find_encryption
        from slowwave.store.integrity.manifests import has_table
        from slowwave.store.releases import load_releases

        root = load_settings(store).store
        folders = [one for one in sorted(root.glob("*")) if has_table(one, "releases")]
        told = [
            {
                "space": one.name,
                "bytes": sum(path.stat().st_size for path in one.rglob("*") if path.is_file()),
                "release": next((release.name for release in load_releases(one)[::-1]), None),
                "encrypted": find_encryption(one),
            }
            for one in folders
        ]
        if as_json:
            OUT.print_json(data=told)
            return
        for row in told:
            disk = f"on {row['encrypted']}" if row["encrypted"] else "not known to be encrypted"
            typer.echo(
                f"{row['space']:<20} {int(str(row['bytes'])) / 1e6:>10,.1f} MB  {row['release'] or '-':<6} {disk}"
            )
        if not told:
            typer.echo("No spaces.")


@spaces.command("remove")
def remove(
    name: Annotated[str, typer.Argument(help="A space.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    store: StoreOption = None,
) -> None:
    """Remove a space: its folder, and what this machine keeps of its answers. There is no way back."""
    with report_errors():
        from slowwave.store.answers import drop_cache_files
        from slowwave.store.lock import remove_space
        from slowwave.store.store import Store

        settings = load_settings(store, name)
        opened = Store.open(settings.store, settings.space)
        if not yes and not typer.confirm(f"Remove {opened.dir} for good?"):
            raise UsageError("nothing was removed")
        remove_space(opened.dir)
        drop_cache_files(settings.store, settings.space)
        OUT.print(f"{opened.dir} is removed.", highlight=False, soft_wrap=True)
