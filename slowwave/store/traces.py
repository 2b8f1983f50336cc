"""What this machine keeps of a store, outside of it: the last answers, told while it is away, and where it is.

A store whose disk is not mounted looks like none at all. Whoever made another in its place would hide it under the
mount, and the next night would begin from nothing. So each release leaves in the user's state folder where it was and
on which device: where that is another now, nothing is made. A store that was deleted is begun anew, and said so.
"""

import os
from contextlib import suppress
from pathlib import Path

from slowwave.schemas.errors import StoreUnreadable
from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import RELEASES
from slowwave.store.private import replace_file

KINDS = ("answers", "briefings")
AWAY = "it was there before and is not there now, so nothing was written: bring it back (is its disk mounted?)"
ANEW = "or begin a new one with `slowwave run --new`"


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


def note_store(store: Path, space: str) -> None:
    """Note where a space is; a home that can't be written to costs the guard and nothing else."""
    path, note = _find_note(store, space), f"{_get_device(store)} {store.absolute() / space}\n"
    with suppress(OSError):
        if not path.is_file() or path.read_text(encoding="utf-8") != note:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(path, note.encode())


def was_here(store: Path, space: str) -> bool:
    """Return whether this machine has written a space, or got answers from it, wherever it is now."""
    return any(path.is_file() for path in (_find_note(store, space), *list_cache_files(store, space)))


def check_not_away(store: Path, space: str) -> str | None:
    """Check that a space which is to be written to is there, or not hidden; return what to say where one was deleted.

    Raises:
        StoreUnreadable: this machine has written it, on a device that is not there now.
    """
    if (store / space / f"{RELEASES.name}.lance").is_dir():
        return None
    note = _find_note(store, space)
    if note.is_file() and note.read_text(encoding="utf-8").split(" ", 1)[0] != str(_get_device(store)):
        raise StoreUnreadable(store / space, f"{AWAY}, {ANEW}")
    return f"there was a store at {store / space} before, and is none now: this one is new" if note.is_file() else None


def drop_note(store: Path, space: str) -> None:
    """Forget that there was such a space."""
    _find_note(store, space).unlink(missing_ok=True)


def _get_device(folder: Path) -> int:
    """Return the device that a folder is on, or would be made on."""
    return next(one.stat().st_dev for one in (folder, *folder.absolute().parents) if one.exists())


def _find_note(store: Path, space: str) -> Path:
    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "slowwave" / "stores"
    return folder / compute_content_id(str(store.absolute()), space)
