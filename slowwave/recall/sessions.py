"""Sessions that answer: which past conversations a query is about, with what tells of each and its best quotes.

    for found in memory.sessions("why did we leave Redis?", k=3):
        print(found.probability, found.title, found.summary)

A report of a bug and the talk that settled the matter share words all over the session, seldom within one message. So
sessions are ranked as documents (BM25 over how many passages hold each word) and by the mean cosine of their five
nearest passages; both are standardised, and their weighted sums made probabilities. If a call asks for sessions as
such, the score of a session's best turn counts too, and the night's title and summary describe the session. What was
taken back has no passages, and so neither finds a session nor is quoted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from slowwave.recall.hits import Answer, Shown, Source
from slowwave.recall.query import NO_TIME, Ints, Query, QueryPlan, Vector
from slowwave.recall.release.view import View, mark_changes
from slowwave.recall.retrieve.candidates import (
    Candidates,
    PassageEvidence,
    weigh_signals,
)
from slowwave.recall.retrieve.rows import Nearness, find_passages, search_words
from slowwave.schemas.tables import MESSAGES, PASSAGES, SESSIONS, SUMMARIES
from slowwave.text.pyramid import compute_master_id
from slowwave.text.times.days import localise
from slowwave.text.words import compute_idf

NEAREST = 500
"""Passages by vector that are looked at."""
BEST = 5
"""Nearest passages of a session whose mean counts."""
K1 = 1.2
NEAR = 1.5
"""Weight of a session's nearest passages against its words (`docs/decisions/002-ranking-and-silence.md`)."""


def rank_sessions(
    view: View,
    query: Query,
    vector: Vector | None,
    full_text: bool,
    turns: Mapping[int, float] | None = None,
    whole: float = 1.0,
) -> list[tuple[int, float]]:
    """Return sessions' numbers with the probability that the query is about each, likeliest first.

    That one of them is it is taken for granted: whether the memory knows of the matter, `Answer.confident` says.

    Args:
        view: the release.
        query: what is asked, and of which passages.
        vector: the query's, with all its names; None: words alone.
        full_text: whether the index of full text may be asked.
        turns: session's number -> score of its best turn.
        whole: weight of a session's words against its best turn; with 0 neither they nor its passages are read.
    """
    by_signal = {
        "turn": turns or {},
        "words": score_sessions_by_words(view, query) if whole and full_text else {},
        "nearest": score_sessions_by_cosine(view, query, vector)
        if whole and vector is not None
        else {},
    }
    numbers = sorted(set().union(*by_signal.values()))
    if not numbers:
        return []
    # a session without a score counts as the lowest
    lowest = {
        name: min(scores.values(), default=0.0) for name, scores in by_signal.items()
    }
    signals = {
        name: np.array([scores.get(n, lowest[name]) for n in numbers])
        for name, scores in by_signal.items()
    }
    weighed = weigh_signals(
        signals, {"turn": 1.0, "words": whole, "nearest": whole * NEAR}
    )
    total = np.sum(list(weighed.values()), axis=0)
    shares = np.exp(total - total.max())
    order = np.argsort(-shares, kind="stable").tolist()
    likely = (shares / shares.sum()).tolist()
    return [(numbers[i], likely[i]) for i in order]


def score_sessions_by_words(view: View, query: Query) -> dict[int, float]:
    """Return BM25 of each session that holds a word of the query, by the session's number."""
    words = replace(query, text=" ".join(query.content_words) or query.text)
    session = view.passages.session
    # BM25 (Robertson & Zaragoza, 2009), but for a constant factor, with all lengths equal: a long session holds more
    # words by chance, but the cosines of its five best passages hold that in check
    sessions = int(session.max(initial=-1)) + 1
    total = np.zeros(sessions)
    for positions, _ in search_words(view, words):
        holding = np.bincount(session[positions], minlength=sessions).astype(np.float64)
        rare = compute_idf(int((holding > 0).sum()), sessions)
        total += rare * holding / (holding + K1)
    return {int(n): float(total[n]) for n in np.flatnonzero(total)}


