"""One release asked one or more questions: the hits with their sources, best first. In this order:

    plan              names spelt as in memory (`retrieve/rows.py`), the times named, kinds that can answer, vectors
    conditions        rows that do not pass are never scored (there too)
    score             of each kind a weighted sum of signals (`retrieve/candidates.py`)
    relevance         on the release's scale, by cosine and words: whether an automatic call returns
                      anything, and what is of a time that the query names
    turns             a person's message and its answer are one hit (`recall/turns.py`)
    kinds             messages first, by score; claims beside them (`merge_kinds`)
    matter            rows of other matters are left out, unless everything or an overview is asked for
                      (`recall/matter.py`)
    rerank            by a model, where one was given
    code              what names a thing that its checkout lost goes behind what is as relevant (`order_hits`)
    order             a newer hit before the one that it likely changed, superseded hits last (`recall/order.py`)
    sources           each hit with the messages that it stands on, in the transcript's own ids (`build_hits`)

"Which linter does galeforce use?" is answered by "linting is flake8", said in a session of that workspace. The encoder
knows no such name, and takes the query for being about something else: it compares the text without names.

Hits keep their scores; their order is their rank. What a later claim changed, or perhaps did, the night has written
beside each row (`release/view.py`). Beside a message counts the chain of the claim that was found with it, since of one
message several claims may be made. Where the night found nothing, two rows that are one sentence with another value in
it, or another figure, are put in order of time.

A search lives as long as its questions and reads one view throughout, so that a release that arrives meanwhile changes
nothing under it.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import chain, zip_longest
from typing import Any, Protocol, TypeVar, cast

import numpy as np
import pyarrow as pa

from slowwave.recall.changed import find_changes
from slowwave.recall.hits import (
    CONFIDENT,
    GROUPS,
    QUOTE_CHARS,
    Fragment,
    Hit,
    Hits,
    Kind,
    Source,
    fold_text,
    has_words,
)
from slowwave.recall.matter import ABOUT, find_changed_since, find_matter
from slowwave.recall.order import mask_repeats, order_hits
from slowwave.recall.prompts import (
    ANSWERS_FILE,
    ASKS_ANSWER,
    OVERVIEW,
    OVERVIEWS_FILE,
    PERSONS_FILE,
    load_prompt_model,
)
from slowwave.recall.query import Query, QueryPlan, QueryTimes, Vector
from slowwave.recall.release.tables import PassageIndex
from slowwave.recall.release.view import (
    WITNESSES,
    View,
)
from slowwave.recall.replies import ReplyPlaces, find_leaning_replies
from slowwave.recall.retrieve.candidates import (
    DATED,
    POOLS,
    Candidate,
    CandidateRow,
    Candidates,
    PassageEvidence,
    compute_passage_evidence,
    read_column,
    retrieve_claims,
    retrieve_groups,
    retrieve_messages,
)
from slowwave.recall.retrieve.rows import (
    Scores,
    correct_names,
    explain_empty_filters,
    resolve_workspace,
    strip_names,
)
from slowwave.recall.sessions import SessionHits, find_sessions
from slowwave.recall.turns import Whose, join_turns
from slowwave.schemas.errors import READ_TROUBLE
from slowwave.schemas.rows import ClaimRow, MessageRow
from slowwave.schemas.settings import RecallSettings
from slowwave.schemas.tables import (
    CLAIMS,
    MESSAGES,
    PASSAGES,
    SUMMARIES,
    TOPICS,
    TRUST,
    Table,
)
from slowwave.schemas.vocabulary import Status
from slowwave.text.languages import ENGLISH
from slowwave.text.times.days import localise

T = TypeVar("T")

HEARD = 1.8
"""Factor that makes the share of the query's words that a row hears its relevance, if the encoder does not read the
row. Half of the words are enough for the default floor."""


class Reranker(Protocol):
    """Anything that scores texts by how well they answer a query; none ships (`docs/decisions/003-blocks.md`)."""

    def rerank(
        self,
        query: str,
        texts: Sequence[str],
    ) -> Sequence[float]:
        """Return one score a text, in the texts' order; higher is better, equal ones stay in their order."""
        ...


