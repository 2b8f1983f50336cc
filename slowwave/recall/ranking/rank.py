"""What was found, put in order: each hit another piece of evidence, the newest of the same first.

Of two hits that are one sentence with another value in it, the later holds, mostly; so too where both tell of two of
the query's words or more, with other figures. Nothing is read of the words: how alike two texts are
(`rapidfuzz.fuzz.ratio`), what words and figures they share, and when each was said. Of 72 facts told anew in the same
sentence a block tells the later first 61 times for 14 before; LoCoMo's answers stay as they were. The time that a query
names is evidence among the rest: what is relevant anyhow and was said then stands above what was said at another time
and does not name that time either.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import chain, islice, zip_longest
from typing import cast

import numpy as np
from rapidfuzz import fuzz

from slowwave.recall.hits import CONFIDENT, Kind, has_words
from slowwave.recall.query import Query
from slowwave.recall.release.columns import Mask
from slowwave.recall.release.doubts import Doubt
from slowwave.recall.release.tables import Row
from slowwave.recall.release.view import View
from slowwave.recall.retrieve.pools import POOLS, Candidates, Scores, select_best_per_owner
from slowwave.recall.times import QueryTimes, convert_datetimes
from slowwave.schemas.tables import PASSAGES
from slowwave.schemas.vocabulary import Status
from slowwave.text.words import extract_content_words, extract_stems, stem

TIMELY = 0.01
"""What a row of the time that a query names has over another: of two reciprocal ranks, that is a hundred places."""
SAME = 70.0
"""`rapidfuzz.fuzz.ratio` from which two texts are one sentence with another value in it."""
ALIKE = 0.75
"""Cosine from which two messages tell of the same. From .7 on LoCoMo's evidence @5 falls 69.7 -> 68.9, from .75 on
-> 69.4; of thirty plain pairs the newer then comes first in 26 for 24 (`bench.recall.newer_first`)."""
LATER = timedelta(hours=1)
"""What another says sooner after is of the same sitting: an answer, mostly, and no newer state of things."""
NAMED = 2
"""Words of the query that two hits have at least, for their figures to be of the same."""
FIGURE = re.compile(r"\d+(?:[.,:]\d+)*")
ABOUT = 10
"""Hits among which that is done: those further down are about something else. So many are put in order at least."""


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

        Messages that are copies of an earlier one (`View.is_copy`) are left out.
        """
        pool, rows = self.candidates.pool, self.candidates.rows
        owners = [str(row[pool.owner]) for row in rows]
        cosine = self.candidates.signals.get("vector", np.full(len(owners), np.nan))
        ranked: Iterable[int] = select_best_per_owner(self.scores, owners, self.candidates.ids)
        if pool.kind == "message":
            ranked = (i for i in ranked if not is_copy(str(rows[i]["session_id"]), str(rows[i]["text"])))
        best, parts = islice(ranked, depth), self.candidates.contributions
        return [
            ScoredRow(
                *(pool.kind, owners[i], rows[i]),
                *(float(self.scores[i]), float(cosine[i]), float(self.relevance[i])),
                contributions={name: float(part[i]) for name, part in parts.items()},
            )
            for i in best
        ]


def merge_kinds(found: Sequence[Sequence[ScoredRow]], k: int = 60) -> list[ScoredRow]:
    """Return lists of several kinds, each best first, as one in which each hit is another piece of evidence; a single
    kind's list is returned as it is.

    Messages lead in their own order: they hold what was said. A claim made of one message, or in a message's own
    words, is attached to it (`ScoredRow.claim`) and takes no place. A claim made of several messages takes turns with
    the messages where one of them was found. Claims of messages that were not found follow, and summaries after them.
    Scores become reciprocal ranks, since those of different kinds don't compare.
    """
    lists = {rows[0].kind: rows for rows in found if rows}
    if len(lists) < 2:
        return list(chain(*lists.values()))
    messages = {row.id: row for row in lists.get("message", ())}
    claims: dict[str, ScoredRow] = {}
    of_several, unfound = list[ScoredRow](), list[ScoredRow]()
    for claim in lists.get("observation", ()):
        ids = cast(list[str], claim.row.get("message_ids") or [])
        there = [messages[key] for key in ids if key in messages]
        source = next((row for row in there if len(ids) == 1 or has_words(_get_text(row), _get_text(claim))), None)
        if source is not None:
            claims.setdefault(source.id, claim)
        else:
            (of_several if there else unfound).append(claim)
    evidence = [replace(row, claim=claims.get(row.id)) for row in messages.values()]
    turns = (row for turn in zip_longest(evidence, of_several) for row in turn if row is not None)
    merged = chain(turns, unfound, lists.get("summary", ()))
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


def boost_scores_by_date(candidates: Candidates, scores: Scores, relevance: Scores, query: Query) -> Scores:
    """Return reciprocal ranks of a pool's rows; what is relevant and of the time that the query names has more."""
    if query.times is None:
        return scores
    return scores + TIMELY * (mask_candidates_in_time(candidates, query.times) & (relevance >= CONFIDENT))


def boost_matching_dates(found: Sequence[ScoredRow], query: Query) -> list[ScoredRow]:
    """Return what was found, best first.

    What is relevant and of the time that the query names, or names it, has more.
    """
    asked = query.times
    if asked is None:
        return list(found)
    timely = _find_timely(found, asked)
    lifted = [
        replace(one, score=one.score + TIMELY) if one.relevance >= CONFIDENT and there else one
        for one, there in zip(found, timely, strict=True)
    ]
    return sorted(lifted, key=lambda one: -one.score)


