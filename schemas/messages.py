"""`messages`: the vault. Append-only, one row a message, chained by hash within its session."""

import pyarrow as pa

from schemas.table import UTC_US, Table, text

ROLES = ("user", "assistant", "system", "tool", "agent", "observer")
ORIGINS = ("human", "model", "tool", "synthetic")
BLOCK_TYPES = ("text", "thinking", "tool_call", "tool_result", "image", "other")

BLOCK = pa.struct(
    [
        text("type", null=False),  # one of BLOCK_TYPES
        text("text"),  # the text; a tool call's arguments as JSON; a tool result's output
        text("name"),  # a tool's name
        text("call_id"),  # ties a tool result to its call
        pa.field("is_error", pa.bool_()),
        text("media"),  # an image's media type; its bytes are never kept
    ]
)

MESSAGES = Table(
    name="messages",
    key="message_id",
    fields=(
        text("message_id"),  # hash of source, identity and content
        text("session_id", null=False),  # -> sessions
        pa.field("seq", pa.int64(), nullable=False),  # 0, 1, 2… within the session, in order of arrival
        text("native_id", null=False),  # the transcript's own message id, or its ordinal
        text("parent_id"),  # the transcript's own id of the message it answers
        text("role", null=False),  # one of ROLES
        text("origin", null=False),  # one of ORIGINS: whose words these are
        text("speaker"),  # a person's or an agent's name, where the transcript has one
        pa.field("blocks", pa.list_(BLOCK), nullable=False),
        text("text", null=False),  # what was said: text blocks without the tool's noise; empty for tool traffic
        pa.field("ts", UTC_US),
        text("workspace"),
        text("source", null=False),  # the format's name: claude-code, codex, openclaw, …
        pa.field("tokens", pa.int64(), nullable=False),  # estimate: UTF-8 bytes of all blocks / 4
        text("identity", null=False),  # hash of what makes two copies the same message, content apart
        text("prev_hash", null=False),
        text("hash", null=False),
    ),
)
