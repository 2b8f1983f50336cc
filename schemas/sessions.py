"""`sessions`: one row a conversation; `files`: one row a transcript file read, so that unchanged ones are skipped."""

import pyarrow as pa

from schemas.table import STRINGS, UTC_US, Table, text

SESSIONS = Table(
    name="sessions",
    key="session_id",
    fields=(
        text("session_id"),
        text("native_id", null=False),  # the transcript's own session id
        text("source", null=False),
        text("path", null=False),
        text("workspace"),
        text("title"),
        text("kind", null=False),  # chat, subagent, scheduled
        text("parent_id"),  # the native id of the session it was spawned or forked from
        pa.field("started_at", UTC_US),
        pa.field("ended_at", UTC_US),
        pa.field("messages", pa.int64(), nullable=False),
        pa.field("tokens", pa.int64(), nullable=False),
        pa.field("inactive", STRINGS, nullable=False),  # message_ids taken back: kept, not distilled
        text("head_hash", null=False),  # hash of the last message: the end of the chain
    ),
)

FILES = Table(
    name="files",
    key="path",
    fields=(
        text("path"),
        text("source"),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("mtime_ns", pa.int64(), nullable=False),
        text("digest", null=False),  # SHA-256 of the bytes (of database and write-ahead log for SQLite)
        text("read_key", null=False),  # version of the reader and of the settings it was read under
        pa.field("sessions", pa.int64(), nullable=False),
        pa.field("messages", pa.int64(), nullable=False),
        pa.field("quarantined", pa.int64(), nullable=False),
        pa.field("redacted", pa.int64(), nullable=False),
        pa.field("skipped", pa.map_(pa.string(), pa.int64())),  # records that are no conversation, by kind
    ),
)