def score_sessions_by_cosine(
    view: View, query: Query, vector: Vector
) -> dict[int, float]:
    """Return mean cosine of each session's nearest passages; those not among the nearest count as the last of them."""
    near = Nearness(find_passages(view, query), vector)
    positions = near.find_nearest(NEAREST)
    nearness = near.compute_cosines(positions)
    by_session: dict[int, list[float]] = {}
    for session, cosine in zip(
        view.passages.session[positions].tolist(), nearness.tolist(), strict=True
    ):
        by_session.setdefault(session, []).append(cosine)
    last = float(nearness.min(initial=1.0))
    best = {
        key: (sorted(cosines, reverse=True) + [last] * BEST)[:BEST]
        for key, cosines in by_session.items()
    }
    return {key: sum(cosines) / BEST for key, cosines in best.items()}


def read_session_ids(view: View, numbers: Sequence[int]) -> list[str]:
    """Return the ids of sessions by their numbers."""
    return [view.passages.sessions[number] for number in numbers]


def is_visible_as_of(at: object, as_of: datetime | None) -> bool:
    """Return True if something was said by a moment; without a time it is visible only if no moment is given."""
    return as_of is None or (isinstance(at, datetime) and at <= as_of)


QUOTES = 3
"""Messages that are quoted of a session, at most."""
WHOLE = 0.5
"""Weight of a session's words against its best turn."""
ABOUT = ["native_id", "workspace", "title", "started_at", "ended_at", "utc_offset"]


@dataclass(frozen=True, slots=True)
class SessionHit(Shown):
    """A past session that the query is about."""

    id: str
    """session_id."""
    session: str
    """The transcript's own id."""
    probability: float
    """That the query is about this session, if it is about one of the memory's; those of all sessions sum to 1."""
    workspace: str | None
    title: str | None
    """The transcript's, else the one that the night's model gave it."""
    summary: str | None
    """The session's master summary, as far as one was written by the time asked about."""
    started_at: datetime | None
    ended_at: datetime | None
    """When its last message was written; asked as of a day, the last that had been by then."""
    sources: tuple[Source, ...]
    """Its messages that answer best, best first, each with the words that do."""

    @property
    def text(self) -> str:
        """Its summary, else its title."""
        return self.summary or self.title or ""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {"kind": "session", **Shown.as_dict(self)}


class SessionHits(Answer[SessionHit]):
    """The sessions of one query, likeliest first."""


def find_sessions(
    view: View,
    plan: QueryPlan,
    evidence: PassageEvidence,
    turns: Candidates,
) -> list[SessionHit]:
    """Return up to k sessions, likeliest first.

    Args:
        plan: the query for messages, with its vectors.
        evidence: the words that every passage hears.
        turns: the query's candidates among the passages, scored; one at least.
    """
    layout = view.passages
    query = plan.query
    of_time = plan.is_time_only and turns.best > 0.0
    is_answer = (
        turns.relevance > 0.0 if of_time else np.ones(len(turns.scores), dtype=bool)
    )
    # the best turn of each session
    positions = np.array([row["position"] for row in turns.rows], dtype=np.int64)[
        is_answer
    ]
    scores = turns.scores[is_answer]
    best: dict[int, float] = {}
    for number, score in zip(
        layout.session[positions].tolist(), scores.tolist(), strict=True
    ):
        best[number] = max(score, best.get(number, score))
    # the likeliest sessions, and what is quoted of each
    full_text = evidence.share is not None
    whole = 0.0 if plan.is_time_only else WHOLE
    ranked = rank_sessions(
        view=view,
        query=query,
        vector=plan.full_vector,
        full_text=full_text,
        turns=best,
        whole=whole,
    )[: query.k]
    order = positions[np.argsort(-scores, kind="stable")]
    quoted = [
        _select_quoted(view=view, evidence=evidence, order=order, number=number)
        for number, _ in ranked
    ]
    return _build_hits(view=view, query=query, ranked=ranked, quoted=quoted)


