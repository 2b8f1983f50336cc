"""`boilerplate`: text that recurs over many sessions and is masked before anything is distilled; `lines`: its count.

`lines` is a cache, one row a session: a night hashes the sessions that are new and counts over all.
"""

import pyarrow as pa

from schemas.table import Table, text

BOILERPLATE = Table(
    name="boilerplate",
    key="span_id",
    fields=(
        text("span_id"),  # hash of the normalised text, 16 hex digits
        text("text", null=False),  # as it read where it was first found
        pa.field("sessions", pa.int64(), nullable=False),  # distinct sessions that hold it
        pa.field("count", pa.int64(), nullable=False),  # how often it was masked
        text("step_key", null=False),
    ),
)

LINES = Table(
    name="lines",
    key="session_id",
    fields=(
        text("session_id"),
        pa.field("hashes", pa.list_(pa.int64()), nullable=False),  # distinct spans of the session, sorted
        pa.field("counts", pa.list_(pa.int32()), nullable=False),  # how often each stands in it
        text("step_key", null=False),
    ),
)
