"""One release asked one or more questions: the hits with their sources, best first.

    conditions        rows that do not pass are never scored (`filters.py`)
    score             of each kind: messages and claims a weighted sum of signals (`retrieve/messages.py`, `claims.py`),
                      summaries and topics reciprocal ranks (`retrieve/pools.py`); relevance is told, and decides only
                      whether who did not ask gets anything
    kinds             messages first, in their own order; claims beside them (`ranking/rank.py`)
    order             what changed another before it, what is of the time asked about (`ranking/order.py`)

A search lives as long as its questions and reads one view throughout, so that a release that arrives meanwhile changes
nothing under it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Protocol

import numpy as np

from slowwave.recall.filters import explain_empty_filters, place_query
from slowwave.recall.hits import CONFIDENT, GROUPS, Hits, Kind
from slowwave.recall.plan import Plan, plan_query
from slowwave.recall.query import Query
from slowwave.recall.ranking.order import ABOUT, add_successors, order
from slowwave.recall.ranking.rank import (
    ScoredPool,
    ScoredRow,
    mask_candidates_in_time,
    merge_kinds,
    score_by_time_alone,
    trace_places,
)
from slowwave.recall.ranking.sources import build_hits
from slowwave.recall.release.view import View
from slowwave.recall.retrieve.claims import retrieve_claim_candidates
from slowwave.recall.retrieve.messages import PassageEvidence, compute_passage_evidence, retrieve_message_candidates
from slowwave.recall.retrieve.pools import (
    POOLS,
    Candidates,
    Pool,
    Scores,
    Vector,
    fuse_reciprocal_ranks,
    retrieve_candidates,
)
from slowwave.recall.sessions import SessionHits, find_sessions
from slowwave.schemas.settings import RecallSettings
from slowwave.store.trouble import READ_TROUBLE


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
        """Return the sessions that a query for messages is likeliest about; where nobody asked, none, and why, under
        the floor.
        """
        (plan,) = self._plan_queries([query])
        if reason := explain_empty_filters(self.view, plan.query):
            return SessionHits(reason=reason)
        said = self._compute_evidence(plan) if plan.kinds else None
        scored = self._score_pool(POOLS["message"], plan, said) if said is not None else None
        if said is None or scored is None or not scored.candidates.rows:
            return SessionHits(reason=explain_no_rows(plan))
        if automatic and (reason := self._explain_floor(plan, scored.best)):
            return SessionHits(reason=reason, relevance=scored.best)
        return SessionHits(find_sessions(self.view, plan, said, scored), relevance=scored.best)

    def _plan_queries(self, queries: Sequence[Query]) -> list[Plan]:
        """Return the queries' plans with their vectors, made in one call of the encoder."""
        plans = [plan_query(self.view, place_query(self.view, query)) for query in queries]
        texts = {text for plan in plans if plan.kinds for text in (plan.text, plan.query.text)}
        vectors = self._encode(sorted(texts)) if texts else {}
        return [replace(one, vector=vectors.get(one.text), whole=vectors.get(one.query.text)) for one in plans]

    def _answer_query(self, plan: Plan, automatic: bool) -> Hits:
        """Return what a query finds, in order; nothing, and why, where there is nothing or, unasked, nothing above the
        floor. A query for a time alone is answered by what is of that time; by the nearest, where nothing is.
        """
        query = plan.query
        if reason := explain_empty_filters(self.view, query):
            return Hits(reason=reason)
        pools = self._search_pools(plan.kinds, plan)
        if not any(pool.candidates.rows for pool in pools):
            return Hits(reason=explain_no_rows(plan))
        best = max(pool.best for pool in pools)
        if automatic and (reason := self._explain_floor(plan, best)):
            return Hits(reason=reason, relevance=best)

        # the best of each kind as one list
        depth = max(query.k, ABOUT)  # whoever asks for fewer gets the first of the same
        rows = merge_kinds([pool.select_best(depth, self.view.is_copy) for pool in pools])
        least = self.settings.automatic_floor if automatic else 0.0
        of_time = plan.is_time_only and any(row.relevance for row in rows)
        rows = [row for row in rows if row.relevance >= least and (row.relevance or not of_time)]
        if not rows:  # the nearest is none of the best
            return Hits(reason="nothing relevant among what was found", relevance=best)
        first = self._rerank(query, rows[:depth])

        # what changed another before it, and the sources of those that are shown
        ordered = order(add_successors(self.view, first, query), query, self.view.chains)
        hits = Hits(build_hits(self.view, ordered[: query.k]), relevance=best)
        hits.trace = trace_places({"by signals": rows, "in order": ordered})
        return hits

    def _rerank(self, query: Query, rows: list[ScoredRow]) -> list[ScoredRow]:
        """Return rows in the order of the reranker, where there is one; as they were, and noted, where it fails."""
        if self._reranker is None or not rows:
            return rows
        try:
            scores = [float(score) for score in self._reranker.rerank(query.text, list(map(format_row, rows)))]
            if len(scores) != len(rows) or not all(map(math.isfinite, scores)):
                raise ValueError("not one finite number for each text")
        except Exception as trouble:  # it may be anybody's code
            reason = " ".join(str(trouble).split()) or type(trouble).__name__
            name = type(self._reranker).__name__
            self._note(f"the reranker {name} failed ({reason}): answered in recall's own order")
            return rows
        return [rows[at] for at in sorted(range(len(rows)), key=lambda at: -scores[at])]

    def _explain_floor(self, plan: Plan, best: float) -> str | None:
        """Return why what was found is not relevant enough for who did not ask; None where it is."""
        floor = self.settings.automatic_floor
        if best >= floor:
            return None
        if plan.is_time_only:
            return "nothing in memory is of the time that is asked about"
        reached = math.floor(best * 100) / 100  # rounded, it might read as the floor
        return f"nothing relevant: the nearest memory reaches {reached:.2f}, the floor is {floor:.2f}"

    def _search_pools(self, kinds: Sequence[Kind], plan: Plan) -> list[ScoredPool]:
        said = self._compute_evidence(plan) if {"message", "observation"}.intersection(kinds) else None
        return [self._score_pool(POOLS[kind], plan, said) for kind in kinds]

    def _compute_evidence(self, plan: Plan) -> PassageEvidence:
        """Return what is heard at every passage; where full text turns out to be broken, without it."""
        pool, fade = POOLS["message"], self.settings.fade
        try:
            return compute_passage_evidence(self.view, pool, plan.query, plan.vector, fade, self._has_full_text(pool))
        except READ_TROUBLE as trouble:
            self._note_broken_index(pool, trouble)
            return compute_passage_evidence(self.view, pool, plan.query, plan.vector, fade, full_text=False)

    def _score_pool(self, pool: Pool, plan: Plan, said: PassageEvidence | None) -> ScoredPool:
        """Return a pool's candidates with their scores and relevance."""
        candidates, scores = self._score_candidates(pool, plan, said)
        if not candidates.rows:
            return ScoredPool(candidates, scores, scores, 0.0)
        if plan.is_time_only and plan.query.times is not None:
            return score_by_time_alone(candidates, scores, plan.query.times)
        relevance, nearest = self._compute_relevance(candidates)
        if pool.kind in GROUPS and plan.query.times is not None:  # messages and claims know their times already
            scores = scores + (mask_candidates_in_time(candidates, plan.query.times) & (relevance >= CONFIDENT))
        return ScoredPool(candidates, scores, relevance, max(float(relevance.max()), nearest))

    def _compute_relevance(self, candidates: Candidates) -> tuple[Scores, float]:
        """Return 0 to 1 a row: its cosine, and the share of the query's words heard there, on the release's scale.

        Also the relevance of the row nearest to the whole query, candidate or not. Where there is no scale the share
        of the words stands alone, and the second is 0.
        """
        cosine, scales = candidates.cosine, self.view.calibration.scales if self.view.calibration else {}
        scale = scales.get(candidates.pool.kind)
        if scale is None or cosine is None:
            return candidates.covered, 0.0
        near = scale.compute_relevances(np.nan_to_num(cosine, nan=-1.0), candidates.covered)
        return near, scale.compute_relevance(candidates.nearest)

    def _score_candidates(self, pool: Pool, plan: Plan, said: PassageEvidence | None) -> tuple[Candidates, Scores]:
        """Return candidates and scores; where full text turns out to be broken, once more without it."""
        query, named, settings = plan.query, plan.named, self.settings
        vector = plan.whole if pool.kind in GROUPS else plan.vector
        limit = max(100, 2 * query.k)  # rows that each index hands to the fusion
        if pool.kind == "message" and said is not None:
            return retrieve_message_candidates(self.view, pool, query, limit, vector, said, settings, named)

        def scored(full_text: bool) -> tuple[Candidates, Scores]:
            if said is not None and pool.kind == "observation":
                return retrieve_claim_candidates(
                    self.view, pool, query, limit, vector, said, full_text, settings, named
                )
            found = retrieve_candidates(self.view, pool, query, limit, vector, full_text)
            return found, fuse_reciprocal_ranks(found)

        full_text = self._has_full_text(pool)
        try:
            return scored(full_text)
        except READ_TROUBLE as trouble:
            if not full_text:
                raise
            self._note_broken_index(pool, trouble)
            return scored(full_text=False)

    def _note_broken_index(self, pool: Pool, trouble: Exception | str) -> None:
        self._note(f"full text of {pool.table.name} can't be read ({trouble}): answered by vectors alone")

    def _has_full_text(self, pool: Pool) -> bool:
        """Return whether the pool's table has an index of full text."""
        if self.view.has_full_text(pool.table):
            return True
        if broken := self.view.find_broken_index(pool.table):
            self._note_broken_index(pool, broken)
        else:
            self._note(f"{pool.table.name} has no full-text index: answered by vectors alone")
        return False


def explain_no_rows(plan: Plan) -> str:
    """Return why there are no candidates."""
    return "nothing in memory matches" if plan.kinds else "nothing of that kind is in memory yet"


def format_row(row: ScoredRow) -> str:
    """Return what a reranker reads of a row: the day and the speaker, which a query may name, and the claim or the
    passage.
    """
    at, speaker = row.row.get(POOLS[row.kind].last), row.row.get("speaker")
    text = f"{speaker}: {row.text}" if speaker else row.text
    return f"{at:%Y-%m-%d} {text}" if isinstance(at, datetime) else text
