"""Another program's SQLite database, read without leaving a trace beside it.

`mode=ro` alone is not enough: opening a database in WAL mode that nobody has open creates `-wal` and `-shm` files
and leaves them. So: no write-ahead log means nobody writes, and the file is opened as immutable; log and index
mean a live writer, and we join it; a log without its index (a crash, a copy) is read from a copy of our own. Nor is
it trusted: nothing is read by way of a view.
"""

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

COPIES = 5


@contextmanager
def open_read_only(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a connection that can't write. Text that is no UTF-8 comes with replacement characters.

    Raises:
        sqlite3.Error: no database, or one that can't be read.
        OSError: it can't be copied where it has to be.
    """
    path = path.resolve()
    log, index = get_companion_path(path, "-wal"), get_companion_path(path, "-shm")
    if not index.exists() and not (log.exists() and log.stat().st_size):
        with closing(_connect(path, "mode=ro&immutable=1")) as db:
            yield db
        return
    live = _connect_live(path) if index.exists() else None
    if live is not None:
        with closing(live):
            yield live
        return
    with (
        tempfile.TemporaryDirectory(prefix="slowwave-") as folder,
        closing(_connect(_copy_snapshot(path, Path(folder)), "mode=ro")) as db,
    ):
        yield db


def get_companion_path(path: Path, suffix: str) -> Path:
    """Return the companion file of a database."""
    return path.with_name(path.name + suffix)


def _connect_live(path: Path) -> sqlite3.Connection | None:
    """Return a connection that joins the writer's log; None where its shared memory may not be used."""
    db = _connect(path, "mode=ro")
    try:
        db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.DatabaseError as error:
        db.close()
        if isinstance(error, sqlite3.OperationalError):
            return None
        raise
    return db


def _connect(path: Path, options: str) -> sqlite3.Connection:
    db = sqlite3.connect(f"{path.as_uri()}?{options}", uri=True, isolation_level=None, timeout=5)
    db.text_factory = _decode_lenient
    db.set_authorizer(_refuse_views)
    return db


def _refuse_views(action: int, one: str | None, two: str | None, base: str | None, through: str | None) -> int:
    """Refuse what is read by way of a view: in place of a table it can run a query that never ends."""
    return sqlite3.SQLITE_OK if through is None else sqlite3.SQLITE_DENY


def _decode_lenient(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _copy_snapshot(path: Path, folder: Path) -> Path:
    """Return database and log as they stood together: copied again when either changed meanwhile."""
    target = folder / path.name
    for _ in range(COPIES):
        before = _stat_files(path)
        shutil.copyfile(path, target)
        if get_companion_path(path, "-wal").exists():
            shutil.copyfile(get_companion_path(path, "-wal"), get_companion_path(target, "-wal"))
        if _stat_files(path) == before:
            return target
    raise sqlite3.OperationalError(f"{path.name} changed each of the {COPIES} times it was copied")


def _stat_files(path: Path) -> list[tuple[int, int]]:
    files = [file for file in (path, get_companion_path(path, "-wal")) if file.exists()]
    return [(found.st_size, found.st_mtime_ns) for found in map(Path.stat, files)]
