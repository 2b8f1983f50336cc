"""Progress on a terminal for what lasts; silent where nobody watches."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

CONSOLE = Console(stderr=True)


@contextmanager
def progress(label: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A bar on stderr; call what is yielded with the number of items done since."""
    columns = (TextColumn("{task.description:>10}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=CONSOLE, transient=True, disable=not CONSOLE.is_terminal) as bars:
        task = bars.add_task(label, total=total)
        yield lambda done: bars.update(task, advance=done)
