"""What memories a long report's block may show: sentences of the likeliest sessions."""

from collections import defaultdict
from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import cast

import numpy as np

from slowwave.context.reports.features import ClaimQuotes, NightVectors, PastMessage, Statement, compute_session_idf
from slowwave.context.reports.statements import WEIGHTS, Weights, score_statements
from slowwave.engines.encoders.protocol import limit_blas_threads
from slowwave.recall.filters import mask_allowed_passages
from slowwave.recall.query import Query
from slowwave.recall.release.chains import is_superseded
from slowwave.recall.release.view import View
from slowwave.recall.retrieve.pools import Vector
from slowwave.recall.retrieve.sessions import (
    RankedSession,
    has_similar_session,
    is_visible_as_of,
    rank_sessions,
    read_rows_where,
)
from slowwave.schemas.settings import ContextSettings
from slowwave.schemas.tables import CHAIN, MESSAGES, OBSERVATIONS, PASSAGES, SESSIONS
from slowwave.schemas.vocabulary import SPOKEN, Role, Status
from slowwave.store.trouble import READ_TROUBLE

HEARD = ["message_id", "session_id", "native_id", "seq", "role", "origin", "speaker", "text", "ts"]
LEAST = 0.02
"""Of the likeliest word's probability; a sentence without a word as likely as that is not shown."""
CLAIMED = ["observation_id", "message_ids", "quote", "status", "session_id", "vector", *CHAIN]
ABOUT = 10
"""Of recall's hits the first, whose claims are taken to be about the query's matter."""

Row = dict[str, object]


@dataclass(frozen=True, slots=True)
class CandidateSessions:
    """What is known of the sessions that a query may be about."""

    sessions: list[list[PastMessage]]
    """Their messages, in order; those of sessions with a mere hit too."""
    share: dict[str, float]
    """session_id -> probability that the query is about it."""
    closeness: dict[str, float]
    """message_id -> how near it is to the query."""
    claims: dict[str, ClaimQuotes]
    """message_id -> what the night made of it."""
    rarity: dict[str, float]
    """stem -> its inverse document frequency among the likely sessions."""
    passages: list[tuple[str, Vector]]
    """Of the messages' passages the message_id and the vector, where there is one."""
    made: list[Row]
    """Claims of the sessions, with their vectors."""

    def build_night_vectors(self) -> NightVectors:
        """Return what the night encoded of the messages and their claims; a claim of several messages is the first
        one's.

        Whether a claim still holds does not matter here: its sentence means what it means.
        """
        parts: dict[str, list[Vector]] = defaultdict(list)
        for key, vector in self.passages:
            parts[key].append(vector)
        told: dict[str, list[tuple[str, Vector]]] = defaultdict(list)
        for row in self.made:
            for key in cast(list[str], row["message_ids"])[:1] if row["vector"] is not None else ():
                told[key].append((_normalise_quote(row), np.array(row["vector"], dtype=np.float32)))
        return NightVectors({key: np.mean(some, axis=0) for key, some in parts.items()}, told)


def collect_sentences(
    view: View,
    query: Query,
    vector: Vector | None,
    hits: Sequence[str],
    settings: ContextSettings,
    weights: Weights = WEIGHTS,
) -> list[Statement]:
    """Return sentences with their relevance to the query; none where recall finds nothing and no session is about it.

    Args:
        hits: ids of the messages that recall found, best first.
        vector: the query's; None without an encoder.
    """
    if not hits and not has_similar_session(view, query, vector):
        return []
    at = load_candidate_sessions(view, query, vector, hits, settings)
    vectors = at.build_night_vectors() if view.release.encoder == weights.encoder else None
    found = [
        one
        for heard in at.sessions
        if (share := at.share.get(heard[0].session_id, 0.0))  # a mere hit counts for nothing
        for one in score_statements(heard, share, at.closeness, at.claims, at.rarity, weights, vectors)
    ]
    best = [max(one.worths.values()) for one in found]
    least = LEAST * max(best, default=0.0)
    return [one for one, worth in zip(found, best, strict=True) if worth >= least]


def load_candidate_sessions(
    view: View, query: Query, vector: Vector | None, hits: Sequence[str], settings: ContextSettings
) -> CandidateSessions:
    """Return the likeliest sessions and those of the hits."""
    share = {one.session_id: one.probability for one in _rank_likely_sessions(view, query, vector, settings.sessions)}
    messages = _load_spoken_messages(view, list(share), hits, query)
    groups = [list(group) for _, group in groupby(messages, key=lambda one: one.session_id)]
    claims = read_rows_where(view, OBSERVATIONS, CLAIMED, "session_id", {one.session_id for one in messages})
    passages = _load_passage_vectors(view, [one.message_id for one in messages])
    return CandidateSessions(
        [_select_around_hits(group, hits) for group in groups],
        share,
        _compute_message_similarities(passages, vector),
        _collect_claim_quotes(view, claims, [key for key, p in share.items() if p >= LEAST], hits[:ABOUT], query.as_of),
        compute_session_idf([one for one in messages if one.session_id in share]),
        passages,
        claims,
    )


def _rank_likely_sessions(view: View, query: Query, vector: Vector | None, limit: int) -> list[RankedSession]:
    """Return sessions, likeliest first; where full text can't be read, by vectors alone."""
    try:
        return rank_sessions(view, query, vector, limit, view.has_full_text(PASSAGES))
    except READ_TROUBLE:  # recall has met it before, and noted it
        return rank_sessions(view, query, vector, limit, full_text=False)


