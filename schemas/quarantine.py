"""`quarantine`: what could not be used, with where it stood and why. Nothing is dropped without a row here."""

import pyarrow as pa

from schemas.table import Table, text

QUARANTINE = Table(
    name="quarantine",
    key="quarantine_id",
    fields=(
        text("quarantine_id"),  # hash of step, place and reason
        text("step", null=False),  # read, observe, …
        text("path"),
        pa.field("line", pa.int64()),
        text("row_id"),  # the row it came from, when it was a row
        text("reason", null=False),
        text("excerpt"),  # the first 2,000 characters, redacted
        pa.field("resolved", pa.bool_(), nullable=False),  # a later reading found it mended
    ),
)
