"""What a loss of power may take: all that was written since the last sync. The next writer takes it back as a whole.

Lance syncs nothing. After a loss of power a file that was not synced is there, empty or gone, each by itself: a mark
may have outlived the rows that it marks. So a writer syncs what is new before a release and before it lets go of the
lock, and `synced.json` keeps which version each table then had. One that finds that the last writer died before the
machine last started goes back to these versions; after a mere kill nothing is lost, and the next run goes on from it.
"""

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from slowwave.store.integrity.manifests import list_manifests
from slowwave.store.private import replace_file, sync_path

SYNCED_FILE = "synced.json"
OWN = (SYNCED_FILE, "sums.json", "writer.json", "writer.lock")
"""Files of the lock, that say nothing about the tables."""
BOOT = Path("/proc/sys/kernel/random/boot_id")

State = dict[str, tuple[int, ...]]
_states: dict[Path, State] = {}
"""Of each space that this process writes, its files as they were last synced: by what they are, not by any clock."""


def read_boot() -> str | None:
    """Return what tells one start of the machine from another; None where nothing does."""
    with suppress(OSError):
        return BOOT.read_text(encoding="ascii").strip()
    return None


def begin_sync(folder: Path, *, known: bool) -> None:
    """Begin to look at what is written; what is there is synced already where it is `known` that no writer died."""
    _states.pop(folder, None)
    if known and (folder / SYNCED_FILE).exists():
        _states[folder] = _list_state(folder)
    elif known:  # a new store, or an older slowwave's
        mark_synced(folder)


def mark_synced(folder: Path) -> None:
    """Sync what is new, and note the versions of the tables as those to go back to.

    Raises:
        OSError: the disk can't.
    """
    versions = {table.stem: max(list_manifests(table), default=0) for table in folder.glob("*.lance")}
    if not sync_changes(folder) and (folder / SYNCED_FILE).exists():
        return
    replace_file(folder / SYNCED_FILE, json.dumps(versions).encode())


def sync_changes(folder: Path) -> bool:
    """Sync each file that is new or another than at the last sync, and each folder in which a name came or went.

    Raises:
        OSError: the disk can't.
    """
    before, now = _states.get(folder), _list_state(folder)
    changed = [path for path, state in now.items() if not before or before.get(path) != state]
    is_folder = {path for path in changed if len(now[path]) == 1}
    folders = {path.rpartition("/")[0] for path in (*changed, *((before or {}).keys() - now.keys()))}
    if before is None:
        folders |= {str(folder.parent), str(folder.parent.parent)}
    _sync_all(path for path in changed if path not in is_folder)
    _sync_all(sorted(folders | is_folder, reverse=True))
    _states[folder] = now
    return bool(folders)


def _list_state(folder: Path) -> State:
    """Return each file and folder below one, with what tells that it changed: of a folder one figure, of a file three.

    In strings: a store may have thousands of files, and `Path` costs more than the disk.
    """
    found: State = {}
    for above, folders, names in os.walk(folder):
        for name in (*folders, *(name for name in names if name not in OWN)):
            path = f"{above}/{name}"
            with suppress(FileNotFoundError):  # a reader's
                stat = os.lstat(path)
                found[path] = (stat.st_ino,) if name in folders else (stat.st_ino, stat.st_size, stat.st_mtime_ns)
    return found


def _sync_all(paths: Iterable[str]) -> None:
    for path in paths:
        with suppress(FileNotFoundError):
            sync_path(Path(path))