def _select_quoted(
    view: View,
    evidence: PassageEvidence,
    order: Ints,
    number: int,
) -> Ints:
    """Return positions of a session's best passages, one a message, best first; of the candidates if it has any."""
    layout = view.passages
    ranked = order[layout.session[order] == number]
    if not len(ranked):
        here = np.flatnonzero((layout.session == number) & evidence.allowed)
        scores = evidence.score_words_and_dates(here)
        if evidence.near.vector is not None:
            scores = np.nan_to_num(evidence.near.compute_cosines(here), nan=-1.0)
        ranked = here[np.argsort(-scores, kind="stable")]
    _, first = np.unique(layout.message[ranked], return_index=True)
    quoted: Ints = ranked[np.sort(first)[:QUOTES]]
    return quoted


def _build_hits(
    view: View,
    query: Query,
    ranked: Sequence[tuple[int, float]],
    quoted: Sequence[Ints],
) -> list[SessionHit]:
    """Return sessions, by number and probability, as hits that quote these positions."""
    ids = read_session_ids(view, [number for number, _ in ranked])
    about = view.read_by_id(SESSIONS, ids, ABOUT)
    masters = view.read_by_id(
        SUMMARIES, [compute_master_id(key) for key in ids], ["text", "title", "last_at"]
    )
    sources = _read_sources(view, quoted)
    hits: list[SessionHit] = []
    for key, (number, probability), quotes in zip(ids, ranked, sources, strict=True):
        row = about.get(key, {})
        master = masters.get(compute_master_id(key), {})
        if not is_visible_as_of(master.get("last_at"), query.as_of):
            master = {}
        ended = row.get("ended_at")
        if query.as_of is not None:
            ended = _find_end(view, number, query.as_of)
        utc_offset = row.get("utc_offset")
        text = master.get("text")
        hit = SessionHit(
            id=key,
            session=view.native_sessions.get(key, key),
            probability=probability,
            workspace=row.get("workspace"),
            title=row.get("title") or master.get("title"),
            summary=text
            and mark_changes(
                chains=view.chains,
                text=text,
                scope=key,
                as_of=query.as_of,
                places=query.places,
            ),
            started_at=localise(row.get("started_at"), utc_offset),
            ended_at=localise(ended, utc_offset),
            sources=quotes,
        )
        hits.append(hit)
    return hits


def _read_sources(view: View, quoted: Sequence[Ints]) -> list[tuple[Source, ...]]:
    """Return for each session the passages at its positions as sources, in the transcript's own ids."""
    positions = np.concatenate(quoted)
    passages = view.take(
        PASSAGES, view.passages.offsets[positions], ["session_id", "message_id", "text"]
    ).to_pylist()
    messages = [row["message_id"] for row in passages]
    natives = view.read_by_id(MESSAGES, messages, ["native_id"])
    sources = dict[int, Source]()
    for at, row in zip(positions.tolist(), passages, strict=True):
        if row["message_id"] not in natives:
            continue
        session = view.native_sessions.get(row["session_id"], row["session_id"])
        native = natives[row["message_id"]]["native_id"]
        sources[at] = Source(session, native, row["text"])
    return [
        tuple(sources[at] for at in places.tolist() if at in sources)
        for places in quoted
    ]


def _find_end(view: View, number: int, as_of: datetime) -> datetime | None:
    """Return when the last passage of a session that was said by a moment was said; None if none was."""
    moments = view.passages.moment[view.passages.session == number]
    by_then = moments <= round(as_of.timestamp() * 1e6)
    moments = moments[(moments != NO_TIME) & by_then]
    if not len(moments):
        return None
    return datetime.fromtimestamp(int(moments.max()) / 1e6, UTC)
