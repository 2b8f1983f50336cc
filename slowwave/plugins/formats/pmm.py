"""The Persistent Mind Model's ledger: a table `events(id, ts, kind, content, meta, prev_hash, hash)`, in SQLite or as
JSON lines of the same fields (github.com/scottonanski, `persistent-mind-model` and `persistent-mind-model-v1.0`).

The reader checks the hash chain (`HashChain`). A row whose hash does not fit its content is taken back.

Two sorts of rows become messages: those of a kind of message, and those of kind `event` with the type of a conversation
or an own expression. The latter hold a shortened text behind "User said: " or "I responded: ". If `meta` has the whole
text, that is used; a shortened text gets the origin `synthetic`. The mind's summary and keywords of a row become the
message's gist. `meta.role` names the speaker; the tags and the other fields of `meta` become blocks of the message. All
other events (reflections, commitments, metrics, …) are counted by kind.
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
)

QUARTERS = (0, *(sign * n for n in range(1, 57) for sign in (1, -1)))
"""Time zones as quarters of an hour off UTC, up to 14 hours."""


class Event(NamedTuple):
    """A stored row of the ledger."""

    id: int
    ts: object
    kind: object
    content: object
    meta: object
    prev_hash: str | None
    hash: str | None
    summary: object = None
    keywords: object = None
    """The mind's summary and keywords of the row, if its table has these columns; no hash covers them."""
    long: str | None = None
    """Why content or meta was not read, if one is longer than the limit of a line."""


def _load_json(value: object) -> object:
    """Parse a text as JSON, None if it is invalid; return any other value unchanged."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return None


class HashChain:
    """Checks the hash chain of one ledger, row by row, with each recipe that a version of the mind used.

    A row contains the hash of the row before it and its own. Its own is the SHA-256 of one of these texts:

    1. the canonical JSON of kind, content, meta and prev_hash
    2. the same with id and ts
    3. `prev_hash|kind|content|meta`
    4. by the memory manager: `ts|kind|content|id`, with the event's own id or the table's
    5. by the memory manager: the JSON of ts, kind, summary, id, tags, effects, evidence and prev_hash

    The manager hashes the time in UTC; the table has it in local time, at that moment or up to two seconds later. Each
    time zone is tried, the last one that fitted first.

    If no recipe gives a row's hash but one gives the hash of another row of its kind, the row was changed. If no row
    of its kind can be verified, the recipe is unknown: only the links between these rows are checked, and a record
    says so.
    """

    def __init__(self) -> None:
        self.previous: str | None = None
        """The hash of the row before the next one."""
        self.zone = 0
        """The last offset that fitted between the table's times and the hashed ones, in quarters of an hour."""
        self.verified: set[object] = set()
        """Kinds of rows with at least one verified hash."""
        self.unverified: list[tuple[int, object, str]] = []
        """Id, kind and hash of rows whose hash no recipe gives."""
        self.forged: list[int] = []
        """Ids of rows without a hash and, after `judge_unverified`, of rows whose hash does not fit their content."""

    def check(self, event: Event) -> str | None:
        """Return why a row does not continue the chain; None if it does, or if `judge_unverified` will decide.

        Rows from before the ledger had hashes are valid.
        """
        before, self.previous = self.previous, event.hash or self.previous
        if event.hash is None and event.prev_hash is None and before is None:
            return None
        if event.hash is None:
            self.forged.append(event.id)
            return "it has no hash"
        if event.long:
            pass  # the content was not read: its hash can't be computed
        elif event.hash in self._compute_hashes(event):
            self.verified.add(event.kind)
        else:
            self.unverified.append((event.id, event.kind, event.hash))
        if (event.prev_hash or None) != before:
            return f"prev_hash is {event.prev_hash}, the hash before it is {before}"
        return None

    def judge_unverified(self) -> Iterator[Rejected]:
        """Yield each row whose hash does not fit its content, and one record for each kind without a known recipe."""
        unknown: dict[object, list[int]] = {}
        for row, kind, digest in self.unverified:
            if kind in self.verified:
                self.forged.append(row)
                yield Rejected(row, f"the hash chain breaks at row {row}: hash is {digest}, its content gives another")
            else:
                unknown.setdefault(kind, []).append(row)
        for kind, rows in unknown.items():
            yield Rejected(
                rows[0],
                f"hashes of {len(rows)} rows of kind {kind!r:.60} from row {rows[0]} on: no known recipe gives them, "
                "only their links are checked",
            )

    def _compute_hashes(self, event: Event) -> Iterator[str]:
        """Yield the row's hash under each recipe."""
        meta = coerce_dict(_load_json(event.meta))
        row = {"kind": event.kind, "content": event.content, "meta": meta, "prev_hash": event.prev_hash}
        for payload in (row, {"id": event.id, "ts": event.ts, **row}):
            yield _compute_sha256(json.dumps(payload, sort_keys=True, separators=(",", ":"), default=repr))
        yield _compute_sha256(f"{event.prev_hash or ''}|{event.kind}|{event.content}|{event.meta}")
        ids = [own for own in (meta.get("event_id") or meta.get("id"), event.id) if own is not None]
        rest = {key: meta.get(key) or [] for key in ("tags", "effects")}
        for zone, ts in self._iter_times(event.ts):
            texts = [f"{ts}|{event.kind}|{event.content}|{own}" for own in ids]
            payload = {"ts": ts, "kind": event.kind, "summary": event.content, "id": ids[0], **rest}
            payload |= {"evidence": meta.get("evidence"), "prev_hash": event.prev_hash}
            for text in (*texts, json.dumps(payload, sort_keys=True, ensure_ascii=False, default=repr)):
                if (digest := _compute_sha256(text)) == event.hash:
                    self.zone = zone
                yield digest

    def _iter_times(self, stored: object) -> Iterator[tuple[int, str]]:
        """Yield the possible times of a row's hashing, in UTC, each with its zone."""
        yield self.zone, str(stored)
        try:
            at = datetime.fromisoformat(str(stored)).replace(tzinfo=None)
        except ValueError:
            return
        for zone in dict.fromkeys((self.zone, *QUARTERS)):
            for late in (0, 1, 2):  # seconds between hashing a row and writing it
                yield zone, f"{at - timedelta(minutes=15 * zone, seconds=late):%Y-%m-%dT%H:%M:%SZ}"


