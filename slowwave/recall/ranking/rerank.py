"""Where a reranker acts: on the first hits of an answer, and never at the answer's cost.

A hook: none ships, and no model of language or of pairs that a plain install can have orders twenty hits within 300 ms
on two cores (`docs/decisions/003-blocks.md`). A reranker is any object that scores texts by how well they
answer a query. All queries of a `recall_many` come to it in one call.

By then the floors have decided that something is relevant; afterwards what is stale is put below what holds, as ever.
A reranker that raises, gives no usable scores or is not done in time is noted, and the answer is what it would have
been without one. It runs on a thread of its own, one call at a time: queries that come together wait for their turn
and, where it hangs, each for its own seconds, no longer. Once a call is overdue, and until it ends, the queries that
come are answered without it at once. No call is begun for a query that no longer waits.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Protocol

from slowwave.recall.query import Query
from slowwave.recall.ranking.rank import ScoredRow
from slowwave.recall.retrieve.pools import POOLS

NOTE_CHARS = 300
"""Length of what a note tells of a trouble."""

Asked = Sequence[tuple[str, Sequence[str]]]
"""Queries, each with the texts of its first hits."""
Scored = list[list[float]]
First = Callable[[int], list[ScoredRow]]
"""So many hits of each kind as one list, best first."""


class Reranker(Protocol):
    """Anything that scores texts by how well they answer a query."""

    @property
    def name(self) -> str:
        """What notes call it."""
        ...

    def rerank(self, asked: Asked) -> Sequence[Sequence[float]]:
        """Return for each query one score a text, in the texts' order; higher is better, equal ones stay in their
        order.

        Scores of one query compare with each other alone. Called by one thread at a time, not always the same.
        """
        ...


class Reranking:
    """A reranker, held to its time and its answers; shared by threads."""

    def __init__(self, reranker: Reranker, note: Callable[[str], None], top: int = 20, seconds: float = 30.0) -> None:
        """Set up: the first `top` hits are scored, within so many seconds for a query."""
        self.reranker, self.top, self.seconds, self._note = reranker, top, seconds, note
        self._turn = Lock()
        """Held by the one call there is, from before its thread starts until the reranker comes back."""
        self._due = math.inf
        """When that call should be done; infinite while there is none."""

    def rerank_hits(self, asked: Sequence[tuple[Query, First]]) -> list[list[ScoredRow]]:
        """Return what was found for each query, its first `top` in the reranker's order; as without one, where that
        fails or there is but one hit.
        """
        found = [first(max(query.k, self.top)) for query, first in asked]
        many = [n for n, some in enumerate(found) if len(some) > 1]
        texts = [(asked[n][0].text, [format_for_reranker(one) for one in found[n][: self.top]]) for n in many]
        scores = dict(zip(many, self._score_texts(texts) if texts else (), strict=False))
        return [
            reorder_hits(found[n], scores[n]) if n in scores else first(query.k)
            for n, (query, first) in enumerate(asked)
        ]

    def _score_texts(self, asked: Asked) -> Scored:
        """Return scores of the texts; none, and a note, where that fails."""
        outcome = self._call_with_timeout(asked)
        if isinstance(outcome, str):
            self._note(
                f"the reranker {_get_reranker_name(self.reranker)!r} failed ({outcome}): answered in recall's own order"
            )
            return []
        return outcome

    def _call_with_timeout(self, asked: Asked) -> Scored | str:
        """Return scores, or why there are none."""
        due = time.monotonic() + self.seconds
        if time.monotonic() >= self._due:
            return "it is still busy with an earlier query"
        # The query waits for the turn itself, not its thread: one that gives up leaves nobody behind who takes it.
        if not self._turn.acquire(timeout=self.seconds):
            return f"no turn within {self.seconds:g} s: it is busy with earlier queries"
        self._due = due
        outcomes: SimpleQueue[Scored | str] = SimpleQueue()
        # A daemon: no process waits at its end for a reranker that hangs.
        worker = Thread(target=self._run_reranker, args=(asked, outcomes), name="slowwave-rerank", daemon=True)
        try:
            worker.start()
        except RuntimeError as trouble:  # no more threads, or the process is at its end
            self._release_turn()
            return _describe_trouble(trouble)
        try:
            return outcomes.get(timeout=max(0.0, due - time.monotonic()))
        except Empty:
            return f"no answer within {self.seconds:g} s"

    def _run_reranker(self, asked: Asked, outcomes: "SimpleQueue[Scored | str]") -> None:
        outcome: Scored | str
        try:
            outcome = check_scores(self.reranker.rerank(asked), [len(texts) for _, texts in asked])
        except BaseException as trouble:  # a reranker may be anybody's code, and no query fails for its sake
            outcome = _describe_trouble(trouble)
        self._release_turn()
        outcomes.put(outcome)

    def _release_turn(self) -> None:
        self._due = math.inf
        self._turn.release()


def _get_reranker_name(reranker: "Reranker") -> str:
    """Return what notes call it: its class where it has no name."""
    try:
        return str(reranker.name)
    except Exception:  # as anybody's code may; that it failed is what is to be told
        return type(reranker).__name__


def _describe_trouble(trouble: BaseException) -> str:
    """Return a trouble's own words on one line; its class where it has none, or can't say them."""
    try:
        words = " ".join(str(trouble).split())
    except BaseException:  # the words are the reranker's code too
        words = ""
    return (words or type(trouble).__name__)[:NOTE_CHARS]


def format_for_reranker(one: ScoredRow) -> str:
    """Return what a reranker reads of a hit: the day and the speaker, which a query may name, and the claim or the
    passage.
    """
    pool = POOLS[one.kind]
    at, speaker = one.row.get(pool.last), one.row.get("speaker")
    said = f"{speaker}: {one.row[pool.text]}" if speaker else str(one.row[pool.text])
    return f"{at:%Y-%m-%d} {said}" if isinstance(at, datetime) else said


def check_scores(scores: Sequence[Sequence[float]], texts: Sequence[int]) -> Scored:
    """Return the scores as numbers.

    Args:
        texts: how many each query has.

    Raises:
        ValueError: not one a text, or one that is no number.
    """
    numbers = [[float(score) for score in some] for some in scores]
    if (got := [len(some) for some in numbers]) != list(texts):
        raise ValueError(f"{got} scores for {list(texts)} texts")
    if not all(math.isfinite(score) for some in numbers for score in some):
        raise ValueError("a score that is no finite number")
    return numbers


def reorder_hits(found: Sequence[ScoredRow], scores: Sequence[float]) -> list[ScoredRow]:
    """Return the first hits by their new scores, equal ones in their order; hits keep the scores of their places."""
    order = [*sorted(range(len(scores)), key=lambda at: -scores[at]), *range(len(scores), len(found))]
    return [replace(found[at], score=one.score) for at, one in zip(order, found, strict=True)]
