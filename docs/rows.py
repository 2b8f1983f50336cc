"""The types of the tables' rows, schemas/rows.py, as schemas/tables.py defines the tables.

python docs/rows.py > schemas/rows.py
"""

import pyarrow as pa

from slowwave.schemas.tables import LEDGERS, RELEASED, Table

HEAD = '''"""The rows of every table as Python has them, a type for each table.

Written by `python docs/rows.py > schemas/rows.py`. A row may lack columns that were not read. A column that the schema
allows to be null is `| None`.
"""

from datetime import datetime
from typing import TypedDict
'''
NAMES = {
    "boilerplate": "Boilerplate",
    "topic_history": "TopicEvent",
    "quarantine": "Quarantined",
    "forgotten": "Forgotten",
    "summaries": "Summary",
}
"""Tables whose name is more than a row's and an "s"."""
TYPES = {
    pa.types.is_string: "str",
    pa.types.is_boolean: "bool",
    pa.types.is_integer: "int",
    pa.types.is_floating: "float",
    pa.types.is_timestamp: "datetime",
    pa.types.is_date: "date",
    pa.types.is_binary: "bytes",
}


def render_rows() -> str:
    """Return the module."""
    blocks = [HEAD]
    for table in (*RELEASED, *LEDGERS):
        blocks += _render_table(table)
    return "\n\n".join(blocks)


def name_row(table: str) -> str:
    """Return the name of a table's row, such as `DeadEndRow`."""
    words = table.removesuffix("s").split("_")
    return NAMES.get(table, "".join(word.capitalize() for word in words)) + "Row"


def _render_table(table: Table) -> list[str]:
    """Return the class of a table's row, after those of the structs in it."""
    name = name_row(table.name)
    structs = list[str]()
    lines = [f"class {name}(TypedDict, total=False):"]
    lines += [f'    """A row of {table.name}."""\n']
    for field in table.fields:
        kind = _name_type(field.type, f"{name}{field.name.capitalize()}", structs)
        is_null = field.nullable and field.name != table.key
        lines.append(f"    {field.name}: {kind}{' | None' if is_null else ''}")
    return [*structs, "\n".join(lines) + "\n"]


def _name_type(kind: pa.DataType, name: str, structs: list[str]) -> str:
    """Return the Python type of an Arrow type. The class of a struct is added to `structs` under this name."""
    for holds, python in TYPES.items():
        if holds(kind):
            return python
    if pa.types.is_map(kind):
        value = _name_type(kind.item_type, name, structs)
        return f"list[tuple[{_name_type(kind.key_type, name, structs)}, {value}]]"
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return f"list[{_name_type(kind.value_type, name, structs)}]"
    lines = [f"class {name}(TypedDict, total=False):"]
    lines += [f'    """An item of {name}."""\n']
    for field in kind:
        inner = _name_type(field.type, name + field.name.capitalize(), structs)
        null = " | None" if field.nullable else ""
        lines.append(f"    {field.name}: {inner}{null}")
    structs.append("\n".join(lines) + "\n")
    return name


if __name__ == "__main__":
    print(render_rows(), end="")
