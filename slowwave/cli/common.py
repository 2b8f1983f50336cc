"""Shared by the commands: the `command` decorator, options, settings, output, and errors as one line."""

import functools
import inspect
import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from slowwave.cli.opening import build_overrides, load_settings, open_memory
from slowwave.schemas.errors import SlowwaveError, name_install
from slowwave.schemas.filters import Extent, spell_out_filters
from slowwave.text.fence import escape_control, escape_json_tags, escape_line

if TYPE_CHECKING:
    from slowwave.flows.parts.report import RunReport


class Terminal(Console):
    """A terminal that prints text as it is: markup is not interpreted, and control characters are escaped."""

    def __init__(self, *, stderr: bool = False) -> None:
        self.renew(os.environ, stderr=stderr)

    def renew(self, environ: Mapping[str, str], *, stderr: bool) -> None:
        """Read the standard streams and the environment again. The resident reader does this for each client."""
        super().__init__(
            stderr=stderr,
            markup=False,
            emoji=False,
            highlight=False,
            soft_wrap=True,
            _environ=environ,
        )

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a string, also of a table cell, with its control characters escaped."""
        return super().render_str(escape_control(text), **options)

    def say(self, text: str) -> None:
        """Print a text of this program's, its commands so that they can be typed."""
        self.print(spell_commands(text))


OUT = Terminal()
ERR = Terminal(stderr=True)

PROGRAM = "slowwave"
"""The name of the command."""
SHORT_CELL = 24
"""Characters up to which a value of a table stands in a line with others, where the table is too wide."""
HIGHEST_ROW = 4
FEW_ROWS = 3
"""Most lines of a row of a table on average, and rows from which that counts."""
WIDEST = 10_000
"""Columns that no table needs."""
INCOMPLETE = 3
"""Exit status of a run that released what it could."""
HELD = 4
"""Exit status of a run whose release is held back."""

SpacesOption = Annotated[
    list[str] | None,
    typer.Option("--space", help="Space (user or tenant); may be repeated."),
]
PROJECT = ("--project",)
"""The name of the option for a project, which the tables and the Python API call a workspace."""
KeyFileOption = Annotated[
    Path | None,
    typer.Option(
        "--key-file", help="A file whose first line is the passphrase (or an age key)."
    ),
]
SHARED = {
    "as_json": Annotated[bool, typer.Option("--json", help="Print JSON.")],
    "store": Annotated[
        Path | None, typer.Option("--store", help="Folder or s3:// of the store.")
    ],
    "space": Annotated[
        str | None, typer.Option("--space", help="Space (user or tenant) to use.")
    ],
    "release": Annotated[
        str | None,
        typer.Option("--release", help="An earlier release, by name (r3) or id."),
    ],
}
"""Options that are the same for all commands, by the parameter they set."""
FLAGS = {"superseded": "--superseded", "everything": "--all"}
"""Options of a query that are switched on, by the name that Python has for them."""
OPENED = {"given": (), "settings": (), "memory": ("release",)}
"""Parameters that `command` fills from --store and --space, each with the options that it needs besides these."""


def command(
    function: Callable[..., Any] | None = None, *, progress: bool = False
) -> Callable[..., Any]:
    """Make a command of a function.

    Its parameters become arguments and options, as in Typer, except for these:

    - `given`: the settings that --store and --space name
    - `settings`: all settings, with those in them
    - `memory`: the opened memory, also of --release
    - `as_json`: True if --json is given
    - `**filters`: an option for each filter

    A function with a parameter `space` of its own takes several spaces; the first one is opened. Errors raised on
    purpose become one line and exit status 1. If the function returns a run's report, it is printed and decides the
    exit status; any other result is printed as JSON.

    Args:
        function: the function of the command.
        progress: show the progress of a long command.
    """
    if function is None:
        return functools.partial(command, progress=progress)
    if "filters" in inspect.signature(function).parameters:
        function = spell_out_filters(_make_filter_option)(function)
    signature = inspect.signature(function)
    opened = [name for name in OPENED if name in signature.parameters]
    shared = _list_shared_options(signature, opened)

    @functools.wraps(function)
    def run(**options: Any) -> None:
        with report_errors(), show_progress(progress):
            words = {
                name: options.pop(name)
                for name in ("store", "space", "release")
                if name in shared
            }
            words.setdefault("space", next(iter(options.get("space") or ()), None))
            with show_loading(progress):
                for name in opened:
                    options[name] = _open(name, **words)
            _print_result(function(**options))

    # Typer wraps each paragraph after the first where the source does, whatever the terminal's width.
    run.__doc__ = re.sub(
        r"(?<!\n)\n(?![\n -])", " ", inspect.cleandoc(run.__doc__ or "")
    )
    parameters = _make_parameters(signature, shared)
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {
        parameter.name: parameter.annotation for parameter in parameters
    }
    return run


