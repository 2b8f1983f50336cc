"""Where an answer stops: which candidates are about the query's matter.

The candidates alone decide between two cases:

- A clear answer. At most FEW of the first rows are surely about the query, the best reaches the floor of unrequested
  recall, one hears CLEAR of the query's words, and each scores at least MARGIN more than every other row. The answer is
  these rows and, of the first LATER rows, those that a later session said: one of them may hold now, in words that the
  query lacks.
- No clear answer: the evidence is spread, or nothing is sure. Then rows are left out that score MARGIN less than the
  best row and hear less than HEARS of the query's words that some row hears, and rows after the first NEAR that are not
  surely about the query. A message stays that is nearly as close in meaning as the closest (MEANT). If nothing is sure
  and hardly a word matches anywhere (KNOWN), the query has other words than the memory: nothing is left out for its
  words.

Scores are sums of standardised signals, so MARGIN is about one standard deviation of a signal. MARGIN was measured on
talk between friends, on talk with an assistant and on single statements (`docs/decisions/025-where-recall-stops.md`).
Scores are compared without the signal that tells a person's words from an echo (`Candidate.nearness`), since it says
nothing of the matter.
"""

from collections.abc import Sequence, Set

from slowwave.recall.hits import CONFIDENT, Hit
from slowwave.recall.retrieve.candidates import Candidate

ABOUT = 10
"""Least number of hits to order and to find the end of an answer in: a smaller k returns the first of the same hits."""
FEW = 3
"""Most rows of a clear answer."""
MARGIN = 1.0
"""Difference between the scores of two rows of one kind from which they are of different matters."""
CLEAR = 0.4
"""Share of the query's words that some row of a clear answer hears."""
NEAR = 20
"""Number of first rows after which a row has to be surely about the query, unless it names a time."""
KNOWN = 0.2
"""Share of the query's words that some row hears if the memory has the query's words at all."""
LATER = 5
"""Number of first rows of which those of later sessions stay beside a clear answer."""
HEARS = 0.3
"""Share of the words heard by the row that hears most, up to which a row is of another matter."""
MEANT = 0.7
"""Share of what the vector adds to the score of the message closest in meaning, from which a message is of the query's
matter, whatever words it hears."""


def find_matter(
    by_kind: Sequence[Sequence[Candidate]],
    repeats: Set[str],
    floor: float,
    *,
    hears: bool = True,
    timed: bool = False,
) -> Set[str]:
    """Return the ids of the rows that are about the query's matter.

    Args:
        by_kind: the candidates of each kind, best first.
        repeats: ids of messages that ask the query's question word for word.
        floor: relevance that the best row of a clear answer reaches.
        hears: whether words were looked up; without an index of full text, no row is left out for what it hears.
        timed: whether the query names a time. Then no row is left out for its place, and some for their words in any
            case.
    """
    lists = {rows[0].kind: rows for rows in by_kind if rows}
    leading = lists.get("message") or next(iter(lists.values()))
    answer = find_clear_answer(leading, repeats, floor, hears=hears)
    if not answer:
        kept = set[str]()
        for rows in lists.values():
            if hears and (timed or _knows_query(rows)):
                rows = _leave_out_unheard(rows)
            if not timed:
                rows = _leave_out_far(rows)
            kept.update(row.id for row in rows)
        return kept
    found = {key for row in answer for key in row.ids}
    resting = {
        row.id
        for rows in lists.values()
        for row in rows
        if not found.isdisjoint(row.row.get("message_ids") or ())
    }
    return found | resting


def find_clear_answer(
    rows: Sequence[Candidate],
    repeats: Set[str],
    floor: float,
    *,
    hears: bool = True,
) -> list[Candidate]:
    """Return the rows of a clear answer, with those that repeat the question; empty if there is no clear answer."""
    others = [row for row in rows[:ABOUT] if row.id not in repeats]
    sure = [row for row in others if row.relevance >= CONFIDENT]
    if not 0 < len(sure) <= FEW or max(row.relevance for row in sure) < floor:
        return []
    if hears and max(row.covered for row in sure) < CLEAR:
        return []
    least = min(row.nearness for row in sure)
    rest = [row.nearness for row in others if row.relevance < CONFIDENT]
    if rest and least - max(rest) < MARGIN:
        return []
    later = _find_later_rows(others, max(sure, key=lambda row: row.seconds))
    return [*sure, *later, *(row for row in rows if row.id in repeats)]


def find_changed_since(rows: Sequence[Candidate], floor: float) -> Set[str]:
    """Return the ids of the rows below a floor that may tell what changed one above it.

    They are among the first LATER rows and were said later than all above the floor. They are surely about the query;
    or a later session said them, they hear its words, and score less than MARGIN below the best above the floor.
    """
    told = [row for row in rows if row.relevance >= floor]
    if not told:
        return frozenset()
    newest = max(told, key=lambda row: row.seconds)
    least = max(row.nearness for row in told) - MARGIN
    since = set[str]()
    for row in rows[:LATER]:
        is_later = row.seconds > newest.seconds
        if is_later and CONFIDENT <= row.relevance < floor:
            since.add(row.id)
    for row in _find_later_rows(rows, newest):
        if row.nearness >= least:
            since.add(row.id)
    return since


def _find_later_rows(rows: Sequence[Candidate], newest: Candidate) -> list[Candidate]:
    """Return the rows among the first LATER from sessions later than the answer's newest row."""
    heard = max(row.covered for row in rows)
    session = newest.row.get("session_id")
    return [
        row
        for row in rows[:LATER]
        if row.relevance < CONFIDENT
        and row.seconds > newest.seconds
        and row.row.get("session_id") != session
        and row.covered >= HEARS * heard
    ]


def _knows_query(rows: Sequence[Candidate]) -> bool:
    """Return True if one of the first rows is surely about the query, or hears KNOWN of its words."""
    return any(
        row.relevance >= CONFIDENT or row.covered >= KNOWN for row in rows[:ABOUT]
    )


def _leave_out_far(rows: Sequence[Candidate]) -> list[Candidate]:
    """Return the first NEAR rows, and of the others those that are surely about the query."""
    far = (row for row in rows[NEAR:] if row.relevance >= CONFIDENT)
    return [*rows[:NEAR], *far]


def _leave_out_unheard(rows: Sequence[Candidate]) -> list[Candidate]:
    """Return the rows without those that score MARGIN less than the best, hear few of the query's words and are not
    messages close to it in meaning.
    """
    best = max(row.nearness for row in rows[:ABOUT])
    heard = max(row.covered for row in rows[:ABOUT])
    meant = max(row.meaning for row in rows[:ABOUT])
    is_told = meant > 0 and rows[0].kind == "message"
    return [
        row
        for row in rows
        if best - row.nearness < MARGIN
        or row.covered > HEARS * heard
        or (is_told and row.meaning >= MEANT * meant)
    ]


def find_floor(hits: Sequence[Hit], floor: float) -> float:
    """Return the relevance that a message newer than the release needs: CONFIDENT beside a hit that reaches `floor`,
    else 0.
    """
    best = max((hit.relevance or 0.0 for hit in hits), default=0.0)
    return CONFIDENT if best >= floor else 0.0
