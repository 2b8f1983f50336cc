"""What the commands share: the decorator that makes one of a function, options, settings, errors as one line."""

import functools
import gc
import inspect
import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from subprocess import DEVNULL
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from slowwave.schemas.errors import SlowwaveError, name_install
from slowwave.schemas.filters import spell_out_filters
from slowwave.schemas.places import find_working_copy
from slowwave.text.fence import escape_control, escape_line, format_cell

if TYPE_CHECKING:
    from slowwave.flows.parts.report import RunReport
    from slowwave.memory import Memory
    from slowwave.schemas.settings import Settings


class Terminal(Console):
    """A terminal that no text on it steers: what is printed is data, paths and reasons, and none of it is markup."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False, highlight=False, soft_wrap=True)

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a string, also one of a table, as it is shown."""
        return super().render_str(escape_control(text), **options)


OUT, ERR = Terminal(), Terminal(stderr=True)

INCOMPLETE = 3
"""Exit status of a run that released what it could."""
HELD = 4
"""Exit status of a run whose release is held back."""

SpacesOption = Annotated[list[str] | None, typer.Option("--space", help="Space (user or tenant); may be repeated.")]
KeyFileOption = Annotated[
    Path | None, typer.Option("--key-file", help="A file whose first line is the passphrase (or an age key).")
]
SHARED = {
    "as_json": Annotated[bool, typer.Option("--json", help="Print JSON.")],
    "store": Annotated[Path | None, typer.Option("--store", help="Folder or s3:// of the store.")],
    "space": Annotated[str | None, typer.Option("--space", help="Space (user or tenant) to use.")],
    "release": Annotated[str | None, typer.Option("--release", help="An earlier release, by name (r3) or id.")],
}
"""Options that mean the same to every command that has them, by the parameter that they fill."""
OPENED = {"given": (), "settings": (), "memory": ("release",)}
"""What `command` makes of --store and --space for a function that asks for it, with the option that it also takes."""


def command(function: Callable[..., Any] | None = None, *, progress: bool = False) -> Callable[..., Any]:
    """Make a command of a function.

    Its parameters are arguments and options as Typer has them, but for these: `given` are the settings that --store
    and --space name, `settings` all settings with those in them, `memory` the opened memory (also of --release),
    `as_json` whether --json stands there, `**filters` an option for each filter. One that lists `space` itself takes
    several, and what is opened is the first. An error raised on purpose becomes one
    line and exit status 1. Of what it returns, a run's report is printed and decides the exit status; anything else is
    printed as JSON.

    Args:
        function: what the command does.
        progress: show how far a long command is.
    """
    if function is None:
        return functools.partial(command, progress=progress)
    if "filters" in inspect.signature(function).parameters:
        function = spell_out_filters(_make_filter_option)(function)
    signature = inspect.signature(function)
    opened = [name for name in OPENED if name in signature.parameters]
    shared = [name for name in ("as_json",) if name in signature.parameters]
    shared += [name for name in ("store", "space") if opened and name not in signature.parameters]
    shared += [more for name in opened for more in OPENED[name]]

    @functools.wraps(function)
    def run(**options: Any) -> None:
        with report_errors(), show_progress(progress):
            words = {name: options.pop(name) for name in ("store", "space", "release") if name in shared}
            words.setdefault("space", next(iter(options.get("space") or ()), None))
            with show_loading(progress):
                for name in opened:
                    options[name] = _open(name, **words)
            done = function(**options)
            if hasattr(done, "failures"):
                print_report(done)
                end_run(done)
            elif done is not None:
                print_json(done)

    own = [parameter for parameter in signature.parameters.values() if parameter.name not in (*OPENED, *shared)]
    parameters = [parameter.replace(kind=parameter.KEYWORD_ONLY) for parameter in own] + [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=None if name != "as_json" else False, annotation=SHARED[name]
        )
        for name in shared
    ]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _open(name: str, store: Path | None, space: str | None, release: str | None = None) -> Any:
    given = build_overrides(store, space)
    if name == "given":
        return given
    return load_settings(**given) if name == "settings" else open_memory(store, space, release)


def _make_filter_option(name: str, about: str) -> object:
    """Return a filter's annotation as an option; files are named one at a time."""
    panel = "Filters"
    if name == "files":
        about = f"{about} May be repeated."
        return Annotated[list[str] | None, typer.Option("--file", help=about, rich_help_panel=panel)]
    if name == "superseded":
        return Annotated[bool, typer.Option("--superseded", help=about, rich_help_panel=panel)]
    return Annotated[str | None, typer.Option(help=about, rich_help_panel=panel)]


def build_overrides(store: Path | None = None, space: str | None = None, **more: Any) -> dict[str, Any]:
    """Return the settings that the command line names, as plain JSON values."""
    given = {"store": str(find_working_copy(store).expanduser().absolute()) if store else None, "space": space, **more}
    return {name: value for name, value in given.items() if value is not None}


