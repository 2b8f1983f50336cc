"""Drill down and up: any row of the memory by its id, what it stands on down to the messages, and what holds it.

Ids are those that any command prints (`slowwave/store/names.py`). Reads one release; messages that `remember` and
`talk` wrote since are found too.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NoReturn, cast

import pyarrow.compute as pc

from slowwave.recall.hits import spell_time
from slowwave.recall.live import read_unreleased
from slowwave.recall.release.view import (
    View,
    format_change,
    is_superseded,
    mark_changes,
)
from slowwave.recall.views.browse import FIGURES, name_topics
from slowwave.recall.views.habits import COLUMNS as HABIT_COLUMNS
from slowwave.recall.views.habits import build_habit
from slowwave.recall.views.related import read_relations
from slowwave.schemas.errors import NoSuchId, UsageError, translate_read_errors
from slowwave.schemas.ids import SHORT_ID
from slowwave.schemas.rows import PatternRow
from slowwave.schemas.tables import CLAIMS, GISTS, SUMMARIES, TRUST
from slowwave.schemas.vocabulary import Status
from slowwave.store.logs import Rating, append, format_now
from slowwave.store.names import KINDS, SHORTEST, find_named_row
from slowwave.store.notes import PREFIX, collect_tags
from slowwave.store.releases import load_releases
from slowwave.text.redact import redact_text
from slowwave.text.times.days import localise
from slowwave.text.times.relative_days import add_days

MOST_WHY = 500
"""Characters of a reason."""
TEXTS = {
    "claim": "summary",
    "summary": "text",
    "topic": "name",
    "session": "title",
    "message": "text",
    "merge": "kind",
    "habit": "line",
    "boilerplate": "text",
}
"""The column that is a row's text."""
COLUMNS = {
    "claim": [
        *(
            "claim_id",
            "summary",
            "detail",
            "category",
            "quote",
            "message_ids",
            "speaker",
            "observed_at",
            "utc_offset",
        ),
        *(
            "status",
            "observer",
            "reason",
            "canonical_id",
            "superseded_by",
            "valid_from",
            "valid_to",
        ),
        TRUST,
        "evidence_sessions",
        "topic_id",
        "workspace",
        "keywords",
        "files",
    ],
    "summary": [
        "summary_id",
        "scope",
        "scope_id",
        "tier",
        "seq",
        "title",
        "text",
        "member_ids",
        "first_at",
        "last_at",
        TRUST,
    ],
    "topic": [*FIGURES, "workspace", "samples"],
    "session": [
        "session_id",
        "native_id",
        "source",
        "workspace",
        "title",
        "started_at",
        "ended_at",
        "utc_offset",
        "messages",
    ],
    "message": [
        "message_id",
        "session_id",
        "native_id",
        "role",
        "origin",
        "speaker",
        "text",
        "ts",
        "utc_offset",
        "seq",
        "blocks",
    ],
    "merge": [
        "merge_id",
        "kind",
        "from_id",
        "into_id",
        "rule",
        "scores",
        "reason",
        "undone",
    ],
    "habit": HABIT_COLUMNS,
    "boilerplate": ["span_id", "text", "sessions"],
}
CHECKED = ("claim", "message")
"""Kinds of rows that are compared with the code."""
HIDDEN = (
    "member_ids",
    "message_ids",
    "samples",
    "blocks",
    "from_id",
    "into_id",
    "examples",
)
"""Columns that lead to other rows, which stand below."""


Row = dict[str, Any]
"""A row of any of the tables that `KINDS` names, since the kind of an id is known when it is looked up."""


@dataclass(frozen=True)
class Node:
    """One row, and the rows below it."""

    kind: str
    id: str
    text: str
    facts: dict[str, Any]
    below: tuple["Node", ...] = ()

    @property
    def said_at(self) -> datetime | None:
        """When it was said; None for what was not said at one time."""
        at = self.facts.get("observed_at") or self.facts.get("ts")
        return localise(at, self.facts.get("utc_offset"))

    @property
    def dated_text(self) -> str:
        """The text as it is shown: with its date beside "yesterday" and the like."""
        return add_days(self.text, self.said_at)

    def as_dict(self, *, dated: bool = False) -> dict[str, Any]:
        """Return plain values, ready for JSON; if `dated`, with the text as it is shown."""
        facts = {name: spell_time(value) for name, value in self.facts.items()}
        below = [node.as_dict(dated=dated) for node in self.below]
        return {
            "kind": self.kind,
            "id": self.id,
            "text": self.dated_text if dated else self.text,
            **facts,
            **({"below": below} if below else {}),
        }


