"""Find rows by the ids that commands print: complete or the first characters, slowwave's or the transcript's own.

Every command resolves ids here, so each command accepts the ids that another prints. Sessions and messages are also
found by their transcript's id, a message by both as SESSION/MESSAGE, a note without its prefix `note-`, and the session
of another memory with its prefix `shared:`.
"""

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.errors import UsageError
from slowwave.schemas.tables import (
    BOILERPLATE,
    CLAIMS,
    MERGES,
    MESSAGES,
    PATTERNS,
    SESSIONS,
    SUMMARIES,
    TOPICS,
    Table,
)
from slowwave.schemas.vocabulary import SHARED
from slowwave.store.notes import PREFIX

KINDS: dict[str, Table] = {
    "claim": CLAIMS,
    "summary": SUMMARIES,
    "topic": TOPICS,
    "session": SESSIONS,
    "message": MESSAGES,
    "merge": MERGES,
    "habit": PATTERNS,
    "boilerplate": BOILERPLATE,
}
NATIVE = ("message", "session")
"""Kinds of rows that have an id in their transcript."""
SHORTEST = 6
"""Least number of first characters that name a row."""
MOST_LISTED = 5
"""Most rows that an error message lists."""


class ReadableTables(Protocol):
    """The tables of a space: their newest versions (`Store`) or those of a release (`Snapshot`, `View`)."""

    def read(
        self,
        table: Table,
        columns: list[str],
        where: pc.Expression | None = None,
    ) -> pa.Table:
        """Return columns of the rows that pass `where`."""
        ...


class NamedRow(NamedTuple):
    """A row that an id names: its kind, its id, and for a session or message the id in the transcript."""

    kind: str
    id: str
    native: str | None


def find_named_rows(
    tables: ReadableTables, name: str, kinds: Collection[str] = tuple(KINDS)
) -> list[NamedRow]:
    """Return the rows that an id names. If a row has exactly this id, rows whose ids begin with it are not returned.

    Args:
        tables: the tables of a space.
        name: the id.
        kinds: kinds of rows to search, of `KINDS`.
    """
    name = name.removeprefix(f"{SHARED}:")
    unit, _, kind = name.rpartition("/")
    if kind in kinds and (rows := find_named_rows(tables, unit, (kind,))):
        return rows  # UNIT/KIND, as quarantine writes it
    searches: tuple[Callable[[], list[NamedRow]], ...] = (
        lambda: _find(tables, kinds, name, whole=NATIVE),
        lambda: _find(tables, kinds, name, begins=("session",)),
        lambda: _find_in_session(tables, name) if "message" in kinds else [],
        lambda: _find(tables, kinds, name, begins=("message",)),
        lambda: _find(
            tables,
            {"session"}.intersection(kinds),
            f"{PREFIX}{name}",
            whole=NATIVE,
            begins=("session",),
        ),
    )
    for number, search in enumerate(searches):
        if number and len(name) < SHORTEST and "/" not in name:
            break
        if rows := search():
            return rows
    return []


def find_named_row(
    tables: ReadableTables, name: str, kinds: Collection[str] = tuple(KINDS)
) -> NamedRow | None:
    """Return the row that an id names; None if there is none.

    Raises:
        UsageError: the id names several rows.
    """
    rows = find_named_rows(tables, name, kinds)
    if len(rows) > 1:
        raise UsageError(explain_several(rows, name))
    return rows[0] if rows else None


def find_sessions(
    tables: ReadableTables, names: Collection[str], what: str = "session"
) -> set[str]:
    """Return slowwave's ids of the named sessions. If sessions of several transcripts have the same id, return all.

    Raises:
        UsageError: a session does not exist, or an id is the beginning of several ids.
    """
    ids = set[str]()
    for name in names:
        rows = find_named_rows(tables, name, ("session",))
        if not rows:
            raise UsageError(
                f"no such {what}: {name}; the id is the transcript's own, or as commands print it"
            )
        if len(rows) > 1 and any(row.native != name for row in rows):
            raise UsageError(explain_several(rows, name))
        ids |= {row.id for row in rows}
    return ids


def explain_several(rows: Sequence[NamedRow], name: str) -> str:
    """Return an error message: the id is the beginning of several ids, with the first of these."""
    ids = ", ".join(
        f"{row.kind} {row.id if row.id.startswith(name) else row.native or row.id}"
        for row in rows[:MOST_LISTED]
    )
    return f"{len(rows)} rows have ids that begin with {name!r}: {ids}"


def _find(
    tables: ReadableTables,
    kinds: Collection[str],
    name: str,
    *,
    whole: Collection[str] = (),
    begins: Collection[str] = (),
) -> list[NamedRow]:
    """Return the rows of some kinds with an id.

    Args:
        tables: the tables of a space.
        kinds: kinds of rows to search.
        name: the id.
        whole: if not empty, find rows with exactly this id; for these kinds also by the transcript's id.
        begins: if not empty, find rows whose id begins with it; for these kinds also by the transcript's id.
    """
    rows: list[NamedRow] = []
    for kind in kinds:
        table = KINDS[kind]
        conditions = []
        if whole:
            conditions.append(pc.field(table.key) == name)
            conditions += (
                [pc.field("native_id") == name]
                if kind in whole and kind in NATIVE
                else []
            )
        if begins:
            conditions.append(pc.starts_with(pc.field(table.key), name))
            conditions += (
                [pc.starts_with(pc.field("native_id"), name)] if kind in begins else []
            )
        where = conditions[0]
        for condition in conditions[1:]:
            where |= condition
        rows += _read(tables, kind, where)
    return rows


def _find_in_session(tables: ReadableTables, name: str) -> list[NamedRow]:
    """Return the messages named SESSION/MESSAGE: SESSION is a session's id or its first characters, MESSAGE the
    transcript's id of a message or the first characters of slowwave's.
    """
    session, slash, message = name.rpartition("/")
    if not slash or not session or not message:
        return []
    found = find_named_rows(tables, session, ("session",))
    if len(found) != 1:
        return []
    inside = pc.field("session_id") == found[0].id
    named = (pc.field("native_id") == message) | pc.starts_with(
        pc.field("message_id"), message
    )
    return _read(tables, "message", inside & named)


def _read(tables: ReadableTables, kind: str, where: pc.Expression) -> list[NamedRow]:
    table = KINDS[kind]
    columns = [table.key, "native_id"] if kind in NATIVE else [table.key]
    rows = tables.read(table, columns, where).to_pylist()
    return [NamedRow(kind, str(row[table.key]), row.get("native_id")) for row in rows]