class Search:
    """A search over one view."""

    def __init__(
        self,
        view: View,
        settings: RecallSettings,
        encoded: Callable[[Sequence[str]], Mapping[str, Vector]],
        note: Callable[[str], None],
        reranker: Reranker | None = None,
    ) -> None:
        """Set up; nothing is read yet.

        Args:
            encoded: vectors of texts, all in one call; empty when there is no encoder.
            note: called with the reason if something can't be used.
            reranker: orders the first hits of each answer anew.
        """
        self.view = view
        self.settings = settings
        self._encode = encoded
        self._note = note
        self._reranker = reranker

    def answer_queries(
        self,
        queries: Sequence[Query],
        *,
        automatic: bool = False,
    ) -> list[Hits]:
        """Return one answer a query, in order; their texts are encoded together."""
        return [
            self._answer_query(plan, automatic) for plan in self._plan_queries(queries)
        ]

    def answer_sessions(
        self,
        query: Query,
        *,
        automatic: bool = False,
    ) -> SessionHits:
        """Return the sessions most relevant to a query for messages; with `automatic` none, and why, where the best
        relevance is below `automatic_floor`.
        """
        (plan,) = self._plan_queries([query])
        if reason := explain_empty_filters(self.view, plan.query):
            return SessionHits(reason=reason)
        evidence = self._compute_evidence(plan)
        candidates = self._score_kind("message", plan, evidence) if evidence else None
        if evidence is None or candidates is None or not candidates.rows:
            return SessionHits(reason=explain_no_rows(plan))
        if automatic and (reason := self._explain_floor(plan, candidates.best)):
            return SessionHits(reason=reason, relevance=candidates.best)
        return SessionHits(
            find_sessions(
                view=self.view, plan=plan, evidence=evidence, turns=candidates
            ),
            relevance=candidates.best,
        )

    def _plan_queries(self, queries: Sequence[Query]) -> list[QueryPlan]:
        """Return the queries' plans with their vectors, made in one call of the encoder."""
        plans = [
            plan_query(self.view, resolve_workspace(self.view, query))
            for query in queries
        ]
        texts = {
            text
            for plan in plans
            if plan.kinds
            for text in (plan.nameless_text, plan.query.text)
        }
        encoded = self._encode(sorted(texts)) if texts else {}
        vectors = {text: vector for text, vector in encoded.items() if vector.any()}
        return [
            replace(
                plan,
                nameless_vector=vectors.get(plan.nameless_text),
                full_vector=vectors.get(plan.query.text),
                is_unread=plan.nameless_text in encoded
                and plan.nameless_text not in vectors,
            )
            for plan in plans
        ]

    def _answer_query(
        self,
        plan: QueryPlan,
        automatic: bool,
    ) -> Hits:
        """Return the hits of a query, in order; none, and why, if nothing is found or, in an automatic call, nothing
        above the floor. A query for a time alone is answered by what is of that time; by the nearest, if nothing is.
        """
        query = plan.query
        if reason := explain_empty_filters(self.view, query):
            return Hits(reason=reason)
        # of each kind the candidates, scored
        evidence = self._compute_evidence(plan)
        by_kind = [self._score_kind(kind, plan, evidence) for kind in plan.kinds]
        if not any(candidates.rows for candidates in by_kind):
            return Hits(reason=explain_no_rows(plan))
        best = max(candidates.best for candidates in by_kind)
        if automatic and (reason := self._explain_floor(plan, best)):
            return Hits(reason=reason, relevance=best)

        return self._build_answer(
            plan=plan, by_kind=by_kind, best=best, automatic=automatic
        )

    def _build_answer(
        self,
        plan: QueryPlan,
        by_kind: Sequence[Candidates],
        best: float,
        automatic: bool,
    ) -> Hits:
        """Return the best candidates of all kinds as the hits of a query."""
        query = plan.query
        # the best of each kind as one list
        depth = max(query.k, ABOUT)  # a smaller k returns the first of the same hits
        best_of_kinds = [
            self._select_best(plan, kind, depth) for kind in by_kind if kind.rows
        ]
        floor = self.settings.automatic_floor if automatic else 0.0
        since = set[str]()
        if automatic:
            for ranked in best_of_kinds:
                since |= find_changed_since(ranked, floor)
        rows = leave_out_irrelevant(
            rows=merge_kinds(best_of_kinds),
            plan=plan,
            floor=floor,
            since=since,
        )
        if not rows:  # the nearest is none of the best
            return Hits(reason="nothing relevant among what was found", relevance=best)
        first = self._rerank(query, rows[:depth])

        # what changed another before it, and the sources of those that are shown
        ordered = order_hits(self.view, first, query)
        # a report names what happened, and asks for no list of it
        overview = not query.is_report and self._asks(plan, OVERVIEWS_FILE, OVERVIEW)
        shown = ordered
        if not (automatic or query.everything or plan.is_time_only or overview):
            shown = self._select_matter(best_of_kinds, ordered, query)
        shown = shown[: query.k]
        built = build_hits(self.view, shown, query)
        hits = Hits(built, relevance=_find_best_relevance(shown))
        hits.overview = overview
        hits.note_stop(min(len(ordered), query.k))
        hits.trace = trace_places({"by signals": rows, "in order": ordered})
        return hits

    def _select_best(
        self,
        plan: QueryPlan,
        candidates: Candidates,
        depth: int,
    ) -> list[Candidate]:
        """Return the best rows of one kind; of messages one a turn."""
        if candidates.pool.kind != "message":
            return candidates.select_best(depth, self.view.is_copy)
        # a turn has two messages
        rows = candidates.select_best(2 * depth, self.view.is_copy)
        asked = cache(partial(self._find_asked, plan))
        return join_turns(
            layout=self.view.passages, rows=rows, query=plan.query, find_asked=asked
        )[:depth]

    def _find_asked(self, plan: QueryPlan) -> Whose:
        """Return whose words a query likely asks for."""
        for name, asked in (
            (PERSONS_FILE, Whose.PERSON),
            (ANSWERS_FILE, Whose.ASSISTANT),
        ):
            if self._asks(plan, name, ASKS_ANSWER):
                return asked
        return Whose.ANYBODY

    def _asks(
        self,
        plan: QueryPlan,
        name: str,
        least: float,
    ) -> bool:
        """Return True if a query likely asks for what the model of this name was learnt from."""
        encoder = self.view.release.encoder
        model = load_prompt_model(name, encoder)
        is_known = model.reads_vectors_of(encoder)
        vector = plan.full_vector if is_known else None
        return model.compute_probability(plan.query.text, vector) >= least

    def _select_matter(
        self,
        by_kind: Sequence[Sequence[Candidate]],
        ordered: Sequence[Candidate],
        query: Query,
    ) -> list[Candidate]:
        """Return the rows that are about the query's matter, and those that changed one of them."""
        found = [row for rows in by_kind for row in rows]
        is_repeat = mask_repeats(found, query)
        repeats = {
            row.id for row, repeat in zip(found, is_repeat, strict=True) if repeat
        }
        matter = find_matter(
            by_kind,
            repeats,
            self.settings.automatic_floor,
            hears=self.view.has_full_text(PASSAGES),
            timed=query.times is not None,
        )
        changed_by = {
            row.row[column]
            for row in ordered
            if row.id in matter
            for column in ("superseded_by", "perhaps_superseded_by")
        }
        said_by = {
            message
            for key in changed_by
            if key is not None
            for message in self.view.chains.claims[key]["message_ids"]
        }
        return [
            row
            for row in ordered
            if row.id in matter
            or row.id in changed_by
            or not said_by.isdisjoint(row.ids)
            or (row.claim and row.claim.id in changed_by)
        ]

    def _compute_evidence(self, plan: QueryPlan) -> PassageEvidence | None:
        """Return the evidence for a query at every passage; None if neither messages nor claims are to answer."""
        if GROUPS.issuperset(plan.kinds):
            return None
        search = partial(compute_passage_evidence, self.view, plan)
        return self._try_full_text(PASSAGES, search)

    def _score_kind(
        self,
        kind: Kind,
        plan: QueryPlan,
        evidence: PassageEvidence | None,
    ) -> Candidates:
        """Return the candidates of a kind with their scores and relevance."""
        candidates = self._find_candidates(kind, plan, evidence)
        if not candidates.rows:
            return candidates
        relevance, nearest = self._compute_relevance(candidates, plan)
        best = max(float(relevance.max()), nearest)
        candidates = replace(candidates, relevance=relevance, best=best)
        # messages and claims know the time already, unless nothing else is asked for
        times = plan.query.times
        if times is not None and (plan.is_time_only or kind in GROUPS):
            return _raise_timely(candidates, plan, times)
        return candidates

    def _find_candidates(
        self,
        kind: Kind,
        plan: QueryPlan,
        evidence: PassageEvidence | None,
    ) -> Candidates:
        """Return the rows of a kind that the indexes find, with their scores."""
        pool = POOLS[kind]
        if evidence is None or kind in GROUPS:
            of_groups = partial(retrieve_groups, self.view, plan, pool)
            return self._try_full_text(pool.table, of_groups)
        if kind == "message":
            return retrieve_messages(self.view, plan, evidence)
        of_claims = partial(retrieve_claims, self.view, plan, evidence)
        return self._try_full_text(pool.table, of_claims)

    def _compute_relevance(
        self,
        candidates: Candidates,
        plan: QueryPlan,
    ) -> tuple[Scores, float]:
        """Return the relevance of each row on the release's scale, 0 to 1, and that of what is nearest to the whole
        query, candidate or not.

        A row's relevance follows from its cosine and the share of the query's words heard there, or from the share
        alone.
        """
        covered = candidates.covered
        by_words = np.minimum(HEARD * covered, 1.0)
        if plan.is_unread:
            return by_words, 0.0
        scale = self.view.scales.get(candidates.pool.kind)
        if scale is None or candidates.cosine is None:
            return covered, 0.0
        cosines = np.append(
            np.nan_to_num(candidates.cosine, nan=-1.0), candidates.nearest
        )
        relevances = self.view.compute_relevances(
            scale=scale,
            cosines=cosines,
            words=np.append(covered, 0.0),
            language=plan.query.language,
        )
        is_unread = np.isnan(candidates.cosine)
        relevance = np.where(is_unread, by_words, relevances[:-1])
        return relevance, float(relevances[-1])

    def _explain_floor(
        self,
        plan: QueryPlan,
        best: float,
    ) -> str | None:
        """Return why an automatic call returns nothing, or None if something passes the floor."""
        floor = self.settings.automatic_floor
        if best >= floor:
            return None
        if plan.is_time_only:
            return "the memory has nothing from the time of the question"
        reached = math.floor(best * 100) / 100  # rounded, it might read as the floor
        return f"nothing relevant: the nearest memory reaches {reached:.2f}, the floor is {floor:.2f}"

    def _rerank(
        self,
        query: Query,
        rows: list[Candidate],
    ) -> list[Candidate]:
        """Return rows in the order of the reranker, if one is given; as they were, with a note, if it fails."""
        if self._reranker is None or not rows:
            return rows
        try:
            # it reads the day and the speaker, which a query may name, and the claim or the passage
            texts = []
            for row in rows:
                at = row.edges[1]
                speaker = row.row.get("speaker")
                text = f"{speaker}: {row.text}" if speaker else row.text
                texts.append(f"{at:%Y-%m-%d} {text}" if at else text)
            # one finite number for each
            scores = [
                float(score) for score in self._reranker.rerank(query.text, texts)
            ]
            if len(scores) != len(rows) or not all(map(math.isfinite, scores)):
                raise ValueError("not one finite number for each text")
        except Exception as trouble:  # it may be anybody's code
            reason = " ".join(str(trouble).split()) or type(trouble).__name__
            name = type(self._reranker).__name__
            self._note(
                f"the reranker {name} failed ({reason}): answered in recall's own order"
            )
            return rows
        return [rows[at] for at in sorted(range(len(rows)), key=lambda at: -scores[at])]

    def _try_full_text(
        self,
        table: Table,
        search: Callable[[bool], T],
    ) -> T:
        """Return a search's result with a table's full text, or without if that turns out to be broken."""
        full_text = self.view.has_full_text(table)
        unreadable = f"full text of {table.name} can't be read"
        if not full_text:
            broken = self.view.find_broken_index(table)
            trouble = (
                f"{unreadable} ({broken})"
                if broken
                else f"{table.name} has no full-text index"
            )
            self._note(f"{trouble}: answered by vectors alone")
        try:
            return search(full_text)
        except READ_TROUBLE as error:
            if not full_text:
                raise
            self._note(f"{unreadable} ({error}): answered by vectors alone")
            return search(False)


