"""Files that this machine keeps of a store, outside of it: what is told, and known, while the store is away."""

import os
from pathlib import Path

from slowwave.schemas.ids import content_id

KINDS = ("answers", "briefings")


def cache_folder() -> Path:
    """Where they are kept: `$XDG_CACHE_HOME/slowwave`, else `~/.cache/slowwave`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "slowwave"


def cached_file(store: Path, space: str, kind: str) -> Path:
    """The file of one kind, of one space of one store."""
    return cache_folder() / f"{kind}-{content_id(str(store.absolute()), space)}.sqlite"


def answered_before(store: Path, space: str) -> bool:
    """Whether this machine got answers from this space: there was a store, wherever it is now."""
    return any(cached_file(store, space, kind).is_file() for kind in KINDS)
