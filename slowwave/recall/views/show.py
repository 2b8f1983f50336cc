"""Drill down and up: any row of the memory by its id, what it stands on down to the messages, and what holds it.

Ids may be cut to their first characters, as long as they are unique. Sessions and messages are also found by their
transcript's own id, cut like the others: a session's stands over the lines of a context block; and a message by both,
SESSION/MESSAGE: what stands behind a skill's line. Reads one release.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

import pyarrow.compute as pc

from slowwave.recall.release.chains import Chains, mark_changes, read_chains
from slowwave.recall.release.view import View
from slowwave.recall.views.browse import FIGURES
from slowwave.recall.views.related import read_relations
from slowwave.schemas.errors import UsageError
from slowwave.schemas.tables import GISTS, MESSAGES, OBSERVATIONS, SESSIONS, SUMMARIES, TAGS, TOPICS, Table
from slowwave.schemas.vocabulary import SHARED, Status
from slowwave.store.journal import Rating, append, format_now
from slowwave.store.releases import Snapshot
from slowwave.text.redact import redact_text

MOST_WHY = 500
"""Characters of a reason."""
KINDS: dict[str, Table] = {
    "observation": OBSERVATIONS,
    "summary": SUMMARIES,
    "topic": TOPICS,
    "session": SESSIONS,
    "message": MESSAGES,
}
NATIVE = ("message", "session")
"""What transcripts give ids of their own."""
SHORTEST = 6
"""Characters of an id that name a row."""
COLUMNS = {
    "observation": [
        *(
            "observation_id",
            "summary",
            "detail",
            "category",
            "quote",
            "message_ids",
            "speaker",
            "observed_at",
            "status",
        ),
        *(
            "observer",
            "reason",
            "canonical_id",
            "superseded_by",
            "valid_from",
            "valid_to",
            "evidence_sessions",
            "topic_id",
        ),
        *("workspace", "keywords", "files"),
    ],
    "summary": ["summary_id", "scope", "scope_id", "tier", "seq", "title", "text", "member_ids", "first_at", "last_at"],
    "topic": [*FIGURES, "workspace", "samples"],
    "session": ["session_id", "native_id", "source", "workspace", "title", "started_at", "ended_at", "messages"],
    "message": ["message_id", "session_id", "native_id", "role", "origin", "speaker", "text", "ts", "seq", "blocks"],
}
Row = dict[str, Any]


@dataclass(frozen=True)
class Node:
    """One row, and the rows below it."""

    kind: str
    id: str
    text: str
    facts: dict[str, Any]
    below: tuple["Node", ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        facts = {k: v.isoformat() if isinstance(v, datetime) else v for k, v in self.facts.items()}
        below = [node.as_dict() for node in self.below]
        return {"kind": self.kind, "id": self.id, "text": self.text, **facts, **({"below": below} if below else {})}


@dataclass(frozen=True)
class NodeLineage:
    """A row with what lies below and, nearest first, what holds it."""

    node: Node
    above: tuple[Node, ...] = field(default=())
    related: tuple[Node, ...] = field(default=())
    """Of a claim those that hang together with it, the closest first; `relation` and `reason` say how."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        related = {"related": [node.as_dict() for node in self.related]} if self.related else {}
        return {**self.node.as_dict(), "above": [node.as_dict() for node in self.above], **related}


def show(snapshot: Snapshot | View, wanted: str, depth: int | None = None) -> NodeLineage:
    """Return the row of this id.

    Args:
        snapshot: a release.
        wanted: an id or its first characters, also a transcript's own of a message or session; or SESSION/MESSAGE.
        depth: how many levels down; None: to the messages.

    Raises:
        UsageError: no row of that id, or several.
    """
    view = _RowReader(snapshot)
    kind, row = view.find_row(wanted)
    return NodeLineage(
        view.build_node(kind, row, depth if depth is not None else 99),
        tuple(view.find_ancestors(kind, row)),
        tuple(view.find_related(row["observation_id"])) if kind == "observation" else (),
    )


def rate_memory(snapshot: Snapshot | View, wanted: str, verdict: str, why: str = "", *, redact: bool = True) -> Node:
    """Note that a row is good or bad, and why; return it.

    Raises:
        UsageError: no row of that id, or several; or a verdict that is neither.
        StoreUnwritable: the space's folder takes no more.
    """
    if verdict not in ("good", "bad"):
        raise UsageError(f"a memory is good or bad, not {verdict!r}")
    node = show(snapshot, wanted, 0).node
    words = " ".join((redact_text(why) if redact else why).split())[:MOST_WHY]
    append(snapshot.dir, Rating(format_now(), node.id, node.kind, verdict, words))
    return node


