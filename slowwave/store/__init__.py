"""The store: versioned Lance tables, one writer, releases that pin a version of every table.

The names are loaded when they are first used: a reader that needs `Snapshot` pays for no writer.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slowwave.store.lock import writer_lock
    from slowwave.store.releases import Release, Snapshot
    from slowwave.store.store import Store

__all__ = ["Release", "Snapshot", "Store", "writer_lock"]

_HOMES = {
    "Release": "releases",
    "Snapshot": "releases",
    "Store": "store",
    "writer_lock": "lock",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
