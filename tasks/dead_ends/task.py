"""Update the dead ends of new and changed sessions, and note which of them worked in a later session."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import polars as pl
import pyarrow as pa

from slowwave.schemas.counters import Count
from slowwave.schemas.rows import DeadEndRow, SessionRow
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import DEAD_ENDS, MESSAGES, SESSIONS
from slowwave.store.store import Store
from slowwave.tasks.dead_ends.find import Refuses, find_in_session
from slowwave.tasks.dead_ends.rows import (
    COLUMNS,
    build_rows,
    find_where_worked,
    read_sessions,
)
from slowwave.tasks.job import Job, StepReport, compute_step_key, report_step
from slowwave.tasks.observe.layers import name_reader, reads_in_layers
from slowwave.tasks.observe.statements import is_refusal
from slowwave.tasks.observe.units import SpokenSentence
from slowwave.tasks.pending import (
    find_pending_sessions,
    mark_sessions_done,
    split_batches,
)
from slowwave.tasks.progress import track_items

STEP = "attempts"
VERSION = 5
BATCH = 5_000
"""Messages that are read at once."""


def find_dead_ends(job: Job) -> StepReport:
    """Write what new and changed sessions tried and left.

    A dead end that worked in a later session of its workspace names the earliest such session; readers leave it out.
    """
    with report_step(STEP) as report:
        store = job.store
        key = compute_step_key(STEP, VERSION, name_reader(job.settings))
        sessions = pl.DataFrame(store.read(SESSIONS, ["session_id", "workspace"]))
        places = {s: w or "" for s, w in sessions.iter_rows()}
        pending = find_pending_sessions(store, STEP, key, also=places)
        report.rows_in = pending.height
        before = store.read(DEAD_ENDS).to_pylist()
        is_lost = any(row["session_id"] not in places for row in before)
        if pending.is_empty() and not is_lost:
            return report
        found = Found(before, pending, places, refuses=partial(_refuses, job.settings))
        for group in track_items(STEP, list(split_batches(pending, BATCH))):
            found.take(store, group, key)
        found.look_again(store, pending)
        report.rows_out = _replace(store, found.rows, before)
        report.counts[Count.WORKED_LATER] = sum(
            row["worked_in"] is not None for row in found.rows
        )
        mark_sessions_done(store, STEP, pending)
    return report


class Found:
    """The dead ends of a store, while sessions are read oldest first."""

    def __init__(
        self,
        before: Sequence[DeadEndRow],
        pending: pl.DataFrame,
        places: dict[str, str],
        refuses: Refuses,
    ) -> None:
        self._refuses = refuses
        read_anew = set(pending["session_id"])
        self.rows: list[DeadEndRow] = [
            {**row, "worked_in": None} if row["worked_in"] in read_anew else row
            for row in before
            if row["session_id"] in places and row["session_id"] not in read_anew
        ]
        self._open = {
            row["dead_end_id"] for row in before if row["worked_in"] in read_anew
        }

    def take(
        self,
        store: Store,
        group: pl.DataFrame,
        key: str,
    ) -> None:
        """Add the dead ends of some sessions, and compare what they did with earlier ones."""
        for session, moves in _read(store, group):
            own = find_in_session(moves, self._refuses)
            self._compare(session, moves, own)
            fresh = build_rows(session, own, key)
            self._open.update(row["dead_end_id"] for row in fresh)
            self.rows += fresh

    def _compare(
        self,
        session: SessionRow,
        moves: Sequence[Any],
        own: Sequence[Any],
    ) -> None:
        for row in self.rows:
            if (
                row["worked_in"] is None
                and row["workspace"] == session["workspace"]
                and row["session_id"] != session["session_id"]
                and find_where_worked(row, moves, own)
            ):
                row["worked_in"] = session["session_id"]

    def look_again(self, store: Store, pending: pl.DataFrame) -> None:
        """Compare new rows, and rows of which the session that worked was read anew, with all sessions of before."""
        places = {
            row["workspace"]
            for row in self.rows
            if row["dead_end_id"] in self._open and row["workspace"]
        }
        if not places:
            return
        sessions = pl.DataFrame(store.read(SESSIONS)).sort(
            "started_at", "session_id", nulls_last=True
        )
        others = sessions.filter(
            pl.col("workspace").is_in(sorted(places))
            & ~pl.col("session_id").is_in(pending["session_id"].implode())
        )
        for group in split_batches(others, BATCH):
            for session, moves in _read(store, group):
                own = find_in_session(moves, self._refuses)
                self._compare(session, moves, own)


def _refuses(settings: Settings, said: SpokenSentence) -> bool:
    """Return True if a person refuses something, as the reader of the claims reads it."""
    return is_refusal(said, in_layers=reads_in_layers(settings))


def _read(store: Store, group: pl.DataFrame) -> Iterable[tuple[SessionRow, list[Any]]]:
    """Return some sessions with their moves."""
    messages = store.read_ids(
        MESSAGES, group["session_id"].to_list(), COLUMNS, by="session_id"
    )
    about = group.select("session_id", "workspace", "inactive").to_arrow()
    return read_sessions(messages, about)


def _replace(
    store: Store, rows: Sequence[DeadEndRow], before: Sequence[DeadEndRow]
) -> int:
    """Write the rows that differ, and delete the others of before; return the number written."""
    table = pa.Table.from_pylist(list(rows), schema=DEAD_ENDS.schema)
    written = store.merge_changed(DEAD_ENDS, table)
    ids = set(table[DEAD_ENDS.key].to_pylist())
    store.delete_ids(
        DEAD_ENDS,
        [row["dead_end_id"] for row in before if row["dead_end_id"] not in ids],
    )
    return written
