"""The candidates of each kind, what each signal says of them, and the weighted sum of signals that is their score.

    words, each looked up in full text, heard over neighbouring passages
    the nearest passages by vector                                        → candidates, each with every signal
    passages said on a date that the query names                          → standardised, weighted, summed

Full text is read as a conversation. Each word is looked up by itself. A passage gets, for each word, the best BM25 that
it or a neighbour has for it, a neighbour's faded by distance; so a word counts once in a stretch of talk, and a passage
between two that hold half of the query each gets all of it. A message also hears what a model wrote in the detail of a
claim that rests on it. (A plain sum over neighbours counts one frequent word many times: LoCoMo evidence recall @10
goes from 73 to 77 with the sum, to 81 with the best.)

A claim is terse ("approved, go with MessagePack"), and what it is about is said around it. So it is scored by what it
hears where it was said (the words of the query in that stretch of talk, the vector of its message) and by its own
vector; the named speaker's own words, a statement of some length and the later of two equals weigh a little. If one of
these is missing (no encoder, no full text of passages), the claim's own words count instead. Summaries and topics are
scored by their own words and vectors.

Weights were found on LoCoMo's open part and kept round (`docs/decisions/002-ranking-and-silence.md`).
`docs/decisions/001-claims.md` tells what each signal of claims is worth.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, reduce
from itertools import islice
from operator import and_
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.recall.hits import CodeCheck, Kind, Successor
from slowwave.recall.query import Ints, Mask, Query, QueryPlan, only_asks, says_little
from slowwave.recall.release.tables import PassageIndex, match_any
from slowwave.recall.release.view import View
from slowwave.recall.retrieve.rows import (
    MAX_WORDS,
    MaskedRows,
    Nearness,
    Rows,
    Scores,
    find_claims,
    find_passages,
    search_words,
    select_top,
)
from slowwave.schemas.tables import (
    CHAIN,
    CLAIMS,
    GATES,
    PASSAGES,
    SUMMARIES,
    TOPICS,
    TRUST,
    UTC_US,
    ChainRow,
    Table,
)
from slowwave.schemas.vocabulary import Role, rank_trust
from slowwave.text.words import compute_idf, compute_word_shares, split_words

MESSAGE_WEIGHTS = {
    "lexical": 1.0,
    "vector": 0.6,
    "speaker": 0.35,
    "length": 0.6,
    "own": 1.5,
}
"""Weights of the standardised signals of messages; `own` tells a statement from its echo (`compute_own`)."""
WELL_HEARD = 0.5
LEAST_WORDS = 0.5
"""Share of the query's words at the passage that hears most of them, below which words weigh less; and the least factor
on their weight. A question in other words than the memory's shares only its common words with it, which tell little."""
ANSWERED = 2.0
"""Factor by which the vector's weight grows with the share of candidates that an assistant said. Talk with an assistant
has whole statements, which a vector tells apart; friends' short turns are understood by the words around them."""
OTHER = 1.5
"""Factor on the vector's weight with the multilingual encoder in another language than English, whose words have more
forms than are looked up. There a session in which nobody else speaks counts as talk with an assistant."""
CLAIM_WEIGHTS = {
    "lexical": 1.0,
    "vector": 1.0,
    "message": 1.0,
    "words": 0.3,
    "speaker": 0.35,
    "length": 0.5,
}
"""Weights of the standardised signals of claims; `message` is the vector of a claim's message."""

DATED = 2.0
"""Weight of a date against an equally rare word."""
LONG = 40
"""Words from which a longer passage is no better: a short one is mostly phatic, a long one is not more to the point."""
BEHIND = 1e-6
"""How much less an acknowledgement is worth than what it acknowledges."""
ALONE_FADE = 0.5
"""What is left of a word one passage further on, for a query in another language than English, in a session in which
nobody else speaks."""
REACH = 6
"""Neighbours on either side whose words count for a passage."""
SATURATED = 2.2
"""What BM25 gives at most, in units of a word's rarity, to a passage that names it again and again (k1 + 1)."""


@dataclass(frozen=True)
class Pool:
    """Where hits of one kind are searched."""

    kind: Kind
    table: Table
    owner: str
    """The column a hit's id comes from: several passages belong to one message."""
    first: str
    last: str
    """When it was said: rows that overlap since … until are kept, rows without a time are not."""
    columns: tuple[str, ...]

    @property
    def text(self) -> str:
        """The column full text searches."""
        return self.table.full_text or ""