@dataclass(frozen=True)
class NodeLineage:
    """A row with what lies below and, nearest first, what holds it."""

    node: Node
    above: tuple[Node, ...]
    related: tuple[Node, ...] = ()
    """Claims that hang together with a claim, the closest first; `relation` and `reason` say how."""

    def as_dict(self, *, dated: bool = False) -> dict[str, Any]:
        """Return plain values, ready for JSON; if `dated`, with texts as they are shown."""
        related = [node.as_dict(dated=dated) for node in self.related]
        return {
            **self.node.as_dict(dated=dated),
            "above": [node.as_dict(dated=dated) for node in self.above],
            **({"related": related} if related else {}),
        }


def show(
    view: View,
    row_id: str,
    depth: int | None = None,
) -> NodeLineage:
    """Return the row of this id.

    Args:
        view: a release.
        row_id: an id that a command printed, or its first characters.
        depth: how many levels down; None: to the messages.

    Raises:
        UsageError: no row of that id, or several.
        StoreUnreadable: a table is broken or gone.
    """
    with translate_read_errors(view.dir):
        found = find_named_row(view, row_id)
        if found is None:
            return _find_unreleased(view, row_id) or _refuse(view, row_id)
        kind = found.kind
        (row,) = _read_rows(view, found.kind, [found.id])
        node = _build_node(
            view=view, kind=kind, row=row, depth=depth if depth is not None else 99
        )
        related = _list_related(view, node.id) if kind == "claim" else ()
        return NodeLineage(
            node, tuple(_find_ancestors(view, kind, row)), tuple(related)
        )


def rate_memory(
    view: View,
    row_id: str,
    verdict: str,
    why: str = "",
    *,
    redact: bool = True,
) -> Node:
    """Note that a row is good or bad, and why; return it.

    Raises:
        UsageError: no row of that id, or several; or a verdict that is neither.
        StoreUnwritable: the space's folder takes no more.
    """
    if verdict not in ("good", "bad"):
        raise UsageError(f"a memory is good or bad, not {verdict!r}")
    node = show(view, row_id, 0).node
    words = " ".join((redact_text(why) if redact else why).split())[:MOST_WHY]
    append(
        view.dir,
        Rating(at=format_now(), id=node.id, kind=node.kind, verdict=verdict, why=words),
    )
    return node


def _refuse(view: View, row_id: str) -> NoReturn:
    """Refuse an id that no row has.

    Raises:
        UsageError: it is a run's, a release's, too short or unknown.
    """
    for release in load_releases(view.dir):
        if row_id in (release.name, release.release_id, release.release_id[:SHORT_ID]):
            raise UsageError(
                f"{row_id} is a release: `slowwave diff {release.name}` says what changed since it"
            )
        if row_id == release.run_id:
            raise UsageError(
                f"{row_id} is a run: `slowwave inspect runs` has it, and {release.name} came of it"
            )
    if len(row_id) < SHORTEST:
        raise UsageError(f"id {row_id!r} is too short: {SHORTEST} characters at least")
    raise NoSuchId(f"nothing in release {view.release.name} has the id {row_id!r}")


def _find_unreleased(view: View, row_id: str) -> NodeLineage | None:
    """Return a message, or all of a session, that `remember` or `talk` wrote since the release; None if the id is of
    none. They have no id but SESSION/MESSAGE.
    """
    if len(row_id) < SHORTEST:
        return None
    begins = row_id.removeprefix(PREFIX)
    hits = [
        hit
        for hit in read_unreleased(view, view.dir)
        if hit.id.removeprefix(PREFIX).startswith(begins)
    ]
    sessions = {hit.sources[0].session for hit in hits}
    if not hits or len(sessions) > 1:
        return None
    nodes = [
        Node(
            kind="message",
            id=hit.id,
            text=hit.text,
            facts={"speaker": hit.speaker, "ts": hit.observed_at, "status": hit.status},
        )
        for hit in hits
    ]
    if len(nodes) == 1:
        return NodeLineage(nodes[0], ())
    return NodeLineage(
        Node(
            kind="session",
            id=sessions.pop(),
            text="",
            facts={"status": hits[0].status},
            below=tuple(nodes),
        ),
        (),
    )


