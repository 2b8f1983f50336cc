"""What an answer could not use, and what was done instead: trouble that is over leaves no note."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import local

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
