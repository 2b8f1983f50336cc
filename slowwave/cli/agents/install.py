"""`slowwave install CLIENT` and `slowwave uninstall CLIENT`: connect an agent to the memory, and disconnect it."""

import difflib
import shlex
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from slowwave.cli.common import OUT, command, show_loading
from slowwave.cli.opening import load_settings, prepare_encoder
from slowwave.flows.parts.client_files import Client, ClientFile, list_client_files
from slowwave.resident.client import find_readers
from slowwave.schemas.errors import name_install
from slowwave.schemas.places import find_cache_folder
from slowwave.text.marked import read_as_it_is, write_whole

NEXT = {
    Client.CLAUDE_CODE: "Claude Code uses them from its next session on.",
    Client.CODEX: "Codex runs new hooks only after you trust them: type /hooks there, and again after an update.",
    Client.CURSOR: "Cursor accepts context only at a session's start; `slowwave project --to cursor` writes a rule.",
    Client.QWEN_CODE: "Qwen Code uses them from its next session on.",
    Client.COPILOT_CLI: "Copilot CLI uses them from its next session on.",
}
READER = "the resident process, which ends after 20 minutes without a question"
ClientArgument = Annotated[Client, typer.Argument(help="The agent.")]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Print what would change, without changing it."),
]
OfProject = Annotated[
    bool,
    typer.Option(
        "--project/--user", help="For this folder's project, or for the user."
    ),
]


@command
def install(
    given: dict[str, Any],
    client: ClientArgument,
    dry_run: DryRun = False,
    project: OfProject = False,
) -> None:
    """Connect an agent to the memory: hooks and the MCP server.

    The agent's other settings stay, and a copy of the earlier file is kept beside it. `uninstall` removes slowwave's
    entries again. The encoder's graph is built if it is missing, since a hook has no time for that.
    """
    files = _list_files(client, project, given)
    changes = [
        (file, text, file.add_entries(text))
        for file in files
        for text in [read_as_it_is(file.path)]
    ]
    for file, before, after in changes:
        _change(file=file, before=before, after=after, dry_run=dry_run, keep=True)
    OUT.say(NEXT[client])
    if not dry_run:
        with show_loading():
            prepare_encoder(load_settings(**given))
    if find_spec("mcp") is None:
        OUT.print(
            f"Its MCP server needs a package that is not here: {name_install('mcp')}"
        )


@command
def uninstall(
    client: ClientArgument,
    dry_run: DryRun = False,
    project: OfProject = False,
) -> None:
    """Disconnect an agent, and restore its settings.

    It prints what else is there, and how to remove it: the memory, a schedule, the encoder's graph.
    """
    changes = []
    for file in _list_files(client, project, {}):
        if file.path.exists():
            before = read_as_it_is(file.kept) if file.kept.exists() else None
            text = read_as_it_is(file.path)
            changes.append((file, text, file.remove_entries(text, before)))
    for file, text, left in changes:
        _change(file=file, before=text, after=left, dry_run=dry_run, keep=False)
    if not changes:
        OUT.print("Nothing to remove.")
    if remains := list_remains():
        OUT.say("\n  ".join(["What stays, and what removes it:", *remains]))


def list_remains() -> list[str]:
    """Return a line for each thing besides clients' settings that is there: a schedule, readers, the memory, the
    cache, and what removes it.
    """
    from slowwave.flows.parts.schedule import find_schedule

    store = load_settings().store.absolute()
    remains = list[str]()
    if at_night := find_schedule():
        remains.append(f"{at_night}: `slowwave schedule remove`")
    for path in store.glob("*"):
        readers = find_readers(store, path.name)
        remains += [f"{READER}: kill {reader['pid']}" for reader in readers]
    folders = {
        "the memory": store,
        "the encoder's graph": find_cache_folder(),
    }
    for what, folder in folders.items():
        if folder.is_dir():
            remains.append(f"{what}: rm -r {shlex.quote(str(folder))}")
    return remains


def _list_files(
    client: Client,
    project: bool,
    given: dict[str, Any],
) -> list[ClientFile]:
    from slowwave.text.workspaces import find_project_root

    here = Path.cwd()
    folder = (find_project_root(here) or here) if project else None
    more = [word for name, value in given.items() for word in (f"--{name}", value)]
    # a project's files are shared: the command has another path on another machine
    return list_client_files(
        client=client,
        folder=folder,
        command=["slowwave"] if project else find_command(),
        more=more,
    )


def find_command() -> list[str]:
    """Return a command that starts slowwave with its full path, since clients have a search path of their own."""
    beside = Path(sys.executable).with_name("slowwave")
    program = str(beside) if beside.exists() else shutil.which("slowwave")
    return [program] if program else [sys.executable, "-m", "slowwave"]


def _change(
    file: ClientFile,
    before: str,
    after: str | None,
    dry_run: bool,
    *,
    keep: bool,
) -> None:
    """Write a client's file, or delete it, and print the change.

    Args:
        file: the file.
        before: its current text.
        after: its new text; None deletes it.
        dry_run: only print the difference.
        keep: copy the current text to a file beside it, unless that exists; False deletes that copy.
    """
    if dry_run:
        lines = difflib.unified_diff(
            before.splitlines(), (after or "").splitlines(), lineterm="", n=0
        )
        OUT.print("\n".join([str(file.path), *list(lines)[2:]]))
        return
    if not keep and after == before:
        file.kept.unlink(missing_ok=True)
    if after == before:
        OUT.print(f"{file.path}: as it was.")
        return
    if keep and file.path.exists() and not file.kept.exists():
        write_whole(file.kept, before, like=file.path)
    if after is None:
        file.path.unlink()
    else:
        write_whole(file.path, after)
    if not keep:
        file.kept.unlink(missing_ok=True)
    beside = (
        f"; as it was before: {file.kept.name}" if keep and file.kept.exists() else ""
    )
    OUT.print(
        f"{file.path}: {'written' if after is not None else 'taken away'}{beside}."
    )