def _raise_timely(
    candidates: Candidates,
    plan: QueryPlan,
    times: QueryTimes,
) -> Candidates:
    """Return candidates of which those said in the time that a query names score higher.

    If the query asks for nothing but a time, what was said then, or names it, is all that is relevant.
    """
    pool = candidates.pool
    edges = [
        (read_column(row, pool.first), read_column(row, pool.last))
        for row in candidates.rows
    ]
    is_inside = times.mask_inside(edges)
    if plan.is_time_only:
        texts = [str(read_column(row, pool.text)) for row in candidates.rows]
        is_named = np.array([times.is_named_in(text) for text in texts], dtype=bool)
        relevance = (is_inside | is_named).astype(np.float64)
        candidates = replace(
            candidates, relevance=relevance, best=float(relevance.max())
        )
    is_raised = is_inside & (candidates.relevance >= CONFIDENT)
    raised: dict[str, Scores] = {"time": DATED * is_raised.astype(np.float64)}
    contributions = {**candidates.contributions, **raised}
    return replace(candidates, contributions=contributions)


def leave_out_irrelevant(
    rows: Sequence[Candidate],
    plan: QueryPlan,
    floor: float,
    since: Set[str],
) -> list[Candidate]:
    """Return rows from a floor of relevance on, then those of `since`, their ids; to a query for a time alone those of
    that time, if there are any.
    """
    of_time = plan.is_time_only and any(row.relevance for row in rows)
    above = [row for row in rows if row.relevance >= floor]
    below = [row for row in rows if row.relevance < floor and row.id in since]
    return [row for row in (*above, *below) if row.relevance or not of_time]


