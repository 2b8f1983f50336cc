"""Store what was read: sessions, computed from the vault's own rows, then quarantine, and last the files' marks."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import cast

import polars as pl
import pyarrow as pa

from slowwave.schemas.rows import QuarantinedRow, SessionRow
from slowwave.schemas.tables import EXCLUSIONS, FILES, MESSAGES, SESSIONS
from slowwave.store.store import Store
from slowwave.tasks.forget.plan import read_forgotten
from slowwave.tasks.ingest.parsing.records import Inactive, Rejected, Session, Skipped
from slowwave.tasks.ingest.parsing.redacted import redact_id
from slowwave.tasks.ingest.storable import find_shown, show_path
from slowwave.tasks.ingest.transcripts import (
    BAD_NAME,
    Transcript,
    is_at_home,
    redact_path,
)
from slowwave.tasks.ingest.vault import compute_session_id
from slowwave.tasks.quarantine import build_quarantine_row, update_quarantine
from slowwave.text.redact import redact_text
from slowwave.text.secrets.rules import MARK

COLUMNS = [
    "session_id",
    "message_id",
    "native_id",
    "identity",
    "seq",
    "ts",
    "utc_offset",
    "tokens",
    "hash",
]

EXCLUDED = "message of an excluded project"


@dataclass
class IngestedTranscript:
    """The records of one transcript apart from its messages."""

    transcript: Transcript
    sessions: dict[str, Session] = field(default_factory=dict)
    inactive: list[Inactive] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    redacted: Counter[str] = field(default_factory=Counter)
    seen_again: set[str] = field(default_factory=set)
    """Ids of messages that were inactive and that this reading found again: it decides whether they still are."""
    changed: list[str] = field(default_factory=list)
    """The text of each person's message that replaces an earlier version of it."""
    unread: list[Skipped] = field(default_factory=list)
    """Skipped records with a person's words, read before any turn of a person."""
    persons: int = 0
    """Number of persons' turns that were read, including those that are stored already."""
    future: int = 0
    """Number of messages whose time is after the run's."""
    stored: int = 0
    present: int = 0
    taken_over: set[str] = field(default_factory=set)
    """Sessions that were first read from a file elsewhere, and that belong to this one."""
    has_masked_names: bool = False
    """True if a secret was replaced in a message's ids or speaker, or in what is counted of skipped records."""

    @property
    def may_have_secrets(self) -> bool:
        """True if something in the file was redacted, or if some of it was not read to its end."""
        return (
            bool(self.redacted)
            or self.has_masked_names
            or bool(self.rejected)
            or self.skipped[EXCLUDED] > 0
            or any(map(_has_masked_names, self.sessions.values()))
        )

    def settle(self, times: Rejected | None, future: int) -> None:
        """At the end of the file, add the rejection about its times, and decide about skipped records with words.

        If a turn of a person was read, these are counted as skipped. Else they are rejected, since no other record has
        the person's words.
        """
        self.rejected += [times] if times else []
        self.future = future
        for record in self.unread:
            if self.persons:
                self.skipped[record.kind] += 1
            else:
                why = f"left out as {record.kind}, and no turn of a person was read from this file"
                self.rejected.append(Rejected(record.line, why, record.words))
        self.unread.clear()

    def get_session(self, key: str) -> Session:
        """Return a session as known so far; add it if it is unknown."""
        return self.sessions.setdefault(key, Session(key))

    def reuse_former_id(self, fresh: Session, known: Collection[str]) -> None:
        """Give a session the id that an earlier version of its reader gave it, if the store has that id (`known`)."""
        if (
            fresh.former
            and compute_session_id(self.transcript.reader.source, fresh.former) in known
        ):
            self.sessions.setdefault(fresh.key, Session(fresh.former))

    def update_session(self, fresh: Session) -> None:
        """Update a session from a later record, whose non-null fields win."""
        session = self.sessions.setdefault(
            fresh.key, Session(fresh.native_id, stored=fresh.stored)
        )
        for name in ("workspace", "title", "kind", "parent_id", "repository"):
            setattr(session, name, getattr(fresh, name) or getattr(session, name))

    def index_sessions(self) -> dict[str, Session]:
        """Return the sessions by slowwave's id."""
        return {
            self.get_session_id(session): session for session in self.sessions.values()
        }

    def get_session_id(self, session: Session) -> str:
        """Return slowwave's id of a session."""
        if session.stored:
            return session.stored.session_id
        return compute_session_id(self.get_source(session), session.native_id)

    def get_source(self, session: Session) -> str:
        """Return the tool of a session."""
        return (
            session.stored.source if session.stored else self.transcript.reader.source
        )


def _has_masked_names(session: Session) -> bool:
    """Return True if a session's names or ids have a secret, or had one that was replaced."""
    names = (session.title, session.workspace, session.repository)
    ids = (session.native_id, session.parent_id)
    return any(MARK in (name or "") for name in names) or any(
        redact_id(one or "") != (one or "") for one in ids
    )


