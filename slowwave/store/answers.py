"""The files in the user's cache folder that keep the last answers of a space, told while it can't be read."""

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


def list_cache_files(store: Path, space: str) -> list[Path]:
    """Return the files of all kinds, of one space of one store."""
    return [find_cache_file(store, space, kind) for kind in KINDS]


def drop_cache_files(store: Path, space: str) -> None:
    """Remove the answers that this machine keeps of a space."""
    for path in list_cache_files(store, space):
        for one in path.parent.glob(f"{path.name}*"):  # SQLite's journals are beside it
            one.unlink(missing_ok=True)
