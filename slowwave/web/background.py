"""Answers fetched beside other work: each in a thread of its own, and nobody waits for one longer than it is given."""

import threading
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Generic, TypeVar

from slowwave.schemas.settings import WebSettings
from slowwave.web.engines import WebResult
from slowwave.web.search import WebAnswer, WebSearch

T = TypeVar("T")


class BackgroundCall(Generic[T]):
    """What `ask` returns, being fetched; one that hangs keeps no program from ending."""

    def __init__(self, ask: Callable[[], T], seconds: float) -> None:
        self.seconds, self._until = seconds, time.monotonic() + seconds
        self._future: Future[T] = Future()
        threading.Thread(target=self._fetch, args=(ask,), daemon=True, name="slowwave-background").start()

    def _fetch(self, ask: Callable[[], T]) -> None:
        try:
            self._future.set_result(ask())
        except BaseException as trouble:  # it is raised where the answer is wanted
            self._future.set_exception(trouble)

    def get(self, at_least: float = 0.0) -> T:
        """Return the answer, as soon as it is there: within its seconds, or `at_least` so many from now.

        Raises:
            TimeoutError: it is not there by then.
        """
        return self._future.result(max(at_least, self._until - time.monotonic()))


class AwaitedWeb:
    """The results of a search that goes on while memory is asked: who iterates over them waits for it."""

    def __init__(self, web: WebSearch | None, message: str, *, asked_for: bool = False) -> None:
        """Begin to search, where there is a web: for a message that needs it, or that it is `asked_for`."""
        ask = partial(web.search if asked_for else web.answer, message) if web else WebAnswer
        self._call = BackgroundCall(ask, web.settings.seconds if web else 1.0)

    @property
    def answer(self) -> WebAnswer:
        """What the web said; a note where that took too long."""
        try:
            return self._call.get()
        except TimeoutError:
            return WebAnswer(notes=(f"the web took longer than {self._call.seconds:g} s: nothing of it is used",))

    def __iter__(self) -> Iterator[WebResult]:
        """Yield the results, best first."""
        return iter(self.answer.results)


def begin_search(settings: WebSettings, query: str, people: Collection[str]) -> AwaitedWeb:
    """Return the results of a search that was asked for, under way; nobody's of these names is sent."""
    return AwaitedWeb(WebSearch(settings, names=people), query, asked_for=True)
