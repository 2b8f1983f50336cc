"""The release that is live, followed as new ones come; what its last answer could not use; and async twins of
blocking methods, each on its own thread.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from threading import Lock, local
from typing import Any, Concatenate, ParamSpec, TypeVar

from slowwave.recall.release.view import View
from slowwave.schemas.tables import RELEASES
from slowwave.store.bucket.working_copy import refresh
from slowwave.store.trouble import TROUBLE, translate_read_errors

S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")


def make_async_twin(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
    """Return the method as a coroutine function, for callers that must not be held up.

    Named with an `a` before its name.
    """

    @wraps(method)
    async def twin(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.to_thread(method, self, *args, **kwargs)

    name = method.__name__
    twin.__name__, twin.__qualname__ = f"a{name}", method.__qualname__.removesuffix(name) + f"a{name}"
    twin.__doc__ = f"`{name}` on a thread of its own, for callers that must not be held up.\n\n{method.__doc__ or ''}"
    return twin


LOG = logging.getLogger(__name__)


class Notes:
    """The notes of the last answer. Threads that answer at once don't mix theirs: the one that ends last is told."""

    def __init__(self) -> None:
        self.last: list[str] = []
        """Each once; never changed in place."""
        self._open = local()

    @property
    def answer_notes(self) -> tuple[str, ...]:
        """Those of the answer that this thread is at."""
        return tuple(getattr(self._open, "notes", None) or ())

    def add(self, what: str) -> None:
        """Add a note to the answer that this thread is at, else of the last one; logged when it is new."""
        mine: list[str] | None = getattr(self._open, "notes", None)
        if what in (self.last if mine is None else mine):
            return
        if what not in self.last:
            LOG.warning(what)
        if mine is None:
            self.last = [*self.last, what]
        else:
            mine.append(what)

    def replace_notes(self, what: str) -> None:
        """Add a note in the place of those of the answer so far: what they tell of came to nothing."""
        if getattr(self._open, "notes", None) is not None:
            self._open.notes = []
        self.add(what)

    @contextmanager
    def collect_answer_notes(self) -> Iterator[None]:
        """Collect what is noted inside, in the place of what was; an answer within an answer is part of it."""
        if getattr(self._open, "notes", None) is not None:
            yield
            return
        self._open.notes = []
        try:
            yield
        finally:
            self.last, self._open.notes = self._open.notes, None


class LiveRelease:
    """A space's live release, or the one that is named; shared by threads."""

    WAIT = 1.0
    """Least seconds between two looks for a newer release."""

    def __init__(self, root: Path, space: str, named: str | None, note: Callable[[str], None]) -> None:
        """Set up; nothing is read yet.

        Args:
            root: the store's folder.
            space: a folder in it.
            named: a release's id or name, which stays; None for the live one.
            note: told with each answer that a newer release can't be read.
        """
        self.root, self.space, self.named, self._note = root, space, named, note
        self.view: View | None = None
        """The view that answered last; None as long as the store could not be read."""
        self._behind: str | None = None
        self._stamp = 0
        self._looked = 0.0
        self._looking = Lock()

    def open_view(self) -> View:
        """Return the release in force by now, read anew.

        Raises:
            StoreError: the store can't be reached or read, or has no such release.
        """
        with translate_read_errors(self.root / self.space):
            stamp = self._read_stamp()  # before: a release that comes meanwhile is found by the next look
            self._looked = time.monotonic()
            view = View.open(self.root, self.space, self.named)
            self._stamp = stamp  # after: one that could not be read is looked for again
            return view

    def get_current_view(self) -> View:
        """Return the view that answers: of a newer release, when there is one. Others go on with the old one meanwhile.

        Raises:
            StoreError: there is no view yet, and the store can't be reached or read.
        """
        view = self.view
        if view is None:
            with self._looking:
                view = self._refresh_view()
        elif self._is_check_due() and self._looking.acquire(blocking=False):
            try:
                view = self._refresh_view()
            finally:
                self._looking.release()
        if self._behind is not None:
            self._note(self._behind)
        return view

    def _is_check_due(self) -> bool:
        """Return whether it is time to look for a newer release."""
        return self.named is None and time.monotonic() - self._looked >= self.WAIT

    def _refresh_view(self) -> View:
        """Return the live release's view.

        The one there is, where nothing was added to the releases or they can't be read.
        """
        self._looked = time.monotonic()
        view = self.view
        try:
            if view is not None and self._read_stamp() == self._stamp:
                self._behind = None
                return view
            fresh = self.open_view()
        except TROUBLE as trouble:
            if view is None:
                raise
            self._behind = f"the releases can't be read ({trouble}): answered from {view.release.name}"
            return view
        self._behind = None
        if view is None or fresh.release.release_id != view.release.release_id:
            LOG.info("answering from release %s", fresh.release.name)
            self.view = view = fresh
        return view

    def _read_stamp(self) -> int:
        """Return when a row was last added to the releases; 0 where there are none."""
        refresh(self.root / self.space)
        versions = self.root / self.space / f"{RELEASES.name}.lance" / "_versions"
        return versions.stat().st_mtime_ns if versions.is_dir() else 0
