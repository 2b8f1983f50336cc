"""One release asked one or more questions: the hits with their sources, best first. In this order:

    plan              names spelt as in memory, the times named, kinds that can answer, vectors (`plan.py`)
    conditions        rows that do not pass are never scored (`filters.py`)
    score             of each kind a weighted sum of signals (`retrieve/candidates.py`)
    relevance         on the release's scale, by cosine and words: whether who did not ask gets anything, and what is of
                      a time that the query names
    kinds             messages first, by score; claims beside them (`ranking/order.py`)
    rerank            by a model, where one was given
    order             a newer hit before the one that it changed, what is of the time asked about first, superseded
                      hits and mere questions last (`ranking/order.py`)
    sources           each hit with the messages that it stands on (`ranking/sources.py`)

A search lives as long as its questions and reads one view throughout, so that a release that arrives meanwhile changes
nothing under it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol, TypeVar

import numpy as np

from slowwave.recall.filters import explain_empty_filters, place_query
from slowwave.recall.hits import CONFIDENT, GROUPS, Hits, Kind
from slowwave.recall.plan import plan_query
from slowwave.recall.query import Query, QueryPlan, Vector
from slowwave.recall.ranking.order import ABOUT, add_successors, merge_kinds, order, trace_places
from slowwave.recall.ranking.sources import build_hits
from slowwave.recall.release.view import View
from slowwave.recall.retrieve.candidates import (
    POOLS,
    Candidate,
    Candidates,
    PassageEvidence,
    compute_passage_evidence,
    retrieve_claims,
    retrieve_groups,
    retrieve_messages,
)
from slowwave.recall.sessions import SessionHits, find_sessions
from slowwave.schemas.errors import READ_TROUBLE
from slowwave.schemas.settings import RecallSettings
from slowwave.schemas.tables import PASSAGES, Table

T = TypeVar("T")


class Reranker(Protocol):
    """Anything that scores texts by how well they answer a query; none ships (`docs/decisions/003-blocks.md`)."""

    def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Return one score a text, in the texts' order; higher is better, equal ones stay in their order."""
        ...