def _load_spoken_messages(view: View, sessions: Sequence[str], hits: Sequence[str], query: Query) -> list[PastMessage]:
    """Return what of the sessions the query's conditions let through, and the hits, in order.

    What was taken back is left out.
    """
    rows = read_rows_where(view, MESSAGES, HEARD, "session_id", sessions)
    unique = {str(row["message_id"]): row for row in rows} | view.read_by_id(MESSAGES, hits, HEARD)
    ids = sorted({str(row["session_id"]) for row in unique.values()})
    about = view.read_by_id(SESSIONS, ids, ["session_id", "inactive"])
    gone = {key for row in about.values() for key in cast(list[str], row["inactive"])}
    allowed = _find_allowed_messages(view, query) if query.since or query.is_narrowed else unique
    kept = [
        PastMessage(
            key,
            str(row["session_id"]),
            view.native_sessions.get(str(row["session_id"]), str(row["session_id"])),
            str(row["native_id"]),
            cast(int, row["seq"]),
            row["role"] == Role.USER,
            cast(str | None, row["speaker"]),
            str(row["text"]),
            row["ts"],  # type: ignore[arg-type]
        )
        for key, row in unique.items()
        if row["origin"] in SPOKEN and row["text"] and key not in gone and key in allowed
        if is_visible_as_of(row["ts"], query.until)  # no later than `as_of`, where there is one
    ]
    return sorted(kept, key=lambda one: (one.session_id, one.seq))


def _find_allowed_messages(view: View, query: Query) -> set[str]:
    """Return the ids of the messages that the query's conditions let through."""
    messages = np.unique(view.passages.message[mask_allowed_passages(view, query)])
    return set(view.read_keys(MESSAGES).take(messages[messages >= 0]).to_pylist())


def _collect_claim_quotes(
    view: View, rows: Sequence[Row], likely: Collection[str], hits: Collection[str], as_of: datetime | None
) -> dict[str, ClaimQuotes]:
    """Return what the night made of each message, by its claims; what had not changed by `as_of` counts as it was then.

    What was superseded counts as that where the query may be about the later claim too: it is of the same session, of
    a likely one, or a hit. A later claim on another matter takes nothing back; the night's guesses are at times such.
    What the night withdrew, since it reads the session otherwise by now, counts as nothing.
    """
    near = set(likely)
    active: dict[str, list[str]] = {}
    superseded: dict[str, list[str]] = {}
    for row in rows:
        taken_back = is_superseded(row, as_of) and _is_relevant_change(view, row, near, hits, as_of)
        into = (
            superseded
            if taken_back
            else active
            if row["chain_id"] or row["status"] in (Status.ACTIVE, Status.DUPLICATE)
            else None
        )
        for key in cast(list[str], row["message_ids"]) if into is not None else ():
            cast(dict[str, list[str]], into).setdefault(key, []).append(_normalise_quote(row))
    return {
        key: ClaimQuotes(tuple(active.get(key, ())), tuple(superseded.get(key, ())))
        for key in active.keys() | superseded
    }


def _is_relevant_change(view: View, row: Row, likely: Set[str], hits: Collection[str], as_of: datetime | None) -> bool:
    """Return whether what holds instead is of the claim's session, of a likely one, or of a hit.

    Yes where it is gone.
    """
    heir = view.chains.find_successor(row, as_of)
    if heir is None or heir["session_id"] == row["session_id"] or heir["session_id"] in likely:
        return True
    return not set(cast(list[str], heir["message_ids"])).isdisjoint(hits)


def _load_passage_vectors(view: View, messages: Sequence[str]) -> list[tuple[str, Vector]]:
    rows = read_rows_where(view, PASSAGES, ["message_id", "vector"], "message_id", messages)
    return [(str(row["message_id"]), np.array(row["vector"], np.float32)) for row in rows if row["vector"] is not None]


def _compute_message_similarities(passages: Sequence[tuple[str, Vector]], vector: Vector | None) -> dict[str, float]:
    """Return each message's best cosine to the query, standardised; empty without an encoder."""
    if vector is None or not passages:
        return {}
    with limit_blas_threads():
        cosines = np.array([one for _, one in passages]) @ vector
    best: dict[str, float] = {}
    for (key, _), cosine in zip(passages, cosines.tolist(), strict=True):
        best[key] = max(best.get(key, -1.0), cosine)
    values = np.array(list(best.values()))
    spread = float(values.std()) or 1.0
    return {key: (value - float(values.mean())) / spread for key, value in best.items()}


def _normalise_quote(claim: Row) -> str:
    """Return the quote in one line, as sentences are."""
    return " ".join(str(claim["quote"]).split())


def _select_around_hits(messages: list[PastMessage], hits: Collection[str], most: int = 400) -> list[PastMessage]:
    """Return the messages of a long session that are nearest to a hit, or the last without any, in order."""
    if len(messages) <= most:
        return messages
    at = [n for n, one in enumerate(messages) if one.message_id in hits]
    near = sorted(range(len(messages)), key=lambda n: (min((abs(n - hit) for hit in at), default=-n), n))[:most]
    return [messages[n] for n in sorted(near)]