def plan_query(view: View, query: Query) -> QueryPlan:
    """Return the plan, still without vectors: those of many queries are made in one call."""
    # claims alone have a category and a confidence, summaries and topics have neither speaker nor files
    of_claims = query.is_of_claims
    narrowed = query.is_narrowed
    able = [
        kind
        for kind in query.kinds
        if not (of_claims and kind != "claim") and not (narrowed and kind in GROUPS)
    ]
    kinds = tuple(kind for kind in able if view.count(POOLS[kind].table))
    if not kinds:
        return QueryPlan(
            query=query, kinds=kinds, nameless_text=query.text, is_time_only=False
        )
    if query.language != ENGLISH:
        query = replace(query, memory=view.memory_words)
    # names as memory spells them, and the text without them
    try:
        full_text = view.has_full_text(PASSAGES)
        query = correct_names(view, query, full_text=full_text)
        text = strip_names(view, query, full_text=full_text)
    except READ_TROUBLE:  # told of when its words are looked up
        query = correct_names(view, query, full_text=False)
        text = strip_names(view, query, full_text=False)
    # nothing is asked for but what was said at a time, by whomever and wherever: "What did Ann say in May?"
    names = view.passages.speaker_words.keys() | view.passages.workspace_words.keys()
    timed = query.times is not None and query.times.about <= names
    return QueryPlan(query=query, kinds=kinds, nameless_text=text, is_time_only=timed)