CLAIM_COLUMNS = (
    "claim_id",
    "summary",
    "observed_at",
    "status",
    "message_ids",
    "speaker",
    "workspace",
    TRUST,
    *GATES,
    *CHAIN,
)
PASSAGE_COLUMNS = (
    "passage_id",
    "message_id",
    "session_id",
    "speaker",
    "workspace",
    "text",
    "ts",
    TRUST,
    *CHAIN,
)
SUMMARY_COLUMNS = (
    "summary_id",
    "text",
    "scope",
    "scope_id",
    "tier",
    "member_ids",
    "first_at",
    "last_at",
    "workspace",
    TRUST,
)
TOPIC_COLUMNS = (
    "topic_id",
    "name",
    "text",
    "samples",
    "first_at",
    "last_at",
    "workspace",
)
POOLS: Mapping[Kind, Pool] = {
    pool.kind: pool
    for pool in (
        Pool(
            kind="claim",
            table=CLAIMS,
            owner="claim_id",
            first="observed_at",
            last="observed_at",
            columns=CLAIM_COLUMNS,
        ),
        Pool(
            kind="message",
            table=PASSAGES,
            owner="message_id",
            first="ts",
            last="ts",
            columns=PASSAGE_COLUMNS,
        ),
        Pool(
            kind="summary",
            table=SUMMARIES,
            owner="summary_id",
            first="first_at",
            last="last_at",
            columns=SUMMARY_COLUMNS,
        ),
        Pool(
            kind="topic",
            table=TOPICS,
            owner="topic_id",
            first="first_at",
            last="last_at",
            columns=TOPIC_COLUMNS,
        ),
    )
}


class CandidateRow(ChainRow, total=False):
    """A row of one of the POOLS, and what a search adds to it."""

    claim_id: str
    summary: str
    observed_at: datetime | None
    status: str | None
    message_ids: list[str]
    reusable: bool | None
    non_trivial: bool | None
    specific: bool | None
    passage_id: str
    message_id: str
    session_id: str
    speaker: str | None
    workspace: str | None
    text: str | None
    ts: datetime | None
    trust: str | None
    summary_id: str
    scope: str
    scope_id: str
    tier: int
    member_ids: list[str]
    topic_id: str
    name: str | None
    samples: list[str]
    first_at: datetime | None
    last_at: datetime | None
    position: int
    superseded_by: str | None
    perhaps_superseded_by: str | None
    successor: Successor | None
    not_in_code: tuple[CodeCheck, ...]


def read_column(row: CandidateRow, name: str) -> Any:
    """Return a column that a pool names, such as the text of its kind."""
    return cast(Mapping[str, Any], row)[name]


@dataclass(frozen=True)
class Candidate:
    """A row that may answer: its kind, the id of its hit, its columns, its score."""

    kind: Kind
    id: str
    row: CandidateRow
    score: float
    relevance: float = 0.0
    covered: float = 0.0
    """Share of the query's words, by their worth, that it hears; 0 to 1."""
    claim: "Candidate | None" = None
    """The best claim found that was made of this message."""
    contributions: Mapping[str, float] = field(default_factory=dict)
    """What each signal added to its score, before it became one with those of other kinds."""
    copies: tuple[str, ...] = ()
    """Ids of other messages in the same words, by the same speaker and of the same workspace."""
    beside: "Candidate | None" = None
    """The other message of this one's turn (`recall/turns.py`)."""
    is_alone: bool = False
    """Whether a message with another beside is cited alone."""

    @property
    def ids(self) -> tuple[str, ...]:
        """The id of a message, and those of its copies and of the other one of its turn."""
        beside = () if self.beside is None else (self.beside.id, *self.beside.copies)
        return (self.id, *self.copies, *beside)

    @property
    def nearness(self) -> float:
        """The score without whose words it is, which says nothing of the matter."""
        return self.score - self.contributions.get("own", 0.0)

    @property
    def meaning(self) -> float:
        """What its vector adds to its score; 0 if unknown."""
        return self.contributions.get("vector", 0.0)

    @property
    def text(self) -> str:
        """The text that full-text search reads: the claim, the passage or the summary."""
        return str(read_column(self.row, POOLS[self.kind].text))

    @property
    def edges(self) -> tuple[datetime | None, datetime | None]:
        """When it was said, from first to last."""
        pool = POOLS[self.kind]
        return read_column(self.row, pool.first), read_column(self.row, pool.last)

    @property
    def seconds(self) -> float:
        """When it was said last, since 1970; 0 if unknown."""
        last = self.edges[1]
        return last.timestamp() if last is not None else 0.0


