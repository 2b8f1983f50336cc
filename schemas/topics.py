"""`topics`: what the pyramid is built over; `summaries`: both hierarchies, topics' and sessions', in one table."""

import pyarrow as pa

from schemas.table import STRINGS, UTC_US, Table, text, vector

BASE_TOPICS = ("self", "user", "system")
SCOPES = ("topic", "session")

TOPICS = Table(
    name="topics",
    key="topic_id",
    fields=(
        text("topic_id"),
        text("name", null=False),
        text("purpose", null=False),  # what KIND of thing belongs here
        pa.field("base", pa.bool_(), nullable=False),
        pa.field("samples", STRINGS, nullable=False),  # ids of the latest members
        pa.field("size", pa.int64(), nullable=False),
        vector("centroid"),
        text("step_key", null=False),
    ),
)

SUMMARIES = Table(
    name="summaries",
    key="summary_id",
    full_text="text",
    fields=(
        text("summary_id"),  # hash of scope, scope_id, tier and member_hash
        text("scope", null=False),  # topic, session
        text("scope_id", null=False),  # topic_id or session_id
        pa.field("tier", pa.int64(), nullable=False),  # 0: over observations or messages; -1: a session's master
        pa.field("seq", pa.int64(), nullable=False),  # 0, 1, … within the tier, in order of sealing
        text("title"),
        text("text", null=False),
        pa.field("member_ids", STRINGS, nullable=False),  # observations, messages, or summaries of the tier below
        text("member_hash", null=False),
        pa.field("sealed", pa.bool_(), nullable=False),  # a sealed group never changes its members
        pa.field("first_at", UTC_US),
        pa.field("last_at", UTC_US),
        text("workspace"),
        vector(),
        text("step_key", null=False),
    ),
)
