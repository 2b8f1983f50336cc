"""One writer at a time. The kernel holds the lock (flock), so it is released as soon as its holder dies."""

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

from slowwave.schemas.errors import (
    StoreError,
    StoreLocked,
    StoreUnwritable,
    format_error,
    translate_write_errors,
)
from slowwave.schemas.tables import RELEASES
from slowwave.store.logs import format_now
from slowwave.store.manifest import (
    begin_sync,
    go_back_to_synced,
    mark_synced,
    read_boot,
)
from slowwave.store.place import find_place
from slowwave.store.private import make_private_folder, replace_file

LOCK_FILE = "writer.lock"
WAITING_FILES = "waiting-{:08x}.lock"
"""Locks of processes that wait, by a checksum of their work; deleted when the work is done."""
HOLDER_FILE = "writer.json"


@dataclass(frozen=True)
class Holder:
    """The writer: its run, the run's kind, its process and machine, the start (ISO, UTC), and the machine's boot id."""

    run_id: str
    kind: str
    pid: int
    host: str
    since: str
    boot: str | None = None


@contextmanager
def writer_lock(
    space_dir: Path,
    run_id: str,
    kind: str = "run",
    wait: float = 0,
) -> Iterator[Holder | None]:
    """Hold the space's writer lock, waiting at most `wait` seconds; yield the last holder if it died, else None.

    The holder file names the writer. It is deleted after all writes are synced. So if it exists while the lock is free,
    a run was killed. If the machine has booted since then, power may have been lost: the tables are reset to the last
    synced state. If the store has a place elsewhere (`place.py`), the lock is taken there too, and the
    writes are published when it is released.

    Raises:
        StoreLocked: another process, thread or machine has the lock.
        StoreUnwritable: the disk is full or read-only, or the writes can't be synced or published.
    """
    lock = hold_lock(space_dir, wait)
    path = space_dir / HOLDER_FILE
    try:
        with find_place(space_dir.parent).lease(
            space=space_dir.name, run_id=run_id, kind=kind, wait=wait
        ):
            try:
                with translate_write_errors(space_dir):
                    left = path.exists()
                    died = _read_holder(space_dir)
                    if left and (died is None or died.boot != read_boot()):
                        go_back_to_synced(space_dir)
                    begin_sync(space_dir, synced=not left)
                    holder = Holder(
                        run_id=run_id,
                        kind=kind,
                        pid=os.getpid(),
                        host=socket.gethostname(),
                        since=format_now(),
                        boot=read_boot(),
                    )
                    # synced, since nothing else shows that a run began
                    replace_file(path, orjson.dumps(holder))
                yield died
            except BaseException:
                with suppress(StoreError):  # the first error is the one to raise
                    _let_go(space_dir)
                raise
            else:
                _let_go(space_dir)
    finally:
        lock.release()


@contextmanager
def wait_alone(space_dir: Path, what: str) -> Iterator[bool]:
    """Yield True if no other process does the same work (`what`) or waits to do it. Else yield False: the caller should
    leave the work to that process.
    """
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
        with suppress(OSError):  # Windows can't delete an open file
            path.unlink()
        lock.release()


def remove_space(space_dir: Path) -> None:
    """Remove a space under the writer's lock. The ledger of releases is removed last: a half-removed space is still
    recognised as a space, and can be removed again.

    Raises:
        StoreLocked, StoreUnwritable: as `writer_lock`.
    """
    lock = hold_lock(space_dir)
    last = {f"{RELEASES.name}.lance": 0, LOCK_FILE: 1}
    try:
        with (
            find_place(space_dir.parent).lease(space_dir.name, "forget", "forget"),
            translate_write_errors(space_dir),
        ):
            for path in sorted(
                space_dir.iterdir(), key=lambda path: last.get(path.name, -1)
            ):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            space_dir.rmdir()
    finally:
        lock.release()


def hold_lock(space_dir: Path, wait: float = 0) -> FileLock:
    """Acquire the writer's lock, for work that writes no table; the caller releases it.

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
    """Sync the writes, and delete the holder file."""
    with translate_write_errors(space_dir):
        mark_synced(space_dir)
        (space_dir / HOLDER_FILE).unlink(missing_ok=True)


def _read_holder(space_dir: Path) -> Holder | None:
    try:
        holder = Holder(**orjson.loads((space_dir / HOLDER_FILE).read_bytes()))
        datetime.fromisoformat(holder.since).astimezone(UTC)
    except (
        FileNotFoundError,
        TypeError,
        ValueError,
        OverflowError,
    ):
        # Missing, altered or truncated.
        return None
    return holder
