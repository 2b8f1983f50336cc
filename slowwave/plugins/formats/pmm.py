"""The Persistent Mind Model's ledger: a table `events(id, ts, kind, content, meta, prev_hash, hash)`, in SQLite or as
JSON lines of the same fields (github.com/scottonanski, `persistent-mind-model` and `persistent-mind-model-v1.0`).

Its hash chain is checked while it is read (`Chain`). A row whose hash does not match its content becomes inactive.

Only messages are read: rows of a message's kind, and rows of kind `event` whose type is a conversation or an own
expression. The latter hold a condensed text behind "User said: " or "I responded: ". If `meta` keeps the whole text,
that is used; a condensed text is synthetic. The mind's own summary and keywords of a row are its gist. `meta.role` says
who speaks. Its tags and its other values become blocks of the message. Other events (reflections, commitments,
metrics, …) are only counted by kind.
"""

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import NamedTuple

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import GIST, TAGS
from slowwave.tasks.ingest.parsing.lines import iter_documents
from slowwave.tasks.ingest.parsing.records import (
    HUMAN,
    MODEL,
    Block,
    Head,
    Inactive,
    Limits,
    Message,
    Reader,
    Record,
    Rejected,
    Session,
    Skipped,
    Who,
    read_each,
)
from slowwave.tasks.ingest.parsing.redacted import encode_redacted
from slowwave.tasks.ingest.parsing.sqlite_readonly import (
    MAGIC,
    TROUBLE,
    explain_long_cell,
    fetch_row,
    has_columns,
    is_database,
    list_columns,
    open_read_only,
)
from slowwave.tasks.ingest.parsing.unread import leave_out
from slowwave.tasks.ingest.parsing.values import (
    coerce_dict,
    coerce_list,
    coerce_text,
    coerce_time,
    encode_json,
    join_text_blocks,
    make_tag_blocks,
    parse_role,
    stringify,
)

QUARTERS = (0, *(sign * n for n in range(1, 57) for sign in (1, -1)))
"""Time zones as quarters of an hour off UTC, up to 14 hours."""


class Event(NamedTuple):
    """A row of the ledger, as it is stored."""

    id: int
    ts: object
    kind: object
    content: object
    meta: object
    prev_hash: str | None
    hash: str | None
    summary: object = None
    keywords: object = None
    """The mind's own summary and keywords, if its table has these columns. No hash covers them."""
    long: str | None = None
    """Why content or meta was not read, if one is over the limit of a line."""