def write_ingested(
    store: Store, finished: list[IngestedTranscript], *, redact: bool
) -> None:
    """Write the sessions, quarantine and files of transcripts that were read to their end, in this order."""
    if not finished:
        return
    # sessions and quarantine
    _write_sessions(store, finished, redact=redact)
    paths = {got.transcript.name for got in finished}
    rejected = (
        (got.transcript.path, line) for got in finished for line in got.rejected
    )
    quarantine_lines(store, rejected, redact=redact, settled=paths)
    # last the files' marks, by which they count as read
    rows = [
        {
            "path": got.transcript.name,
            "source": got.transcript.reader.source,
            "size": got.transcript.size,
            "mtime_ns": got.transcript.mtime_ns,
            "digest": ""
            if got.may_have_secrets
            else got.transcript.digest,  # a hash would give away a short secret
            "read_key": got.transcript.read_key,
            "sessions": len(got.sessions),
            "messages": got.stored + got.present,
            "quarantined": len(got.rejected),
            "redacted": sum(got.redacted.values()),
            "skipped": sorted(got.skipped.items()),
        }
        for got in finished
    ]
    store.merge(FILES, pa.Table.from_pylist(rows, schema=FILES.schema))


def repair_sessions(store: Store) -> None:
    """Correct the sessions' rows by the stored messages: a run that was killed may have written only the messages.

    This does not wait until the transcript is read again, since it may no longer exist.
    """
    if sum(store.read(SESSIONS, ["messages"])["messages"].to_pylist()) == store.count(
        MESSAGES
    ):
        return
    stored = {row["session_id"]: row for row in store.read(SESSIONS).to_pylist()}
    messages = pl.DataFrame(
        store.read(MESSAGES, [*COLUMNS, "source", "workspace"])
    ).sort("seq")
    rows = []
    for (sid,), own_messages in messages.group_by(["session_id"], maintain_order=True):
        old = stored.get(str(sid))
        if old is None or old["messages"] != own_messages.height:
            rows.append(_repair_session_row(str(sid), own_messages, old))
    store.merge(SESSIONS, pa.Table.from_pylist(rows, schema=SESSIONS.schema))


def _repair_session_row(
    sid: str, messages: pl.DataFrame, old: SessionRow | None
) -> SessionRow:
    row: SessionRow = old or {
        "session_id": messages["session_id"][0],
        "native_id": sid,
        "source": messages["source"][0],
        "path": "",
        "workspace": messages["workspace"][0],
        "title": None,
        "kind": "chat",
        "parent_id": None,
        "inactive": [],
    }
    inactive = sorted({*row["inactive"], *find_inactive_ids(messages, set())})
    return {**row, **_compute_session_stats(messages), "inactive": inactive}


def _compute_session_stats(messages: pl.DataFrame) -> SessionRow:
    """Return a session's figures from its messages, in order of seq."""
    return {
        "started_at": cast("datetime | None", messages["ts"].min()),
        "ended_at": cast("datetime | None", messages["ts"].max()),
        "utc_offset": cast("int | None", messages["utc_offset"].drop_nulls().last()),
        "messages": messages.height,
        "tokens": int(messages["tokens"].sum()),
        "head_hash": messages["hash"].to_list()[-1],
    }


def _read_by_session(store: Store, ids: list[str]) -> dict[str, pl.DataFrame]:
    """Return the stored messages (`COLUMNS`) of each session, in their order."""
    stored = pl.DataFrame(store.read_ids(MESSAGES, ids, COLUMNS, by="session_id"))
    groups = stored.sort("seq").partition_by("session_id", as_dict=True)
    return {str(key[0]): messages for key, messages in groups.items()}


def _merge_sessions(store: Store, rows: list[SessionRow]) -> None:
    """Write the rows of sessions that changed."""
    if rows:
        table = pa.Table.from_pylist(rows, schema=SESSIONS.schema)
        store.merge_changed(SESSIONS, table)


def _redact_ids(row: SessionRow) -> SessionRow:
    """Return the row of a session with secrets in its own id and in its parent's replaced."""
    parent = row["parent_id"]
    return {
        **row,
        "native_id": redact_id(row["native_id"]),
        "parent_id": parent and redact_id(parent),
    }


