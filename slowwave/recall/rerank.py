"""Where a reranker acts: on the first hits of an answer, and never at the answer's cost.

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
from typing import TYPE_CHECKING

from slowwave.recall.query import Query
from slowwave.recall.rank import ScoredRow
from slowwave.recall.retrieve.pools import POOLS
from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import RecallSettings, Settings

if TYPE_CHECKING:
    from slowwave.engines.rerankers import Reranker

NOTE_CHARS = 300
"""Length of what a note tells of a trouble."""


def make_reranking(given: "Reranker | None", settings: Settings, note: Callable[[str], None]) -> "Reranking | None":
    """Return the reranker given, else the settings' one; None where there is neither, and then nothing is imported.

    Raises:
        UsageError: the setting names no reranker, or what rerankers need is not installed.
    """
    if given is None and settings.recall.reranker:
        try:
            from slowwave.engines.rerankers import make_reranker
        except ModuleNotFoundError as missing:
            raise UsageError(f"rerankers need {missing.name}: pip install 'slowwave[night]'") from None

        given = make_reranker(settings.recall.reranker, settings)
    return None if given is None else Reranking(given, settings.recall, note)


class Reranking:
    """A reranker, held to its time and its answers; shared by threads."""

    def __init__(self, reranker: "Reranker", settings: RecallSettings, note: Callable[[str], None]) -> None:
        self.reranker, self.top, self.seconds, self._note = reranker, settings.rerank_top, settings.rerank_seconds, note
        self._turn = Lock()
        """Held by the one call there is, from before its thread starts until the reranker comes back."""
        self._due = math.inf
        """When that call should be done; infinite while there is none."""

    def compute_depth(self, query: Query) -> int:
        """Return hits of each kind that are wanted: more than are shown, so that there is something to bring up."""
        return max(query.k, self.top)

    def rerank_hits(self, query: Query, first: Callable[[int], list[ScoredRow]]) -> list[ScoredRow]:
        """Return what was found, its first `top` in the reranker's order; as without one, where that fails.

        Args:
            first: so many hits of each kind as one list, best first.
        """
        found = first(self.compute_depth(query))
        scores = (
            self._score_texts(query.text, [format_for_reranker(one) for one in found[: self.top]])
            if len(found) > 1
            else None
        )
        return first(query.k) if scores is None else reorder_hits(found, scores)

    def _score_texts(self, query: str, texts: Sequence[str]) -> list[float] | None:
        """Return scores of the texts; None, and a note, where there are none."""
        outcome = self._call_with_timeout(query, texts)
        if isinstance(outcome, str):
            self._note(
                f"the reranker {_get_reranker_name(self.reranker)!r} failed ({outcome}): answered in recall's own order"
            )
            return None
        return outcome

    def _call_with_timeout(self, query: str, texts: Sequence[str]) -> list[float] | str:
        """Return scores, or why there are none."""
        due = time.monotonic() + self.seconds
        if time.monotonic() >= self._due:
            return "it is still busy with an earlier query"
        # The query waits for the turn itself, not its thread: one that gives up leaves nobody behind who takes it.
        if not self._turn.acquire(timeout=self.seconds):
            return f"no turn within {self.seconds:g} s: it is busy with earlier queries"
        self._due = due
        outcomes: SimpleQueue[list[float] | str] = SimpleQueue()
        # A daemon: no process waits at its end for a reranker that hangs.
        worker = Thread(target=self._run_reranker, args=(query, texts, outcomes), name="slowwave-rerank", daemon=True)
        try:
            worker.start()
        except RuntimeError as trouble:  # no more threads, or the process is at its end
            self._release_turn()
            return _describe_trouble(trouble)
        try:
            return outcomes.get(timeout=max(0.0, due - time.monotonic()))
        except Empty:
            return f"no answer within {self.seconds:g} s"

    def _run_reranker(self, query: str, texts: Sequence[str], outcomes: "SimpleQueue[list[float] | str]") -> None:
        outcome: list[float] | str
        try:
            outcome = check_scores(self.reranker.rerank(query, texts), len(texts))
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


def check_scores(scores: Sequence[float], texts: int) -> list[float]:
    """Return the scores as numbers.

    Raises:
        ValueError: not one a text, or one that is no number.
    """
    numbers = [float(score) for score in scores]
    if len(numbers) != texts:
        raise ValueError(f"{len(numbers)} scores for {texts} texts")
    if not all(map(math.isfinite, numbers)):
        raise ValueError("a score that is no finite number")
    return numbers


def reorder_hits(found: Sequence[ScoredRow], scores: Sequence[float]) -> list[ScoredRow]:
    """Return the first hits by their new scores, equal ones in their order; hits keep the scores of their places."""
    order = [*sorted(range(len(scores)), key=lambda at: -scores[at]), *range(len(scores), len(found))]
    return [replace(found[at], score=one.score) for at, one in zip(order, found, strict=True)]
