"""One writer at a time. The lock is the kernel's (flock), so it is gone the moment its holder dies, however it dies."""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from schemas.errors import StoreLocked

LOCK_FILE = "writer.lock"
HOLDER_FILE = "writer.json"


@contextmanager
def writer_lock(space_dir: Path, run_id: str) -> Iterator[str | None]:
    """Hold the space's writer lock; yields the id of a run that died holding it, if one did.

    The holder file says who writes. It is removed when the run ends, also by an error, so one that is still there
    when the lock is free belongs to a run that was killed.

    Raises:
        StoreLocked: another process, or another thread of this one, holds it.
    """
    space_dir.mkdir(parents=True, exist_ok=True)
    lock = FileLock(space_dir / LOCK_FILE)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise StoreLocked(space_dir, _holder(space_dir)) from None
    try:
        died = _read_holder(space_dir).get("run_id")
        _write_holder(space_dir, run_id)
        yield str(died) if died else None
    finally:
        (space_dir / HOLDER_FILE).unlink(missing_ok=True)
        lock.release()


def _write_holder(space_dir: Path, run_id: str) -> None:
    facts = {
        "run_id": run_id,
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    (space_dir / HOLDER_FILE).write_text(json.dumps(facts), encoding="utf-8")


def _read_holder(space_dir: Path) -> dict[str, object]:
    try:
        found = json.loads((space_dir / HOLDER_FILE).read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):  # not there, or cut by the holder's death
        return {}
    return found if isinstance(found, dict) else {}


def _holder(space_dir: Path) -> str:
    facts = _read_holder(space_dir)
    if not facts:
        return "another process"
    return f"process {facts.get('pid')} on {facts.get('host')} (run {facts.get('run_id')}, since {facts.get('since')})"
