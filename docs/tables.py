"""The tables of the store and of an export, docs/tables.md, as schemas/tables.py defines them.

python docs/tables.py > docs/tables.md
"""

import re
from collections.abc import Iterator
from enum import Enum

from slowwave.schemas import vocabulary
from slowwave.schemas.tables import INTERNAL, LEDGERS, RELEASED, Table
from slowwave.tasks.publish.export import PARTITIONS, find_partition_column

HEAD = """# The tables

Written by `python docs/tables.py > docs/tables.md`. `slowwave export` writes the released tables; each column has its
meaning as metadata in Parquet and Lance, too. [analytics.md](analytics.md) reads them with polars, DuckDB and lancedb.

`id -> table` names the table that an id is of. A column is never null unless the type says so. *Internal* columns are
in an export only with `--internal`. A vector has as many numbers as the store's encoder gives: 384 by default.
"""
SECTIONS = {
    "Released tables": (RELEASED, "A release pins a version of each."),
    "Ledgers": (LEDGERS, "Caches, progress and records of runs: no release pins them, and no export has them."),
}  # fmt: skip


def render_tables() -> str:
    """Return the page as Markdown."""
    lines = [HEAD]
    for heading, (tables, about) in SECTIONS.items():
        lines += [f"## {heading}\n", f"{about}\n"]
        for table in tables:
            lines += [*_render_table(table, released=table in RELEASED), ""]
    return "\n".join(lines).rstrip() + "\n"


def _render_table(table: Table, *, released: bool) -> Iterator[str]:
    """Yield the lines of one table: its key, its partitions, its columns."""
    yield f"### {table.name}\n"
    columns = {by: find_partition_column(table, by) for by in PARTITIONS}
    partitions = [
        f"`{by}`" + (f" (the day of `{column}`)" if column != by else "")
        for by, column in columns.items()
        if column
    ]
    parted = f" Partitioned by {' or '.join(partitions)}." if partitions else ""
    yield f"Key: `{table.key}`.{parted if released else ''}\n"
    yield "| column | type | meaning |"
    yield "|---|---|---|"
    for field in table.build_disk_schema():
        kind = str(field.type).replace("item: ", "")
        null = ", null" if field.nullable else ""
        meaning = _list_values(table.meanings[field.name]).replace("|", "\\|")
        internal = "*internal*; " if released and field.name in INTERNAL else ""
        yield f"| `{field.name}` | {kind}{null} | {internal}{meaning} |"


def _list_values(meaning: str) -> str:
    """Return a meaning with the values of the kind that it names, as in `a Role`."""
    named = re.search(r"\ban? ([A-Z]\w+)", meaning)
    kind = getattr(vocabulary, named[1], None) if named else None
    if not (named and isinstance(kind, type) and issubclass(kind, Enum)):
        return meaning
    values = ", ".join(str(one.value) for one in kind)
    return meaning.replace(named[0], f"one of {values}")


if __name__ == "__main__":
    print(render_tables(), end="")