def _list_shared_options(
    signature: inspect.Signature, opened: Sequence[str]
) -> list[str]:
    """Return the names of the shared options of a command whose function asks for `opened`."""
    shared = [name for name in ("as_json",) if name in signature.parameters]
    shared += [
        name
        for name in ("store", "space")
        if opened and name not in signature.parameters
    ]
    return shared + [more for name in opened for more in OPENED[name]]


def _make_parameters(
    signature: inspect.Signature, shared: Sequence[str]
) -> list[inspect.Parameter]:
    """Return the parameters that Typer reads: the function's own, then the shared options."""
    own = [
        parameter
        for parameter in signature.parameters.values()
        if parameter.name not in (*OPENED, *shared)
    ]
    parameters = [parameter.replace(kind=parameter.KEYWORD_ONLY) for parameter in own]
    for name in shared:
        default = False if name == "as_json" else None
        parameters.append(
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=default,
                annotation=SHARED[name],
            )
        )
    return parameters


def _print_result(result: Any) -> None:
    """Print a run's report and exit with its status; print any other result as JSON."""
    if hasattr(result, "failures"):
        print_report(result)
        end_run(result)
    elif result is not None:
        print_json(result)


def _open(
    name: str,
    store: Path | None,
    space: str | None,
    release: str | None = None,
) -> Any:
    given = build_overrides(store, space)
    if name == "given":
        return given
    return (
        load_settings(**given)
        if name == "settings"
        else open_memory(store, space, release)
    )


def _make_filter_option(name: str, about: str) -> object:
    """Return the annotation that makes a filter an option; `--file` takes one file and may be repeated."""
    panel = None if name in get_type_hints(Extent) else "Filters"
    if name == "files":
        about = f"{about} May be repeated."
        return Annotated[
            list[str] | None, typer.Option("--file", help=about, rich_help_panel=panel)
        ]
    if name in FLAGS:
        return Annotated[
            bool, typer.Option(FLAGS[name], help=about, rich_help_panel=panel)
        ]
    named = PROJECT if name == "workspace" else ()
    return Annotated[
        str | None, typer.Option(*named, help=about, rich_help_panel=panel)
    ]


def name_program() -> str:
    """Return the words that start this program in the person's shell.

    They are "slowwave", or the program's path as it was typed if the shell finds no such command, or another one.
    """
    typed = Path(sys.argv[0])
    if typed.name != PROGRAM:
        return PROGRAM
    found = shutil.which(PROGRAM)
    if found and Path(found).resolve() == typed.resolve():
        return PROGRAM
    return shlex.quote(str(typed))


def spell_commands(text: str) -> str:
    """Return a text of this program's, its commands in backticks so that they can be typed."""
    program = name_program()
    return text.replace(f"`{PROGRAM} ", f"`{program} ")


def print_report(report: "RunReport") -> None:
    """Print a run's report: tables, notes, and the result."""
    if report.steps and not report.searched:
        print_table(report.list_steps(), f"{report.kind} {report.run_id}")
    for model, rows in report.list_usage().items():
        print_table(rows, f"asked of {model}")
    for note in report.collect_notes():
        if not any(note in line for line in report.closing):
            OUT.say(f"note: {escape_line(note)}")
    for line in report.closing:
        OUT.print(line)
    OUT.say(f"{report.format_verdict()}{report.next_command}")


def end_run(report: "RunReport") -> None:
    """Exit with status 4 if a gate holds a run's release back, with 3 if a part failed; else return."""
    if report.held or report.failures:
        raise typer.Exit(HELD if report.held else INCOMPLETE)


