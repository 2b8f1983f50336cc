"""The order of hits: what changed what, as the night wrote it, and what the code lost.

What is superseded stands last, since the ledger says so. A summary of messages that are gone stands behind what a
person said. All else is a guess, and moves a hit by GUESS places at most (`docs/decisions/018-chains.md`).
"""

import unicodedata
from collections.abc import Sequence

import numpy as np

from slowwave.recall.behind import (
    GUESS,
    mark_code,
    put_failing_behind,
    put_questions_behind,
    put_summaries_behind,
)
from slowwave.recall.changes.newer import is_newer
from slowwave.recall.changes.successors import (
    add_successors,
    mark_row,
    mark_sentences,
)
from slowwave.recall.hits import CONFIDENT, GROUPS
from slowwave.recall.matter import ABOUT
from slowwave.recall.query import Mask, Query
from slowwave.recall.release.view import View
from slowwave.recall.retrieve.candidates import Candidate
from slowwave.schemas.vocabulary import Status
from slowwave.text.words import TERM


def order_hits(
    view: View,
    hits: Sequence[Candidate],
    query: Query,
) -> list[Candidate]:
    """Return rows in the order in which they are shown, by what the code and later claims say of them."""
    marked = [mark_code(view, row, query) for row in hits]
    ordered = order_by_change(view, put_failing_behind(marked), query)
    return put_summaries_behind(put_questions_behind(view, ordered, query))


def order_by_change(
    view: View,
    hits: Sequence[Candidate],
    query: Query,
) -> list[Candidate]:
    """Return rows in the order in which they are shown, marked with what changed them by the time asked about, and with
    what holds in place of superseded ones.

    What is superseded stands last, since the night's ledger says so; before it a message that asks the same word for
    word, since it can tell nothing more. All else that orders them is a guess, and moves a
    row up by GUESS places at most: if it is relevant, and of the time that the query names, or names it; and among the
    first ABOUT to the best of the earlier ones that it changes.
    """
    rows = add_successors(view, [mark_row(view, hit, query) for hit in hits], query)
    is_last = np.array([row.row["status"] == Status.SUPERSEDED for row in rows], bool)
    is_timely = _mask_timely(rows, query)
    places = np.arange(len(rows), dtype=np.float64) - (GUESS + 0.5) * is_timely
    for at, row in enumerate(rows[:ABOUT]):
        earlier = [
            n
            for n in range(at)
            if is_timely[n] == is_timely[at] and is_newer(row, rows[n], query)
        ]
        if earlier:
            reach = ABOUT if any(is_last[n] for n in earlier) else GUESS
            places[at] = max(places[earlier].min(), places[at] - reach) - 0.5
    ordered = [
        rows[at] for at in np.lexsort((places, mask_repeats(rows, query), is_last))
    ]
    marked = [
        mark_sentences(view, row, query) if row.kind in GROUPS else row
        for row in ordered
    ]
    # of some summaries a person left out all that they say
    return [row for row in marked if row.kind not in GROUPS or TERM.search(row.text)]


def mask_repeats(rows: Sequence[Candidate], query: Query) -> Mask:
    """Return a mask of the messages that ask the query's question word for word, or stand beside one that does."""
    if not unicodedata.name(query.text[-1:] or " ", "").endswith("QUESTION MARK"):
        return np.zeros(len(rows), dtype=bool)
    asked = TERM.findall(query.text.casefold())

    def is_repeat(row: Candidate | None) -> bool:
        return row is not None and TERM.findall(row.text.casefold()) == asked

    repeats = [
        row.kind == "message" and (is_repeat(row) or is_repeat(row.beside))
        for row in rows
    ]
    return np.array(repeats, dtype=bool)


def _mask_timely(rows: Sequence[Candidate], query: Query) -> Mask:
    """Return a mask of the relevant rows that are of the time that the query names, or that name it themselves."""
    if (times := query.times) is None or not rows:
        return np.zeros(len(rows), dtype=bool)
    inside = times.mask_inside([row.edges for row in rows])
    named = np.array([times.is_named_in(row.text) for row in rows], dtype=bool)
    mask: Mask = (inside | named) & np.array(
        [row.relevance >= CONFIDENT for row in rows], dtype=bool
    )
    return mask
