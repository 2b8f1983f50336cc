"""The store: versioned Lance tables, one writer, releases that pin a version of every table."""

from slowwave.store.lock import writer_lock
from slowwave.store.releases import Release
from slowwave.store.snapshot import Snapshot
from slowwave.store.store import Store

__all__ = ["Release", "Snapshot", "Store", "writer_lock"]
