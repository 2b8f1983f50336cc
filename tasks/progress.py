"""Progress of long work: at a terminal a line for each current work, elsewhere a plain line every ten seconds."""

import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task
from rich.text import Text

CONSOLE = Console(stderr=True)
Item = TypeVar("Item")
EVERY = 10.0
"""Seconds from one plain line to the next."""


class WorkColumn(ProgressColumn):
    """What is being done, and how far it is."""

    def render(self, task: Task) -> Text:
        """Return the text of one line."""
        return Text(_describe(task))


DOING: dict[int, Task] = {}
"""The current work of the process, the innermost last."""
SHOWN = Progress(
    SpinnerColumn(), BarColumn(24), WorkColumn(), console=CONSOLE, transient=True
)
"""The lines at the terminal. One display for the whole process: two of them would overwrite each other."""
_changing = Lock()


@contextmanager
def show_progress(
    label: str, total: float | None = None
) -> Iterator[Callable[[float], None]]:
    """Show the block's work, on stderr if that is a terminal; call what is yielded with the number of items done
    since. Without a `total` the line has no end.
    """
    with _changing:
        # A line that shows nothing but a name makes room for the work inside it.
        around = [
            task
            for task in DOING.values()
            if task.visible and task.total is None and not task.completed
        ]
        for task in around:
            SHOWN.update(task.id, visible=False)
        number = SHOWN.add_task(label, total=total)
        DOING[number] = SHOWN.tasks[-1]
        if len(DOING) == 1 and CONSOLE.is_terminal:
            SHOWN.start()
        elif CONSOLE.is_terminal:
            SHOWN.refresh()
    try:
        yield lambda done: SHOWN.update(number, advance=done)
    finally:
        with _changing:
            SHOWN.remove_task(number)
            del DOING[number]
            for task in around:
                if task.id in DOING:
                    SHOWN.update(task.id, visible=True)
            if not DOING and SHOWN.live.is_started:
                SHOWN.stop()


def _describe(task: Task) -> str:
    """Describe the work: its progress, and the time that the rest may take if some is done and some is left."""
    if task.total is None:
        return (
            f"{task.description} {task.completed:,.0f}"
            if task.completed
            else task.description
        )
    left = (
        (task.elapsed or 0.0) * (task.total - task.completed) / task.completed
        if task.completed
        else 0.0
    )
    took = f", about {left:.0f} s left" if 0 < task.completed < task.total else ""
    return f"{task.description} {task.completed:,.0f} of {task.total:,.0f}{took}"


def measure_progress() -> float:
    """Return the share of the current work that is done, in percent: of the outermost with a total; 0 without one."""
    for task in [*DOING.values()]:
        if task.total:
            return min(100.0, 100 * task.completed / task.total)
    return 0.0


@contextmanager
def spread_progress(
    advance: Callable[[float], None], items: int, parts: int
) -> Iterator[Callable[[float], None]]:
    """Advance a line by `items` in all, a fraction for each of the block's `parts`; call what is yielded with the
    number of parts done since. Parts that were never counted are added at the end.
    """
    shown = 0.0

    def tick(done: float) -> None:
        nonlocal shown
        step = min(done * items / parts, items - shown) if parts else 0.0
        shown += step
        advance(step)

    yield tick
    advance(items - shown)


def track_items(label: str, items: Collection[Item]) -> Iterator[Item]:
    """Yield the items; how many of them are done is shown."""
    with show_progress(label, len(items)) as advance:
        for item in items:
            yield item
            advance(1)


@contextmanager
def report_progress_lines() -> Iterator[None]:
    """Tell on stderr every ten seconds, while the block works, what it is at; nothing at a terminal, which has bars."""
    over = Event()
    begun = time.monotonic()

    def tell() -> None:
        while not over.wait(EVERY):
            doing = [*DOING.values()]
            now = _describe(doing[-1]) if doing else "working"
            try:
                print(
                    f"slowwave: {now}, {time.monotonic() - begun:.0f} s",
                    file=sys.stderr,
                    flush=True,
                )
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