def _load_json(value: object) -> object:
    """Return the value of a JSON text, or None if it isn't JSON. Return any other value as it is."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return None


class Chain:
    """Checks the hash chain of one ledger, row by row, with each recipe that versions of the mind used.

    A row has its predecessor's hash. Its own hash is SHA-256 over one of: the canonical JSON of kind, content, meta and
    prev_hash; the same with id and ts; `prev_hash|kind|content|meta`; and, for rows of its memory manager,
    `ts|kind|content|id` with the event's own id or the table's, or the JSON of ts, kind, summary, id, tags, effects,
    evidence and prev_hash. The manager hashes the time in UTC, and the table has the local time of that moment or a
    little later. So each time zone is tried, beginning with the last one that fitted.

    If no recipe gives a row's hash, but one does for another row of its kind, the row breaks the chain. If none does
    for any row of its kind, the recipe is unknown: only the links are checked, and a rejection says so.
    """

    def __init__(self) -> None:
        self.before: str | None = None
        self.secret = False
        """True if the next hash covers words that are redacted, since each hash covers the one before it."""
        self.zone = 0
        """Quarters of an hour between the table's times and the hashed ones, as last found."""
        self.borne_out: set[object] = set()
        """Kinds of rows of which at least one hash could be recomputed."""
        self.unverified: list[tuple[int, object, str]] = []
        """The id, kind and hash of each row whose hash no recipe gives."""
        self.forged: list[int] = []
        """Ids of rows that were altered after their chain was made; complete after `judge_unverified`."""

    def check(self, event: Event) -> str | None:
        """Return why a row does not continue the chain; None if it does, or if `judge_unverified` will decide.

        Rows from before the ledger had hashes don't break the chain.
        """
        before = self.before
        self.before = event.hash or self.before
        if event.hash is None and event.prev_hash is None and before is None:
            return None
        if event.hash is None:
            self.forged.append(event.id)
            return "it has no hash"
        if event.long:
            pass  # the hash of a row that was not read can't be computed
        elif event.hash in self._compute_hashes(event):
            self.borne_out.add(event.kind)
        else:
            self.unverified.append((event.id, event.kind, event.hash))
        if (event.prev_hash or None) != before:
            return f"prev_hash is {event.prev_hash}, the hash before it is {before}"
        return None

    def judge_unverified(self) -> Iterator[Rejected]:
        """Yield a rejection for each forged row, and one for each kind whose recipe is unknown. Call it at the end."""
        unknown: dict[object, list[int]] = {}
        for row, kind, digest in self.unverified:
            if kind in self.borne_out:
                self.forged.append(row)
                yield Rejected(
                    row,
                    f"the hash chain breaks at row {row}: hash is {digest}, its content gives another",
                )
            else:
                unknown.setdefault(kind, []).append(row)
        for kind, rows in unknown.items():
            yield Rejected(
                rows[0],
                f"hashes of {len(rows)} rows of kind {kind!r:.60} from row {rows[0]} on: no known recipe gives them, "
                "only their links are checked",
            )

    def _compute_hashes(self, event: Event) -> Iterator[str]:
        """Yield the row's hash by each recipe. If a time zone fits, keep it for the next rows."""
        meta = coerce_dict(_load_json(event.meta))
        row = {
            "kind": event.kind,
            "content": event.content,
            "meta": meta,
            "prev_hash": event.prev_hash,
        }
        for payload in (row, {"id": event.id, "ts": event.ts, **row}):
            yield _compute_sha256(
                json.dumps(
                    payload,
                    sort_keys=True,
                    separators=(",", ":"),
                    default=repr,
                )
            )
        yield _compute_sha256(
            f"{event.prev_hash or ''}|{event.kind}|{event.content}|{event.meta}"
        )
        yield from self._compute_timed_hashes(event, meta)

    def _compute_timed_hashes(
        self, event: Event, meta: dict[str, object]
    ) -> Iterator[str]:
        """Yield the row's hash by each recipe that has a time, once in each zone. Keep the zone that fits."""
        ids = [
            own
            for own in (meta.get("event_id") or meta.get("id"), event.id)
            if own is not None
        ]
        rest = {key: meta.get(key) or [] for key in ("tags", "effects")}
        for zone, ts in self._iter_times(event.ts):
            texts = [f"{ts}|{event.kind}|{event.content}|{own}" for own in ids]
            payload = {
                "ts": ts,
                "kind": event.kind,
                "summary": event.content,
                "id": ids[0],
                **rest,
            }
            payload |= {"evidence": meta.get("evidence"), "prev_hash": event.prev_hash}
            for text in (
                *texts,
                json.dumps(
                    payload,
                    sort_keys=True,
                    ensure_ascii=False,
                    default=repr,
                ),
            ):
                if (digest := _compute_sha256(text)) == event.hash:
                    self.zone = zone
                yield digest

    def _iter_times(self, stored: object) -> Iterator[tuple[int, str]]:
        """Yield candidates for a row's time when it was hashed, in UTC, each with its zone."""
        yield self.zone, str(stored)
        try:
            at = datetime.fromisoformat(str(stored)).replace(tzinfo=None)
        except ValueError:
            return
        for zone in dict.fromkeys((self.zone, *QUARTERS)):
            for late in (
                0,
                1,
                2,
            ):
                # seconds from the hashing of a row to its insertion
                yield (
                    zone,
                    f"{at - timedelta(minutes=15 * zone, seconds=late):%Y-%m-%dT%H:%M:%SZ}",
                )


def _compute_sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


COLUMNS = ("id", "ts", "kind", "content", "meta", "prev_hash", "hash")
OWN = ("summary", "keywords")
"""Columns of a later version."""
_KINDS: dict[str, Who] = {
    **dict.fromkeys(("user_message", "user", "prompt"), HUMAN),
    **dict.fromkeys(("assistant_message", "assistant", "response"), MODEL),
}
EVENT = "event"
_TYPES: dict[str, Who] = {
    **dict.fromkeys(("conversation", "non_behavioral"), HUMAN),
    **dict.fromkeys(("self_expression", "response"), MODEL),
}
"""The role and origin of a row of kind `event`, by its type."""
FULL = ("full", "full_text")
"""Keys of `meta` with the whole text of a condensed row."""
LEADS = ("User said: ", "I responded: ")
CUT = "..."
CUT_AT = (100, 200)
"""Numbers of characters, by PMM's version, of a condensed text before `CUT`."""


