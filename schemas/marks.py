"""`marks`: how far a step has come with a unit that may have no output (a session without a claim). Written last."""

from schemas.table import Table, text

MARKS = Table(
    name="marks",
    key="mark_id",
    fields=(
        text("mark_id"),  # hash of step and unit
        text("step", null=False),
        text("unit_id", null=False),  # a session_id
        text("input_key", null=False),  # hash of the step's key and of the unit's content when it was done
        text("note"),  # why there is no output, where that is so
    ),
)
