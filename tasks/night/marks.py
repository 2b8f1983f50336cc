"""Marks: which units (sessions) a step is done with, and under which input."""

from collections.abc import Iterable, Mapping

import polars as pl
import pyarrow as pa
from lancedb.expr import col, lit

from schemas.ids import content_id
from schemas.marks import MARKS
from schemas.sessions import SESSIONS
from slowwave.store.store import Store


def pending_sessions(store: Store, step: str, key: str, also: Mapping[str, str] | None = None) -> pl.DataFrame:
    """Sessions whose content, or the step itself, changed since the step was done with them; oldest first.

    Columns: those of SESSIONS and `input_key`, the hash of what the step would now be given; `also` has, for some
    sessions, what else of its input there is to hash.
    """
    sessions = pl.DataFrame(store.read(SESSIONS)).sort("started_at", "session_id", nulls_last=True)
    done = store.read(MARKS, ["unit_id", "input_key"], col("step") == lit(step)).to_pylist()
    marked = {row["unit_id"]: row["input_key"] for row in done}
    more = also or {}
    keys = [
        content_id(key, head, *gone, *([more[sid]] if sid in more else []))
        for sid, head, gone in sessions.select("session_id", "head_hash", "inactive").iter_rows()
    ]
    sessions = sessions.with_columns(pl.Series("input_key", keys, dtype=pl.String))
    fresh = [marked.get(sid) != now for sid, now in sessions.select("session_id", "input_key").iter_rows()]
    return sessions.filter(pl.Series(fresh, dtype=pl.Boolean))


def mark_done(store: Store, step: str, done: Iterable[tuple[str, str, str | None]]) -> None:
    """Note (session_id, input_key, why there is no output) for each session the step is done with."""
    rows = [
        {"mark_id": content_id(step, unit), "step": step, "unit_id": unit, "input_key": key, "note": note}
        for unit, key, note in done
    ]
    if rows:
        store.merge_changed(MARKS, pa.Table.from_pylist(rows, schema=MARKS.schema))


def session_groups(sessions: pl.DataFrame, messages: int) -> Iterable[pl.DataFrame]:
    """Whole sessions in groups of about this many messages; by the order alone, so the same after a crash."""
    group = (sessions["messages"].cum_sum() - 1) // messages if sessions.height else pl.Series([], dtype=pl.Int64)
    for _, part in sessions.with_columns(group.alias("group")).group_by("group", maintain_order=True):
        yield part.drop("group")
