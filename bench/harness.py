"""What every bench shares: its arguments, and its figures as a table or as JSON."""

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from slowwave.schemas.settings import Settings

Row = Mapping[str, object]
"""A line of a table: figures by the headings of their columns."""


def build_parser(text: str | None, *files: str) -> argparse.ArgumentParser:
    """Return a parser with a bench's docstring, the paths that it takes, `--encoder` and `--json`.

    Args:
        text: the module's docstring.
        files: names of the paths; one that ends in `…` takes one or more, one that ends in `?` none or one.
    """
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in files:
        count = {"…": "+", "?": "?"}.get(name[-1])
        parser.add_argument(name.rstrip("…?"), type=Path, nargs=count)
    parser.add_argument("--encoder", default=Settings().encoder)
    parser.add_argument("--json", action="store_true", dest="as_json")
    return parser


def forbid_cached_answers() -> None:
    """Have recall keep no answers of this process: neither is the user's cache filled nor a figure taken from it."""
    os.environ["SLOWWAVE_RECALL__CACHED_ANSWERS"] = "0"


def print_rows(rows: Sequence[Row], as_json: bool, title: str | None = None, notes: Sequence[str] = ()) -> None:
    """Print rows that have the first one's columns: JSON in one piece, or a table and the notes below it."""
    if as_json:
        print(json.dumps(rows, indent=2, ensure_ascii=False, default=str))
        return
    table = Table(title=title)
    for heading in rows[0] if rows else ():
        is_text = isinstance(rows[0][heading], str)
        table.add_column(heading, justify="left" if is_text else "right", no_wrap=is_text)
    for row in rows:
        table.add_row(*map(format_figure, row.values()))
    console = Console(width=max(120, Console().width))
    console.print(table, *map(escape, notes), sep="\n", highlight=False)


def format_figure(value: object) -> str:
    """Return a figure as a table shows it: three places of a share, thousands apart, `–` for what is not known."""
    if value is None or value != value:
        return "–"
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) < 10 else f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else escape(str(value))