def sniff(head: Head) -> bool:
    """Return True if the file is an SQLite database with the ledger's table, or most of its lines have its fields."""
    if head.data.startswith(MAGIC):
        return has_columns(head, "events", set(COLUMNS))
    fields = {"kind", "content", "prev_hash", "hash"}
    own = sum(fields <= line.keys() for line in head.objects)
    return 2 * own > len(head.objects)


def read(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield records in order of the ids; `line` is the row's id. Each break of the chain is one `Rejected`."""
    stem = path.name.split(".")[0]
    last = 0
    if not is_database(path):
        yield from _read_ledger(_iter_lines(path, limits), stem)
        return
    try:
        with open_read_only(path, limits) as database:
            for record in _read_ledger(_fetch_events(database, limits), stem):
                last = getattr(record, "line", last)
                yield record
    except TROUBLE as error:
        yield Rejected(last, f"database can't be read after row {last}: {error}")


def _fetch_events(database: sqlite3.Connection, limits: Limits) -> Iterator[Event]:
    columns = [
        *COLUMNS,
        *(name for name in OWN if name in list_columns(database, "events")),
    ]
    for (rowid,) in database.execute("SELECT rowid FROM events ORDER BY id, rowid"):
        cells, long = fetch_row(
            db=database, table="events", columns=columns, key="rowid", value=rowid
        )
        whole = explain_long_cell(limits) if set(COLUMNS) & set(long) else None
        yield Event(**dict(zip(columns, cells, strict=True)), long=whole)


def _iter_lines(path: Path, limits: Limits) -> Iterator[Event | Rejected]:
    """Yield the rows of JSON lines; a row without an id has its line's number."""
    for item in iter_documents(path, limits):
        if isinstance(item, Rejected):
            yield item
            continue
        fields = {name: item[1].get(name) for name in (*COLUMNS, *OWN)}
        fields |= {name: coerce_text(fields[name]) for name in ("prev_hash", "hash")}
        if not isinstance(fields["id"], int):
            fields["id"] = item[0]
        if not isinstance(fields["meta"], str):
            fields["meta"] = json.dumps(fields["meta"] or {}, ensure_ascii=False)
        yield Event(**fields)  # type: ignore[arg-type]  # as the lines above have made them


def _read_ledger(events: Iterator[Event | Rejected], stem: str) -> Iterator[Record]:
    session: str | None = None
    chain = Chain()
    last = dict[str, tuple[str, bool]]()
    for event in events:
        if isinstance(event, Rejected):
            yield event
            continue
        if session is None:
            # every ledger is called pmm.db, so its first row identifies it
            told = _build_session(stem, event)
            session = told.native_id
            yield told
        yield from read_each(
            [(event.id, event)], partial(_read_event, session, chain, last)
        )
    yield from chain.judge_unverified()
    if session:
        yield from (Inactive(session, str(row)) for row in chain.forged)


def _build_session(stem: str, event: Event) -> Session:
    """Return the session of a ledger, identified by the hash of its first row; without the secrets in that row."""
    former = f"{stem}:{compute_content_id(str(event.ts), str(event.content), event.hash)[:8]}"
    if not hides_secret(event):
        return Session(former, title=stem)
    native = f"{stem}:{compute_content_id(str(event.ts), encode_redacted(event.content))[:8]}"
    return Session(native, title=stem, former=former)


def hides_secret(event: Event) -> bool:
    """Return True if redaction changes the content or meta of a row."""
    said = map(stringify, (event.content, event.meta))
    return any(encode_redacted(words) != words for words in said)


def _read_event(
    session: str,
    chain: Chain,
    last: dict[str, tuple[str, bool]],
    line: int,
    event: Event,
) -> Iterator[Record]:
    if why := chain.check(event):
        yield Rejected(line, f"the hash chain breaks at row {line}: {why}")
    chain.secret = chain.secret or hides_secret(event)
    yield _parse_ledger_row(
        session=session, event=event, last=last, secret=chain.secret
    )


def _parse_ledger_row(
    session: str,
    event: Event,
    last: dict[str, tuple[str, bool]],
    secret: bool,
) -> Message | Rejected | Skipped:
    """Return a row as a message, or why it is rejected or skipped.

    Args:
        session: the ledger's id.
        event: the row.
        last: the last text of each role, and True if it came from a row of kind event; updated here. It finds messages
            that the ledger has in both kinds.
        secret: True if the row's hash covers words that are redacted; it is then not stored.
    """
    if (
        event.long
        or not isinstance(event.kind, str)
        or not isinstance(event.content, str)
    ):
        return Rejected(
            event.id,
            event.long or "kind or content is not text",
            repr(event.content)[:200],
        )
    meta = coerce_dict(_load_json(event.meta))
    kind = _find_kind(event.kind, meta)
    if kind is None:
        return leave_out(
            event.kind, event.id, {"kind": event.kind, "content": event.content}
        )
    text, condensed = _extract_said(event.kind, event.content, meta)
    if not text.strip():
        return Skipped("empty message", event.id)
    role, origin = kind
    before, by_event = last.get(role, ("", False))
    last[role] = text, event.kind == EVENT
    if by_event != last[role][1] and before.startswith(
        text.removesuffix(CUT) if condensed else text
    ):
        return Skipped("message told twice", event.id)
    blocks = _make_blocks(event, text, meta)
    identity, former = _make_identity(event, secret)
    return Message(
        session=session,
        native_id=str(event.id),
        role=role,
        origin="synthetic"
        if condensed
        else origin,  # a condensed text is nobody's words: no claim
        blocks=blocks,
        text=join_text_blocks(blocks),
        ts=coerce_time(event.ts),
        identity=identity,
        line=event.id,
        former=former,
    )


def _find_kind(kind: str, meta: dict[str, object]) -> Who | None:
    """Return the role and origin of a row's words; None if the row isn't a message."""
    found = _KINDS.get(kind) or (
        _TYPES.get(str(meta.get("type"))) if kind == EVENT else None
    )
    return found and (parse_role(meta.get("role")) or found)


def _make_blocks(event: Event, text: str, meta: dict[str, object]) -> list[Block]:
    """Return a row's text and tags, the rest of its meta as JSON, and its own summary and keywords as its gist."""
    rest = {
        key: value
        for key, value in meta.items()
        if key not in (*FULL, TAGS) and value not in (None, "", [], {})
    }
    blocks = [Block("text", text), *make_tag_blocks(meta.get(TAGS))]
    blocks += [Block("other", encode_json(rest), name="meta")] if rest else []
    if isinstance(event.summary, str) and event.summary.strip():
        words = [
            word
            for word in coerce_list(_load_json(event.keywords))
            if isinstance(word, str)
        ]
        gist = "\n".join(" ".join(line.split()) for line in (event.summary, *words))
        blocks.append(Block("other", gist, name=GIST))
    return blocks


def _make_identity(event: Event, secret: bool) -> tuple[str | None, str | None]:
    """Return a row's identity, and its identity in an earlier version of this reader if that differs.

    Ids start at 1 in every ledger, so the row's hash is used: it is the same in a copy, and differs in another ledger.
    Return None for a row without a hash.
    """
    former = f"{event.ts}:{event.hash}" if event.hash else None
    if former is None or not secret:
        return former, None
    return (
        f"{event.ts}:{compute_content_id(str(event.id), encode_redacted(event.content))}",
        former,
    )


def _extract_said(kind: str, content: str, meta: dict[str, object]) -> tuple[str, bool]:
    """Return a row's text, and True if it is condensed. The whole text is returned if the row has it."""
    whole = next(
        (
            text
            for key in FULL
            if isinstance(text := meta.get(key), str) and text.strip()
        ),
        None,
    )
    if whole is not None:
        return whole, False
    if kind != EVENT:
        return content, False
    text = next(
        (content.removeprefix(lead) for lead in LEADS if content.startswith(lead)),
        content,
    )
    return text, text.endswith(CUT) and len(text.removesuffix(CUT)) in CUT_AT


READER = Reader("pmm", sniff, read, version=8, suffixes=("", "-wal"))
