"""Async work behind a plain iterator: in a thread with its own event loop, so callers may be sync, or inside a loop."""

import asyncio
import queue
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _End:
    """The work is over, by itself or by an error."""

    error: BaseException | None = None


def run_coroutine(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return what the coroutine returns; its error is raised here."""
    with ThreadPoolExecutor(1, "slowwave-async") as pool:
        return pool.submit(asyncio.run, coroutine).result()


def stream_items(work: Callable[[Callable[[T], None]], Coroutine[Any, Any, None]]) -> Iterator[T]:
    """Yield what `work` puts, as it puts it; the work goes on while the caller handles an item.

    An error of the work is raised here after everything that was put before it. When the caller stops early, the
    work is cancelled, and waited for.
    """
    items: queue.SimpleQueue[T | _End] = queue.SimpleQueue()
    running: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[None]]] = []
    started = threading.Event()

    async def main() -> None:
        task = asyncio.ensure_future(work(items.put))
        running.append((asyncio.get_running_loop(), task))
        started.set()
        await task

    def run() -> None:
        end = _End()
        try:
            asyncio.run(main())
        except asyncio.CancelledError:
            pass
        except BaseException as error:  # handed to the caller's thread, which raises it
            end = _End(error)
        finally:
            started.set()
            items.put(end)

    thread = threading.Thread(target=run, name="slowwave-async", daemon=True)
    thread.start()
    try:
        yield from _drain_queue(items)
    finally:
        started.wait()
        for loop, task in running:
            if thread.is_alive() and not loop.is_closed():
                _cancel(loop, task)
        thread.join()


def _drain_queue(items: "queue.SimpleQueue[T | _End]") -> Iterator[T]:
    """Yield items up to the end; the error it bears is raised."""
    while not isinstance(item := items.get(), _End):
        yield item
    if item.error:
        raise item.error


def _cancel(loop: asyncio.AbstractEventLoop, task: "asyncio.Task[None]") -> None:
    """Cancel from another thread; a loop that closed in the meantime has nothing to cancel."""
    try:
        loop.call_soon_threadsafe(task.cancel)
    except RuntimeError:
        return