@dataclass(frozen=True)
class Candidates:
    """The rows of one kind that some index found; arrays and rows are aligned."""

    pool: Pool
    rows: list[CandidateRow] = field(default_factory=list)
    contributions: Mapping[str, Scores] = field(default_factory=dict)
    """What each signal adds to each row's score."""
    covered: Scores = field(default_factory=lambda: np.zeros(0))
    """Share of the query's words, by their worth, that each row hears; 0 to 1."""
    cosine: Scores | None = None
    """Cosine of each row to the query, the nearer of with and without names; NaN for a row without a vector; None
    without an encoder. Relevance is computed from it."""
    nearest: float = -1.0
    """Cosine of the nearest of all rows to the whole query, if it is known."""
    relevance: Scores = field(default_factory=lambda: np.zeros(0))
    """0 to 1 a row, on the release's scale."""
    best: float = 0.0
    """Relevance of the most relevant row, candidate or not."""

    @cached_property
    def scores(self) -> Scores:
        """The sum of what the signals add."""
        total: Scores = np.sum(list(self.contributions.values()), axis=0)
        return total

    def select_best(
        self,
        depth: int,
        is_copy: Callable[[str, str], bool],
    ) -> list[Candidate]:
        """Return the best rows, one an owner, best first: of several passages of a message the best.

        Messages that are copies of an earlier one (`View.is_copy`) are left out; of several in the same words the best
        stands for all.
        """
        alike = self._group_alike(self._find_best_of_owners(), is_copy)
        return [
            self._make_candidate(at, copies)
            for at, *copies in islice(alike.values(), depth)
        ]

    def _find_best_of_owners(self) -> list[int]:
        """Return the best row of each owner, by falling score; equal ones by trust, then by key."""
        keys = np.array(
            [str(read_column(row, self.pool.table.key)) for row in self.rows]
        )
        trust = np.array([rank_trust(row.get(TRUST)) for row in self.rows])
        best = dict[str, int]()
        for at in np.lexsort((keys, trust, -self.scores)).tolist():
            best.setdefault(self._get_owner(at), at)
        return list(best.values())

    def _group_alike(
        self,
        best: Sequence[int],
        is_copy: Callable[[str, str], bool],
    ) -> dict[object, list[int]]:
        """Return the rows with messages in the same words together, and without copies of an earlier message."""
        alike = dict[object, list[int]]()
        for at in best:
            row = self.rows[at]
            if self.pool.kind != "message":
                alike[self._get_owner(at)] = [at]
            elif not is_copy(str(row["session_id"]), str(row["text"])):
                text = " ".join(str(row["text"]).split())
                words = (row["workspace"], row["speaker"], text)
                alike.setdefault(words, []).append(at)
        return alike

    def _make_candidate(
        self,
        at: int,
        copies: Sequence[int],
    ) -> Candidate:
        """Return a row as a candidate, with the rows that are copies of it."""
        return Candidate(
            kind=self.pool.kind,
            id=self._get_owner(at),
            row=self.rows[at],
            score=float(self.scores[at]),
            relevance=float(self.relevance[at]),
            covered=float(self.covered[at]),
            contributions={
                name: float(part[at]) for name, part in self.contributions.items()
            },
            copies=tuple(self._get_owner(other) for other in copies),
        )

    def _get_owner(self, at: int) -> str:
        """Return the id of a row's hit: of a passage its message's."""
        return str(read_column(self.rows[at], self.pool.owner))


def weigh_signals(
    signals: Mapping[str, Scores],
    weights: Mapping[str, float],
) -> dict[str, Scores]:
    """Return each signal's share of each row's score: standardised over the rows (mean 0, deviation 1) and weighted.

    Unlike ranks, scores keep by how much one row beats the next. A row that a signal does not know (NaN) gets that
    signal's mean; a signal that is the same everywhere says nothing.
    """
    contributions = {}
    for name, signal in signals.items():
        is_known = ~np.isnan(signal)
        contributions[name] = np.zeros(len(signal))
        if is_known.any() and (spread := float(signal[is_known].std())) >= 1e-12:
            scaled = np.where(
                is_known, (signal - signal[is_known].mean()) / spread, 0.0
            )
            contributions[name] = weights[name] * scaled
    return contributions


