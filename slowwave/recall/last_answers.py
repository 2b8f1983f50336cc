"""The last answers and the last briefing, kept on this machine: what is told when the store can't be reached.

A small SQLite file of each a store and space, in the user's cache folder, readable by the user alone; the oldest
answers make room. `SLOWWAVE_RECALL__CACHED_ANSWERS=0` keeps none. A cache that can't be used costs nothing but itself.
"""

import json
import logging
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from slowwave.recall.hits import Hit, Hits
from slowwave.recall.query import Query
from slowwave.recall.sessions import SessionHit, SessionHits
from slowwave.schemas.ids import compute_content_id
from slowwave.store.answers import find_cache_file
from slowwave.store.private import make_private_folder

LOG = logging.getLogger(__name__)
TABLE = "CREATE TABLE IF NOT EXISTS answers (id TEXT PRIMARY KEY, hits TEXT, at INTEGER)"
TROUBLE = (sqlite3.Error, OSError, ValueError, KeyError, TypeError)
"""No room, no right, another process's lock, a file of something else, an answer of another version."""

T = TypeVar("T")


class AnswerCache:
    """The last `size` answers from one space of one store."""

    def __init__(self, store: Path, space: str, size: int, what: str = "answers") -> None:
        self.path = find_cache_file(store, space, what)
        self.size = size

    @property
    def has_answers(self) -> bool:
        """Whether there is something to answer from."""
        return self.size > 0 and self.path.is_file()

    def put_hits(self, question: str, hits: Hits) -> None:
        """Note an answer; `question` is everything it depends on."""
        self.put_json(question, _serialize_answer(hits))

    def get_hits(self, question: str) -> Hits | None:
        """Return the last answer to just this question, marked as stale; None when there is none."""
        return self.get_json(question, lambda plain: Hits(map(Hit.from_dict, plain["hits"]), **_build_old_terms(plain)))

    def put_json(self, question: str, answer: object) -> None:
        """Note an answer of another kind, as plain values that JSON has."""
        if self.size > 0:
            told = json.dumps(answer, ensure_ascii=False)
            self._run_guarded(lambda: self._write_row(compute_content_id(question), told), None)

    def get_json(self, question: str, parsed: Callable[[Any], T]) -> T | None:
        """Return what was noted for just this question, parsed; None when it is nothing, or of another version."""
        return (
            self._run_guarded(lambda: self._read_row(compute_content_id(question), parsed), None)
            if self.has_answers
            else None
        )

    def _write_row(self, key: str, told: str) -> None:
        if not self.path.is_file():
            make_private_folder(self.path.parent)
            self.path.touch(mode=0o600)
        with closing(self._connect()) as db, db:
            db.execute(TABLE)
            (last,) = db.execute("SELECT coalesce(max(at), 0) FROM answers").fetchone()
            db.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", (key, told, last + 1))
            db.execute("DELETE FROM answers WHERE at <= ?", (last + 1 - self.size,))

    def _read_row(self, key: str, parsed: Callable[[Any], T]) -> T | None:
        with closing(self._connect()) as db:
            row = db.execute("SELECT hits FROM answers WHERE id = ?", (key,)).fetchone()
        return parsed(json.loads(row[0])) if row else None

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, timeout=0.2)
        db.execute("PRAGMA synchronous = OFF")  # an answer lost to a power cut is no loss
        return db

    def _run_guarded(self, do: Callable[[], T], otherwise: T) -> T:
        try:
            return do()
        except TROUBLE as trouble:
            LOG.warning("the cache of answers %s can't be used: %s", self.path, trouble)
            return otherwise


NOTHING_THEN = "nothing was found then either"
NEVER = "the store can't be read, and this was never asked before"
NOT_NEAR = "the store can't be read, and what was found last is not relevant enough for an answer nobody asked for"


def _serialize_answer(answer: Hits | SessionHits) -> dict[str, object]:
    """Return of an answer what is written down; not the reason, which may repeat what was asked."""
    return {"hits": [hit.as_dict() for hit in answer], "relevance": answer.relevance}


def _build_old_terms(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an answer that was written down says beside its hits, now that it is old."""
    reason = None if plain["hits"] else NOTHING_THEN
    return {"reason": reason, "stale": True, "relevance": float(plain["relevance"])}


@dataclass(frozen=True)
class LastAnswers:
    """The answers of a release, by their queries."""

    answers: AnswerCache
    release: str | None
    """The one that is asked by name; None for the live one."""
    automatic_floor: float
    """Relevance from which a hit is told though nobody asked."""

    def put_hits(self, query: Query, automatic: bool, hits: Hits) -> None:
        """Note an answer."""
        self.answers.put_hits(self._build_key(query, automatic), hits)

    def get_hits(self, query: Query, automatic: bool) -> Hits:
        """Return the last answer to just this.

        Where nobody asks, else what is relevant enough of the one to who did.
        """
        told = self.answers.get_hits(self._build_key(query, automatic))
        if told is not None:
            return told
        asked = self.answers.get_hits(self._build_key(query, automatic=False)) if automatic else None
        if asked is None:
            return Hits(reason=NEVER, stale=True)
        near = [hit for hit in asked if (hit.relevance or 0.0) >= self.automatic_floor]
        return Hits(near, None if near else asked.reason or NOT_NEAR, stale=True, relevance=asked.relevance)

    def put_sessions(self, query: Query, automatic: bool, found: SessionHits) -> None:
        """Note the sessions that a query was about."""
        self.answers.put_json(f"sessions {self._build_key(query, automatic)}", _serialize_answer(found))

    def get_sessions(self, query: Query, automatic: bool) -> SessionHits:
        """Return the last sessions that just this found."""
        question = f"sessions {self._build_key(query, automatic)}"
        told = self.answers.get_json(
            question, lambda plain: SessionHits(map(SessionHit.from_dict, plain["hits"]), **_build_old_terms(plain))
        )
        return SessionHits(reason=NEVER, stale=True) if told is None else told

    def _build_key(self, query: Query, automatic: bool) -> str:
        """Return everything that an answer depends on.

        When it is asked, only where a time is counted back from there.
        """
        if query.now is not None and not (query.times and query.times.spans):
            query = replace(query, now=None)
        return repr((query, automatic, self.release))
