"""`observations`: one row a distilled claim, with its source.

Each column has one writer: `observe` writes the claim, `keywords` and `embed` theirs before the row is stored,
`dedupe` the status columns, `assign` the topic.
"""

import pyarrow as pa

from schemas.table import STRINGS, UTC_US, Table, text, vector

CODING = ("decision", "pattern", "gotcha", "convention", "context")
PERSONAL = ("fact", "preference", "event", "plan", "relationship")
STATUSES = ("active", "duplicate", "superseded", "quarantined")

OBSERVATIONS = Table(
    name="observations",
    key="observation_id",
    full_text="summary",
    fields=(
        text("observation_id"),  # hash of session, messages, category and quote
        text("session_id", null=False),
        text("workspace"),
        text("summary", null=False),  # one sentence
        text("detail"),
        text("category", null=False),  # of the pack: CODING or PERSONAL
        text("pack", null=False),  # coding, personal
        pa.field("files", STRINGS, nullable=False),
        text("quote", null=False),  # verbatim, from one of the messages
        pa.field("message_ids", STRINGS, nullable=False),  # the messages the quote and the claim stand on
        text("speaker"),
        pa.field("confidence", pa.float32(), nullable=False),  # 0 to 1
        pa.field("observed_at", UTC_US),
        text("observer", null=False),  # extractive, or a model's name
        pa.field("reusable", pa.bool_()),  # gates, null where nobody judged: of use beyond its session
        pa.field("non_trivial", pa.bool_()),  # more than a reader would know anyway
        pa.field("specific", pa.bool_()),  # names something
        pa.field("verified", pa.bool_()),  # its quote stands in its messages
        pa.field("gate_reasons", STRINGS),  # why a gate is shut
        pa.field("keywords", STRINGS, nullable=False),
        vector(),
        text("step_key", null=False),
        text("status", null=False),  # one of STATUSES
        text("reason"),  # why it is not active
        text("canonical_id"),  # the row this one repeats
        text("superseded_by"),
        pa.field("valid_from", UTC_US),
        pa.field("valid_to", UTC_US),
        pa.field("evidence_sessions", STRINGS, nullable=False),  # distinct sessions that say it
        text("dedupe_key"),  # null: not looked at yet
        text("topic_id"),
        text("assign_key"),  # null: not assigned yet
    ),
)

MERGES = Table(
    name="merges",
    key="merge_id",
    fields=(
        text("merge_id"),  # hash of the pair and the rule
        text("kind", null=False),  # duplicate, supersession, doubt (the loser stands)
        text("loser_id", null=False),
        text("winner_id", null=False),
        text("rule", null=False),  # exact, token_sort, …
        pa.field("scores", pa.map_(pa.string(), pa.float32())),  # by scorer, 0 to 100; cosine 0 to 1
        text("reason"),
        pa.field("undone", pa.bool_(), nullable=False),
        text("step_key", null=False),
    ),
)
