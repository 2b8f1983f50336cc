"""What was found, kinds merged: each hit another piece of evidence."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice, zip_longest
from typing import cast

import numpy as np

from slowwave.recall.hits import Kind, has_words
from slowwave.recall.release.columns import Mask
from slowwave.recall.release.tables import Row
from slowwave.recall.retrieve.pools import POOLS, Candidates, select_best_per_owner
from slowwave.recall.retrieve.rows import Scores
from slowwave.recall.times import QueryTimes, convert_datetimes


@dataclass(frozen=True)
class ScoredRow:
    """A row that answers: its kind, the id of its hit, its columns, its score."""

    kind: Kind
    id: str
    row: Row
    score: float
    cosine: float
    """To the query; NaN where unknown."""
    relevance: float = 0.0
    claim: "ScoredRow | None" = None
    """Of a message: the best claim found that was made of it."""
    contributions: Mapping[str, float] = field(default_factory=dict)
    """What each signal added to its score, before it became one with those of other kinds."""

    @property
    def text(self) -> str:
        """What full text searches of it: the claim, the passage or the summary."""
        return str(self.row[POOLS[self.kind].text])

    copies: tuple[str, ...] = ()
    """Of a message: others in the same words, by the same speaker and of the same workspace."""


@dataclass(frozen=True)
class ScoredPool:
    """The candidates of one pool, and how relevant the best of them is."""

    candidates: Candidates
    scores: Scores
    relevance: Scores
    """0 to 1 a row, as `scores`."""
    best: float
    """Relevance of the best, candidate or not."""

    def select_best(self, depth: int, is_copy: Callable[[str, str], bool]) -> list[ScoredRow]:
        """Return the best rows, one an owner, best first: of several passages of a message the best.

        Messages that are copies of an earlier one (`View.is_copy`) are left out; of several in the same words the best
        stands for all.
        """
        pool, rows = self.candidates.pool, self.candidates.rows
        owners = [str(row[pool.owner]) for row in rows]
        cosine = self.candidates.signals.get("vector", np.full(len(owners), np.nan))
        alike, parts = dict[object, list[int]](), self.candidates.contributions
        for i in select_best_per_owner(self.scores, owners, self.candidates.ids):
            if pool.kind != "message":
                alike[i] = [i]
            elif not is_copy(str(rows[i]["session_id"]), text := str(rows[i]["text"])):
                said = rows[i]["workspace"], rows[i]["speaker"], " ".join(text.split())
                alike.setdefault(said, []).append(i)
        return [
            ScoredRow(
                *(pool.kind, owners[i], rows[i]),
                *(float(self.scores[i]), float(cosine[i]), float(self.relevance[i])),
                contributions={name: float(part[i]) for name, part in parts.items()},
                copies=tuple(owners[other] for other in others),
            )
            for i, *others in islice(alike.values(), depth)
        ]


def merge_kinds(found: Sequence[Sequence[ScoredRow]], k: int = 60) -> list[ScoredRow]:
    """Return lists of several kinds, each best first, as one in which each hit is another piece of evidence; a single
    kind's list is returned as it is.

    Messages lead in their own order: they hold what was said. A claim made of one message, or in a message's own
    words, is attached to it (`ScoredRow.claim`) and takes no place. A claim made of several messages takes turns with
    the messages where one of them was found. Claims of messages that were not found follow; then summaries, without
    those in a found message's own words (as that of a session of one message), and topics.
    Scores become reciprocal ranks, since those of different kinds don't compare.
    """
    lists = {rows[0].kind: rows for rows in found if rows}
    if len(lists) < 2:
        return list(chain(*lists.values()))
    # each claim goes to the message that holds it, or stands alone
    messages = {key: row for row in lists.get("message", ()) for key in (row.id, *row.copies)}
    claims: dict[str, ScoredRow] = {}
    of_several, unfound = list[ScoredRow](), list[ScoredRow]()
    for claim in lists.get("observation", ()):
        ids = claim.row.get("message_ids") or []
        there = [messages[key] for key in ids if key in messages]
        source = next((row for row in there if len(ids) == 1 or has_words(row.text, claim.text)), None)
        if source is not None:
            claims.setdefault(source.id, claim)
        else:
            (of_several if there else unfound).append(claim)
    # one list, its scores reciprocal ranks
    evidence = [replace(row, claim=claims.get(row.id)) for row in lists.get("message", ())]
    turns = (row for turn in zip_longest(evidence, of_several) for row in turn if row is not None)
    texts = [row.text for row in evidence]
    summaries = [row for row in lists.get("summary", ()) if not any(has_words(text, row.text) for text in texts)]
    merged = chain(turns, unfound, summaries, lists.get("topic", ()))
    return [replace(row, score=1 / (k + rank)) for rank, row in enumerate(merged, 1)]


def trace_places(stages: Mapping[str, Sequence[ScoredRow]]) -> dict[str, dict[str, Mapping[str, float]]]:
    """Return of each hit what each signal added to its score, and its place after each stage, from 1."""
    found = {row.id: {"signals": row.contributions, "places": dict[str, float]()} for row in chain(*stages.values())}
    for name, rows in stages.items():
        for place, row in enumerate(rows, 1):
            cast(dict[str, float], found[row.id]["places"])[name] = place
    return found


def mask_candidates_in_time(candidates: Candidates, times: QueryTimes) -> Mask:
    """Return which rows of a pool lie in a time that the query names."""
    edges = candidates.pool.first, candidates.pool.last
    return times.mask_inside(*(convert_datetimes([row[name] for row in candidates.rows]) for name in edges))


def score_by_time_alone(candidates: Candidates, scores: Scores, times: QueryTimes) -> ScoredPool:
    """Return the candidates of a query for nothing but a time: what was said then comes first, and is relevant, as what
    names that time is.
    """
    inside, text = mask_candidates_in_time(candidates, times), candidates.pool.text
    named = np.array([times.is_named_in(str(row[text])) for row in candidates.rows], dtype=bool)
    relevance = (inside | named).astype(np.float64)
    first = np.where(inside, scores, scores - np.ptp(scores) - 1.0)
    return ScoredPool(candidates, first, relevance, float(relevance.max()))
