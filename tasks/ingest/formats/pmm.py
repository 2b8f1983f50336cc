"""The Persistent Mind Model's ledger: one SQLite table `events(id, ts, kind, content, meta, prev_hash, hash)`.

The ledger is a hash chain, and it is checked while it is read. Three recipes are in use (github.com/scottonanski,
`persistent-mind-model` and `persistent-mind-model-v1.0`): SHA-256 over the canonical JSON of kind, content, meta and
prev_hash; the same with id and ts; and over `prev_hash|kind|content|meta` as one string. A row is whole when it
names its predecessor's hash and one of them gives its own. Only what was said is read; the mind's other events
(reflections, commitments, metrics, …) are counted by kind.
"""

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from slowwave.schemas.ids import compute_content_id
from slowwave.tasks.ingest.parsing.documents import decompress_file
from slowwave.tasks.ingest.parsing.lines import DAMAGE
from slowwave.tasks.ingest.parsing.records import (
    Block,
    Head,
    Limits,
    Message,
    Origin,
    Reader,
    Record,
    Rejected,
    Role,
    Session,
    Skipped,
)
from slowwave.tasks.ingest.parsing.sqlite_readonly import open_read_only
from slowwave.tasks.ingest.parsing.values import coerce_text, coerce_time, join_text_blocks

COLUMNS = ("id", "ts", "kind", "content", "meta", "prev_hash", "hash")
_MAGIC = b"SQLite format 3\0"
_KINDS: dict[str, tuple[Role, Origin]] = {
    **dict.fromkeys(("user_message", "user", "prompt"), ("user", "human")),
    **dict.fromkeys(("assistant_message", "assistant", "response"), ("assistant", "model")),
}


class Event(NamedTuple):
    """A row of the ledger, as it is stored."""

    id: int
    ts: object
    kind: object
    content: object
    meta: object
    prev_hash: str | None
    hash: str | None


def sniff(head: Head) -> bool:
    """Return whether it is an SQLite file with the ledger's table."""
    if not head.data.startswith(_MAGIC):
        return False
    try:
        with _open_ledger(head.path) as database:
            names = {row[1] for row in database.execute("PRAGMA table_info(events)")}
    except (sqlite3.Error, OSError, *DAMAGE):
        return False
    return set(COLUMNS) <= names


def read(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield records in order of the ids; `line` is the row's id. Where the chain breaks, one `Rejected` says so."""
    last = 0
    try:
        with _open_ledger(path) as database:
            columns = ", ".join(COLUMNS)
            rows = database.execute(f"SELECT {columns} FROM events ORDER BY id")
            for record in _read_ledger(map(Event._make, rows), path.name.split(".")[0], limits):
                last = getattr(record, "line", last)
                yield record
    except (sqlite3.Error, *DAMAGE) as error:
        yield Rejected(last, f"database can't be read after row {last}: {error}")


@contextmanager
def _open_ledger(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the database, read-only and without a trace beside it; bytes that are no UTF-8 come as bytes."""
    with decompress_file(path) as plain, open_read_only(plain) as database:
        database.text_factory = _decode_text
        yield database


def _decode_text(raw: bytes) -> str | bytes:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def _read_ledger(events: Iterator[Event], stem: str, limits: Limits) -> Iterator[Record]:
    session: str | None = None
    before: str | None = None
    broken = False
    for event in events:
        if session is None:
            # Every ledger is called pmm.db: its first row tells one mind's from another's.
            session = f"{stem}:{compute_content_id(str(event.ts), str(event.content), event.hash)[:8]}"
            yield Session(session, title=stem)
        why = _explain_chain_break(event, before, started=before is not None)
        if why and not broken:
            broken = True
            yield Rejected(event.id, f"the hash chain breaks at row {event.id}: {why}")
        before = event.hash or before
        yield _parse_ledger_row(session, event, limits)


def _explain_chain_break(event: Event, before: str | None, *, started: bool) -> str | None:
    """Return why a row does not continue the chain.

    None when it does. Rows from before the ledger had hashes are no break.
    """
    if event.hash is None and event.prev_hash is None and not started:
        return None
    if (event.prev_hash or None) != before:
        return f"prev_hash is {event.prev_hash}, the hash before it is {before}"
    if event.hash is None or event.hash not in _compute_hashes(event):
        return f"hash is {event.hash}, its content gives another"
    return None


def _compute_hashes(event: Event) -> Iterator[str]:
    """Yield what the row's hash is under each recipe."""
    try:
        meta = json.loads(str(event.meta)) if event.meta else {}
    except json.JSONDecodeError:
        meta = {}
    said = {"kind": event.kind, "content": event.content, "meta": meta, "prev_hash": event.prev_hash}
    try:
        for payload in (said, {"id": event.id, "ts": event.ts, **said}):
            yield _compute_sha256(json.dumps(payload, sort_keys=True, separators=(",", ":")))
    except TypeError:
        return  # a column holds bytes: no recipe gives a hash for that
    yield _compute_sha256(f"{event.prev_hash or ''}|{event.kind}|{event.content}|{event.meta}")


def _compute_sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _parse_ledger_row(session: str, event: Event, limits: Limits) -> Message | Rejected | Skipped:
    if not isinstance(event.kind, str) or not isinstance(event.content, str):
        return Rejected(event.id, "kind or content is no UTF-8 text", repr(event.content)[:200])
    known = _KINDS.get(event.kind)
    if known is None:
        return Skipped(event.kind, event.id)
    if len(event.content) > limits.max_line_bytes:
        return Rejected(event.id, f"content of {len(event.content)} characters is over the limit", event.content[:200])
    if not coerce_text(event.content.strip()):
        return Skipped("empty message", event.id)
    blocks = [Block("text", event.content)]
    # Ids start at 1 in every ledger: the row's hash makes it the same message in a copy, and another in another mind.
    identity = f"{event.ts}:{event.hash}" if event.hash else None
    at = coerce_time(event.ts)
    return Message(
        session, str(event.id), *known, blocks, join_text_blocks(blocks), at, identity=identity, line=event.id
    )


READER = Reader("pmm", 1, sniff, read, suffixes=("", "-wal"))
