"""What every bench shares. A bench is a module with one function, `measure`, that returns `Figures`.

Its parameters are the command's arguments: what stands before `*` by place, the others as options. `run` reads them,
looks for data that is not here in the folder that SLOWWAVE_BENCH_DATA names, and prints tables or, with `--json`, rows.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter, signature
from itertools import groupby
from pathlib import Path
from typing import Any, get_args, get_origin

import polars as pl
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import Settings

ROOT = Path(__file__).parents[1]
LABELLED, SAMPLES = ROOT / "data" / "labelled", ROOT / "data" / "samples"
SCRATCH, ENCODER = Path("(a temporary folder)"), "(the setting's)"
"""Defaults of parameters whose value is known only when a bench runs."""

Row = Mapping[str, Any]
"""A line of a table: figures by the headings of their columns."""


@dataclass
class Figures:
    """What a bench found. Rows in a row that have the same headings are one table."""

    rows: Sequence[Row]
    title: str | None = None
    notes: Sequence[str] = ()
    failed: bool = False
    """Whether the exit status says so."""


def run(measure: Callable[..., Figures], words: Sequence[str] | None = None) -> None:
    """Call a bench's function with the arguments of the command line, and print what it returns.

    Raises:
        SystemExit: the figures are marked as failed, or the input is refused.
    """
    given = {
        name: value
        for name, value in vars(_build_parser(measure).parse_args(words)).items()
        if value not in (None, [])
    }
    as_json, taken = given.pop("json", False), signature(measure, eval_str=True)
    with tempfile.TemporaryDirectory(prefix="slowwave-bench-") as scratch:
        try:
            found = {
                name: _find_data(taken.parameters[name], value)
                for name, value in given.items()
            }
        except FileNotFoundError as missing:
            print(f"skipped: no {missing}")
            return
        bound = taken.bind(**found)
        bound.apply_defaults()
        known = {SCRATCH: Path(scratch), ENCODER: Settings().encoder}
        arguments = {
            name: known.get(value, value) if isinstance(value, str | Path) else value
            for name, value in bound.arguments.items()
        }
        try:
            figures = measure(**arguments)
        except UsageError as refused:
            raise SystemExit(str(refused)) from None
        print_figures(figures, as_json)
    if figures.failed:
        raise SystemExit(1)


def _build_parser(measure: Callable[..., Figures]) -> argparse.ArgumentParser:
    """Return the parser of a function's parameters; what is not given is None, an empty list or False."""
    parser = argparse.ArgumentParser(
        description=sys.modules[measure.__module__].__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true")
    for name, taken in signature(measure, eval_str=True).parameters.items():
        kind = (*get_args(taken.annotation), taken.annotation)[0]
        needed, many = (
            taken.default is Parameter.empty,
            get_origin(taken.annotation) is Sequence,
        )
        flag = f"--{name.replace('_', '-')}"
        if taken.kind is not Parameter.KEYWORD_ONLY:
            parser.add_argument(
                name,
                type=kind,
                nargs=("+" if needed else "*") if many else None if needed else "?",
            )
        elif kind is bool:
            parser.add_argument(flag, action="store_true")
        elif many:
            parser.add_argument(flag, type=kind, nargs="+", action="extend")
        else:
            parser.add_argument(flag, type=kind, required=needed)
    return parser


def _find_data(taken: Parameter, value: Any) -> Any:
    """Return the value; of paths that are read the absolute one, here or in the folder of the public sets.

    Raises:
        FileNotFoundError: such a path is in neither.
    """
    if get_origin(taken.annotation) is Sequence and get_args(taken.annotation) == (
        Path,
    ):
        return [_find_path(path) for path in value]
    return (
        _find_path(value)
        if taken.annotation is Path and taken.default is Parameter.empty
        else value
    )


def _find_path(path: Path) -> Path:
    folders = [
        Path(),
        *map(Path, filter(None, [os.environ.get("SLOWWAVE_BENCH_DATA")])),
    ]
    found = next(
        (folder / path for folder in folders if (folder / path).exists()), None
    )
    if found is None:
        raise FileNotFoundError(
            f"{path} here or in the folder that SLOWWAVE_BENCH_DATA names"
        )
    return found.absolute()


def average(
    rows: Sequence[Row], *keys: str, count: str | None = None
) -> list[dict[str, Any]]:
    """Return the mean of each figure over the rows that have the same keys, in the order of their first.

    Args:
        rows: figures; what is None counts for nothing.
        keys: columns to group by; none of them for one mean of all.
        count: a column to add, of how many rows a mean is of.
    """
    frame = pl.DataFrame(rows, infer_schema_length=None)
    means = [pl.len().alias(count)] if count else []
    means += [
        pl.col(name).mean()
        for name in frame.columns
        if name not in keys and frame.schema[name] != pl.String
    ]
    return (
        frame.group_by(keys, maintain_order=True).agg(means)
        if keys
        else frame.select(means)
    ).to_dicts()


def print_figures(figures: Figures, as_json: bool) -> None:
    """Print JSON in one piece, or tables and the notes below them."""
    if as_json:
        print(json.dumps(figures.rows, indent=2, ensure_ascii=False, default=str))
        return
    for headings, some in groupby(figures.rows, key=tuple):
        table, rows = Table(title=figures.title), list(some)
        for heading in headings:
            is_text = isinstance(rows[0][heading], str)
            table.add_column(
                heading, justify="left" if is_text else "right", no_wrap=is_text
            )
        for row in rows:
            table.add_row(*map(format_figure, row.values()))
        # What does not fit is for the terminal to wrap.
        width = Console(width=1_000).measure(table).maximum
        Console(width=max(width, Console().width)).print(table, highlight=False)
    print(*figures.notes, sep="\n", end="\n" if figures.notes else "")


def format_figure(value: object) -> str:
    """Return a figure as a table shows it: three places of a share, thousands apart, `–` for what is not known."""
    if value is None or value != value:
        return "–"
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) < 10 else f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else escape(str(value))