def _compute_sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


COLUMNS = ("id", "ts", "kind", "content", "meta", "prev_hash", "hash")
OWN = ("summary", "keywords")
"""Columns that a later version added."""
_KINDS: dict[str, Who] = {
    **dict.fromkeys(("user_message", "user", "prompt"), HUMAN),
    **dict.fromkeys(("assistant_message", "assistant", "response"), MODEL),
}
EVENT = "event"
_TYPES: dict[str, Who] = {
    **dict.fromkeys(("conversation", "non_behavioral"), HUMAN),
    **dict.fromkeys(("self_expression", "response"), MODEL),
}
"""The speaker of a row of kind event, by its type."""
FULL = ("full", "full_text")
"""Fields of `meta` with the whole text of a shortened row."""
LEADS = ("User said: ", "I responded: ")
CUT = "..."
CUT_AT = (100, 200)
"""Characters of a text before `CUT`, in PMM's two versions."""


def sniff(head: Head) -> bool:
    """Return True for an SQLite file with the ledger's table, or JSON lines with its fields."""
    if head.data.startswith(MAGIC):
        return has_columns(head, "events", set(COLUMNS))
    fields = {"kind", "content", "prev_hash", "hash"}
    return bool(head.objects) and all(fields <= line.keys() for line in head.objects)