class Search:
    """What a view answers."""

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
            note: told what could not be used.
            reranker: orders the first hits of each answer anew.
        """
        self.view, self.settings, self._encode, self._note = view, settings, encoded, note
        self._reranker = reranker

    def answer_queries(self, queries: Sequence[Query], *, automatic: bool = False) -> list[Hits]:
        """Return one answer a query, in order; their texts are encoded together."""
        return [self._answer_query(plan, automatic) for plan in self._plan_queries(queries)]

    def answer_sessions(self, query: Query, *, automatic: bool = False) -> SessionHits:
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
        return SessionHits(find_sessions(self.view, plan, evidence, candidates), relevance=candidates.best)

    def _plan_queries(self, queries: Sequence[Query]) -> list[QueryPlan]:
        """Return the queries' plans with their vectors, made in one call of the encoder."""
        plans = [plan_query(self.view, place_query(self.view, query)) for query in queries]
        texts = {text for plan in plans if plan.kinds for text in (plan.nameless_text, plan.query.text)}
        vectors = self._encode(sorted(texts)) if texts else {}
        return [
            replace(plan, nameless_vector=vectors.get(plan.nameless_text), full_vector=vectors.get(plan.query.text))
            for plan in plans
        ]

    def _answer_query(self, plan: QueryPlan, automatic: bool) -> Hits:
        """Return the hits of a query, in order; none, and why, where there is nothing or, unasked, nothing above the
        floor. A query for a time alone is answered by what is of that time; by the nearest, where nothing is.
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

        # the best of each kind as one list
        depth = max(query.k, ABOUT)  # whoever asks for fewer gets the first of the same
        rows = merge_kinds([kind.select_best(depth, self.view.is_copy) for kind in by_kind if kind.rows])
        least = self.settings.automatic_floor if automatic else 0.0
        of_time = plan.is_time_only and any(row.relevance for row in rows)
        rows = [row for row in rows if row.relevance >= least and (row.relevance or not of_time)]
        if not rows:  # the nearest is none of the best
            return Hits(reason="nothing relevant among what was found", relevance=best)
        first = self._rerank(query, rows[:depth])

        # what changed another before it, and the sources of those that are shown
        ordered = order(self.view, add_successors(self.view, first, query), query)
        hits = Hits(build_hits(self.view, ordered[: query.k]), relevance=best)
        hits.trace = trace_places({"by signals": rows, "in order": ordered})
        return hits

    def _compute_evidence(self, plan: QueryPlan) -> PassageEvidence | None:
        """Return the evidence for a query at every passage; None where neither messages nor claims are to answer."""
        if GROUPS.issuperset(plan.kinds):
            return None
        search = partial(compute_passage_evidence, self.view, plan, self.settings.fade)
        return self._try_full_text(PASSAGES, search)

    def _score_kind(self, kind: Kind, plan: QueryPlan, evidence: PassageEvidence | None) -> Candidates:
        """Return the candidates of a kind with their scores and relevance."""
        pool, times, limit = POOLS[kind], plan.query.times, max(100, 2 * plan.query.k)
        # what the indexes find, and its scores
        if evidence is None or kind in GROUPS:
            of_groups = partial(retrieve_groups, self.view, plan, pool, limit)
            candidates = self._try_full_text(pool.table, of_groups)
        elif kind == "message":
            candidates = retrieve_messages(self.view, plan, limit, evidence, self.settings.vector)
        else:
            of_claims = partial(retrieve_claims, self.view, plan, limit, evidence, self.settings.later)
            candidates = self._try_full_text(pool.table, of_claims)
        if not candidates.rows:
            return candidates
        # relevance on the release's scale, 0 to 1: by a row's cosine and the share of the query's words heard there, or
        # by the share alone; and that of what is nearest to the whole query, candidate or not
        relevance, nearest = candidates.covered, 0.0
        if (scale := self.view.scales.get(kind)) is not None and candidates.cosine is not None:
            cosines = np.append(np.nan_to_num(candidates.cosine, nan=-1.0), candidates.nearest)
            relevances = scale.compute_relevances(cosines, np.append(candidates.covered, 0.0))
            relevance, nearest = relevances[:-1], float(relevances[-1])
        # of a time that is named what was said then comes first; messages and claims know it already, unless nothing
        # else is asked for: then it alone is relevant, as what names that time is
        if times is not None and (plan.is_time_only or kind in GROUPS):
            inside = times.mask_inside([(row[pool.first], row[pool.last]) for row in candidates.rows])
            if plan.is_time_only:
                named = np.array([times.is_named_in(str(row[pool.text])) for row in candidates.rows], dtype=bool)
                relevance, nearest = (inside | named).astype(np.float64), 0.0
            last = ~(inside & (relevance >= CONFIDENT))
            lowered = {"time": last * -(np.ptp(candidates.scores) + 1.0)}
            candidates = replace(candidates, contributions={**candidates.contributions, **lowered})
        return replace(candidates, relevance=relevance, best=max(float(relevance.max()), nearest))

    def _explain_floor(self, plan: QueryPlan, best: float) -> str | None:
        """Return the reason why nothing is relevant enough for who did not ask; None where something is."""
        floor = self.settings.automatic_floor
        if best >= floor:
            return None
        if plan.is_time_only:
            return "nothing in memory is of the time that is asked about"
        reached = math.floor(best * 100) / 100  # rounded, it might read as the floor
        return f"nothing relevant: the nearest memory reaches {reached:.2f}, the floor is {floor:.2f}"

    def _rerank(self, query: Query, rows: list[Candidate]) -> list[Candidate]:
        """Return rows in the order of the reranker, where there is one; as they were, and noted, where it fails."""
        if self._reranker is None or not rows:
            return rows
        try:
            # it reads the day and the speaker, which a query may name, and the claim or the passage
            texts = []
            for row in rows:
                at, speaker = row.edges[1], row.row.get("speaker")
                text = f"{speaker}: {row.text}" if speaker else row.text
                texts.append(f"{at:%Y-%m-%d} {text}" if at else text)
            scores = [float(score) for score in self._reranker.rerank(query.text, texts)]
            if len(scores) != len(rows) or not all(map(math.isfinite, scores)):
                raise ValueError("not one finite number for each text")
        except Exception as trouble:  # it may be anybody's code
            reason = " ".join(str(trouble).split()) or type(trouble).__name__
            name = type(self._reranker).__name__
            self._note(f"the reranker {name} failed ({reason}): answered in recall's own order")
            return rows
        return [rows[at] for at in sorted(range(len(rows)), key=lambda at: -scores[at])]

    def _try_full_text(self, table: Table, search: Callable[[bool], T]) -> T:
        """Return the result of a search that is told whether it may ask a table's full text; if that turns out to be
        broken, its result without.
        """
        full_text, unreadable = self.view.has_full_text(table), f"full text of {table.name} can't be read"
        if not full_text:
            broken = self.view.find_broken_index(table)
            trouble = f"{unreadable} ({broken})" if broken else f"{table.name} has no full-text index"
            self._note(f"{trouble}: answered by vectors alone")
        try:
            return search(full_text)
        except READ_TROUBLE as error:
            if not full_text:
                raise
            self._note(f"{unreadable} ({error}): answered by vectors alone")
            return search(False)


def explain_no_rows(plan: QueryPlan) -> str:
    """Return the reason why there are no candidates."""
    return "nothing in memory matches" if plan.kinds else "nothing of that kind is in memory yet"
