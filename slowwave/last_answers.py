"""The last answers from a space, kept on this machine: what is told, marked as stale, while the store can't be read.

One small SQLite file a space in the user's cache folder, readable by the user alone; the oldest answers make room.
`SLOWWAVE_RECALL__CACHED_ANSWERS=0` keeps none. A file that can't be used costs nothing but itself.
"""

import json
import logging
import sqlite3
from collections.abc import Mapping, Set
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.places import find_cache_folder
from slowwave.schemas.tables import RELEASES
from slowwave.store.private import make_private_folder

if TYPE_CHECKING:  # readers import this
    from slowwave.store.store import Store

LOG = logging.getLogger(__name__)
TABLE = "CREATE TABLE IF NOT EXISTS told (id TEXT PRIMARY KEY, answer TEXT, at INTEGER, run TEXT)"
TROUBLE = (sqlite3.Error, OSError, ValueError, TypeError)
"""No room, no right, another process's lock, a file of something else."""


def find_answers(store: Path, space: str) -> Path:
    """Return the file of one space of one store."""
    return find_cache_folder() / f"answers-{compute_content_id(str(store.resolve()), space)}.sqlite"


def list_answers(store: "Store") -> list[Path]:
    """Return the files of a space's answers, wherever it was stored then: its own, its runs', and unreadable ones."""
    own, runs = find_answers(store.root, store.space), set(store.read(RELEASES, ["run_id"])["run_id"].to_pylist())
    return [file for file in own.parent.glob("answers-*.sqlite") if file == own or _tells_of(file, runs)]


def _tells_of(path: Path, runs: Set[str]) -> bool:
    try:
        with closing(sqlite3.connect(path, timeout=0.2)) as db:
            return any(run in runs for (run,) in db.execute("SELECT DISTINCT run FROM told"))
    except TROUBLE:
        return True


def drop_answers(store: "Store") -> None:
    """Remove the answers that this machine keeps of a space."""
    for path in list_answers(store):
        for file in path.parent.glob(f"{path.name}*"):  # SQLite's journals are beside it
            file.unlink(missing_ok=True)


class LastAnswers:
    """The last `size` answers from one space of one store, as plain values that JSON has."""

    def __init__(self, store: Path, space: str, size: int) -> None:
        self.path, self.size = find_answers(store, space), size

    @property
    def has_answers(self) -> bool:
        """Whether there are any answers."""
        return self.size > 0 and self.path.is_file()

    def put(self, question: str, answer: Mapping[str, object], run: str | None) -> None:
        """Note an answer from a run's release; `question` is everything it depends on."""
        if not self.size:
            return
        try:
            if not self.path.is_file():
                make_private_folder(self.path.parent)
                self.path.touch(mode=0o600)
            with closing(sqlite3.connect(self.path, timeout=0.2)) as db, db:
                db.execute("PRAGMA synchronous = OFF")  # an answer lost to a power cut is no loss
                db.execute(TABLE)
                (at,) = db.execute("SELECT coalesce(max(at), 0) + 1 FROM told").fetchone()
                row = (compute_content_id(question), json.dumps(answer, ensure_ascii=False), at, run)
                db.execute("INSERT OR REPLACE INTO told VALUES (?, ?, ?, ?)", row)
                db.execute("DELETE FROM told WHERE at <= ?", (at - self.size,))
        except TROUBLE as trouble:
            LOG.warning("the last answers %s can't be kept: %s", self.path, trouble)

    def get(self, question: str) -> dict[str, Any] | None:
        """Return the last answer to just this question; None when there is none."""
        if not self.has_answers:
            return None
        try:
            with closing(sqlite3.connect(self.path, timeout=0.2)) as db:
                row = db.execute("SELECT answer FROM told WHERE id = ?", (compute_content_id(question),)).fetchone()
            return json.loads(row[0]) if row else None
        except TROUBLE as trouble:
            LOG.warning("the last answers %s can't be read: %s", self.path, trouble)
            return None