def explain_no_rows(plan: QueryPlan) -> str:
    """Return the reason why there are no candidates."""
    return (
        "nothing in memory matches"
        if plan.kinds
        else "nothing of that kind is in memory yet"
    )


def merge_kinds(by_kind: Sequence[Sequence[Candidate]], k: int = 60) -> list[Candidate]:
    """Return lists of several kinds, each best first, as one in which each hit is another piece of evidence; a single
    kind's list is returned as it is.

    Messages lead in their own order: they hold what was said. A claim made of one message, or in a message's own words,
    is attached to it (`Candidate.claim`) and takes no place; so is one made of the other message of its turn, if the
    message itself has none. A claim made of several messages takes turns with the messages if one of them was found.
    Claims of messages that were not found follow; then summaries, without those in a found message's own words (as that
    of a session of one message), and topics. Scores become reciprocal ranks, since those of different kinds don't
    compare.
    """
    lists = {rows[0].kind: rows for rows in by_kind if rows}
    if len(lists) < 2:
        return list(chain(*lists.values()))
    messages = lists.get("message", ())
    placed = _place_claims(lists.get("claim", ()), messages)
    evidence = [replace(row, claim=placed.get_claim(row.id)) for row in messages]
    rows = list[Candidate]()
    for turn in zip_longest(evidence, placed.of_several):
        rows.extend(row for row in turn if row is not None)
    rows += placed.unfound
    for summary in lists.get("summary", ()):
        if not any(has_words(row.text, summary.text) for row in evidence):
            rows.append(summary)
    rows += lists.get("topic", ())
    return [replace(row, score=1 / (k + rank)) for rank, row in enumerate(rows, 1)]


@dataclass(frozen=True)
class PlacedClaims:
    """Where claims stand among the messages that were found."""

    own: dict[str, Candidate] = field(default_factory=dict)
    """By message: the best claim that was made of it."""
    lent: dict[str, Candidate] = field(default_factory=dict)
    """By message: the best claim that was made of the other message of its turn."""
    of_several: list[Candidate] = field(default_factory=list)
    """Claims made of several messages, one of which was found."""
    unfound: list[Candidate] = field(default_factory=list)
    """Claims of messages that were not found."""

    def get_claim(self, message: str) -> Candidate | None:
        """Return the claim that stands beside a message."""
        return self.own.get(message, self.lent.get(message))