def collect_tags(blocks: Sequence[Row]) -> list[str]:
    """Return a message's tags, out of the block that keeps them."""
    return [tag for block in blocks if block["name"] == TAGS for tag in (block["text"] or "").splitlines()]


class _RowReader:
    """One release, read by key."""

    def __init__(self, snapshot: Snapshot | View) -> None:
        self.snapshot = snapshot

    @cached_property
    def chains(self) -> Chains:
        """The release's, which mark the sentences of summaries."""
        return read_chains(self.snapshot)

    def find_row(self, wanted: str) -> tuple[str, Row]:
        """Return kind and row of an id; one that a row has whole is no cut one of others."""
        wanted = wanted.removeprefix(f"{SHARED}:")  # as recall tells of a session that another memory gave
        rows: list[tuple[str, Row]] = []
        for kind, table in KINDS.items():  # rows that have just this id, their own or their transcript's
            natives = self.read_rows(kind, [wanted], by="native_id") if kind in NATIVE else []
            natives = [row for row in natives if row[table.key] != wanted]
            rows += [(kind, row) for row in (*self.read_rows(kind, [wanted]), *natives)]
        if not rows and len(wanted) < SHORTEST:
            raise UsageError(f"id {wanted!r} is too short: {SHORTEST} characters at least")
        rows = rows or self._find_by_prefix(wanted, "session") or self._find_in_session(wanted)
        rows = rows or self._find_by_prefix(wanted, "message")
        if not rows:
            raise UsageError(f"nothing in release {self.snapshot.release.name} has the id {wanted!r}")
        if len(rows) > 1:
            own = [(kind, str(row[KINDS[kind].key]), row.get("native_id")) for kind, row in rows[:5]]
            some = ", ".join(f"{kind} {key if key.startswith(wanted) else native or key}" for kind, key, native in own)
            raise UsageError(f"{len(rows)} rows have ids that begin with {wanted!r}: {some}")
        return rows[0]

    def _find_by_prefix(self, wanted: str, native: str) -> list[tuple[str, Row]]:
        """Return the rows whose ids begin so, or of one kind the transcripts' own."""
        rows: list[tuple[str, Row]] = []
        for kind, table in KINDS.items():
            columns = [table.key, *(["native_id"] if kind == native else [])]
            ids = [
                row[table.key]
                for row in self.snapshot.read(table, columns).to_pylist()
                if any(str(value).startswith(wanted) for value in row.values())
            ]
            rows += [(kind, row) for row in self.read_rows(kind, ids)]
        return rows

    def _find_in_session(self, wanted: str) -> list[tuple[str, Row]]:
        """Return the messages called SESSION/MESSAGE, as a skill's lines name them: by the session's id or tag, and the
        message's own id or the first characters of ours.
        """
        session, slash, message = wanted.rpartition("/")
        if not slash:
            return []
        kind, row = self.find_row(session)
        inside = pc.field("session_id") == row["session_id"] if kind == "session" else pc.scalar(False)
        named = (pc.field("native_id") == message) | pc.starts_with(pc.field("message_id"), message)
        ids = self.snapshot.read(MESSAGES, ["message_id"], inside & named)["message_id"].to_pylist() if message else []
        return [("message", row) for row in self.read_rows("message", ids)]

    def read_rows(self, kind: str, ids: Sequence[str], by: str | None = None) -> list[Row]:
        """Return rows by key or another column, in the order of the ids."""
        if not ids:
            return []
        column, place = by or KINDS[kind].key, {key: at for at, key in enumerate(ids)}
        rows = self.snapshot.read(KINDS[kind], COLUMNS[kind], pc.field(column).isin(sorted(place))).to_pylist()
        return sorted(rows, key=lambda row: (place[row[column]], str(row[KINDS[kind].key])))

    def build_node(self, kind: str, row: Row, depth: int) -> Node:
        """Return the row, and what it stands on."""
        below = tuple(self.build_node(k, r, depth - 1) for k, r in self._find_children(kind, row)) if depth > 0 else ()
        texts = {"observation": "summary", "summary": "text", "message": "text", "topic": "name", "session": "title"}
        hidden = {KINDS[kind].key, texts[kind], "member_ids", "message_ids", "samples", "blocks"}
        if "blocks" in row:  # a message; gists are not always made
            where = pc.field("message_id") == row["message_id"]
            gists = self.snapshot.read(GISTS, ["summary", "keywords"], where).to_pylist()
            gist = {"gist": gists[0]["summary"], "keywords": gists[0]["keywords"]} if gists else {}
            row = {**row, **gist, "tags": collect_tags(row["blocks"] or ())}
        facts = {name: value for name, value in row.items() if name not in hidden and value not in (None, [], "")}
        text = str(row[texts[kind]] or "")
        text = mark_changes(self.chains, text, row["scope_id"]) if kind == "summary" else text
        return Node(kind, str(row[KINDS[kind].key]), text, facts, below)

    def _find_children(self, kind: str, row: Row) -> list[tuple[str, Row]]:
        """Return the rows below a row; of a topic or session the summaries that no other one holds, and of a topic the
        claims that none holds yet.
        """
        if kind == "message":
            return []
        if kind == "observation":
            return [("message", message) for message in self.read_rows("message", row["message_ids"])]
        if kind == "summary":
            kinds, place = ("summary", "observation", "message"), {key: at for at, key in enumerate(row["member_ids"])}
            members = [
                (member, member_row) for member in kinds for member_row in self.read_rows(member, row["member_ids"])
            ]
            return sorted(members, key=lambda pair: place[pair[1][KINDS[pair[0]].key]])
        # of a topic or session what nothing stands above
        scope_id = str(row[KINDS[kind].key])
        summaries = self._read_summaries(scope_id)
        members_of_some = {member for summary in summaries for member in summary["member_ids"]}
        roots = [("summary", summary) for summary in summaries if summary["summary_id"] not in members_of_some]
        if kind == "topic":
            where = (pc.field("topic_id") == scope_id) & (pc.field("status") == Status.ACTIVE)
            claims = self.snapshot.read(OBSERVATIONS, COLUMNS["observation"], where).to_pylist()
            claims = [claim for claim in claims if claim["observation_id"] not in members_of_some]
            roots += [("observation", claim) for claim in sorted(claims, key=lambda claim: str(claim["observed_at"]))]
        return roots

    def _read_summaries(self, scope_id: str) -> list[Row]:
        summaries = self.snapshot.read(SUMMARIES, COLUMNS["summary"], pc.field("scope_id") == scope_id).to_pylist()
        return sorted(summaries, key=lambda summary: (-int(summary["tier"]), int(summary["seq"])))

    def find_ancestors(self, kind: str, row: Row) -> Iterator[Node]:
        """Yield what holds the row, nearest first: claims that cite it, summaries up to the top, its topic or
        session.
        """
        key = str(row[KINDS[kind].key])
        if kind == "message":
            where = pc.field("session_id") == row["session_id"]
            claims = self.snapshot.read(OBSERVATIONS, COLUMNS["observation"], where).to_pylist()
            yield from (self.build_node("observation", claim, 0) for claim in claims if key in claim["message_ids"])
        # summaries of its scope, tier by tier, then the topic or session itself
        scopes = {"message": "session_id", "observation": "topic_id", "summary": "scope_id"}
        scope_id = row.get(scopes.get(kind, ""))
        if scope_id is None:
            return
        summaries, level = self._read_summaries(str(scope_id)), {key}
        while level:
            holders = [summary for summary in summaries if level.intersection(summary["member_ids"])]
            yield from (self.build_node("summary", summary, 0) for summary in holders)
            level = {summary["summary_id"] for summary in holders}
        for scope in ("topic", "session"):
            yield from (self.build_node(scope, ancestor, 0) for ancestor in self.read_rows(scope, [str(scope_id)]))

    def find_related(self, key: str) -> Iterator[Node]:
        """Yield the claims that hang together with a claim, each by its closest relation."""
        ways = read_relations(self.snapshot, [key], [key])
        for row in self.read_rows("observation", list(ways)):
            _, relation, pair = ways[row["observation_id"]]
            facts = {"relation": relation, "reason": pair["reason"], "status": row["status"]}
            yield Node("observation", row["observation_id"], row["summary"], {k: v for k, v in facts.items() if v})