def score_words(
    view: View,
    query: Query,
    allowed: Mask,
    of_time: Set[str] = frozenset(),
    *,
    fade: float = 0.75,
) -> tuple[Scores, Scores]:
    """Return every passage's score by the query's words, and the share of the query's content words that it has.

    A passage's score is the sum over the words of the best BM25 of the word near the passage. The share, 0 to 1, weighs
    each content word by its BM25. A word that nobody ever said counts as the rarest.

    Stop words ("what do we use") are not content words. Neither are names of speakers and workspaces, since what is
    asked about Ann is said by Ann, who does not name herself, nor words that name a time in which something was said
    (`of_time`). If no content word is left, the names count, or else the stop words. A word's BM25 is multiplied by
    `fade` for each passage further on.
    """
    layout = view.passages
    words = query.index_terms[:MAX_WORDS]
    content = _select_content_words(layout, query, of_time)
    count = len(layout.row_ids)
    total, content_total, best = (np.zeros(count) for _ in range(3))
    fades = np.where(layout.is_alone & query.is_foreign, ALONE_FADE, fade)
    bound = 0.0
    for word, (positions, scores) in zip(
        words, _search_all_words(view, query), strict=True
    ):
        reached = _spread_to_neighbours(
            layout=layout, best=best, positions=positions, scores=scores, fades=fades
        )
        if word in layout.workspace_words:
            here = _raise_in_workspaces(layout, best, word)
            reached = np.concatenate([reached, here])
        total[reached] += best[reached]  # once a position, however often it is named
        if word in content:
            content_total[reached] += best[reached]
            rarest = compute_idf(0, count)
            bound += float(best[reached].max()) if len(reached) else rarest
        best[reached] = 0.0
    total[~allowed] = content_total[~allowed] = 0.0
    return total, np.divide(content_total, bound or 1.0, out=content_total)


def _search_all_words(view: View, query: Query) -> list[tuple[Ints, Scores]]:
    """Return for each word of a query the positions of the passages that have it, and their BM25.

    If the query is narrowed to one speaker or file, everybody's passages are added: Ben's passages hear what answers
    them.
    """
    lookups = search_words(view, query)
    if not query.is_narrowed:
        return lookups
    unnarrowed = search_words(view, replace(query, speaker=None, files=()))
    joined = []
    for (positions, scores), (more_positions, more_scores) in zip(
        lookups, unnarrowed, strict=True
    ):
        joined.append(
            (
                np.concatenate([positions, more_positions]),
                np.concatenate([scores, more_scores]),
            )
        )
    return joined


def _select_content_words(
    layout: PassageIndex,
    query: Query,
    of_time: Set[str],
) -> Set[str]:
    """Return the content words of a query, without names and times if any is left; all words if it has no content
    word.
    """
    words = query.index_terms[:MAX_WORDS]
    content = set(query.content_words).intersection(words)
    names = layout.speaker_words.keys() | layout.workspace_words.keys()
    return content - names - of_time or content or set(words)


def _spread_to_neighbours(
    layout: PassageIndex,
    best: Scores,
    positions: Ints,
    scores: Scores,
    fades: Scores,
) -> Ints:
    """Raise `best` to one word's scores at the positions that have it, and to the faded scores at their neighbours of
    the same session. Return the positions that were reached; one may occur more than once.
    """
    touched = []
    for offset in range(-REACH, REACH + 1):
        moved = positions + offset
        is_inside = (moved >= 0) & (moved < len(best))
        moved = np.where(is_inside, moved, positions)
        is_same = is_inside & (layout.session[moved] == layout.session[positions])
        faded = scores * fades[positions] ** abs(offset)
        np.maximum.at(best, moved[is_same], faded[is_same])
        touched.append(moved[is_same])
    return np.concatenate(touched)


def _raise_in_workspaces(
    layout: PassageIndex,
    best: Scores,
    word: str,
) -> Ints:
    """Raise `best` to a word's worth at the passages of the workspaces that it names, since nobody there needs to say
    it. Return their positions.
    """
    named = sorted(layout.workspace_words[word])
    here = np.flatnonzero(np.isin(layout.workspace, named))
    worth = compute_idf(len(here), len(best)) * SATURATED
    best[here] = np.maximum(best[here], worth)
    return here


