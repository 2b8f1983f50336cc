"""What readers of an older store are given for what it is too old to have: tables without rows, columns of nulls.

They lie in a temporary folder that goes with the reader. No data is copied: a shallow clone points to the store's.
"""

import shutil
import tempfile
import weakref
from pathlib import Path

import lance
import pyarrow as pa

from slowwave.schemas.tables import Table
from slowwave.store.other_versions import find_missing_columns


def make_stand_in(reader: object, table: Table, found: lance.LanceDataset | None) -> lance.LanceDataset:
    """Return what was found with nulls in the columns that it lacks; where nothing was, no rows."""
    folder = Path(tempfile.mkdtemp(prefix="slowwave-"))
    weakref.finalize(reader, shutil.rmtree, folder, ignore_errors=True)
    path = str(folder / f"{table.name}.lance")
    if found is None:
        return lance.write_dataset(table.build_disk_schema().empty_table(), path)
    clone = found.shallow_clone(path, found.version)
    clone.add_columns(pa.schema(find_missing_columns(table, found.schema)))
    return clone