def read(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield records in order of the ids; `line` is the row's id. Each break of the hash chain is a `Rejected`."""
    stem, last = path.name.split(".")[0], 0
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
    columns = [*COLUMNS, *(name for name in OWN if name in list_columns(database, "events"))]
    for (rowid,) in database.execute("SELECT rowid FROM events ORDER BY id, rowid"):
        cells, long = fetch_row(database, "events", columns, "rowid", rowid)
        whole = explain_long_cell(limits) if set(COLUMNS) & set(long) else None
        yield Event(**dict(zip(columns, cells, strict=True)), long=whole)


def _iter_lines(path: Path, limits: Limits) -> Iterator[Event | Rejected]:
    """Yield the rows of JSON lines; if a row has no id, its line's number is used."""
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
        yield Event(**fields)  # type: ignore[arg-type]  # the lines above ensure the types


def _read_ledger(events: Iterator[Event | Rejected], stem: str) -> Iterator[Record]:
    """Yield the session, a record for each row, and an `Inactive` for each forged row."""
    session: str | None = None
    chain, last = HashChain(), _LastTexts()
    for event in events:
        if isinstance(event, Rejected):
            yield event
            continue
        if session is None:
            # every ledger is called pmm.db: the first row distinguishes them
            session = f"{stem}:{compute_content_id(str(event.ts), str(event.content), event.hash)[:8]}"
            yield Session(session, title=stem)
        yield from read_each([(event.id, event)], partial(_read_event, session, chain, last))
    yield from chain.judge_unverified()
    if session:
        yield from (Inactive(session, str(row)) for row in chain.forged)


class _LastTexts:
    """Finds messages that a ledger contains twice: as a message, and shortened as a row of kind event."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[str, bool]] = {}
        """The last text of each role, and whether it came from a row of kind event."""

    def is_repeat(self, role: str, text: str, *, condensed: bool, by_event: bool) -> bool:
        """Return True if the role's last text, from a row of the other sort, begins with this one; remember this one.

        Args:
            role: the speaker's role.
            text: the row's text.
            condensed: True if the text was shortened.
            by_event: True if the row is of kind event.
        """
        last, last_by_event = self._last.get(role, ("", False))
        self._last[role] = text, by_event
        return last_by_event != by_event and last.startswith(text.removesuffix(CUT) if condensed else text)


def _read_event(session: str, chain: HashChain, last: _LastTexts, line: int, event: Event) -> Iterator[Record]:
    if why := chain.check(event):
        yield Rejected(line, f"the hash chain breaks at row {line}: {why}")
    yield _parse_ledger_row(session, event, last)


def _parse_ledger_row(session: str, event: Event, last: _LastTexts) -> Message | Rejected | Skipped:
    """Parse a row as a message."""
    if event.long or not isinstance(event.kind, str) or not isinstance(event.content, str):
        return Rejected(event.id, event.long or "kind or content is no text", repr(event.content)[:200])
    meta = coerce_dict(_load_json(event.meta))
    who = _find_speaker(event.kind, meta)
    if who is None:
        return leave_out(event.kind, event.id, {"kind": event.kind, "content": event.content})
    text, condensed = _extract_text(event.kind, event.content, meta)
    if not text.strip():
        return Skipped("empty message", event.id)
    role, origin = who
    if last.is_repeat(role, text, condensed=condensed, by_event=event.kind == EVENT):
        return Skipped("message told twice", event.id)
    blocks = [Block("text", text), *_make_meta_blocks(meta), *_make_gist_blocks(event)]
    return Message(
        session,
        str(event.id),
        role=role,
        origin="synthetic" if condensed else origin,  # no claim is made of a shortened text
        blocks=blocks,
        text=join_text_blocks(blocks),
        ts=coerce_time(event.ts),
        # Ids start at 1 in every ledger. The row's hash is the same in a copy, and different in another mind's ledger.
        identity=f"{event.ts}:{event.hash}" if event.hash else None,
        line=event.id,
    )


def _find_speaker(kind: str, meta: dict[str, object]) -> Who | None:
    """Return the speaker of a row; None if it is not a message."""
    who = _KINDS.get(kind)
    if who is None and kind == EVENT:
        who = _TYPES.get(str(meta.get("type")))
    if who is None:
        return None
    return parse_role(meta.get("role")) or who


def _make_meta_blocks(meta: dict[str, object]) -> list[Block]:
    """Return blocks of the tags in `meta`, and of its other fields as JSON."""
    rest = {key: value for key, value in meta.items() if key not in (*FULL, TAGS) and value not in (None, "", [], {})}
    blocks = make_tag_blocks(meta.get(TAGS))
    return [*blocks, Block("other", encode_json(rest), name="meta")] if rest else [*blocks]


def _make_gist_blocks(event: Event) -> list[Block]:
    """Return a block of the mind's summary and keywords of a row, if it has a summary."""
    if not isinstance(event.summary, str) or not event.summary.strip():
        return []
    words = [word for word in coerce_list(_load_json(event.keywords)) if isinstance(word, str)]
    gist = "\n".join(" ".join(line.split()) for line in (event.summary, *words))
    return [Block("other", gist, name=GIST)]


def _extract_text(kind: str, content: str, meta: dict[str, object]) -> tuple[str, bool]:
    """Return a row's text, whole if `meta` has it, and True if it is shortened."""
    whole = next((text for key in FULL if isinstance(text := meta.get(key), str) and text.strip()), None)
    if whole is not None:
        return whole, False
    if kind != EVENT:
        return content, False
    text = next((content.removeprefix(lead) for lead in LEADS if content.startswith(lead)), content)
    return text, text.endswith(CUT) and len(text.removesuffix(CUT)) in CUT_AT


READER = Reader("pmm", sniff, read, version=7, suffixes=("", "-wal"))
