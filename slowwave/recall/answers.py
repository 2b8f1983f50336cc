"""The last answers, kept on this machine: what is told when the store can't be reached.

One small SQLite file a store and space, in the user's cache folder, readable by the user alone; the oldest answers make
room. `SLOWWAVE_RECALL__CACHED_ANSWERS=0` keeps none. A cache that can't be used costs nothing but itself.
"""

import json
import logging
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from schemas.ids import content_id
from slowwave.recall.hits import Hit, Hits

LOG = logging.getLogger(__name__)
TABLE = "CREATE TABLE IF NOT EXISTS answers (id TEXT PRIMARY KEY, hits TEXT, at INTEGER)"
TROUBLE = (sqlite3.Error, OSError, ValueError, KeyError, TypeError)
"""No room, no right, another process's lock, a file of something else, an answer of another version."""

T = TypeVar("T")


def cache_folder() -> Path:
    """Where answers are kept: `$XDG_CACHE_HOME/slowwave`, else `~/.cache/slowwave`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "slowwave"


class Answers:
    """The last `size` answers from one space of one store."""

    def __init__(self, store: Path, space: str, size: int) -> None:
        self.path = cache_folder() / f"answers-{content_id(str(store.absolute()), space)}.sqlite"
        self.size = size

    @property
    def any(self) -> bool:
        """Whether there is something to answer from."""
        return self.size > 0 and self.path.is_file()

    def keep(self, question: str, hits: Hits) -> None:
        """Note an answer; `question` is everything it depends on."""
        if self.size > 0:
            told = json.dumps([hit.as_dict() for hit in hits], ensure_ascii=False)
            self._tried(lambda: self._write(content_id(question), told), None)

    def told(self, question: str) -> Hits | None:
        """The last answer to just this question, marked as stale; None when there is none."""
        if not self.any:
            return None
        found = self._tried(lambda: self._read(content_id(question)), None)
        return None if found is None else Hits(found, None if found else "nothing was found then either", stale=True)

    def _write(self, key: str, told: str) -> None:
        if not self.path.is_file():
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.path.touch(mode=0o600)
        with closing(self._opened()) as db, db:
            db.execute(TABLE)
            (last,) = db.execute("SELECT coalesce(max(at), 0) FROM answers").fetchone()
            db.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", (key, told, last + 1))
            db.execute("DELETE FROM answers WHERE at <= ?", (last + 1 - self.size,))

    def _read(self, key: str) -> list[Hit] | None:
        with closing(self._opened()) as db:
            row = db.execute("SELECT hits FROM answers WHERE id = ?", (key,)).fetchone()
        return [Hit.from_dict(plain) for plain in json.loads(row[0])] if row else None

    def _opened(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, timeout=0.2)
        db.execute("PRAGMA synchronous = OFF")  # an answer lost to a power cut is no loss
        return db

    def _tried(self, do: Callable[[], T], otherwise: T) -> T:
        try:
            return do()
        except TROUBLE as trouble:
            LOG.warning("the cache of answers %s can't be used: %s", self.path, trouble)
            return otherwise