def _place_claims(
    claims: Sequence[Candidate],
    rows: Sequence[Candidate],
) -> PlacedClaims:
    """Return for each claim the message that holds it, or that it stands alone."""
    messages = {key: row for row in rows for key in row.ids}
    placed = PlacedClaims()
    for claim in claims:
        ids = claim.row.get("message_ids") or []
        there = [messages[key] for key in ids if key in messages]
        holding = (
            row for row in there if len(ids) == 1 or has_words(row.text, claim.text)
        )
        source = next(holding, None)
        if source is None:
            (placed.of_several if there else placed.unfound).append(claim)
        elif {source.id, *source.copies}.isdisjoint(ids):
            placed.lent.setdefault(source.id, claim)
        else:
            placed.own.setdefault(source.id, claim)
    return placed


def _find_best_relevance(rows: Iterable[Candidate]) -> float:
    """Return the relevance of the most relevant of rows, or of the claims found with them."""
    with_claims = chain.from_iterable((row, row.claim) for row in rows)
    return max((row.relevance for row in with_claims if row), default=0.0)


def trace_places(
    stages: Mapping[str, Sequence[Candidate]],
) -> dict[str, dict[str, Mapping[str, float]]]:
    """Return by hit what each signal added to its score, and its place after each stage, from 1."""
    traces = {
        row.id: {"signals": row.contributions, "places": dict[str, float]()}
        for row in chain(*stages.values())
    }
    for name, rows in stages.items():
        for rank, row in enumerate(rows, 1):
            cast(dict[str, float], traces[row.id]["places"])[name] = rank
    return traces


CLAIM_COLUMNS = [
    "category",
    "detail",
    "quote",
    "files",
    "topic_id",
    TRUST,
    *WITNESSES,
]
MESSAGE_COLUMNS = [
    "session_id",
    "native_id",
    "role",
    "text",
    "utc_offset",
]

MAX_SOURCES = 5
"""Messages named under one summary; more are reached by drilling down."""


def build_hits(
    view: View,
    ranked: Sequence[Candidate],
    query: Query,
) -> list[Hit]:
    """Return rows as hits, all their messages looked up at once, with what had changed by the time asked about."""
    ids = _list_cited(view, ranked)
    messages = _read_messages(view, list(chain(*ids.values())))
    exchanges = _read_exchanges(view, [row for row in ranked if row.kind == "message"])
    facts = _read_facts(view, ranked)
    hits: list[Hit] = []
    for row in ranked:
        cited = [messages[key] for key in ids[row.id] if key in messages]
        fact = facts.get(row.id, {})
        rows, pair = exchanges.get(row.id, (cited, ()))
        hit = _build_hit(
            view=view,
            candidate=row,
            quote=fact.get("quote"),
            messages=rows,
            pair=pair,
        )
        if fact:
            hit = replace(
                hit,
                category=fact["category"],
                detail=fact["detail"],
                files=tuple(fact["files"]),
                confidence=fact["confidence"],
                topic=fact["topic"],
                trust=fact[TRUST],
            )
        if hit.kind == "message":
            hit = replace(hit, trust=view.foreign_messages.get(hit.id, hit.trust))
        hits.append(hit)
    return _add_changes(view=view, hits=hits, exchanges=exchanges, query=query)


def _add_changes(
    view: View,
    hits: Sequence[Hit],
    exchanges: Mapping[str, tuple[list[MessageRow], tuple[Fragment, ...]]],
    query: Query,
) -> list[Hit]:
    """Return hits with what later claims changed of each message, and of the other one of its turn."""
    texts = {hit.id: hit.text for hit in hits if hit.kind == "message"}
    others = {key: cited[1:] for key, (cited, _) in exchanges.items()}
    for row in chain(*others.values()):
        texts[row["message_id"]] = row["text"]
    changes = find_changes(view, texts, query.as_of, places=query.places)
    marked = []
    for hit in hits:
        beside = {
            row["native_id"]: changes.get(row["message_id"], ())
            for row in others.get(hit.id, ())
        }
        pair = tuple(
            replace(one, changes=beside.get(one.message, ())) for one in hit.pair
        )
        marked.append(replace(hit, changes=changes.get(hit.id, ()), pair=pair))
    return marked


def _read_messages(view: View, ids: Sequence[str]) -> dict[str, MessageRow]:
    """Return messages by id, without what a person left out."""
    rows = view.read_by_id(MESSAGES, ids, MESSAGE_COLUMNS)
    for key, row in rows.items():
        row["text"] = view.chains.hide_excluded(key, row["text"])
    return rows


