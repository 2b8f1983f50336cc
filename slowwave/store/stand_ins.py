"""What readers of an older store are given for what it is too old to have: tables without rows, columns of nulls.

They lie in a temporary folder that goes with the reader. No data is copied: a shallow clone points to the store's.
"""

import shutil
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import pyarrow as pa

from slowwave.schemas.tables import Table
from slowwave.store.other_versions import find_missing_columns

if TYPE_CHECKING:  # readers import this, and lancedb takes a second to import
    from lancedb.db import DBConnection
    from lancedb.table import LanceTable


def make_stand_in(reader: object, table: Table, found: lance.LanceDataset | None) -> lance.LanceDataset:
    """Return what was found with nulls in the columns that it lacks; where nothing was, no rows."""
    folder = Path(tempfile.mkdtemp(prefix="slowwave-"))
    weakref.finalize(reader, shutil.rmtree, folder, ignore_errors=True)
    path = str(folder / f"{table.name}.lance")
    if found is None:
        return lance.write_dataset(table.make_empty_table(), path)
    clone = found.shallow_clone(path, found.version)
    clone.add_columns(pa.schema(find_missing_columns(table, found.schema)))
    return clone


def make_stand_in_table(reader: object, table: Table, found: "LanceTable | None") -> "LanceTable":
    """Return the same for who works with LanceDB's tables."""
    import lancedb

    made = make_stand_in(reader, table, found.to_lance() if found else None)
    return open_lance_table(lancedb.connect(Path(made.uri).parent), table.name)


def open_lance_table(db: "DBConnection", name: str) -> "LanceTable":
    """Return a table of a database that is a folder."""
    from lancedb.table import LanceTable

    opened = db.open_table(name)
    if not isinstance(opened, LanceTable):
        raise TypeError(f"expected a local LanceDB table, got {type(opened).__name__}")
    return opened