def _write_sessions(
    store: Store, finished: list[IngestedTranscript], *, redact: bool
) -> None:
    """Write the row of each session that the files hold, from its stored messages and the file's header."""
    ids = [sid for got in finished for sid in got.index_sessions()]
    by_session = _read_by_session(store, ids)
    rows = {row["session_id"]: row for row in store.read_ids(SESSIONS, ids).to_pylist()}
    excluded = set(store.read(EXCLUSIONS, ["row_id"])["row_id"].to_pylist())
    for got in finished:
        taken_back = _list_taken_back(got)
        for sid, info in got.index_sessions().items():
            if sid not in by_session:
                # all its messages are copies of another session's, so it has no row
                continue
            messages = by_session[sid]
            old = rows.get(sid)
            if old and sid in got.taken_over:
                old = {**old, "path": "", "workspace": None, "title": None}
            if old and not is_at_home(got.transcript.path, old["path"]):
                # A file elsewhere changes neither name nor folder.
                row = _repair_session_row(sid, messages, old)
            else:
                natives = taken_back.get(sid, set())
                gone = _find_gone(
                    got=got, info=info, messages=messages, taken_back=natives, old=old
                )
                row = build_session_row(
                    sid=sid,
                    info=info,
                    got=got,
                    messages=messages,
                    inactive=gone,
                    stored=old,
                )
                row = _redact_ids(row) if redact else row
            _exclude_messages(row=row, messages=messages, old=old, excluded=excluded)
            rows[sid] = row
    for sid in read_forgotten(store, "title") & rows.keys():
        rows[sid]["title"] = None
    _merge_sessions(store, list(rows.values()))


def _find_gone(
    got: IngestedTranscript,
    info: Session,
    messages: pl.DataFrame,
    taken_back: set[str],
    old: SessionRow | None,
) -> set[str]:
    """Return the ids of a session's inactive messages: by this reading, by earlier ones unless found again, and by the
    export that it comes from.
    """
    gone = find_inactive_ids(messages, taken_back)
    gone |= set((old or {}).get("inactive") or ()) - got.seen_again
    return gone | set(info.stored.inactive if info.stored else ())


def _list_taken_back(got: IngestedTranscript) -> dict[str, set[str]]:
    """Return the native ids of the messages that a file took back, by session: unredacted and redacted."""
    taken_back: dict[str, set[str]] = {}
    for message in got.inactive:
        sid = got.get_session_id(got.get_session(message.session))
        natives = taken_back.setdefault(sid, set())
        natives |= {message.native_id, redact_id(message.native_id)}
    return taken_back


def _exclude_messages(
    row: SessionRow,
    messages: pl.DataFrame,
    old: SessionRow | None,
    excluded: set[str],
) -> None:
    """Make messages that a person excluded inactive in a session's row, whatever its transcript says.

    In an excluded session, messages that were active before stay active, and new ones never are.
    """
    ids = messages["message_id"]
    if row["session_id"] in excluded:
        counted = ids[: old["messages"]].to_list() if old else []
        active = set(counted).difference(old["inactive"] if old else ())
        row["inactive"] = sorted(set(ids) - active)
    elif left_out := excluded.intersection(ids):
        row["inactive"] = sorted(left_out.union(row["inactive"]))


def build_session_row(
    sid: str,
    info: Session,
    got: IngestedTranscript,
    messages: pl.DataFrame,
    inactive: set[str],
    stored: SessionRow | None,
) -> SessionRow:
    """Return a row of SESSIONS from the session's stored messages (in order of seq) and its transcript's header."""
    old = stored or {}
    return {
        "session_id": sid,
        "native_id": info.native_id,
        "source": got.get_source(info),
        "path": old.get("path") or got.transcript.name,
        "workspace": old.get("workspace") if old and not info.workspace else info.place,
        "title": info.title or old.get("title"),
        "kind": info.kind or old.get("kind") or "chat",
        "parent_id": info.parent_id or old.get("parent_id"),
        "inactive": sorted(inactive),
        **_compute_session_stats(messages),
    }


def find_inactive_ids(messages: pl.DataFrame, taken_back: set[str]) -> set[str]:
    """Return the ids of messages that their transcript took back, and of older versions of rewritten messages."""
    if not taken_back and messages["identity"].is_unique().all():
        return set()
    newest = (
        messages.group_by("identity")
        .agg(pl.col("message_id").last())["message_id"]
        .implode()
    )
    old = pl.col("native_id").is_in(list(taken_back)) | ~pl.col("message_id").is_in(
        newest
    )
    return set(messages.filter(old)["message_id"])


def quarantine_lines(
    store: Store,
    rejected: Iterable[tuple[Path, Rejected]],
    *,
    redact: bool,
    settled: Collection[str] = (),
) -> None:
    """Quarantine the rejected lines of files.

    Earlier rows of files in `settled`, which were read again, are resolved.
    """
    # redacted before it is cut, since half a secret would not be recognised
    clean, name = (redact_text, redact_path) if redact else (str, show_path)
    rows = (
        build_quarantine_row(
            step="read",
            key=(name(path), str(line.line), clean(line.reason)),
            reason=clean(line.reason),
            excerpt=clean(line.excerpt),
            path=name(path),
            line=line.line,
        )
        for path, line in rejected
    )
    update_quarantine(
        store=store,
        step="read",
        rows=rows,
        is_settled=lambda row: row["path"] in settled or _is_renamed(row),
    )


def _is_renamed(row: QuarantinedRow) -> bool:
    """Return True for the row of a file whose name was not UTF-8, if it no longer exists under that name."""
    path = row["path"] or ""
    return row["reason"] == BAD_NAME and not find_shown(path).exists()
