"""Read another program's SQLite database without creating files beside it.

`mode=ro` alone is not enough: opening a database in WAL mode that nobody has open creates `-wal` and `-shm` files and
leaves them. So a database without a write-ahead log, which nobody writes, is opened as immutable. One with a log and an
index has a live writer, and is opened beside it. One with a log but no index (a crash, a copy) is copied first. The
database is not trusted: views are refused, and SQLite itself refuses to load a cell over the limit of a line.
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
    """Return True if a file is a database, or a compressed copy of one."""
    return read_head(path).data.startswith(MAGIC)


def has_columns(head: Head, table: str, columns: set[str]) -> bool:
    """Return True if the file is a readable database whose table has these columns."""
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
    """Yield a read-only connection to one state of the database, whatever its program writes meanwhile.

    Text that is not UTF-8 has replacement characters. With `limits`, a query of a longer cell raises
    `sqlite3.DataError`; `fetch_row` handles such rows.

    Raises:
        sqlite3.Error, OSError and others of `TROUBLE`: the file isn't a database, or can't be read or copied.
    """
    with ExitStack() as stack:
        path = stack.enter_context(decompress_file(path)).resolve()
        log = Path(f"{path}-wal")
        index = Path(f"{path}-shm")
        # the file itself without a log; with a log and an index beside its writer; else a copy
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
    """Return the column names of a table; none if it does not exist."""
    return {
        row[0] for row in db.execute("SELECT name FROM pragma_table_info(?)", (table,))
    }


def fetch_row(
    db: sqlite3.Connection,
    table: str,
    columns: Sequence[str],
    key: str,
    value: object,
) -> tuple[list[Any], list[str]]:
    """Return the first row with a key, and the names of the columns whose cells are over the connection's limit.

    Such cells are None, and all cells if there is no such row. `length` is not used to find them, since before
    SQLite 3.43 it loads a text.
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
    rows = [
        fetch_row(db=db, table=table, columns=[column], key=key, value=value)
        for column in columns
    ]
    return [cells[0] for cells, _ in rows], [name for _, long in rows for name in long]


def explain_long_cell(limits: Limits) -> str:
    """Return the reason why a row with a cell that `fetch_row` left out goes to quarantine."""
    return f"a cell is over the limit of {max(limits.max_line_bytes, SMALLEST_LIMIT)} bytes"


def _connect_live(path: Path) -> sqlite3.Connection | None:
    """Return a connection that reads the writer's log; None if its shared memory may not be used."""
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
    """Refuse to read through a view: one in a table's place can run a query that never ends."""
    return sqlite3.SQLITE_OK if through is None else sqlite3.SQLITE_DENY


def _decode_lenient(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _copy_snapshot(path: Path, folder: Path) -> Path:
    """Copy the database and its log into a folder, and return the copy. Copy again if one of them changed meanwhile.

    Raises:
        sqlite3.OperationalError: one changed in each of COPIES attempts.
    """
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
