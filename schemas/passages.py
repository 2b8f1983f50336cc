"""`passages`: what recall searches of the vault. One row a piece of what somebody said, sized for the encoder.

A long message becomes several passages, since the encoder reads its first 256 tokens alone.
"""

import pyarrow as pa

from schemas.table import UTC_US, Table, text, vector

PASSAGES = Table(
    name="passages",
    key="passage_id",
    full_text="text",
    fields=(
        text("passage_id"),
        text("message_id", null=False),
        text("session_id", null=False),
        pa.field("seq", pa.int64(), nullable=False),  # the message's place in its session
        pa.field("part", pa.int64(), nullable=False),  # 0, 1, … within the message
        text("role", null=False),
        text("speaker"),
        text("text", null=False),
        pa.field("ts", UTC_US),
        text("workspace"),
        vector(),
        text("step_key", null=False),
    ),
)
