"""A hook for whatever orders the first hits of an answer anew. None ships (`docs/decisions/003-blocks.md`).

By then the floors have decided what is relevant; afterwards what is stale is put below what holds, as ever.
"""

import math
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol

from slowwave.recall.query import Query
from slowwave.recall.ranking.rank import ScoredRow
from slowwave.recall.retrieve.pools import POOLS

TOP = 20
"""First hits that a reranker sees."""
NOTE_CHARS = 300
"""Length of what a note tells of a trouble."""

First = Callable[[int], list[ScoredRow]]
"""So many hits of each kind as one list, best first."""


class Reranker(Protocol):
    """Anything that scores texts by how well they answer a query."""

    def rerank(self, asked: Sequence[tuple[str, Sequence[str]]]) -> Sequence[Sequence[float]]:
        """Return for each query (its words, and the texts of its first hits) one score a text, in the texts' order;
        higher is better, equal ones stay in their order.
        """
        ...


def rerank_hits(
    reranker: Reranker, asked: Sequence[tuple[Query, First]], note: Callable[[str], None]
) -> list[list[ScoredRow]]:
    """Return what was found for each query, its first TOP in the reranker's order. One that raises, or gives no
    usable scores, is noted, and the order stays as it was."""
    found = [first(max(query.k, TOP)) for query, first in asked]
    texts = [
        (query.text, [format_for_reranker(row) for row in rows[:TOP]])
        for (query, _), rows in zip(asked, found, strict=True)
    ]
    try:
        scores = [[float(score) for score in some] for some in reranker.rerank(texts)]
        if [len(some) for some in scores] != [len(some) for _, some in texts] or not all(
            math.isfinite(score) for some in scores for score in some
        ):
            raise ValueError("not one finite number for each text")
    except Exception as trouble:  # it may be anybody's code
        reason = " ".join(str(trouble).split())[:NOTE_CHARS] or type(trouble).__name__
        note(f"the reranker {type(reranker).__name__} failed ({reason}): answered in recall's own order")
        return [first(query.k) for query, first in asked]
    return [_order_first(rows, some) for rows, some in zip(found, scores, strict=True)]


def format_for_reranker(row: ScoredRow) -> str:
    """Return what a reranker reads of a hit: the day and the speaker, which a query may name, and the claim or the
    passage.
    """
    pool = POOLS[row.kind]
    at, speaker = row.row.get(pool.last), row.row.get("speaker")
    text = f"{speaker}: {row.row[pool.text]}" if speaker else str(row.row[pool.text])
    return f"{at:%Y-%m-%d} {text}" if isinstance(at, datetime) else text


def _order_first(rows: Sequence[ScoredRow], scores: Sequence[float]) -> list[ScoredRow]:
    order = [*sorted(range(len(scores)), key=lambda at: -scores[at]), *range(len(scores), len(rows))]
    return [rows[at] for at in order]
