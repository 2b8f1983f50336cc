"""`gists`: one row a message: a summary far shorter than the text, keywords, key facts."""

import pyarrow as pa

from schemas.table import STRINGS, Table, text

STRATEGIES = ("llm", "extractive", "truncated")

GISTS = Table(
    name="gists",
    key="message_id",
    fields=(
        text("message_id"),
        text("session_id", null=False),
        text("summary", null=False),
        pa.field("keywords", STRINGS, nullable=False),
        pa.field("key_facts", STRINGS, nullable=False),
        text("strategy", null=False),  # the one that made it: one of STRATEGIES
        text("step_key", null=False),
    ),
)