@dataclass(frozen=True)
class PassageEvidence:
    """Every passage's scores by words, dates and vectors, by position; made once a query, for messages and claims."""

    layout: PassageIndex
    allowed: Mask
    lexical: Scores
    """Worth of the query's words; all 0 when full text can't be read."""
    share: Scores | None
    """Share of the query's content words, 0 to 1; None when full text can't be read."""
    dated: Scores
    """Worth of the dates that the query names."""
    near: Nearness
    limit: int
    """Of `top_positions`, how many each kind of evidence gives."""

    def score_words_and_dates(self, positions: Ints) -> Scores:
        """Return the worth of words and dates together at some positions."""
        return self.lexical[positions] + self.dated[positions]

    @cached_property
    def top_positions(self) -> Ints:
        """The positions that some kind of evidence puts among its first, ascending."""
        by_words_and_dates = [
            select_top(worth, self.limit) for worth in (self.lexical, self.dated)
        ]
        return np.unique(
            np.concatenate([*by_words_and_dates, self.near.find_nearest(self.limit)])
        )


def compute_passage_evidence(
    view: View,
    plan: QueryPlan,
    full_text: bool,
) -> PassageEvidence:
    """Return the evidence for a query over all passages; `full_text`: whether its index may be asked."""
    query = plan.query
    rows = find_passages(view, plan.query)
    layout = view.passages
    times = query.times
    dated = np.zeros(len(rows.allowed))
    # passages said on a date that the query names, the more the rarer it is
    for mask in times.build_masks(layout.moment, layout.calendar) if times else []:
        dated += (
            DATED
            * compute_idf(int((mask & rows.allowed).sum()), int(rows.allowed.sum()))
            * (mask & rows.allowed)
        )
    # passages that hear its words
    of_time = times.words if times and dated.any() else frozenset[str]()
    scores = (
        score_words(view=view, query=query, allowed=rows.allowed, of_time=of_time)
        if full_text
        else None
    )
    lexical, share = scores or (np.zeros(len(rows.allowed)), None)
    near = Nearness(rows, plan.nameless_vector)
    return PassageEvidence(
        layout=layout,
        allowed=rows.allowed,
        lexical=lexical,
        share=share,
        dated=dated,
        near=near,
        limit=plan.limit,
    )


def retrieve_messages(
    view: View,
    plan: QueryPlan,
    evidence: PassageEvidence,
) -> Candidates:
    """Return candidates among the passages: those best by words, by dates or by vector.

    The vector of the query with its names ranks nothing: greetings are nearest to it. But it tells whether the memory
    knows whom the query names, and so how relevant a passage is.
    """
    pool = POOLS["message"]
    positions = evidence.top_positions
    if not len(positions):
        return Candidates(pool)
    table = view.take(pool.table, evidence.layout.offsets[positions], pool.columns)
    texts = table["text"]
    signals = _compute_message_signals(
        view=view, query=plan.query, evidence=evidence, texts=texts
    )
    heard = (
        np.zeros(len(positions))
        if evidence.share is None
        else evidence.share[positions]
    )
    # how near they are, with and without the names in the query
    cosine, nearest = compute_named_cosines(
        plan=plan, evidence=evidence, positions=positions, cosine=signals["vector"]
    )
    rows = zip(table.to_pylist(), positions, signals["own"], strict=True)
    return Candidates(
        pool,
        [row | {"position": int(at), "own": float(own)} for row, at, own in rows],
        weigh_messages(
            view=view,
            query=plan.query,
            positions=positions,
            texts=texts,
            signals=signals,
            heard=heard,
        ),
        covered=heard,
        cosine=None if evidence.near.vector is None else cosine,
        nearest=nearest,
    )


def _compute_message_signals(
    view: View,
    query: Query,
    evidence: PassageEvidence,
    texts: pa.ChunkedArray,
) -> dict[str, Scores]:
    """Return the value of each signal for each of the best passages, whose texts are given."""
    positions = evidence.top_positions
    # an assistant's messages are long, whatever they say
    others = ~evidence.layout.mask_role(positions, Role.ASSISTANT)
    length = np.full(len(positions), np.nan)
    length[others] = compute_length(texts.filter(pa.array(others)))
    is_named = evidence.layout.mask_speakers(query.text, positions)
    return {
        "length": length,
        "speaker": is_named.astype(np.float64),
        "lexical": evidence.score_words_and_dates(positions),
        "vector": evidence.near.compute_cosines(positions),
        "own": compute_own(view=view, query=query, positions=positions, texts=texts),
    }


