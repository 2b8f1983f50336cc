"""Build the indexes of the tables' texts and vectors, update them with new rows, and rebuild unusable ones.

An index is derived: a broken one is dropped and built again.
"""

import lance
import pyarrow.compute as pc

from slowwave.schemas.errors import READ_TROUBLE
from slowwave.schemas.tables import BY_MODEL, INDEXED_ROWS, QUANTIZED_ROWS, Table
from slowwave.store.manifest import find_index_damage, read_manifest
from slowwave.store.store import Store
from slowwave.text.full_text import FULL_TEXT

CELL_ROWS = 4_096
MOST_PARTS = 8
"""Vectors in a cell of an index; parts of an index before they are merged."""


def index_table(store: Store, table: Table, fewest: int = INDEXED_ROWS) -> bool:
    """Make the indexes of a table's texts and vectors cover every row; return True if something was done.

    Vectors are indexed from `fewest` on. An index built over an empty table covers nothing until it is optimised, so it
    is built with the first rows.
    """
    columns = [table.full_text] if table.full_text and store.count(table) else []
    if table.model_text and store.count(
        table, BY_MODEL & pc.field(table.model_text).is_valid()
    ):
        columns.append(table.model_text)
    if table.vector and store.count(table) >= fewest:
        dataset = store.open_dataset(table)
        if (
            find_index(dataset, table.vector)
            or dataset.count_rows(f"{table.vector} IS NOT NULL") >= fewest
        ):
            columns.append(table.vector)
    return sum(_index_column(store, table, column) for column in columns) > 0


def _index_column(store: Store, table: Table, column: str) -> bool:
    dataset = store.open_dataset(table)
    name = find_index(dataset, column)
    if name and not has_current_settings(dataset, name):
        name = None
    if name and _count_unindexed(dataset, name) == 0:
        return False
    if name:
        # LanceDB's own `optimize` also compacts, and releases would pin the old files too.
        parts = max(len(index.segments) for index in dataset.describe_indices())
        dataset.optimize.optimize_indices(
            **({"num_indices_to_merge": parts} if parts > MOST_PARTS else {})
        )
    elif column == table.vector:
        is_large = store.count(table) >= QUANTIZED_ROWS
        kind = (
            {"index_type": "IVF_RQ", "num_bits": 4}
            if is_large
            else {"index_type": "IVF_FLAT"}
        )
        dataset.create_index(
            column, metric="dot", target_partition_size=CELL_ROWS, **kind
        )
    else:
        dataset.create_scalar_index(column, "INVERTED", **FULL_TEXT)
    dataset = store.open_dataset(table)
    name = find_index(dataset, column)
    if name is None or _count_unindexed(dataset, name) != 0:
        raise OSError(
            f"only a part of the index over {column!r} of table {table.name!r} is there"
        )
    return True


def find_index(dataset: lance.LanceDataset, column: str | None) -> str | None:
    """Return the name of a column's index; None if it has none."""
    return next(
        (
            index.name
            for index in dataset.describe_indices()
            if index.field_names == [column]
        ),
        None,
    )


def has_current_settings(dataset: lance.LanceDataset, name: str) -> bool:
    """Return True unless the index is of full text and was built with other settings than `FULL_TEXT`.

    Raises:
        OSError, RuntimeError, ValueError: its files are broken or gone.
    """
    stats = dataset.stats.index_stats(name)
    texts = [part["params"] for part in stats["indices"] if "params" in part]
    return all(
        settings.get(key) == value
        for settings in texts
        for key, value in FULL_TEXT.items()
    )


def count_unindexed(dataset: lance.LanceDataset) -> int:
    """Return the number of rows missing from a table's indexes, summed over the indexes."""
    return sum(
        dataset.stats.index_stats(index.name)["num_unindexed_rows"]
        for index in dataset.describe_indices()
    )


def _count_unindexed(dataset: lance.LanceDataset, name: str) -> int | None:
    """Return the number of rows that an index does not cover; None if its files are broken or missing."""
    try:
        return int(dataset.stats.index_stats(name)["num_unindexed_rows"])
    except READ_TROUBLE:
        return None


def drop_unusable_indexes(store: Store, table: Table) -> list[str]:
    """Drop the indexes of a table's newest version with altered files; return their names.

    The bytes are compared before Lance reads them. A version of Lance can also name an index that a failed write left.
    """
    dataset = store.open_dataset(table)
    altered = find_index_damage(store.dir, dataset, read_manifest(store.dir).files)
    names = [index.name for index in dataset.describe_indices()]
    unusable = [
        name
        for name in names
        if name in altered or _count_unindexed(dataset, name) is None
    ]
    for name in unusable:
        store.open_dataset(table).drop_index(name)
    return unusable