def _list_cited(view: View, ranked: Sequence[Candidate]) -> dict[str, list[str]]:
    """Return the ids of the messages that each row stands on; a message is read in its exchange."""
    groups = {row.id: row.row for row in ranked if row.kind in GROUPS}
    cited = collect_message_ids_below(view, groups)
    for row in ranked:
        if row.kind not in GROUPS:
            cited[row.id] = row.row.get("message_ids") or []
    return cited


class ClaimFacts(ClaimRow, total=False):
    """A claim with the name of its topic."""

    topic: str | None


def _read_facts(view: View, ranked: Sequence[Candidate]) -> dict[str, ClaimFacts]:
    """Return for each row the facts of its claim, or of the claim that was made of a message.

    Facts are `CLAIM_COLUMNS`, the claim's confidence and the name of its topic.
    """
    claims = dict[str, str]()
    for row in ranked:
        if row.claim or row.kind == "claim":
            claims[row.id] = row.claim.id if row.claim else row.id
    offsets = view.find_offsets(CLAIMS, list(claims.values()))
    stored = view.take(CLAIMS, offsets, CLAIM_COLUMNS)
    sure = view.compute_confidences(stored).tolist()
    rows = stored.to_pylist()
    topic_ids = [row["topic_id"] for row in rows if row["topic_id"]]
    topics = view.read_by_id(TOPICS, topic_ids, ["name"])
    facts = dict[str, ClaimFacts]()
    for row, confidence in zip(rows, sure, strict=True):
        topic = topics.get(row["topic_id"], {}).get("name")
        fact = {**row, "confidence": confidence, "topic": topic}
        facts[row[CLAIMS.key]] = cast(ClaimFacts, fact)
    return {key: facts[claim] for key, claim in claims.items() if claim in facts}


def _build_hit(
    view: View,
    candidate: Candidate,
    quote: Any,
    messages: list[MessageRow],
    pair: tuple[Fragment, ...],
) -> Hit:
    """Return a row as a hit; its messages as sources, a message in its exchange. `quote` is that of a claim."""
    row = candidate.row
    kind = candidate.kind
    # what is shown: of a message the whole, of which the passage that was found is quoted
    text = messages[0]["text"] if kind == "message" and messages else candidate.text
    if kind != "claim":
        quote = _read_passage(view, candidate) if kind == "message" else None
    beside = _read_passage(view, candidate.beside) if candidate.beside else None
    sources = _quote_messages(view, messages, filter(None, (quote, beside)))
    role = messages[0]["role"] if messages else None
    utc_offset = messages[0]["utc_offset"] if messages else None
    return Hit(
        kind=kind,
        id=candidate.id,
        text=text,
        score=candidate.score,
        observed_at=localise(candidate.edges[1], utc_offset),
        status=row["status"] or Status.ACTIVE,
        sources=tuple(sources),
        pair=pair,
        relevance=candidate.relevance,
        superseded_by=row["superseded_by"],
        perhaps_superseded_by=row["perhaps_superseded_by"],
        successor=row["successor"],
        not_in_code=row.get("not_in_code", ()),
        claim=candidate.claim.text if candidate.claim else None,
        topic=row.get("name"),
        workspace=row.get("workspace"),
        speaker=None if kind in GROUPS else row.get("speaker") or role,
        trust=row.get(TRUST),
    )


def _read_passage(view: View, candidate: Candidate) -> str:
    """Return the passage of a message that was found, without what a person left out."""
    return view.chains.hide_excluded(candidate.id, candidate.text)


def _quote_messages(
    view: View,
    messages: Sequence[MessageRow],
    quotes: Iterable[str],
) -> list[Source]:
    """Return messages as sources. Each quotes the first of `quotes` that it has, else how it begins."""
    folded = {quote: fold_text(quote) for quote in quotes}
    sources = []
    for message in messages:
        session = message["session_id"]
        said = fold_text(message["text"])
        there = (quote for quote, words in folded.items() if words in said)
        words = next(there, message["text"][:QUOTE_CHARS])
        native = view.native_sessions.get(session) or session
        sources.append(Source(native, message["native_id"], words))
    return sources