def _find_timely(found: Sequence[ScoredRow], asked: QueryTimes) -> list[bool]:
    """Return whether each row is of a time, or names it."""
    edges = [(one.row[POOLS[one.kind].first], one.row[POOLS[one.kind].last]) for one in found]
    inside = asked.mask_inside(
        convert_datetimes([first for first, _ in edges]), convert_datetimes([last for _, last in edges])
    ).tolist()
    return [there or asked.is_named_in(_get_text(one)) for one, there in zip(found, inside, strict=True)]


def mark_possible_supersessions(view: View, found: Sequence[ScoredRow], query: Query) -> list[ScoredRow]:
    """Return what was found, with the doubts about it (`perhaps_superseded_by`, what the later says in `successor`,
    and in `told_in` the ids that a hit of the later one may have).
    """
    known = view.doubts
    return [
        _mark_doubt(one, known.find_for_hit(one.kind, one.id, query, one.claim.id if one.claim else None))
        for one in found
    ]


def _mark_doubt(one: ScoredRow, doubts: Sequence[Doubt]) -> ScoredRow:
    if not doubts or one.row.get("superseded_by") is not None:
        return one
    told = {"perhaps_superseded_by": doubts[0].by, "successor": doubts[0].successor, "told_in": doubts[0].told_in}
    return replace(one, row={**one.row, **told})


def compare_messages(view: View, found: Sequence[ScoredRow]) -> dict[frozenset[str], float]:
    """Return the cosine of each two of the first ABOUT messages, by their ids; none where there are no vectors."""
    rows = [row for row in found[:ABOUT] if row.kind == "message"]
    vectors = view.load_vectors(PASSAGES) if len(rows) > 1 else None
    if vectors is None:
        return {}
    offsets = view.passages.offsets[[cast(int, row.row["position"]) for row in rows]]
    near = vectors[0][offsets] @ vectors[0][offsets].T
    return {frozenset((a.id, b.id)): float(near[i, j]) for i, a in enumerate(rows) for j, b in enumerate(rows[:i])}


def promote_newest(
    found: Sequence[ScoredRow], query: Query, cosines: Mapping[frozenset[str], float] | None = None
) -> list[ScoredRow]:
    """Return the same, of the first ABOUT each before the earlier ones that say the same, or that it may change.

    Nothing is hidden, and scores stay in place. What is of the time that the query names stays before what is not.
    """
    asked = query.times
    timely = dict(zip(map(id, found), _find_timely(found, asked), strict=True)) if asked is not None else {}
    ordered: list[ScoredRow] = []
    for one in found[:ABOUT]:
        before = (
            at
            for at, other in enumerate(ordered)
            if timely.get(id(one)) == timely.get(id(other))
            and _is_newer_version(one, other, query, (cosines or {}).get(frozenset((one.id, other.id)), 0.0))
        )
        ordered.insert(next(before, len(ordered)), one)
    return [replace(one, score=at.score) for one, at in zip([*ordered, *found[ABOUT:]], found, strict=True)]


def _is_newer_version(one: ScoredRow, other: ScoredRow, query: Query, cosine: float) -> bool:
    """Return whether a hit says later what another said of the same workspace: another's are other things, however
    alike. The night knows it of some. Else they are one sentence with another value in it, or alike by their vectors
    (`cosine`), and the later has every word of the query that the earlier has: where it lacks one, something else is
    asked for. Or what both tell of the query's words goes with other figures.
    """
    if one.id in cast(frozenset[str], other.row.get("told_in", frozenset())):
        return True  # a word of the query that the linked claim lacks ("use") says nothing
    if not _is_later(one, other):
        return False
    if cosine < ALIKE and fuzz.ratio(_get_text(one), _get_text(other), score_cutoff=SAME) == 0:
        return _has_new_figure(one, other) and _is_about_same(one, other, query)
    asked = query.stems  # last, since it reads both texts
    return asked & extract_stems(_get_text(other)) <= extract_stems(_get_text(one))


def _is_later(one: ScoredRow, other: ScoredRow) -> bool:
    """Return whether a hit was said in the same workspace as another, and later than in one sitting."""
    if "summary" in (one.kind, other.kind) or one.row["workspace"] != other.row["workspace"]:
        return False
    said, before = (cast(datetime | None, row.row[POOLS[row.kind].last]) for row in (one, other))
    if said is None or before is None or said <= before:
        return False
    by_one = one.row.get("speaker") is not None and one.row.get("speaker") == other.row.get("speaker")
    return by_one or said - before > LATER


def _has_new_figure(one: ScoredRow, other: ScoredRow) -> bool:
    """Return whether a hit gives a figure that another, which gives some, does not."""
    figures, others = (set(FIGURE.findall(_get_text(row))) for row in (one, other))
    return bool(others and figures - others)


def _is_about_same(one: ScoredRow, other: ScoredRow, query: Query) -> bool:
    """Return whether a hit has what words of the query another has, some at least, in whatever form."""
    asked, here, there = (
        set(map(stem, extract_content_words(text))) for text in (query.text, _get_text(one), _get_text(other))
    )
    return len(asked & there) >= NAMED and asked & there <= here


def _get_text(one: ScoredRow) -> str:
    return str(one.row[POOLS[one.kind].text])


def sort_superseded_last(found: Sequence[ScoredRow]) -> list[ScoredRow]:
    """Return what is stale after everything that is not, each in its order."""
    return reassign_scores(sorted(found, key=lambda one: one.row.get("status") == Status.SUPERSEDED))


def reassign_scores(found: list[ScoredRow]) -> list[ScoredRow]:
    """Return the same places, with the scores that were given, the highest first."""
    scores = sorted((one.score for one in found), reverse=True)
    return [replace(one, score=score) for one, score in zip(found, scores, strict=True)]