def weigh_messages(
    view: View,
    query: Query,
    positions: Ints,
    texts: pa.ChunkedArray,
    signals: Mapping[str, Scores],
    heard: Scores,
) -> dict[str, Scores]:
    """Return each signal's share of each passage's score, and in another language than English what takes
    acknowledgements down.

    `heard` is the share of the query's content words at each passage, 0 to 1.
    """
    layout = view.passages
    compares_other = view.compares_other(query.language)
    # else words alone tell what answers
    tells_by_vector = compares_other or not (
        query.is_foreign or np.isnan(signals["vector"]).all()
    )
    weights = compute_message_weights(
        by_assistant=layout.mask_role(positions, Role.ASSISTANT),
        is_alone=layout.is_alone[positions] & query.is_foreign,
        is_other=compares_other,
        heard=float(heard.max()) if tells_by_vector else 1.0,
    )
    contributions = weigh_signals(signals, weights)
    if view.is_other(query.language):
        scores: Scores = np.sum(list(contributions.values()), axis=0)
        contributions["acknowledges"] = lower_acknowledgements(
            view=view,
            query=query,
            positions=positions,
            texts=texts.to_pylist(),
            scores=scores,
        )
    return contributions


def lower_acknowledgements(
    view: View,
    query: Query,
    positions: Ints,
    texts: Sequence[str],
    scores: Scores,
) -> Scores:
    """Return corrections of the scores, 0 or less: no acknowledgement ranks above the passage that it acknowledges.

    An acknowledgement says little, and the passage before it in its session does not only ask. It hears the words of
    that passage, and its vector means nothing. An assistant's stands last if that passage isn't a candidate.
    """
    layout = view.passages
    added = np.zeros(len(positions))
    place = {int(at): row for row, at in enumerate(positions)}
    short = [
        row
        for row, at in enumerate(positions)
        if at > 0
        and layout.session[at] == layout.session[at - 1]
        and layout.message[at] != layout.message[at - 1]
        and says_little(texts[row], query)
    ]
    before = positions[short] - 1
    said = view.take(PASSAGES, layout.offsets[before], ["text"])["text"].to_pylist()
    by_assistant = layout.mask_role(positions, Role.ASSISTANT)
    for row, at, text in zip(short, before.tolist(), said, strict=True):
        if only_asks(text) or not (at in place or by_assistant[row]):
            continue
        known = place.get(at)
        bound = scores.min() if known is None else scores[known] + added[known]
        added[row] = min(0.0, bound - scores[row] - BEHIND)
    return added


def compute_message_weights(
    by_assistant: Mask,
    is_alone: Mask,
    is_other: bool,
    heard: float,
) -> dict[str, float]:
    """Return the weights of the signals of messages.

    Args:
        by_assistant: which candidates an assistant said.
        is_alone: which stand for themselves, each.
        is_other: whether the multilingual encoder compares texts in another language than English.
        heard: share of the query's content words at the passage that hears most of them, 0 to 1.
    """
    growth = 1 + ANSWERED * float(by_assistant.mean())
    alone = float(is_alone.mean())
    if is_other:
        # about half of the talk with an assistant is the assistant's
        growth = OTHER * max(growth, 1 + ANSWERED * alone / 2)
    return {
        **MESSAGE_WEIGHTS,
        "lexical": MESSAGE_WEIGHTS["lexical"]
        * max(LEAST_WORDS, min(heard / WELL_HEARD, 1.0)),
        "vector": MESSAGE_WEIGHTS["vector"] * growth,
        "length": MESSAGE_WEIGHTS["length"] * (1 - alone / 2),
    }


def compute_named_cosines(
    plan: QueryPlan,
    evidence: PassageEvidence,
    positions: Ints,
    cosine: Scores,
) -> tuple[Scores, float]:
    """Return each passage's cosine to the query, the nearer of with and without its names; and that of the passage
    nearest to the query with its names, -1 where the query names nobody.
    """
    if plan.vector_with_names is None:
        return cosine, -1.0
    near = replace(evidence.near, vector=plan.vector_with_names)
    nearest = np.nanmax(near.compute_cosines(near.find_nearest(1)), initial=-1.0)
    return np.fmax(cosine, near.compute_cosines(positions)), float(nearest)


def compute_length(texts: pa.ChunkedArray) -> Scores:
    """Return the logarithm of the words of each text, up to LONG: a question may state a fact, so it counts too."""
    words = [min(len(split_words(text)), LONG) for text in texts.to_pylist()]
    return np.log1p(np.array(words, dtype=np.float64))


