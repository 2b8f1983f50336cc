"""`vectors`: each distinct text encoded once, ever, keyed by model and text."""

from schemas.table import Table, text, vector

VECTORS = Table(
    name="vectors",
    key="vector_id",
    fields=(
        text("vector_id"),  # hash of model and text
        text("model", null=False),
        vector(),
    ),
)
