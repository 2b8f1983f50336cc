"""What is forgotten, as the table of it says: asked by reading, so that nothing comes back, and by `verify`."""

import pyarrow.compute as pc

from slowwave.schemas.tables import FORGOTTEN
from slowwave.store.store import Store


def read_forgotten(store: Store, kind: str, column: str = "row_id") -> set[str]:
    """Return a column of what is forgotten of a kind: message, title, quarantine."""
    values: list[str] = store.read(FORGOTTEN, [column], pc.field("kind") == kind)[column].to_pylist()
    return set(values)