def compute_own(
    view: View,
    query: Query,
    positions: Ints,
    texts: pa.ChunkedArray,
) -> Scores:
    """Return the share of each passage that is its speaker's own, 0 to 1.

    It is 1 for a person's. An assistant repeats what it answers, at greater length: for its passage it is the share of
    the query's words that the passage holds beyond those in the message that it answers.
    """
    layout = view.passages
    words = query.content_words
    own = np.ones(len(positions))
    others = np.flatnonzero(~layout.mask_role(positions, Role.USER))
    asked = np.array(
        [layout.find_exchange(int(at))[0] for at in positions[others]], dtype=np.int64
    )
    before = view.take(PASSAGES, layout.offsets[asked], ["text"])["text"]
    shares, known = (
        np.array(compute_word_shares(words, column.to_pylist()))
        for column in (texts.take(pa.array(others)), before)
    )
    own[others] = np.clip(shares - known, 0.0, 1.0)
    return own


def retrieve_claims(
    view: View,
    plan: QueryPlan,
    evidence: PassageEvidence,
    full_text: bool,
) -> Candidates:
    """Return candidates among the claims: the nearest, and those made in as many passages that match.

    `full_text`: whether the claims' own full text may be asked; it is if something else is missing.
    """
    pool = POOLS["claim"]
    rows = find_claims(view, plan.query)
    near = Nearness(rows, plan.nameless_vector)
    words = None
    if full_text and (near.vector is None or evidence.share is None):
        words = rows.search_text(plan.query.index_terms, plan.limit)
    claims = _find_claim_candidates(
        view=view,
        rows=rows,
        near=near,
        words=words,
        evidence=evidence,
        limit=plan.limit,
    )
    if not len(claims):
        return Candidates(pool)
    table = view.take(pool.table, claims, pool.columns)
    claim, positions = view.claims.find_claim_positions(claims)
    heard = HeardClaims(
        evidence=evidence, count=len(claims), claim=claim, positions=positions
    )
    signals = {
        **heard.compute_signals(plan.query.text),
        "length": compute_length(table["summary"]),
        "vector": near.compute_cosines(claims),
    }
    if words is not None:
        signals["words"] = _score_by_text(claims, rows.locate(words), words)
    contributions = weigh_signals(signals, CLAIM_WEIGHTS)
    # what the latest claim of a workspace has over the first is not standardised
    contributions["later"] = 0.75 * view.claims.compute_recency(claims)
    return Candidates(
        pool,
        table.to_pylist(),
        contributions,
        covered=_compute_covered(table, heard, plan.query),
        cosine=_compute_nearer(
            plan=plan, near=near, claims=claims, cosine=signals["vector"]
        ),
    )


def _score_by_text(claims: Ints, found: Ints, words: pa.Table) -> Scores:
    """Return the score of the claims' own full text, 0 for a claim that it did not find.

    Args:
        claims: the candidates, in order.
        found: where the rows of `words` stand; all of them are candidates.
        words: what the full text found, with `_score`.
    """
    scores = np.zeros(len(claims))
    scores[np.searchsorted(claims, found)] = words["_score"].to_numpy()
    return scores


def _compute_nearer(
    plan: QueryPlan,
    near: Nearness,
    claims: Ints,
    cosine: Scores,
) -> Scores | None:
    """Return each claim's cosine to the query, the nearer of with and without its names; None without an encoder."""
    if near.vector is None:
        return None
    if plan.vector_with_names is None:
        return cosine
    named = replace(near, vector=plan.vector_with_names)
    return np.fmax(cosine, named.compute_cosines(claims))


def _find_claim_candidates(
    view: View,
    rows: MaskedRows,
    near: Nearness,
    words: pa.Table | None,
    evidence: PassageEvidence,
    limit: int,
) -> Ints:
    """Return the claims that are nearest by vector, that are made in passages that match, and whose own words match."""
    through = view.claims.find_claims_at(evidence.top_positions)
    parts = [near.find_nearest(limit), through[rows.allowed[through]]]
    if words is not None:
        parts.append(rows.locate(words))
    return np.unique(np.concatenate(parts))