def _read_exchanges(
    view: View,
    ranked: Sequence[Candidate],
) -> dict[str, tuple[list[MessageRow], tuple[Fragment, ...]]]:
    """Return for each message that was found itself, with the other one of its turn if that is cited too; and its
    exchange, taken from where they stand.
    """
    if not ranked:
        return {}
    surroundings = {row.id: _find_surroundings(view.passages, row) for row in ranked}
    messages = _read_messages_at(
        view, {at for places in surroundings.values() for at in places.list_offsets()}
    )
    turns = {row.id for row in ranked if row.beside and not row.is_alone}
    replies = {
        places.answered: messages[places.reply]["text"]
        for places in surroundings.values()
        if places.answered and places.reply in messages
    }
    leaning = find_leaning_replies(view, replies)
    exchanges: dict[str, tuple[list[MessageRow], tuple[Fragment, ...]]] = {}
    for key, places in surroundings.items():
        others = [at for at in places.exchange if at != places.own]
        cited = [places.own, *others] if key in turns else [places.own]
        there = [messages[at] for at in cited if at in messages]
        exchanges[key] = (
            there,
            _make_fragments(
                places,
                messages,
                leaning,
            ),
        )
    return exchanges


@dataclass(frozen=True)
class ExchangePlaces:
    """Which messages stand around a message that was found, by their offsets in the table."""

    own: int
    exchange: list[int]
    """A question and its answer, the message itself among them."""
    reply: int | None
    """What was said next to all of them."""
    answered: ReplyPlaces | None
    """Those of the reply, and of what it answers."""

    def list_offsets(self) -> list[int]:
        """Return all offsets."""
        return [self.own, *self.exchange, *([] if self.reply is None else [self.reply])]


def _find_surroundings(layout: PassageIndex, row: Candidate) -> ExchangePlaces:
    """Return the messages around a message that was found."""
    at = row.row["position"]
    exchange = layout.find_exchange(at)
    last = max(at, *exchange, (row.beside or row).row["position"])
    reply = layout.find_reply(last)
    return ExchangePlaces(
        own=int(layout.message[at]),
        exchange=layout.message[exchange].tolist(),
        reply=None if reply is None else int(layout.message[reply]),
        answered=None if reply is None else ReplyPlaces(last, reply),
    )


def _read_messages_at(view: View, offsets: Set[int]) -> dict[int, MessageRow]:
    """Return messages by their offsets in the table, all read at once."""
    places = sorted(at for at in offsets if at >= 0)
    if not places:
        return {}
    ids = view.read_keys(MESSAGES).take(pa.array(places)).to_pylist()
    rows = _read_messages(view, ids)
    return {at: rows[key] for at, key in zip(places, ids, strict=True)}


def _make_fragments(
    places: ExchangePlaces,
    messages: Mapping[int, MessageRow],
    leaning: Set[ReplyPlaces],
) -> tuple[Fragment, ...]:
    """Return a message's exchange. A reply is a part of it if it leans on the message: it may take it back."""
    shown = [at for at in places.exchange if at in messages]
    if places.reply is not None and places.answered in leaning:
        shown.append(places.reply)
    rows = [messages[at] for at in shown]
    return tuple(Fragment(row["role"], row["native_id"], row["text"]) for row in rows)


def collect_message_ids_below(
    view: View,
    summaries: Mapping[str, CandidateRow],
) -> dict[str, list[str]]:
    """Return up to MAX_SOURCES messages below each summary or topic (rows by id, with `member_ids` or `samples`),
    spread over its members.

    Members are summaries of the tier below, claims or messages; each round takes all hits one tier down.
    """
    frontier = {
        key: row.get("member_ids", row.get("samples")) or []
        for key, row in summaries.items()
    }
    while frontier:
        below = view.read_by_id(
            SUMMARIES, list(chain(*frontier.values())), ["summary_id", "member_ids"]
        )
        if not below:
            break
        frontier = {
            key: _descend_one_tier(
                ids, {k: row["member_ids"] for k, row in below.items()}
            )
            for key, ids in frontier.items()
        }
    claims = view.read_by_id(
        CLAIMS, list(chain(*frontier.values())), ["claim_id", "message_ids"]
    )
    messages = {key: row["message_ids"] for key, row in claims.items()}
    return {
        key: _descend_one_tier(ids, messages)[:MAX_SOURCES]
        for key, ids in frontier.items()
    }


def _descend_one_tier(
    ids: Sequence[str],
    members: Mapping[str, list[str]],
) -> list[str]:
    """Return each id replaced by its members (or itself, if it has none), one of each in turn."""
    lists = [members.get(key, [key]) for key in ids[: MAX_SOURCES * 4]]
    spread = (key for turn in zip_longest(*lists) for key in turn if key is not None)
    return list(dict.fromkeys(spread))[: MAX_SOURCES * 4]
