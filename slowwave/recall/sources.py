"""From hits down to the messages they stand on, in the transcript's own ids."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain, zip_longest

from lancedb.expr import col

from schemas.messages import MESSAGES
from schemas.observations import OBSERVATIONS
from schemas.sessions import SESSIONS
from schemas.table import Table
from schemas.topics import SUMMARIES
from slowwave.recall.hits import KINDS, Hit, Kind, Source
from slowwave.store.snapshot import Snapshot

MAX_SOURCES = 5
"""Messages named under one summary; more are reached by drilling down."""

QUOTE_CHARS = 200
"""Length of a quote where no passage or claim gives one."""

Row = dict[str, object]


@dataclass(frozen=True)
class Message:
    """What of a message is shown."""

    session: str
    native_id: str
    text: str

    def source(self, quote: str | None = None) -> Source:
        """As a source; the quote is the one given, if this message holds it, else how the message begins."""
        held = quote is not None and _squeezed(quote) in _squeezed(self.text)
        return Source(self.session, self.native_id, quote if held and quote else self.text[:QUOTE_CHARS])


@dataclass(frozen=True)
class Found:
    """A row that answers: its kind, the id of its hit, its columns, its score."""

    kind: Kind
    id: str
    row: Row
    score: float
    cosine: float
    """To the query; NaN where unknown."""


def merged(found: Sequence[Sequence[Found]], k: int) -> list[Found]:
    """Lists of several kinds, each best first, as one; a single kind's is left as it is.

    Scores of different kinds don't compare. What does is the place within the own kind and the place by cosine among
    all; their reciprocal ranks are summed and become the score. Equal ones stand in order of kind and id.
    """
    some = [one for one in found if one]
    if len(some) < 2:
        return list(chain(*some))
    near = sorted(chain(*some), key=lambda one: (-one.cosine if one.cosine == one.cosine else 2.0, one.id))
    by_cosine = {(one.kind, one.id): rank for rank, one in enumerate(near, 1)}
    scored = [
        replace(one, score=1 / (k + rank) + 1 / (k + by_cosine[one.kind, one.id]))
        for ranking in some
        for rank, one in enumerate(ranking, 1)
    ]
    return sorted(scored, key=lambda one: (-one.score, KINDS.index(one.kind), one.id))


def hits_with_sources(snapshot: Snapshot, found: Sequence[Found]) -> list[Hit]:
    """What was found as hits, all their messages looked up at once."""
    below = message_ids_below(snapshot, {one.id: one.row for one in found if one.kind == "summary"})
    ids = {one.id: _message_ids(one, below) for one in found}
    messages = messages_by_id(snapshot, chain(*ids.values()))
    return [_hit(one, [messages[i] for i in ids[one.id] if i in messages]) for one in found]


def _message_ids(one: Found, below: Mapping[str, list[str]]) -> list[str]:
    if one.kind == "summary":
        return below[one.id]
    return [one.id] if one.kind == "message" else _strings(one.row["message_ids"])


def _hit(one: Found, messages: Sequence[Message]) -> Hit:
    row = one.row
    if one.kind == "observation":
        text, quote, at, status = row["summary"], str(row["quote"]), row["observed_at"], str(row["status"])
    elif one.kind == "message":
        text, quote, at, status = messages[0].text if messages else row["text"], str(row["text"]), row["ts"], "active"
    else:
        text, quote, at, status = row["text"], None, row["last_at"], "active"
    sources = tuple(message.source(quote) for message in messages)
    moment = at if isinstance(at, datetime) else None
    return Hit(one.kind, one.id, str(text), one.score, moment, status, sources)


def messages_by_id(snapshot: Snapshot, ids: Iterable[str]) -> dict[str, Message]:
    """The messages of these ids, with their sessions' native ids."""
    rows = by_id(snapshot, MESSAGES, ids, ["message_id", "session_id", "native_id", "text"])
    sessions = by_id(snapshot, SESSIONS, (str(r["session_id"]) for r in rows.values()), ["session_id", "native_id"])
    native = {key: str(row["native_id"]) for key, row in sessions.items()}
    return {
        key: Message(
            native.get(str(row["session_id"]), str(row["session_id"])), str(row["native_id"]), str(row["text"])
        )
        for key, row in rows.items()
    }


def message_ids_below(snapshot: Snapshot, summaries: Mapping[str, Row]) -> dict[str, list[str]]:
    """For each summary (rows by id, with `member_ids`) up to MAX_SOURCES messages below it, spread over its members.

    Members are summaries of the tier below, observations or messages; each round takes all hits one tier down.
    """
    frontier = {key: _strings(row["member_ids"]) for key, row in summaries.items()}
    while True:
        below = by_id(snapshot, SUMMARIES, chain(*frontier.values()), ["summary_id", "member_ids"])
        if not below:
            break
        frontier = {
            key: _one_down(ids, {k: _strings(row["member_ids"]) for k, row in below.items()})
            for key, ids in frontier.items()
        }
    claims = by_id(snapshot, OBSERVATIONS, chain(*frontier.values()), ["observation_id", "message_ids"])
    said = {key: _strings(row["message_ids"]) for key, row in claims.items()}
    return {key: _one_down(ids, said)[:MAX_SOURCES] for key, ids in frontier.items()}


def by_id(snapshot: Snapshot, table: Table, ids: Iterable[str], columns: list[str]) -> dict[str, Row]:
    """Rows of a table by key; ids it does not hold are left out."""
    wanted = sorted(set(ids))
    if not wanted:
        return {}
    found = snapshot.read(table, columns, col(table.key).isin(wanted))
    return {str(row[table.key]): row for row in found.to_pylist()}


def _one_down(ids: Sequence[str], members: Mapping[str, list[str]]) -> list[str]:
    """Each id replaced by its members (or itself, where it has none), one of each in turn."""
    lists = [members.get(key, [key]) for key in ids[: MAX_SOURCES * 4]]
    spread = (key for turn in zip_longest(*lists) for key in turn if key is not None)
    return list(dict.fromkeys(spread))[: MAX_SOURCES * 4]


def _strings(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []


def _squeezed(text: str) -> str:
    return " ".join(text.split()).casefold()
