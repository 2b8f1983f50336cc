"""`completions`: every answer of a language model, kept by the hash of what was asked. No prompt is paid for twice."""

import pyarrow as pa

from schemas.table import STRINGS, UTC_US, Table, text

COMPLETIONS = Table(
    name="completions",
    key="completion_id",
    fields=(
        text("completion_id"),  # hash of model, messages, schema, sampling and token budget
        text("request_id", null=False),  # who asked first: the step's own id for it
        text("model", null=False),
        text("engine", null=False),
        text("text", null=False),  # as it was generated, also where an error was found in it
        text("error"),  # null, or a lasting error: asking again would give it again
        text("reason", null=False),
        text("finish_reason", null=False),
        pa.field("prompt_tokens", pa.int64(), nullable=False),
        pa.field("completion_tokens", pa.int64(), nullable=False),
        pa.field("prefix_tokens", pa.int64(), nullable=False),  # of the prompt's, found in the engine's prefix cache
        pa.field("flags", STRINGS, nullable=False),
        pa.field("created_at", UTC_US, nullable=False),
    ),
    volatile=frozenset({"created_at", "prefix_tokens"}),
)
