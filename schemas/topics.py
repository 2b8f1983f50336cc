"""`topics`: what the pyramid is built over; `topic_history`: what merged and split; `summaries`: both hierarchies,
topics' and sessions', in one table.
"""

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
        pa.field("cohesion", pa.float32()),  # length of the mean vector; squared: the mean cosine between members
        text("member_hash"),  # hash of the active claims in it
        text("step_key", null=False),
    ),
)

TOPIC_HISTORY = Table(
    name="topic_history",
    key="event_id",
    fields=(
        text("event_id"),  # hash of the kind, both topics and the claims moved
        text("kind", null=False),  # merge, split
        text("topic_id", null=False),  # the topic that went, or that was cut
        text("name", null=False),  # what it was called then
        text("other_id", null=False),  # the topic it went into, or that was cut off it
        text("other_name", null=False),
        pa.field("claims", STRINGS, nullable=False),  # the claims that moved
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