@contextmanager
def report_errors() -> Iterator[None]:
    """Report an error raised on purpose, or by the file system, as one line on stderr, and exit with its status.

    A module that only a night needs, and an installation for reading lacks, is reported in the same way.
    """
    try:
        yield
    except (SlowwaveError, OSError) as error:
        message = str(error)
        status = getattr(error, "exit_status", 1)
    except ModuleNotFoundError as missing:
        if find_spec("prefect"):
            raise  # the night's packages are installed: the missing module is a bug
        message = f"this needs what a night does (no module {missing.name}): {name_install('night')}"
        status = 1
    else:
        return
    ERR.print(f"slowwave: {escape_line(spell_commands(message))}", style="red")
    raise typer.Exit(status)


@contextmanager
def show_progress(shown: bool) -> Iterator[None]:
    """Show progress: without a terminal for bars, print a line every ten seconds."""
    if not shown:
        yield
        return
    from slowwave.tasks.progress import report_progress_lines

    with report_progress_lines():
        yield


@contextmanager
def show_loading(shown: bool = True) -> Iterator[None]:
    """Show on a terminal that modules are being imported, which takes seconds."""
    if not shown:
        yield
        return
    from slowwave.tasks.progress import show_progress as show_work

    with show_work("loading the program"):
        yield


def echo(
    text: str,
    *,
    nl: bool = True,
    err: bool = False,
) -> None:
    """Print a text with its control characters escaped."""
    typer.echo(escape_control(text), nl=nl, err=err)


def print_json(data: object) -> None:
    """Print data as JSON, with dates in ISO format, and brackets of tags as codes."""
    text = json.dumps(
        data,
        ensure_ascii=False,
        indent=2,
        default=lambda v: getattr(v, "isoformat", v.__str__)(),
    )
    echo(escape_json_tags(text))


def print_table(rows: Sequence[Mapping[str, Any]], title: str | None = None) -> None:
    """Print rows as a table with their keys as headings; numbers are aligned right. There must be at least one row.

    A table whose words do not fit on the screen, or whose rows are high, is printed row by row instead.
    """
    from slowwave.text.cells import format_cell

    columns = [
        Column(
            name,
            justify="right"
            if any(isinstance(row[name], int | float) for row in rows)
            else "left",
        )
        for name in rows[0]
    ]
    table = Table(*columns, title=title, title_justify="left")
    cells = [{name: format_cell(value) for name, value in row.items()} for row in rows]
    for row in cells:
        table.add_row(*row.values())
    if _is_readable(table):
        OUT.print(table)
        return
    for line in _list_records(cells, title):
        OUT.print(line)


def _is_readable(table: Table) -> bool:
    """Return True if the words of a table fit on the screen, and its rows are not too high."""
    wide = OUT.measure(table, options=OUT.options.update(width=WIDEST))
    is_high = len(OUT.render_lines(table, pad=False)) > HIGHEST_ROW * table.row_count
    return wide.minimum <= OUT.width and (not is_high or table.row_count < FEW_ROWS)


def _list_records(
    rows: Sequence[Mapping[str, str]], title: str | None
) -> Iterator[str]:
    """Yield the lines of a table whose words are too wide for the screen: of each row its short values in one line,
    then each column of long ones.
    """
    if title:
        yield title
    columns = {name: max(len(row[name]) for row in rows) for name in rows[0]}
    short = [name for name, chars in columns.items() if chars <= SHORT_CELL]
    for row in rows:
        facts = [f"{name} {row[name]}" for name in short if row[name]]
        long = [name for name in columns if name not in short and row[name]]
        yield from fill(
            " · ".join(facts), OUT.width, subsequent_indent="  "
        ).splitlines()
        for name in long:
            yield from fill(
                f"{name}: {row[name]}",
                OUT.width,
                initial_indent="  ",
                subsequent_indent="    ",
            ).splitlines()
        if long:
            yield ""


def print_warnings(warnings: Iterable[str]) -> None:
    """Print the warnings of an answer on stderr, one a line; stdout is for the answer."""
    for warning in warnings:
        echo(f"note: {escape_line(spell_commands(warning))}", err=True)


def truncate_line(text: str, chars: int) -> str:
    """Return a text on one line, cut if it is longer than `chars`."""
    from slowwave.text.cells import shorten_text

    return shorten_text(escape_line(text), chars)
