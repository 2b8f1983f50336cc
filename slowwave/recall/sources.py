"""From hits down to the messages they stand on, in the transcript's own ids."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain, zip_longest
from typing import cast

import numpy as np

from slowwave.recall.hits import KINDS, Fragment, Hit, Kind, Source, Successor
from slowwave.recall.release.tables import Row, list_strings
from slowwave.recall.release.view import View
from slowwave.schemas.tables import MESSAGES, OBSERVATIONS, SUMMARIES

MESSAGE_COLUMNS = ["session_id", "native_id", "role", "text"]

MAX_SOURCES = 5
"""Messages named under one summary; more are reached by drilling down."""

NEARNESS = 0.5
"""What the place by cosine among all kinds weighs against the place within the own."""

CLAIM = 0.0001
"""What a claim has over a message of the same places, less than half a place: it was distilled to be told."""

QUOTE_CHARS = 200
"""Length of a quote where no passage or claim gives one."""


@dataclass(frozen=True)
class Message:
    """What of a message is shown."""

    session: str
    native_id: str
    text: str
    role: str

    def make_fragment(self) -> Fragment:
        """As a part of an exchange."""
        return Fragment(self.role, self.native_id, self.text)

    def make_source(self, quote: str | None = None) -> Source:
        """As a source; the quote is the one given, if this message holds it, else how the message begins."""
        held = quote is not None and _normalise_text(quote) in _normalise_text(self.text)
        return Source(self.session, self.native_id, quote if held and quote else self.text[:QUOTE_CHARS])


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


def merge_kinds(found: Sequence[Sequence[ScoredRow]], k: int) -> list[ScoredRow]:
    """Return lists of several kinds, each best first, as one; a single kind's is left as it is.

    Scores of different kinds don't compare. What does is the place within the own kind and, at half its weight, the
    place by cosine among all; the sum of their reciprocal ranks becomes the score. Equal ones go by kind and id.
    """
    some = [one for one in found if one]
    if len(some) < 2:
        return list(chain(*some))
    near = sorted(chain(*some), key=lambda one: (-one.cosine if one.cosine == one.cosine else 2.0, one.id))
    by_cosine = {(one.kind, one.id): rank for rank, one in enumerate(near, 1)}
    scored = [
        replace(one, score=_score_place(one.kind, rank, by_cosine[one.kind, one.id], k))
        for ranking in some
        for rank, one in enumerate(ranking, 1)
    ]
    return sorted(scored, key=lambda one: (-one.score, KINDS.index(one.kind), one.id))


def _score_place(kind: Kind, place: int, by_cosine: int, k: int) -> float:
    return 1 / (k + place) + NEARNESS / (k + by_cosine) + (CLAIM if kind == "observation" else 0.0)


def demote_echoes(found: Sequence[ScoredRow]) -> list[ScoredRow]:
    """Return the same, with what repeats one above it at the end: a claim below its message, a message below its claim.

    Nothing is lost, and the first places tell different things; the best hit alone keeps the other form of what it
    says beside it. Scores fall with the place as before.
    """
    told: dict[Kind, set[str]] = {"message": set(), "observation": set()}
    first, echoes = list(found[:1]), list[ScoredRow]()
    for one in found[1:]:
        messages = {one.id} if one.kind == "message" else set(list_strings(one.row.get("message_ids")))
        above = told["observation" if one.kind == "message" else "message"]
        if one.kind != "summary" and messages and messages <= above:
            echoes.append(one)
        else:
            first.append(one)
            told.get(one.kind, set()).update(messages)
    scores = (one.score for one in found)
    return [replace(one, score=score) for one, score in zip([*first, *echoes], scores, strict=True)]


def build_hits(view: View, found: Sequence[ScoredRow]) -> list[Hit]:
    """Return what was found as hits, all their messages looked up at once."""
    below = collect_message_ids_below(view, {one.id: one.row for one in found if one.kind == "summary"})
    ids = {one.id: _get_message_ids(one, below) for one in found}
    messages = read_messages_by_id(view, [key for one in found if one.kind != "message" for key in ids[one.id]])
    said = _read_exchanges(view, [one for one in found if one.kind == "message"])
    return [
        _build_hit(one, said[one.id][0], said[one.id][1])
        if one.kind == "message"
        else _build_hit(one, [messages[i] for i in ids[one.id] if i in messages], ())
        for one in found
    ]


def _get_message_ids(one: ScoredRow, below: Mapping[str, list[str]]) -> list[str]:
    return below[one.id] if one.kind == "summary" else list_strings(one.row.get("message_ids"))


def _read_exchanges(view: View, found: Sequence[ScoredRow]) -> dict[str, tuple[list[Message], tuple[Fragment, ...]]]:
    """For each message that was found, itself and its exchange, taken from where they stand."""
    if not found:
        return {}
    layout = view.passages
    exchanges = {one.id: layout.message[layout.find_exchange(cast(int, one.row["position"]))] for one in found}
    own = {one.id: int(layout.message[cast(int, one.row["position"])]) for one in found}
    wanted = np.unique(np.concatenate([*exchanges.values(), list(own.values())]))
    wanted = wanted[wanted >= 0]
    rows = view.take(MESSAGES, wanted, MESSAGE_COLUMNS).to_pylist()
    messages = dict(zip(wanted.tolist(), _build_messages(view, rows), strict=True))
    return {
        key: (
            [messages[own[key]]] if own[key] in messages else [],
            tuple(messages[at].make_fragment() for at in places.tolist() if at in messages),
        )
        for key, places in exchanges.items()
    }


def _build_hit(one: ScoredRow, messages: Sequence[Message], pair: tuple[Fragment, ...]) -> Hit:
    row = one.row
    if one.kind == "observation":
        text, quote, at = row["summary"], str(row["quote"]), row["observed_at"]
    elif one.kind == "message":
        text, quote, at = messages[0].text if messages else row["text"], str(row["text"]), row["ts"]
    else:
        text, quote, at = row["text"], None, row["last_at"]
    sources = tuple(message.make_source(quote) for message in messages)
    moment = at if isinstance(at, datetime) else None
    status, heir = str(row.get("status", "active")), cast(str | None, row.get("superseded_by"))
    doubt, later = cast(str | None, row.get("perhaps_superseded_by")), cast(Successor | None, row.get("successor"))
    return Hit(one.kind, one.id, str(text), one.score, moment, status, sources, pair, one.relevance, heir, doubt, later)


def read_messages_by_id(view: View, ids: Iterable[str]) -> dict[str, Message]:
    """Return the messages of these ids, with their sessions' native ids."""
    rows = view.read_by_id(MESSAGES, list(ids), MESSAGE_COLUMNS)
    return dict(zip(rows, _build_messages(view, list(rows.values())), strict=True))


