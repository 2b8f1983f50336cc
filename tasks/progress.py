"""How far the work is: at a terminal a bar for what lasts, elsewhere a plain line every ten seconds."""

import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

CONSOLE = Console(stderr=True)
Item = TypeVar("Item")
EVERY = 10.0
"""Seconds from one plain line to the next."""


@dataclass(eq=False)
class Activity:
    """What is being done, and how far it is."""

    what: str
    total: int | None = None
    done: int = 0
    begun: float = field(default_factory=time.monotonic)

    def __str__(self) -> str:
        of = f" {self.done:,} of {self.total:,}" if self.total is not None else ""
        return f"{self.what}{of}{self._tell_left()}"

    def _tell_left(self) -> str:
        """Return about how long the rest takes, where some was done and some is left."""
        if not self.done or not self.total or self.done >= self.total:
            return ""
        return f", about {(time.monotonic() - self.begun) * (self.total - self.done) / self.done:.0f} s left"


DOING: list[Activity] = []
"""What the process does now, the innermost last."""


@contextmanager
def track_activity(what: str, total: int | None = None) -> Iterator[Activity]:
    """Note what the block does, for whoever tells it."""
    now = Activity(what, total)
    DOING.append(now)
    try:
        yield now
    finally:
        DOING.remove(now)


@contextmanager
def show_progress(label: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show a bar on stderr, where that is a terminal; call what is yielded with the number of items done since."""
    columns = (TextColumn("{task.description:>10}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bars = Progress(*columns, console=CONSOLE, transient=True, disable=not CONSOLE.is_terminal)
    with track_activity(label, total) as now, bars:
        task = bars.add_task(label, total=total)

        def advance(done: int) -> None:
            now.done += done
            bars.update(task, advance=done)

        yield advance


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
            now = str(DOING[-1]) if DOING else "working"
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
