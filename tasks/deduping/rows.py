"""Small changes to tables of OBSERVATIONS: order by id, one row, columns set to a value."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from schemas.observations import OBSERVATIONS


def by_id(table: pa.Table) -> pa.Table:
    """The rows in order of their id, cast to OBSERVATIONS."""
    return table.select(OBSERVATIONS.schema.names).cast(OBSERVATIONS.schema).sort_by("observation_id")


def only_row(table: pa.Table, observation_id: str) -> pa.Table:
    """The row of that id, cast to OBSERVATIONS; raises KeyError where there is none."""
    rows = table.filter(pc.equal(table["observation_id"], observation_id))
    if not rows.num_rows:
        raise KeyError(f"observation {observation_id!r} is not among the rows given")
    return rows.select(OBSERVATIONS.schema.names).cast(OBSERVATIONS.schema)


def with_values(table: pa.Table, **values: Any) -> pa.Table:
    """The table with columns set to one value each."""
    for name, value in values.items():
        field = table.schema.field(name)
        column = pa.array([value] * table.num_rows, field.type)
        table = table.set_column(table.schema.get_field_index(name), field, column)
    return table
