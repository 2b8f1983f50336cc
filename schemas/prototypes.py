"""`prototypes`: coarse centroids over claims that move with what they gather; `prototype_members`: the evidence log.

The log is the truth: a prototype is what its log makes of it, and replaying the log makes the same again.
"""

import pyarrow as pa

from schemas.table import UTC_US, Table, text, vector

EVENTS = ("spawn", "join", "leave")

PROTOTYPES = Table(
    name="prototypes",
    key="prototype_id",
    fields=(
        text("prototype_id"),  # hash of the claim it was spawned by
        text("text", null=False),  # what its nearest members say
        vector(),  # moving average of its members
        vector("origin"),  # where it began
        pa.field("size", pa.int64(), nullable=False),  # members now
        pa.field("strength", pa.float32(), nullable=False),  # their evidence: distinct sessions that say each
        pa.field("coherence", pa.float32(), nullable=False),  # mean cosine of its members to it
        pa.field("drift", pa.float32(), nullable=False),  # 1 - cosine to where it began
        pa.field("first_at", UTC_US),
        pa.field("last_at", UTC_US),
        pa.field("events", pa.int64(), nullable=False),  # rows of its log that are in these figures
        text("step_key", null=False),
    ),
)

PROTOTYPE_MEMBERS = Table(
    name="prototype_members",
    key="event_id",
    fields=(
        text("event_id"),  # hash of the event and its place in the log
        pa.field("seq", pa.int64(), nullable=False),  # 0, 1, … over all prototypes
        text("kind", null=False),  # one of EVENTS
        text("prototype_id", null=False),
        text("observation_id", null=False),
        text("from_id"),  # the prototype it came from, where two were merged or one was split
        pa.field("similarity", pa.float32(), nullable=False),  # cosine to the prototype before it moved
        text("step_key", null=False),
    ),
)
