"""Progress of long work: at a terminal a bar, elsewhere a plain line every ten seconds."""

import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, Task, TextColumn, TimeRemainingColumn

CONSOLE = Console(stderr=True)
Item = TypeVar("Item")
EVERY = 10.0
"""Seconds from one plain line to the next."""


DOING: dict[int, Task] = {}
"""The current work of the process, the innermost last."""


@contextmanager
def show_progress(label: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Note what the block does, with a bar on stderr where that is a terminal and there is a total; call what is
    yielded with the number of items done since.
    """
    columns = (TextColumn("{task.description:>10}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    hidden = total is None or not CONSOLE.is_terminal
    with Progress(*columns, console=CONSOLE, transient=True, disable=hidden) as bars:
        number = bars.add_task(label, total=total)
        (DOING[id(bars)],) = bars.tasks
        try:
            yield lambda done: bars.update(number, advance=done)
        finally:
            del DOING[id(bars)]


def _describe(task: Task) -> str:
    """Return what is being done, how far it is, and how long the rest may take where some is done and some is left."""
    if task.total is None:
        return task.description
    left = (task.elapsed or 0.0) * (task.total - task.completed) / task.completed if task.completed else 0.0
    took = f", about {left:.0f} s left" if 0 < task.completed < task.total else ""
    return f"{task.description} {task.completed:,.0f} of {task.total:,.0f}{took}"


def track_items(label: str, items: Collection[Item]) -> Iterator[Item]:
    """Yield the items; how many of them are done is shown."""
    with show_progress(label, len(items)) as advance:
        for item in items:
            yield item
            advance(1)


@contextmanager
def report_progress_lines() -> Iterator[None]:
    """Tell on stderr every ten seconds, while the block works, what it is at; nothing at a terminal, which has bars."""
    over, begun = Event(), time.monotonic()

    def tell() -> None:
        while not over.wait(EVERY):
            doing = [*DOING.values()]
            now = _describe(doing[-1]) if doing else "working"
            try:
                print(f"slowwave: {now}, {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
            except (OSError, ValueError):  # nobody reads any more
                return

    teller = Thread(target=tell, name="told in lines", daemon=True)
    if not CONSOLE.is_terminal:
        teller.start()
    try:
        yield
    finally:
        over.set()
        if teller.is_alive():
            teller.join()
