"""Make files that only their owner can read (folders 0700, files 0600, whatever the umask), and write files safely."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import BinaryIO

FOLDER = 0o700
OTHERS = 0o077
"""The permissions of group and others."""


class _Umask:
    """The umask, which all threads of a process share: the first block sets it, and the last puts it back.

    If each block put back what it had found, the block that begins second and ends last would leave the umask of the
    first one behind.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._blocks = 0
        self._before = 0

    def begin_block(self) -> None:
        """Close new files to others."""
        with self._lock:
            if self._blocks == 0:
                self._before = os.umask(OTHERS)
            self._blocks += 1

    def end_block(self) -> None:
        """Put the umask back if no other block is open."""
        with self._lock:
            self._blocks -= 1
            if self._blocks == 0:
                os.umask(self._before)


_umask = _Umask()


@contextmanager
def make_files_private() -> Iterator[None]:
    """Set the umask for the block: files that this process writes, also by Lance, are private to their owner."""
    _umask.begin_block()
    try:
        yield
    finally:
        _umask.end_block()


def make_private_folder(folder: Path) -> None:
    """Make a private folder, and its missing parents; existing folders are not changed.

    `Path.mkdir` applies its mode to the last folder only.
    """
    for path in reversed([folder, *folder.parents]):
        if not path.exists():
            path.mkdir(mode=FOLDER, exist_ok=True)


def replace_file(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Replace a file, or make it; by default only its owner can read it. The content is synced before it replaces the
    old one. A link in its place is replaced, not followed.

    Raises:
        OSError: the file can't be written. The old file is unchanged.
    """
    fresh = place_fresh(path)
    fresh.unlink(missing_ok=True)
    with open_new(fresh, mode) as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    fresh.replace(path)
    sync_path(path.parent)


def place_fresh(path: Path) -> Path:
    """Return where `replace_file` writes a file before it is renamed. A killed call leaves it there."""
    return path.with_name(f".{path.name}.new")


def open_new(path: Path, mode: int = 0o666) -> BinaryIO:
    """Create a file and open it for reading and writing. A link that somebody put there is not followed or replaced.

    Raises:
        FileExistsError: the path exists.
    """
    return os.fdopen(
        os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode), "w+b"
    )


def sync_path(path: Path) -> None:
    """Sync a file's content, or a folder's entries, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def close_to_others(folder: Path) -> None:
    """Remove the permissions of others from a folder and its content; entries of other owners are left as they are."""
    if not folder.stat().st_mode & OTHERS:
        return
    for path in [*folder.rglob("*"), folder]:
        if not path.is_symlink():
            with suppress(PermissionError, FileNotFoundError):
                # Of another owner, or just deleted by a reader.
                path.chmod(path.stat().st_mode & ~OTHERS)