def _read_rows(
    view: View,
    kind: str,
    ids: Sequence[str],
) -> list[Row]:
    """Return rows by key, in the order of the ids."""
    rows = view.read_by_id(KINDS[kind], ids, COLUMNS[kind])
    return [rows[key] for key in dict.fromkeys(ids) if key in rows]


def _build_node(
    view: View,
    kind: str,
    row: Row,
    depth: int,
) -> Node:
    """Return the row, and what it stands on."""
    below = (
        [
            _build_node(view=view, kind=of, row=child, depth=depth - 1)
            for of, child in _find_children(view, kind, row)
        ]
        if depth > 0
        else []
    )
    row, text = _complete_row(view, kind, row)
    hidden = {KINDS[kind].key, TEXTS[kind], *HIDDEN}
    facts = {
        name: value
        for name, value in row.items()
        if name not in hidden and value not in (None, [], "")
    }
    return Node(
        kind=kind,
        id=_get_id(kind, row),
        text=text,
        facts=facts,
        below=tuple(below),
    )


def _complete_row(
    view: View,
    kind: str,
    row: Row,
) -> tuple[Row, str]:
    """Return a row with what other tables say of it, and its text."""
    text = str(row[TEXTS[kind]] or "")
    if kind == "message":  # gists are not always made
        where = pc.field("message_id") == row["message_id"]
        gists = view.read_rows(GISTS, ["summary", "keywords"], where)
        gist = (
            {"gist": gists[0]["summary"], "keywords": gists[0]["keywords"]}
            if gists
            else {}
        )
        row = {**row, **gist, "tags": collect_tags(row["blocks"] or ())}
    elif kind == "merge":
        text = f"{row['kind']} by the rule {row['rule']}"
    elif kind == "habit":
        text = build_habit(cast(PatternRow, row)).describe()
    elif kind == "topic" and not text:
        text = name_topics(view, [_get_id(kind, row)])[_get_id(kind, row)]
    elif kind == "claim":
        row = {**row, **_find_later(view, _get_id(kind, row))}
    elif kind == "summary":
        text = mark_changes(view.chains, text, row["scope_id"])
    if kind in CHECKED:
        words = text if kind == "message" else ""
        key = _get_id(kind, row)
        row["not_in_code"] = _list_lost(
            view,
            key,
            words,
        )
    return row, text


def _find_later(view: View, claim: str) -> Row:
    """Return a note of the claim that changed this one, or perhaps did: when, and what it says. Empty if none did."""
    chain = view.chains.claims.get(claim)
    note = format_change(view.chains, chain, "") if chain else ""
    if chain is None or not note:
        return {}
    later = view.chains.find_successor(chain)
    if later is None or is_superseded(chain):
        return {"later": note}
    return {"later": note, "perhaps_superseded_by": later["claim_id"]}


def _list_lost(
    view: View,
    key: str,
    words: str = "",
) -> list[str]:
    """Return notes on what a row names and the code does not have any more; of a message on what its `words` name."""
    checks = view.code_checks.get(key, ())
    notes = (check.note for check in checks if not words or check.name in words)
    return list(dict.fromkeys(notes))


def _get_id(
    kind: str,
    row: Row,
) -> str:
    return str(row[KINDS[kind].key])


