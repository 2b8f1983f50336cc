"""Files that this machine keeps of a store, outside of it: what is told, and known, while the store is away."""

import os
from pathlib import Path

from slowwave.schemas.ids import compute_content_id

KINDS = ("answers", "briefings")


def find_cache_folder() -> Path:
    """Return where they are kept: `$XDG_CACHE_HOME/slowwave`, else `~/.cache/slowwave`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "slowwave"


def find_cache_file(store: Path, space: str, kind: str) -> Path:
    """Return the file of one kind, of one space of one store."""
    return find_cache_folder() / f"{kind}-{compute_content_id(str(store.absolute()), space)}.sqlite"


def has_cached_answers(store: Path, space: str) -> bool:
    """Return whether this machine got answers from this space: there was a store, wherever it is now."""
    return any(find_cache_file(store, space, kind).is_file() for kind in KINDS)
