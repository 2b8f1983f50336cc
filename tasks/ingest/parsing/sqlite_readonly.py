"""Another program's SQLite database, read without leaving a trace beside it.

`mode=ro` alone is not enough: opening a database in WAL mode that nobody has open creates `-wal` and `-shm` files
and leaves them. So: no write-ahead log means nobody writes, and the file is opened as immutable; log and index
mean a live writer, and we join it; a log without its index (a crash, a copy) is read from a copy of our own. Nor is
it trusted: nothing is read by way of a view, and no cell over the limit of a line: SQLite itself refuses to load it.
"""

import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from slowwave.tasks.ingest.parsing.lines import DAMAGE, LEFT, decompress_file, read_head
from slowwave.tasks.ingest.parsing.records import Head, Limits

MAGIC = b"SQLite format 3\x00"
TROUBLE = (sqlite3.Error, OSError, *DAMAGE)
"""Errors of a database that can't be read."""
COPIES = 5
SMALLEST_LIMIT = 1 << 16
"""Bytes that each cell may have, whatever the limit: the database's own schema has to be read."""


def is_database(path: Path) -> bool:
    """Return whether a file is a database, or a compressed copy of one."""
    return read_head(path).data.startswith(MAGIC)


def has_columns(head: Head, table: str, columns: set[str]) -> bool:
    """Return whether the file is a database whose table has these columns; for sniffing."""
    if not head.data.startswith(MAGIC):
        return False
    try:
        with open_read_only(head.path) as db:
            return columns <= list_columns(db, table)
    except TROUBLE:
        return False


@contextmanager
def open_read_only(
    path: Path, limits: Limits | None = None
) -> Iterator[sqlite3.Connection]:
    """Open a connection that can't write, on one state of the database, whatever its program writes meanwhile.

    Text that is no UTF-8 comes with replacement characters; where there are limits, a query that meets a longer cell
    ends with `sqlite3.DataError`: `fetch_row` takes such rows.

    Raises:
        sqlite3.Error, OSError and others of `TROUBLE`: no database, or one that can't be read, or copied.
    """
    with ExitStack() as stack:
        path = stack.enter_context(decompress_file(path)).resolve()
        log = Path(f"{path}-wal")
        index = Path(f"{path}-shm")
        # as it is, without a log; live, with one; else a copy
        if not index.exists() and not (log.exists() and log.stat().st_size):
            db = _connect(path, "mode=ro&immutable=1")
        elif not (index.exists() and (live := _connect_live(path))):
            folder = stack.enter_context(TemporaryDirectory(prefix=LEFT))
            db = _connect(_copy_snapshot(path, Path(folder)), "mode=ro")
        else:
            db = live
        stack.enter_context(closing(db))
        # one snapshot for the whole reading
        if limits:
            db.setlimit(
                sqlite3.SQLITE_LIMIT_LENGTH, max(limits.max_line_bytes, SMALLEST_LIMIT)
            )
        db.execute("BEGIN")
        db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        yield db


def list_columns(db: sqlite3.Connection, table: str) -> set[str]:
    """Return column names of a table; none where it does not exist. Earlier versions of a schema lack some."""
    return {
        row[0] for row in db.execute("SELECT name FROM pragma_table_info(?)", (table,))
    }


def fetch_row(
    db: sqlite3.Connection, table: str, columns: Sequence[str], key: str, value: object
) -> tuple[list[Any], list[str]]:
    """Return the first row of a key, null in cells that are over the connection's limit, and these columns' names.

    Without such a row all are null. Sizes are not asked for: before SQLite 3.43 `length` of a text loads it.
    """
    query = f"SELECT {{}} FROM {table} WHERE {key} = ?"
    try:
        return list(
            db.execute(query.format(", ".join(columns)), (value,)).fetchone()
            or [None] * len(columns)
        ), []
    except sqlite3.DataError:
        if len(columns) == 1:
            return [None], list(columns)
    rows = [fetch_row(db, table, [column], key, value) for column in columns]
    return [cells[0] for cells, _ in rows], [name for _, long in rows for name in long]


def explain_long_cell(limits: Limits) -> str:
    """Return the reason why a row with a cell that `fetch_row` left out goes to quarantine."""
    return f"a cell is over the limit of {max(limits.max_line_bytes, SMALLEST_LIMIT)} bytes"


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
    db = sqlite3.connect(
        f"{path.as_uri()}?{options}", uri=True, isolation_level=None, timeout=5
    )
    db.text_factory = _decode_lenient
    db.set_authorizer(_refuse_views)
    return db


def _refuse_views(
    action: int,
    name: str | None,
    two: str | None,
    base: str | None,
    through: str | None,
) -> int:
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
        if (log := Path(f"{path}-wal")).exists():
            shutil.copyfile(log, f"{target}-wal")
        if _stat_files(path) == before:
            return target
    raise sqlite3.OperationalError(
        f"{path.name} changed each of the {COPIES} times it was copied"
    )


def _stat_files(path: Path) -> list[tuple[int, int]]:
    files = [file for file in (path, Path(f"{path}-wal")) if file.exists()]
    return [(status.st_size, status.st_mtime_ns) for status in map(Path.stat, files)]
