"""One writer at a time. The lock is the kernel's (flock), so it is gone the moment its holder dies, however it dies."""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from slowwave.schemas.errors import StoreLocked, StoreUnwritable
from slowwave.store.private import make_private_folder
from slowwave.store.trouble import format_error, translate_write_errors

LOCK_FILE = "writer.lock"
HOLDER_FILE = "writer.json"


@dataclass(frozen=True)
class Holder:
    """Who writes: a run, its kind and its process, and since when (ISO, UTC)."""

    run_id: str
    kind: str
    pid: int
    host: str
    since: str


@contextmanager
def writer_lock(space_dir: Path, run_id: str, kind: str = "run") -> Iterator[Holder | None]:
    """Hold the space's writer lock; yields who died holding it, if somebody did.

    The holder file says who writes. It is removed when the run ends, also by an error, so one that is still there
    when the lock is free belongs to a run that was killed.

    Raises:
        StoreLocked: another process, or another thread of this one, holds it.
        StoreUnwritable: there is no room, or no right.
    """
    lock = FileLock(space_dir / LOCK_FILE)
    try:
        make_private_folder(space_dir)
        lock.acquire(timeout=0)
    except Timeout:
        raise StoreLocked(space_dir, _describe_holder(space_dir)) from None
    except OSError as trouble:
        raise StoreUnwritable(space_dir, format_error(trouble)) from trouble
    try:
        died = _read_holder(space_dir)
        with translate_write_errors(space_dir):
            _write_holder(space_dir, Holder(run_id, kind, os.getpid(), socket.gethostname(), _format_now()))
        yield died
    finally:
        (space_dir / HOLDER_FILE).unlink(missing_ok=True)
        lock.release()


def _format_now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _write_holder(space_dir: Path, holder: Holder) -> None:
    (space_dir / HOLDER_FILE).write_text(json.dumps(asdict(holder)), encoding="utf-8")


def _read_holder(space_dir: Path) -> Holder | None:
    try:
        return Holder(**json.loads((space_dir / HOLDER_FILE).read_text(encoding="utf-8")))
    except (FileNotFoundError, json.JSONDecodeError, TypeError):  # not there, or cut by the holder's death
        return None


def _describe_holder(space_dir: Path) -> str:
    holder = _read_holder(space_dir)
    if holder is None:
        return "another process"
    return f"process {holder.pid} on {holder.host} (run {holder.run_id}, since {holder.since})"
