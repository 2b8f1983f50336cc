"""What the commands share: options, settings from them, errors as one line."""

import logging
import os
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import chdir, contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from slowwave.schemas.errors import SlowwaveError, UsageError

if TYPE_CHECKING:
    from slowwave.flows.parts.report import RunReport
    from slowwave.schemas.settings import Settings
    from slowwave.store.store import Store

# What is printed is data, paths and reasons: none of it is markup.
OUT = Console(markup=False, highlight=False)
ERR = Console(stderr=True, markup=False, highlight=False)

INCOMPLETE = 3
"""Exit status of a run that released what it could."""
HELD = 4
"""Exit status of a run whose release is held back."""
PRINTED = logging.NullHandler()
"""Takes the log lines of a memory's notes where a command prints the notes themselves."""

StoreOption = Annotated[Path | None, typer.Option("--store", help="Folder of the store.", show_default=False)]
SpaceOption = Annotated[str | None, typer.Option("--space", help="Whose memory.", show_default=False)]
ReleaseOption = Annotated[
    str | None, typer.Option("--release", help="An earlier release, by name (r3) or id.", show_default=False)
]
KeyFileOption = Annotated[
    Path | None, typer.Option("--key-file", help="A file whose first line is the passphrase (or an age key).")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def build_overrides(store: Path | None = None, space: str | None = None, **more: Any) -> dict[str, Any]:
    """Return the settings that the command line names, as plain JSON values."""
    given = {"store": str(store.expanduser().absolute()) if store else None, "space": space, **more}
    return {name: value for name, value in given.items() if value is not None}


def load_settings(store: Path | str | None = None, space: str | None = None, **more: Any) -> "Settings":
    """Return settings with the command line's words over those of the file and the environment.

    Raises:
        UsageError: a value that is none of the setting's; the message names the setting and what it takes. Or the
            user's settings file can't be read.
    """
    from pydantic import ValidationError  # both a tenth of a second, that `--help` has no use for

    from slowwave.schemas.settings import Settings

    try:
        return Settings(**build_overrides(Path(store) if store else None, space, **more))
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(
            f"setting {'.'.join(map(str, first['loc']))}: {first['msg']}, got {first['input']!r}"
        ) from None


def open_store(store: Path | str | None = None, space: str | None = None) -> "Store":
    """Return the store that there is, for looking at; none is made.

    Raises:
        UsageError: as `load_settings`.
        StoreMissing: there is no such store or space.
    """
    from slowwave.store.store import Store

    settings = load_settings(store, space)
    return Store.open(settings.store, settings.space)


def end_run(report: "RunReport") -> None:
    """End a command that ran steps: exit status 3 where something failed while the rest was done and released, 4 where
    what was made is held back.
    """
    if report.held:
        raise typer.Exit(HELD)
    if report.failures:
        raise typer.Exit(INCOMPLETE)


@contextmanager
def report_errors() -> Iterator[None]:
    """Report an error raised on purpose, or by the file system, as one line on stderr; exit status 1.

    So is what a night needs and an install for reading alone does not have.
    """
    try:
        yield
    except (SlowwaveError, OSError) as error:
        told = str(error)
    except ModuleNotFoundError as missing:
        if find_spec("prefect"):
            raise  # the night's packages are here: what is missing is a mistake
        told = f"this needs what a night does (no module {missing.name}): pip install 'slowwave[night]'"
    else:
        return
    ERR.print(f"slowwave: {told}", style="red", highlight=False, soft_wrap=True)
    raise typer.Exit(1)


def silence_note_logging() -> None:
    """Silence the log of notes that are printed, before a memory is opened, unless logging was set up."""
    from slowwave.recall.notes import LOG

    LOG.addHandler(PRINTED)  # with any handler at all Python's last resort, a line on stderr, is not taken


def print_notes(notes: Iterable[str]) -> None:
    """Print what an answer could not use, a line each: stdout is the answer's alone."""
    for note in notes:
        typer.echo(f"note: {note}", err=True)


@contextmanager
def report_errors_and_progress() -> Iterator[None]:
    """Report errors of what lasts as lines, and where no terminal shows bars a line every ten seconds."""
    with report_errors():
        from slowwave.tasks.progress import report_progress_lines

        with report_progress_lines():
            yield


def import_prefect_quietly() -> None:
    """Import Prefect with no telemetry, no chatter and patience, unless the user set it otherwise.

    Prefect obeys `.env`, `prefect.toml` and pyproject.toml of the folder that it is imported in: they may name a server
    to report to, and a logging file that runs code. So it is imported in an empty one.
    """
    os.environ.setdefault("DO_NOT_TRACK", "1")
    os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
    # What it would log of an error, with a traceback, is raised and told as a line: on the terminal it is said once.
    shown = os.environ.get("PREFECT_LOGGING_LEVEL", "CRITICAL")
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", shown)
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "WARNING")
    os.environ.setdefault("PREFECT_SERVER_LOGGING_LEVEL", "ERROR")
    # On a cold disk or a busy machine its server needs more than Prefect's 20 s.
    os.environ.setdefault("PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS", "90")
    # It remembers the folder it is imported in: there what is spawned, vLLM's engine too, looks for modules.
    import multiprocessing.process  # noqa: F401

    with report_errors(), TemporaryDirectory() as empty, chdir(empty):
        import prefect.main  # noqa: F401


def find_local_prefect_settings() -> str | None:
    """Return the file of this folder that a server of Prefect's, started here, would obey; None where there is none."""
    if Path("prefect.toml").exists():
        return "prefect.toml"
    project = Path("pyproject.toml")
    try:
        if Path(".env").is_file() and b"prefect" in Path(".env").read_bytes().lower():
            return ".env"
        theirs = project.is_file() and "prefect" in tomllib.loads(project.read_text(encoding="utf-8")).get("tool", {})
    except (OSError, TypeError, ValueError, RecursionError):
        theirs = True
    return str(project) if theirs else None
