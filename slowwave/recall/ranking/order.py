"""Which hit comes first: the hits of one chain of changes together, what is of the time asked about, the best score.

Hits keep their scores; their order is their rank. What a later claim changed, or perhaps did, the night has written
beside each row (`slowwave.recall.release.chains`). Beside a message counts the chain of the claim that was found with
it, since of one message several claims may be made. Where the night linked nothing, two rows that are one sentence with
another value in it, or another figure, are put in order of time.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice, zip_longest
from typing import cast

import numpy as np
from rapidfuzz import fuzz

from slowwave.recall.filters import mask_allowed_claims
from slowwave.recall.hits import CONFIDENT, GROUPS, Kind, Successor, has_words
from slowwave.recall.query import Mask, Query, QueryTimes, convert_datetimes
from slowwave.recall.release.chains import Chains, is_changed, is_linked, is_superseded, mark_changes
from slowwave.recall.release.tables import Row
from slowwave.recall.release.view import View
from slowwave.recall.retrieve.pools import POOLS, Candidates, rank_positions
from slowwave.recall.retrieve.rows import Scores
from slowwave.schemas.tables import CHAIN, OBSERVATIONS
from slowwave.schemas.vocabulary import LINKED, Status
from slowwave.text.words import QUESTION, extract_content_words, extract_stems, stem


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

    @property
    def seconds(self) -> float:
        """When it was said last, since 1970; 0 where that is not known."""
        at = self.row[POOLS[self.kind].last]
        return at.timestamp() if at is not None else 0.0

    @property
    def is_only_question(self) -> bool:
        """Whether it is a message that says hardly anything beside its questions."""
        return self.kind == "message" and "?" in self.text and len(QUESTION.sub(" ", self.text).split()) < MIN_STATED

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
        best: dict[str, int] = {}
        for i in rank_positions(self.scores, self.candidates.ids):
            best.setdefault(owners[i], i)
        # messages in the same words stand together, copies of an earlier one are left out
        alike, parts = dict[object, list[int]](), self.candidates.contributions
        for i in best.values():
            if pool.kind != "message":
                alike[i] = [i]
            elif not is_copy(str(rows[i]["session_id"]), text := str(rows[i]["text"])):
                words = rows[i]["workspace"], rows[i]["speaker"], " ".join(text.split())
                alike.setdefault(words, []).append(i)
        return [
            ScoredRow(
                *(pool.kind, owners[i], rows[i]),
                *(float(self.scores[i]), float(cosine[i]), float(self.relevance[i])),
                contributions={name: float(part[i]) for name, part in parts.items()},
                copies=tuple(owners[other] for other in others),
            )
            for i, *others in islice(alike.values(), depth)
        ]


def merge_kinds(by_kind: Sequence[Sequence[ScoredRow]], k: int = 60) -> list[ScoredRow]:
    """Return lists of several kinds, each best first, as one in which each hit is another piece of evidence; a single
    kind's list is returned as it is.

    Messages lead in their own order: they hold what was said. A claim made of one message, or in a message's own
    words, is attached to it (`ScoredRow.claim`) and takes no place. A claim made of several messages takes turns with
    the messages where one of them was found. Claims of messages that were not found follow; then summaries, without
    those in a found message's own words (as that of a session of one message), and topics.
    Scores become reciprocal ranks, since those of different kinds don't compare.
    """
    lists = {rows[0].kind: rows for rows in by_kind if rows}
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
    """Return by hit what each signal added to its score, and its place after each stage, from 1."""
    traces = {row.id: {"signals": row.contributions, "places": dict[str, float]()} for row in chain(*stages.values())}
    for name, rows in stages.items():
        for place, row in enumerate(rows, 1):
            cast(dict[str, float], traces[row.id]["places"])[name] = place
    return traces


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


ABOUT = 10
"""Hits that are put in order at least, and among which those of a chain stand together: the others are about
other things."""
SAME = 70.0
"""`rapidfuzz.fuzz.ratio` from which two texts are one sentence with another value in it."""
FIGURE = re.compile(r"\d+(?:[.,:]\d+)*")
SITTING = 3600.0
"""Seconds. What another says sooner after is of the same sitting: an answer, mostly, and no newer state of things."""
MIN_STATED = 4
"""Words beside its questions from which a message says something of its own."""
NO_CHAIN: Row = dict.fromkeys(CHAIN)


def order(hits: Sequence[ScoredRow], query: Query, chains: Chains) -> list[ScoredRow]:
    """Return rows in the order in which they are shown, marked with what changed them by the time asked about.

    Of the first ABOUT each stands before the earlier ones that it changes, in place of the best of them. Then what is
    of the time that the query names comes first, and otherwise they stand as they came, best first. Behind all stand
    messages that only ask, as the query does, and behind those what is superseded.
    """
    # each with its chain, its status by the time asked about, and what took its place, or perhaps did
    rows: list[ScoredRow] = []
    for hit in hits:
        chain_of = _read_chain(hit, query, chains)
        gone, linked = is_superseded(chain_of, query.as_of), is_linked(chain_of, query.as_of)
        later = chains.find_successor(chain_of, query.as_of) if gone or linked else None
        marks = {
            "status": Status.SUPERSEDED if gone else Status.ACTIVE,
            "superseded_by": later["observation_id"] if later and gone else None,
            "perhaps_superseded_by": later["observation_id"] if later and linked else None,
            "successor": Successor.from_claim(later) if later else None,
        }
        rows.append(replace(hit, row={**hit.row, **chain_of, **marks}))
    # those that are relevant, and of the time that the query names, or name it
    timely: set[int] = set()
    if (times := query.times) is not None:
        edges = [(row.row[POOLS[row.kind].first], row.row[POOLS[row.kind].last]) for row in rows]
        inside = times.mask_inside(*(convert_datetimes(list(ends)) for ends in zip(*edges, strict=True)))
        relevant = [(row, is_inside) for row, is_inside in zip(rows, inside, strict=True) if row.relevance >= CONFIDENT]
        timely = {id(row) for row, is_inside in relevant if is_inside or times.is_named_in(row.text)}
    # of the first, each before the earlier ones that it changes
    ordered: list[ScoredRow] = []
    for row in rows[:ABOUT]:
        same_time = (at for at, other in enumerate(ordered) if (id(row) in timely) == (id(other) in timely))
        place = next((at for at in same_time if _is_newer(row, ordered[at], query)), len(ordered))
        ordered.insert(place, row)
    ordered += rows[ABOUT:]
    ordered.sort(key=lambda row: (row.row["status"] == Status.SUPERSEDED, row.is_only_question, id(row) not in timely))
    # summaries and topics tell behind each sentence what changed it by then
    for at, row in enumerate(ordered):
        if row.kind in GROUPS:
            text = mark_changes(chains, row.text, str(row.row.get("scope_id") or row.id), query.as_of)
            ordered[at] = replace(row, row={**row.row, "text": text})
    return ordered


def _is_newer(later: ScoredRow, earlier: ScoredRow, query: Query) -> bool:
    """Return whether a row says later what another said of the same workspace: the night linked the two; or it
    linked them as less likely, and the later has most words of the query that the earlier has; or they are one sentence
    with another value in it, or tell of two words of the query with other figures, and the later has all of them: where
    it lacks one, something else is asked for.
    """
    before, after = earlier.seconds, later.seconds
    if earlier.row["superseded_by"] in (later.id, later.claim.id if later.claim else later.id):
        return True  # also where it was said before, and then once more
    if not before < after or later.row["workspace"] != earlier.row["workspace"]:
        return False
    # what the night linked
    linked = earlier.row["chain_id"] is not None and earlier.row["chain_id"] == later.row["chain_id"]
    if linked and not is_changed(earlier.row, query.as_of):
        return False
    if linked and is_changed(earlier.row, query.as_of, LINKED):
        return True
    # one sentence with another value in it, or another figure
    text = later.text
    query_stems, here, words = (
        frozenset(map(stem, extract_content_words(text_of))) for text_of in (query.text, earlier.text, text)
    )
    query_stems &= here
    if linked:
        return len(query_stems) < 2 * len(query_stems & words)
    by_one = later.row.get("speaker") is not None and later.row.get("speaker") == earlier.row.get("speaker")
    figures, others = (set(FIGURE.findall(text_of)) for text_of in (text, earlier.text))
    new_figure = bool(others and figures - others) and len(query_stems) > 1
    alike = new_figure or fuzz.ratio(text, earlier.text) >= SAME
    return (by_one or after - before > SITTING) and query_stems <= words and alike


def add_successors(view: View, hits: Sequence[ScoredRow], query: Query) -> list[ScoredRow]:
    """Return rows with the claims that hold in place of superseded ones, where the query's conditions let them through
    and neither they nor their messages were found.
    """
    there = {key for hit in hits for key in (hit.id, hit.claim and hit.claim.id)}
    rows: list[ScoredRow] = []
    for hit in hits:
        rows.append(hit)
        row = _read_chain(hit, query, view.chains)
        later = view.chains.find_successor(row, query.as_of) if is_superseded(row, query.as_of) else None
        if later is None or not there.isdisjoint((later["observation_id"], *later["message_ids"])):
            continue
        key = str(later["observation_id"])
        offsets = view.find_offsets(OBSERVATIONS, [key]) if "observation" in query.kinds else ()
        if len(offsets) and mask_allowed_claims(view, query)[offsets].all():
            there.add(key)
            rows.append(replace(hit, kind="observation", id=key, row=later, claim=None))
    return rows


def _read_chain(hit: ScoredRow, query: Query, chains: Chains) -> Row:
    """Return the columns CHAIN of what a row says of the query: of a message those of the claim found with it; where
    none was, and it says more than its chain does, only if the claim that changed it has a word of the query.
    """
    row = hit.claim.row if hit.claim is not None else hit.row
    own = NO_CHAIN if row.get("chain_id") is None else {name: row[name] for name in CHAIN}
    if hit.kind != "message" or hit.claim is not None or not is_changed(own) or is_superseded(own):
        return own
    later = chains.find_successor(own, query.as_of)
    return own if later and query.stems & extract_stems(str(later["summary"])) else NO_CHAIN