def _find_children(
    view: View,
    kind: str,
    row: Row,
) -> list[tuple[str, Row]]:
    """Return the rows below a row; of a topic or session the summaries that no other one holds, and of a topic the
    claims that none holds yet.
    """
    if kind in ("message", "habit", "boilerplate"):
        ids = row["examples"] if kind == "habit" else []
        return [("message", message) for message in _read_rows(view, "message", ids)]
    if kind == "merge":
        return [
            ("claim", claim)
            for claim in _read_rows(view, "claim", [row["from_id"], row["into_id"]])
        ]
    # of a claim its messages, of a summary its members, in their order
    if kind in ("claim", "summary"):
        ids = row["message_ids"] if kind == "claim" else row["member_ids"]
        children = {
            _get_id(below, member): (below, member)
            for below in ("summary", "claim", "message")
            for member in _read_rows(view, below, ids)
        }
        return [children[key] for key in dict.fromkeys(ids) if key in children]
    return _find_roots(view, kind, row)


def _find_roots(
    view: View,
    kind: str,
    row: Row,
) -> list[tuple[str, Row]]:
    """Return the nodes of a topic or session below no summary: its top summaries, and a topic's claims by time."""
    scope_id = _get_id(kind, row)
    summaries = _read_summaries(view, scope_id)
    members = {member for summary in summaries for member in summary["member_ids"]}
    roots = [
        ("summary", summary)
        for summary in summaries
        if summary["summary_id"] not in members
    ]
    if kind == "topic":
        is_active = pc.field("status") == Status.ACTIVE
        where = (pc.field("topic_id") == scope_id) & is_active
        for claim in _read_claims(view, where):
            if claim["claim_id"] not in members:
                roots.append(("claim", claim))
    return roots


def _read_claims(
    view: View,
    where: pc.Expression,
) -> list[Row]:
    """Return claims in order of time, then of their ids."""
    claims = view.read(
        CLAIMS,
        COLUMNS["claim"],
        where,
    )
    in_order = claims.sort_by(
        [
            ("observed_at", "ascending"),
            ("claim_id", "ascending"),
        ]
    )
    rows: list[Row] = in_order.to_pylist()
    return rows


def _read_summaries(view: View, scope_id: str) -> list[Row]:
    summaries: list[Row] = view.read(
        SUMMARIES, COLUMNS["summary"], pc.field("scope_id") == scope_id
    ).to_pylist()
    return sorted(
        summaries, key=lambda summary: (-int(summary["tier"]), int(summary["seq"]))
    )


def _find_ancestors(
    view: View,
    kind: str,
    row: Row,
) -> Iterator[Node]:
    """Yield the nodes above a row, nearest first: claims that cite it, summaries to the top, its topic or session."""
    # claims that cite a message
    key = _get_id(kind, row)
    if kind == "message":
        where = pc.field("session_id") == row["session_id"]
        yield from (
            _build_node(view=view, kind="claim", row=claim, depth=0)
            for claim in _read_claims(view, where)
            if key in claim["message_ids"]
        )
    # summaries of its scope, tier by tier, then the topic or session itself
    scopes = {"message": "session_id", "claim": "topic_id", "summary": "scope_id"}
    scope_id = row.get(scopes.get(kind, ""))
    if scope_id is None:
        return
    summaries = _read_summaries(view, str(scope_id))
    level = {key}
    while level:
        holders = [
            summary
            for summary in summaries
            if level.intersection(summary["member_ids"])
        ]
        yield from (
            _build_node(view=view, kind="summary", row=summary, depth=0)
            for summary in holders
        )
        level = {summary["summary_id"] for summary in holders}
    for scope in ("topic", "session"):
        yield from (
            _build_node(view=view, kind=scope, row=ancestor, depth=0)
            for ancestor in _read_rows(view, scope, [str(scope_id)])
        )


def _list_related(view: View, key: str) -> Iterator[Node]:
    """Yield the claims that hang together with a claim, each by its closest relation."""
    ways = read_relations(view, [key], [key])
    for row in _read_rows(view, "claim", list(ways)):
        _, relation, pair = ways[row["claim_id"]]
        facts = {
            "relation": relation,
            "reason": pair["reason"],
            "status": row["status"],
            "observed_at": row["observed_at"],
            "utc_offset": row["utc_offset"],
            **_find_later(view, row["claim_id"]),
            "not_in_code": _list_lost(view, row["claim_id"]),
        }
        yield Node(
            kind="claim",
            id=row["claim_id"],
            text=row["summary"],
            facts={k: v for k, v in facts.items() if v},
        )