def _build_messages(view: View, rows: Sequence[Row]) -> list[Message]:
    names = view.native_sessions
    return [
        Message(
            names.get(str(row["session_id"]), str(row["session_id"])),
            str(row["native_id"]),
            str(row["text"]),
            str(row["role"]),
        )
        for row in rows
    ]


def collect_message_ids_below(view: View, summaries: Mapping[str, Row]) -> dict[str, list[str]]:
    """For each summary (rows by id, with `member_ids`) up to MAX_SOURCES messages below it, spread over its members.

    Members are summaries of the tier below, observations or messages; each round takes all hits one tier down.
    """
    frontier = {key: list_strings(row["member_ids"]) for key, row in summaries.items()}
    while frontier:
        below = view.read_by_id(SUMMARIES, list(chain(*frontier.values())), ["summary_id", "member_ids"])
        if not below:
            break
        frontier = {
            key: _descend_one_tier(ids, {k: list_strings(row["member_ids"]) for k, row in below.items()})
            for key, ids in frontier.items()
        }
    claims = view.read_by_id(OBSERVATIONS, list(chain(*frontier.values())), ["observation_id", "message_ids"])
    said = {key: list_strings(row["message_ids"]) for key, row in claims.items()}
    return {key: _descend_one_tier(ids, said)[:MAX_SOURCES] for key, ids in frontier.items()}


def _descend_one_tier(ids: Sequence[str], members: Mapping[str, list[str]]) -> list[str]:
    """Return each id replaced by its members (or itself, where it has none), one of each in turn."""
    lists = [members.get(key, [key]) for key in ids[: MAX_SOURCES * 4]]
    spread = (key for turn in zip_longest(*lists) for key in turn if key is not None)
    return list(dict.fromkeys(spread))[: MAX_SOURCES * 4]


def _normalise_text(text: str) -> str:
    return " ".join(text.split()).casefold()
