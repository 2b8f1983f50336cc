"""slowwave: nightly memory for AI agents, distilled from their transcripts, recalled with its sources."""

import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if not Path(__file__).with_name("schemas").is_dir():
    raise ImportError(
        "this checkout of slowwave lost its symbolic links slowwave/flows, schemas and tasks: `make install` makes them"
    )

# Else it warns of every part of an index that gets no new row.
os.environ.setdefault("LANCE_LOG", "error")
os.environ.setdefault("LANCE_INCLUDE_VECTOR_CENTROIDS", "false")

if TYPE_CHECKING:
    from slowwave.context.build import Context
    from slowwave.memory import Memory
    from slowwave.recall.hits import Hit, Hits
    from slowwave.recall.sessions import SessionHit, SessionHits
    from slowwave.schemas.filters import Filters
    from slowwave.tasks.gists.gists import summarize_text

__all__ = [
    "Context",
    "Filters",
    "Hit",
    "Hits",
    "Memory",
    "SessionHit",
    "SessionHits",
    "summarize_text",
]
_HOMES = {
    "Context": "context.build",
    "Filters": "schemas.filters",
    "Hit": "recall.hits",
    "Hits": "recall.hits",
    "SessionHit": "recall.sessions",
    "SessionHits": "recall.sessions",
    "summarize_text": "tasks.gists.gists",
}


def __getattr__(name: str) -> object:
    """Return a name of `__all__` on first use: importing slowwave alone costs nothing."""
    if name in __all__:
        return getattr(import_module(f"slowwave.{_HOMES.get(name, 'memory')}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
