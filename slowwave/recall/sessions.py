"""Sessions that answer: which past conversations a query is about, with what tells of each and its best quotes.

    for found in memory.sessions("why did we leave Redis?", k=3):
        print(found.probability, found.title, found.summary)

A session is found by its best turn, its words and its nearest passages (`retrieve/sessions.py`), and told by what the
night wrote of it. What was taken back has no passages, and so neither finds a session nor is quoted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from slowwave.recall.hits import Answer, Shown, Source
from slowwave.recall.plan import Plan
from slowwave.recall.query import Query
from slowwave.recall.ranking.order import ScoredPool
from slowwave.recall.release.chains import mark_changes
from slowwave.recall.release.tables import NO_TIME, Ints, Row
from slowwave.recall.release.view import View
from slowwave.recall.retrieve.candidates import PassageEvidence
from slowwave.recall.retrieve.sessions import is_visible_as_of, rank_sessions, read_session_ids
from slowwave.schemas.tables import MESSAGES, PASSAGES, SESSIONS, SUMMARIES
from slowwave.text.pyramid import compute_master_id

QUOTES = 3
"""Messages that are quoted of a session, at most."""
WHOLE = 0.5
"""Weight of a session's words, and of its nearest passages, against its best turn."""
TEMPERATURE = 1.0
"""Between .75 (bug reports, LoCoMo) and 1.95 (commit subjects), by likelihood."""
ABOUT = ["native_id", "workspace", "title", "started_at", "ended_at"]


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
        """What tells of it: its summary, else its title."""
        return self.summary or self.title or ""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {"kind": "session", **Shown.as_dict(self)}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "SessionHit":
        """Return the hit that `as_dict` wrote down, also after JSON."""
        return TypeAdapter(cls).validate_python(plain)


class SessionHits(Answer[SessionHit]):
    """The sessions of one query, likeliest first."""


def find_sessions(view: View, plan: Plan, said: PassageEvidence, turns: ScoredPool) -> list[SessionHit]:
    """Return up to k sessions, likeliest first.

    Args:
        plan: the query for messages, with its vectors.
        said: what is heard at every passage.
        turns: the query's candidates among the passages, scored; one at least.
    """
    layout, query = view.passages, plan.query
    of_time = plan.is_time_only and turns.best > 0.0
    told = turns.relevance > 0.0 if of_time else np.ones(len(turns.scores), dtype=bool)
    positions = np.array([row["position"] for row in turns.candidates.rows], dtype=np.int64)[told]
    scores = turns.scores[told]
    best: dict[int, float] = {}
    for number, score in zip(layout.session[positions].tolist(), scores.tolist(), strict=True):
        best[number] = max(score, best.get(number, score))
    full_text = said.share is not None
    whole = 0.0 if plan.is_time_only else WHOLE
    ranked = rank_sessions(view, query, plan.whole, full_text, best, whole, TEMPERATURE)[: query.k]
    order = positions[np.argsort(-scores, kind="stable")]
    quoted = [_select_quoted(view, said, order, number) for number, _ in ranked]
    return _build_hits(view, query, ranked, quoted)


def _select_quoted(view: View, said: PassageEvidence, order: Ints, number: int) -> Ints:
    """Return positions of the best passages of a session, one a message: of the candidates, best first, where it has
    some.
    """
    layout = view.passages
    some = order[layout.session[order] == number]
    if not len(some):
        here = np.flatnonzero((layout.session == number) & said.allowed)
        scores = said.word_date_score[here]
        if said.near.vector is not None:
            scores = np.nan_to_num(said.near.compute_cosines(here), nan=-1.0)
        some = here[np.argsort(-scores, kind="stable")]
    _, first = np.unique(layout.message[some], return_index=True)
    quoted: Ints = some[np.sort(first)[:QUOTES]]
    return quoted


def _build_hits(
    view: View, query: Query, ranked: Sequence[tuple[int, float]], quoted: Sequence[Ints]
) -> list[SessionHit]:
    """Return sessions, by number and probability, as hits that quote these positions."""
    # what the tables tell of each session
    ids = read_session_ids(view, [number for number, _ in ranked])
    about = view.read_by_id(SESSIONS, ids, ABOUT)
    masters = view.read_by_id(SUMMARIES, [compute_master_id(key) for key in ids], ["text", "title", "last_at"])
    # the passages as sources, in the transcript's own ids
    layout, every = view.passages, np.concatenate(quoted)
    texts = view.take(PASSAGES, layout.offsets[every], ["session_id", "text"]).to_pylist()
    known = layout.message[every] >= 0
    named = view.take(MESSAGES, layout.message[every][known], ["native_id"])["native_id"].to_pylist()
    names = dict(zip(every[known].tolist(), named, strict=True))
    found = {
        at: Source(view.native_sessions.get(row["session_id"], row["session_id"]), names[at], row["text"])
        for at, row in zip(every.tolist(), texts, strict=True)
        if at in names
    }
    sources = [tuple(found[at] for at in some.tolist() if at in found) for some in quoted]
    # of what is newer than the day asked about nothing is told
    hits: list[SessionHit] = []
    for key, (number, probability), mine in zip(ids, ranked, sources, strict=True):
        row: Row = about.get(key, {})
        master = masters.get(compute_master_id(key), {})
        if not is_visible_as_of(master.get("last_at"), query.as_of):
            master = {}
        ended = row.get("ended_at")
        if (as_of := query.as_of) is not None:
            moments = view.passages.moment[view.passages.session == number]
            moments = moments[(moments != NO_TIME) & (moments <= round(as_of.timestamp() * 1e6))]
            ended = datetime.fromtimestamp(int(moments.max()) / 1e6, UTC) if len(moments) else None
        hits.append(
            SessionHit(
                key,
                view.native_sessions.get(key, key),
                probability,
                row.get("workspace"),
                row.get("title") or master.get("title"),
                mark_changes(view.chains, text, key, query.as_of) if (text := master.get("text")) else None,
                row.get("started_at"),
                ended,
                mine,
            )
        )
    return hits
