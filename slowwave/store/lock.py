"""One writer at a time. The lock is the kernel's (flock), so it is gone the moment its holder dies, however it dies."""

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from zlib import crc32

import orjson
from filelock import FileLock, Timeout

from slowwave.schemas.errors import StoreError, StoreLocked, StoreUnwritable, format_error, translate_write_errors
from slowwave.schemas.tables import RELEASES
from slowwave.store.journal import format_now
from slowwave.store.manifest import begin_sync, go_back_to_synced, mark_synced, read_boot
from slowwave.store.place import find_place
from slowwave.store.private import make_private_folder, replace_file

LOCK_FILE = "writer.lock"
WAITING_FILES = "waiting-{:08x}.lock"
"""By what is waited for; gone when it was done."""
HOLDER_FILE = "writer.json"


@dataclass(frozen=True)
class Holder:
    """Who writes: a run, its kind and its process, since when (ISO, UTC), and on which start of the machine."""

    run_id: str
    kind: str
    pid: int
    host: str
    since: str
    boot: str | None = None


@contextmanager
def writer_lock(space_dir: Path, run_id: str, kind: str = "run", wait: float = 0) -> Iterator[Holder | None]:
    """Hold the space's writer lock, after so many seconds at most; yields who died holding it, if somebody did.

    The holder file says who writes. It is removed when all that was written is synced, so one that is still there when
    the lock is free belongs to a run that was killed; where the machine was started since, power may have been lost,
    and the tables go back to what was synced. If the store lies elsewhere (`place.py`), the lock is held there too, and
    what was written is live once it is released.

    Raises:
        StoreLocked: another process, or another thread of this one, holds it; or another machine.
        StoreUnwritable: there is no room, or no right; or what was written can't be synced, or brought up.
    """
    lock, path = hold_lock(space_dir, wait), space_dir / HOLDER_FILE
    try:
        with find_place(space_dir.parent).lease(space_dir.name, run_id, kind, wait):
            try:
                with translate_write_errors(space_dir):
                    left, died = path.exists(), _read_holder(space_dir)
                    if left and (died is None or died.boot != read_boot()):
                        go_back_to_synced(space_dir)
                    begin_sync(space_dir, synced=not left)
                    holder = Holder(run_id, kind, os.getpid(), socket.gethostname(), format_now(), read_boot())
                    replace_file(path, orjson.dumps(holder))  # durably: it alone tells of a run
                yield died
            except BaseException:
                with suppress(StoreError):  # what went wrong first is what is told
                    _let_go(space_dir)
                raise
            else:
                _let_go(space_dir)
    finally:
        lock.release()


@contextmanager
def wait_alone(space_dir: Path, what: str) -> Iterator[bool]:
    """Yield whether no other process waits for the same, or does it: who comes while one does leaves it to that."""
    make_private_folder(space_dir)
    path = space_dir / WAITING_FILES.format(crc32(what.encode("utf-8", "replace")))
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        with suppress(OSError):  # Windows removes no open file
            path.unlink()
        lock.release()


def remove_space(space_dir: Path) -> None:
    """Remove a space while nobody else can write it: its ledger of releases last, so that one half removed is known as
    a space and can be removed again.

    Raises:
        StoreLocked, StoreUnwritable: as `writer_lock`.
    """
    lock, last = hold_lock(space_dir), {f"{RELEASES.name}.lance": 0, LOCK_FILE: 1}
    try:
        with find_place(space_dir.parent).lease(space_dir.name, "forget", "forget"), translate_write_errors(space_dir):
            for path in sorted(space_dir.iterdir(), key=lambda path: last.get(path.name, -1)):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            space_dir.rmdir()
    finally:
        lock.release()


def hold_lock(space_dir: Path, wait: float = 0) -> FileLock:
    """Return the writer's lock, held, for what writes no table; whoever asked releases it.

    Raises:
        StoreLocked, StoreUnwritable: as `writer_lock`.
    """
    lock = FileLock(space_dir / LOCK_FILE)
    try:
        make_private_folder(space_dir)
        lock.acquire(timeout=wait)
    except Timeout:
        who = "another process"
        if holder := _read_holder(space_dir):
            who = f"process {holder.pid} on {holder.host} (run {holder.run_id}, since {holder.since})"
        raise StoreLocked(space_dir, who) from None
    except OSError as trouble:
        raise StoreUnwritable(space_dir, format_error(trouble)) from trouble
    return lock


def _let_go(space_dir: Path) -> None:
    """Sync what was written, and say that nobody writes any more."""
    with translate_write_errors(space_dir):
        mark_synced(space_dir)
        (space_dir / HOLDER_FILE).unlink(missing_ok=True)


def _read_holder(space_dir: Path) -> Holder | None:
    try:
        holder = Holder(**orjson.loads((space_dir / HOLDER_FILE).read_bytes()))
        datetime.fromisoformat(holder.since).astimezone(UTC)
    except (FileNotFoundError, TypeError, ValueError, OverflowError):  # not there, altered, or cut by its death
        return None
    return holder