def load_settings(store: Path | str | None = None, space: str | None = None, **more: Any) -> "Settings":
    """Return settings with the command line's words over those of the file and the environment.

    Raises:
        UsageError: a value that is none of the setting's; the message names the setting and what it takes. Or the
            user's settings file can't be read.
    """
    from slowwave.schemas.settings import make_settings  # a tenth of a second, that `--help` has no use for

    return make_settings(build_overrides(Path(store) if store else None, space, **more))


def open_memory(store: Path | None, space: str | None, release: str | None = None) -> "Memory":
    """Return the memory that the settings and these words name, its notes not logged: who opens it prints them.

    Raises:
        UsageError, StoreError: as `Memory.open`.
    """
    gc.disable()  # what is imported lives on, and to look through it meanwhile takes an eighth of a command's start
    from slowwave.memory import Memory
    from slowwave.recall.live import LOG

    gc.freeze()
    gc.enable()
    LOG.addHandler(logging.NullHandler())  # with any handler Python's last resort, a line on stderr, is not taken
    settings = load_settings(store, space)
    return Memory.open(settings.store, settings.space, release)


def start_small_night(transcript: Path, given: dict[str, Any]) -> None:
    """Take in a session that has ended, without asking a model, in a process that outlives this one."""
    # -P: a folder that a client works in may hold a module of any name.
    words = [sys.executable, "-P", "-m", "slowwave", "run", str(transcript), "--background"]
    words += [word for name, value in given.items() if name in ("store", "space") for word in (f"--{name}", value)]
    night = subprocess.Popen(words, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL, start_new_session=True)
    night.returncode = 0  # nobody waits for it: Python would warn of that


def find_project(memory: "Memory", folder: str = ".") -> str | None:
    """Return the folder, this one unless named, where it lies in a project that the memory knows."""
    return folder if memory.has_workspace(folder) else None


def print_report(report: "RunReport") -> None:
    """Print a run's report as tables, and below them what stands now."""
    if report.steps and not report.searched:
        print_table(report.list_steps(), f"{report.kind} {report.run_id}")
    for model, rows in report.list_usage().items():
        print_table(rows, f"asked of {model}")
    for note in report.collect_notes():
        if not any(note in line for line in report.closing):
            OUT.print(f"note: {escape_line(note)}")
    for line in (*report.closing, f"{report.format_verdict()}{report.next_command}"):
        OUT.print(line)


def end_run(report: "RunReport") -> None:
    """End a command that ran steps with status 3 (a part failed, the rest is released) or 4 (a gate holds it back)."""
    if report.held or report.failures:
        raise typer.Exit(HELD if report.held else INCOMPLETE)


@contextmanager
def report_errors() -> Iterator[None]:
    """Report an error raised on purpose, or by the file system, as one line on stderr, and exit with its status.

    So is what a night needs and an install for reading alone does not have.
    """
    try:
        yield
    except (SlowwaveError, OSError) as error:
        message, status = str(error), getattr(error, "exit_status", 1)
    except ModuleNotFoundError as missing:
        if find_spec("prefect"):
            raise  # the night's packages are here: what is missing is a mistake
        message, status = f"this needs what a night does (no module {missing.name}): {name_install('night')}", 1
    else:
        return
    ERR.print(f"slowwave: {escape_line(message)}", style="red")
    raise typer.Exit(status)


@contextmanager
def show_progress(shown: bool) -> Iterator[None]:
    """Where no terminal shows bars, print a line every ten seconds."""
    if not shown:
        yield
        return
    from slowwave.tasks.progress import report_progress_lines

    with report_progress_lines():
        yield


@contextmanager
def show_loading(shown: bool = True) -> Iterator[None]:
    """Show at a terminal that modules are imported, which takes seconds: an empty terminal looks like a hang."""
    if not shown:
        yield
        return
    from slowwave.tasks.progress import show_progress as show_work

    with show_work("loading the program"):
        yield


def echo(text: str, *, nl: bool = True, err: bool = False) -> None:
    """Print a text as it is, but for what would steer the terminal."""
    typer.echo(escape_control(text), nl=nl, err=err)


def print_json(data: object) -> None:
    """Print data as JSON, a date as ISO has it."""
    echo(json.dumps(data, ensure_ascii=False, indent=2, default=lambda v: getattr(v, "isoformat", v.__str__)()))


def print_table(rows: Sequence[Mapping[str, Any]], title: str | None = None) -> None:
    """Print rows, one at least, as a table with their names for headings; numbers stand to the right."""
    columns = [
        Column(name, justify="right" if any(isinstance(row[name], int | float) for row in rows) else "left")
        for name in rows[0]
    ]
    table = Table(*columns, title=title, title_justify="left")
    for row in rows:
        table.add_row(*map(format_cell, row.values()))
    OUT.print(table)


def print_notes(notes: Iterable[str]) -> None:
    """Print what an answer could not use, a line each: stdout is the answer's alone."""
    for note in notes:
        echo(f"note: {escape_line(note)}", err=True)


def truncate_line(text: str, chars: int) -> str:
    """Return one line, cut at a word."""
    line = escape_line(text)
    return line if len(line) <= chars else line[:chars].rsplit(" ", 1)[0] + " …"