@dataclass(frozen=True)
class HeardClaims:
    """What claims hear where they were said: at each claim's passages."""

    evidence: PassageEvidence
    count: int
    claim: Ints
    """Place of the claim among the candidates, for each of `positions`."""
    positions: Ints

    def compute_signals(self, text: str) -> dict[str, Scores]:
        """Return the signals of claims that their passages give, for a query's text."""
        spoken = self.evidence.layout.mask_speakers(text, self.positions)
        return {
            "lexical": self._take_best(
                self.evidence.score_words_and_dates(self.positions)
            ),
            "speaker": self._take_best(spoken.astype(np.float64)),
            "message": self._take_best(
                self.evidence.near.compute_cosines(self.positions)
            ),
        }

    def compute_share(self) -> Scores | None:
        """Return the share of the query's content words at each claim; None if full text can't be read."""
        if self.evidence.share is None:
            return None
        shares = self._take_best(self.evidence.share[self.positions])
        return np.nan_to_num(shares)

    def _take_best(self, values: Scores) -> Scores:
        """Return for each claim the best of the values at its passages; NaN if they are gone."""
        best = np.full(self.count, np.nan)
        np.fmax.at(best, self.claim, values)
        return best


def _compute_covered(
    table: pa.Table,
    heard: HeardClaims,
    query: Query,
) -> Scores:
    """Return the share of the query's words that each claim hears; without full text, the share that it has itself."""
    share = heard.compute_share()
    if share is not None:
        return share
    texts = [f"{row['summary']} {row['speaker'] or ''}" for row in table.to_pylist()]
    return np.array(compute_word_shares(query.index_terms, texts))


def retrieve_groups(
    view: View,
    plan: QueryPlan,
    pool: Pool,
    full_text: bool,
) -> Candidates:
    """Return candidates among summaries or topics: those best by full text or by vector.

    Args:
        full_text: whether the index of full text may be asked.
    """
    query = plan.query
    by_signal = _look_up_groups(view=view, plan=plan, pool=pool, full_text=full_text)
    # one row a key, in order of key, so that what follows does not hang on the order in which an index answers
    by_key = {key: row for rows in by_signal.values() for key, row in rows.items()}
    keys = sorted(by_key)
    signals = {
        name: np.array(
            [rows[key]["_score"] if key in rows else np.nan for key in keys],
            dtype=np.float64,
        )
        for name, rows in by_signal.items()
    }
    content = set(query.content_words)
    words = [word for word in query.index_terms if word in content] or query.index_terms
    return Candidates(
        pool,
        [by_key[key] for key in keys],
        # what an index did not bring has hardly anything of what it looks for
        weigh_signals(
            {name: np.nan_to_num(signal) for name, signal in signals.items()},
            dict.fromkeys(signals, 1.0),
        ),
        covered=np.array(
            compute_word_shares(words, [str(by_key[key][pool.text]) for key in keys])
        ),
        cosine=signals.get("vector"),
    )


def _look_up_groups(
    view: View,
    plan: QueryPlan,
    pool: Pool,
    full_text: bool,
) -> dict[str, dict[str, Any]]:
    """Return the summaries or topics that each index finds, by key: those of full text and of vectors."""
    query = plan.query
    groups = Rows(
        view=view,
        table=pool.table,
        where=_filter_groups(view, query, pool),
        columns=pool.columns,
    )
    found: dict[str, pa.Table] = {}
    if full_text:
        found["text"] = groups.search_text(query.index_terms, plan.limit)
    if plan.full_vector is not None:
        found["vector"] = groups.find_nearest(plan.full_vector, plan.limit)
    return {
        name: {str(row[pool.table.key]): row for row in rows.to_pylist()}
        for name, rows in found.items()
    }


def _filter_groups(
    view: View,
    query: Query,
    pool: Pool,
) -> pc.Expression | None:
    """Return the condition that a summary or topic must meet: of the query's workspace and time, and no part of it
    later than `as_of`. None if there is no condition.
    """
    conditions = [pc.field("text").is_valid()] if pool.kind == "topic" else []
    if query.places:
        conditions.append(match_any("workspace", query.places))
    if query.own_sessions and pool.kind == "summary":
        own = pa.array(view.find_session_ids(query.own_sessions), pa.string())
        conditions.append(~pc.field("scope_id").isin(own))
    if query.since:
        conditions.append(pc.field(pool.last) >= pa.scalar(query.since, UTC_US))
    if query.until:
        conditions.append(pc.field(pool.first) <= pa.scalar(query.until, UTC_US))
    if query.as_of:
        conditions.append(pc.field(pool.last) <= pa.scalar(query.as_of, UTC_US))
    return reduce(and_, conditions) if conditions else None
