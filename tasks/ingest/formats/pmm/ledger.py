"""The Persistent Mind Model's ledger: a table `events(id, ts, kind, content, meta, prev_hash, hash)`, in SQLite or as
JSON lines of the same fields (github.com/scottonanski, `persistent-mind-model` and `persistent-mind-model-v1.0`).

Its hash chain is checked while it is read (`chain.py`); a row whose hash is not its content's is taken back. Only what
was said is read: messages of their own kind, and rows of kind `event` whose type is a conversation's or an own
expression's, which hold it condensed behind "User said: " or "I responded: ". What `meta` keeps of it whole is taken
instead; what is condensed is nobody's words. The mind's own summary and keywords of a row are its gist. A `meta.role`
says who speaks; its tags, and what else it holds, stay with the message in blocks of their own. The mind's other events
(reflections, commitments, metrics, …) are counted by kind.
"""

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import GIST, TAGS
from slowwave.tasks.ingest.formats.pmm.chain import Chain, Event, parse_meta
from slowwave.tasks.ingest.parsing.documents import decompress_file, iter_documents
from slowwave.tasks.ingest.parsing.lines import DAMAGE, read_head
from slowwave.tasks.ingest.parsing.records import (
    Block,
    Head,
    Inactive,
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
from slowwave.tasks.ingest.parsing.sqlite_readonly import explain_long_cell, fetch_row, open_read_only
from slowwave.tasks.ingest.parsing.values import (
    coerce_text,
    coerce_time,
    encode_json,
    join_text_blocks,
    make_tag_blocks,
)

COLUMNS = ("id", "ts", "kind", "content", "meta", "prev_hash", "hash")
OWN = ("summary", "keywords")
"""Columns of a later version."""
_MAGIC = b"SQLite format 3\0"
_KINDS: dict[str, tuple[Role, Origin]] = {
    **dict.fromkeys(("user_message", "user", "prompt"), ("user", "human")),
    **dict.fromkeys(("assistant_message", "assistant", "response"), ("assistant", "model")),
}


EVENT = "event"
_TYPES: dict[str, tuple[Role, Origin]] = {
    **dict.fromkeys(("conversation", "non_behavioral"), ("user", "human")),
    **dict.fromkeys(("self_expression", "response"), ("assistant", "model")),
}
"""Of a row of kind event, by its type."""
_ROLES: dict[str, tuple[Role, Origin]] = {
    "user": ("user", "human"),
    "assistant": ("assistant", "model"),
    "system": ("system", "synthetic"),
}
FULL = ("full", "full_text")
"""Where `meta` keeps a condensed row's whole text."""
LEADS = ("User said: ", "I responded: ")
CUT = "..."
CUT_AT = (100, 200)
"""Characters that PMM's versions keep of a text before `CUT`: no more and no fewer."""


def sniff(head: Head) -> bool:
    """Return whether it is an SQLite file with the ledger's table, or JSON lines with its fields."""
    if not head.data.startswith(_MAGIC):
        lines = [line for line in head.lines if isinstance(line, dict)]
        return bool(lines) and all({"kind", "content", "prev_hash", "hash"} <= line.keys() for line in lines)
    try:
        with _open_ledger(head.path) as database:
            names = {row[1] for row in database.execute("PRAGMA table_info(events)")}
    except (sqlite3.Error, OSError, *DAMAGE):
        return False
    return set(COLUMNS) <= names


def read(path: Path, limits: Limits) -> Iterator[Record]:
    """Yield records in order of the ids; `line` is the row's id. Each break of the chain is one `Rejected`."""
    stem = path.name.split(".")[0]
    if not read_head(path).data.startswith(_MAGIC):
        bad: list[Rejected] = []
        yield from _read_ledger(_iter_lines(path, limits, bad), stem, limits)
        yield from bad
        return
    last = 0
    try:
        with _open_ledger(path, limits) as database:
            for record in _read_ledger(_fetch_events(database, limits), stem, limits):
                last = getattr(record, "line", last)
                yield record
    except (sqlite3.Error, *DAMAGE) as error:
        yield Rejected(last, f"database can't be read after row {last}: {error}")


def _fetch_events(database: sqlite3.Connection, limits: Limits) -> Iterator[Event]:
    names = {row[1] for row in database.execute("PRAGMA table_info(events)")}
    columns = [*COLUMNS, *(name for name in OWN if name in names)]
    for (row,) in database.execute("SELECT id FROM events ORDER BY id"):
        cells, long = fetch_row(database, "events", columns, "id", row)
        whole = explain_long_cell(limits) if set(COLUMNS) & set(long) else None
        yield Event(**dict(zip(columns, cells, strict=True)), long=whole)


def _iter_lines(path: Path, limits: Limits, bad: list[Rejected]) -> Iterator[Event]:
    """Yield the rows of JSON lines; a row without an id has its line's number. What is no row goes to `bad`."""
    for item in iter_documents(path, limits):
        if isinstance(item, Rejected):
            bad.append(item)
            continue
        line, row = item
        number, meta = row.get("id"), row.get("meta")
        before, digest = (value if isinstance(value := row.get(key), str) else None for key in ("prev_hash", "hash"))
        yield Event(
            number if isinstance(number, int) else line,
            row.get("ts"),
            row.get("kind"),
            row.get("content"),
            meta if isinstance(meta, str) else json.dumps(meta or {}, ensure_ascii=False),
            before,
            digest,
            summary=row.get("summary"),
            keywords=row.get("keywords"),
        )


@contextmanager
def _open_ledger(path: Path, limits: Limits | None = None) -> Iterator[sqlite3.Connection]:
    """Open the database, read-only and without a trace beside it; bytes that are no UTF-8 come as bytes."""
    with decompress_file(path) as plain, open_read_only(plain, limits) as database:
        database.text_factory = _decode_text
        yield database


def _decode_text(raw: bytes) -> str | bytes:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def _read_ledger(events: Iterator[Event], stem: str, limits: Limits) -> Iterator[Record]:
    session: str | None = None
    chain, heard = Chain(), dict[str, tuple[str, bool]]()
    for event in events:
        if session is None:
            # Every ledger is called pmm.db: its first row tells one mind's from another's.
            session = f"{stem}:{compute_content_id(str(event.ts), str(event.content), event.hash)[:8]}"
            yield Session(session, title=stem)
        if why := chain.check(event):
            yield Rejected(event.id, f"the hash chain breaks at row {event.id}: {why}")
        yield _parse_ledger_row(session, event, limits, heard)
    yield from chain.judge_unverified()
    if session:
        yield from (Inactive(session, str(row), "its hash is not its content's") for row in chain.forged)


def _parse_ledger_row(
    session: str, event: Event, limits: Limits, heard: dict[str, tuple[str, bool]]
) -> Message | Rejected | Skipped:
    """Return the message that a row holds; `heard` is the last one of each role, and whether a row of kind event told
    it.
    """
    if event.long:
        return Rejected(event.id, event.long)
    if not isinstance(event.kind, str) or not isinstance(event.content, str):
        return Rejected(event.id, "kind or content is no UTF-8 text", repr(event.content)[:200])
    meta = parse_meta(event)
    known = _get_author(event.kind, meta)
    if known is None:
        return Skipped(event.kind, event.id)
    text, condensed = _extract_said(event.kind, event.content, meta)
    if len(text) > limits.max_line_bytes:
        return Rejected(event.id, f"content of {len(text)} characters is over the limit", text[:200])
    if not coerce_text(text.strip()):
        return Skipped("empty message", event.id)
    role, origin = known
    before, by_event = heard.get(role, ("", False))
    heard[role] = text, event.kind == EVENT
    if by_event != heard[role][1] and before.startswith(text.removesuffix(CUT) if condensed else text):
        return Skipped("message told twice", event.id)
    blocks = [Block("text", text), *make_tag_blocks(meta.get(TAGS)), *_keep_meta(meta), *_keep_gist(event)]
    # Ids start at 1 in every ledger: the row's hash makes it the same message in a copy, and another in another mind.
    identity = f"{event.ts}:{event.hash}" if event.hash else None
    at = coerce_time(event.ts)
    said = join_text_blocks(blocks)
    return Message(
        session,
        str(event.id),
        role,
        "synthetic" if condensed else origin,  # a condensed text is nobody's words: never quoted, no claim
        blocks,
        said,
        at,
        identity=identity,
        line=event.id,
    )


def _keep_meta(meta: Mapping[str, object]) -> list[Block]:
    """Return what else a row's meta holds, as JSON in a block; none without anything."""
    kept = {key: value for key, value in meta.items() if key not in (*FULL, TAGS) and value not in (None, "", [], {})}
    return [Block("other", encode_json(kept), name="meta")] if kept else []


def _keep_gist(event: Event) -> list[Block]:
    """Return the mind's own summary and keywords of a row, in a block; none without a summary."""
    if not isinstance(event.summary, str) or not event.summary.strip():
        return []
    words = event.keywords
    try:
        words = json.loads(words) if isinstance(words, str) else words
    except ValueError:
        words = None
    kept = [word for word in words if isinstance(word, str)] if isinstance(words, list) else []
    return [Block("other", "\n".join(" ".join(line.split()) for line in (event.summary, *kept)), name=GIST)]


def _get_author(kind: str, meta: Mapping[str, object]) -> tuple[Role, Origin] | None:
    """Return who says what stands in a row; None where nobody does."""
    known = _KINDS.get(kind) or (_TYPES.get(str(meta.get("type"))) if kind == EVENT else None)
    return _ROLES.get(str(meta.get("role")), known) if known else None


def _extract_said(kind: str, content: str, meta: Mapping[str, object]) -> tuple[str, bool]:
    """Return what was said, whole where the row keeps it, and whether it is condensed."""
    whole = next((text for key in FULL if isinstance(text := meta.get(key), str) and text.strip()), None)
    if whole is not None:
        return whole, False
    if kind != EVENT:
        return content, False
    text = next((content.removeprefix(lead) for lead in LEADS if content.startswith(lead)), content)
    return text, text.endswith(CUT) and len(text.removesuffix(CUT)) in CUT_AT


READER = Reader("pmm", 6, sniff, read, suffixes=("", "-wal"))
