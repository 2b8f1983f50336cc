"""Update the habits of workspaces with new actions, or that lost a session."""

from dataclasses import dataclass

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.counters import Count
from slowwave.schemas.tables import ACTIONS, MESSAGES, PATTERNS, SESSIONS, Table
from slowwave.store.store import Store
from slowwave.tasks.habits.calls import COLUMNS, find_actions
from slowwave.tasks.habits.patterns import find_patterns
from slowwave.tasks.job import Job, StepReport, compute_step_key, report_step
from slowwave.tasks.pending import find_pending_sessions, mark_done, split_batches
from slowwave.tasks.progress import track_items

VERSION = 4


def find_habits(job: Job) -> StepReport:
    """Write the actions of new and changed sessions, and the habits of their workspaces.

    Habits are written before the actions that they are made from. If a run is killed in between, the stored actions
    still have the old workspace of a session that moved or is gone, so the next run finds the workspaces to update.
    """
    with report_step("habits") as report:
        store = job.store
        key = compute_step_key("habits", VERSION, job.settings.habits)
        pending = find_pending_sessions(store, "habits", key)
        report.rows_in = pending.height
        scope = _find_scope(store, pending)
        if pending.is_empty() and scope.workspaces.is_empty() and scope.lost.is_empty():
            return report
        fresh = _read_actions(store, pending, key)
        gone = pl.concat([scope.stale, scope.lost])
        actions = _collect_actions(
            store=store, fresh=fresh, gone=gone, workspaces=scope.workspaces
        )
        patterns = find_patterns(actions, job.settings.habits.exclude, key)
        before = store.read_ids(
            PATTERNS, scope.workspaces.to_list(), ["pattern_id"], by="workspace"
        )
        _replace(store=store, table=PATTERNS, rows=patterns, before=before)
        report.rows_out = _replace(
            store=store,
            table=ACTIONS,
            rows=fresh,
            before=gone.select("action_id").to_arrow(),
        )
        report.counts[Count.PATTERNS] = patterns.num_rows
        mark_done(
            store,
            "habits",
            [(s, k, None) for s, k in pending[["session_id", "input_key"]].rows()],
        )
    return report


@dataclass(frozen=True)
class _Scope:
    """The stored actions to replace, and the workspaces whose habits may change."""

    stale: pl.DataFrame
    """Actions of pending sessions: action_id, session_id, workspace."""
    lost: pl.DataFrame
    """Actions of sessions that no longer exist."""
    workspaces: pl.Series


def _find_scope(store: Store, pending: pl.DataFrame) -> _Scope:
    stored = pl.DataFrame(store.read(ACTIONS, ["action_id", "session_id", "workspace"]))
    sessions = pl.DataFrame(store.read(SESSIONS, ["session_id", "workspace"]))
    lost = stored.join(sessions, on="session_id", how="anti")
    stale = stored.filter(pl.col("session_id").is_in(pending["session_id"].implode()))
    # workspaces with habits but without sessions
    deserted = pl.DataFrame(store.read(PATTERNS, ["workspace"])).join(
        sessions, on="workspace", how="anti"
    )
    workspaces = pl.concat(
        [rows["workspace"] for rows in (pending, stale, lost, deserted)]
    )
    return _Scope(stale, lost, workspaces.drop_nulls().unique().sort())


def _read_actions(store: Store, pending: pl.DataFrame, key: str) -> pa.Table:
    """Return the actions of the pending sessions."""
    actions = [ACTIONS.make_empty_table()]
    for group in track_items("habits", list(split_batches(pending, 5_000))):
        messages = store.read_ids(
            MESSAGES, group["session_id"].to_list(), COLUMNS, by="session_id"
        )
        actions.append(
            find_actions(
                messages,
                group.select("session_id", "workspace", "inactive").to_arrow(),
                key,
            )
        )
    return pa.concat_tables(actions)


def _collect_actions(
    store: Store,
    fresh: pa.Table,
    gone: pl.DataFrame,
    workspaces: pl.Series,
) -> pa.Table:
    """Return all actions of some workspaces: the stored ones that are not gone, and the fresh ones."""
    stored = store.read_ids(ACTIONS, workspaces.to_list(), by="workspace")
    is_gone = pc.is_in(
        stored["action_id"], gone["action_id"].to_arrow().cast(pa.string())
    )
    is_here = pc.is_in(fresh["workspace"], workspaces.to_arrow().cast(pa.string()))
    return pa.concat_tables([stored.filter(pc.invert(is_gone)), fresh.filter(is_here)])


def _replace(
    store: Store,
    table: Table,
    rows: pa.Table,
    before: pa.Table,
) -> int:
    """Write the rows that differ, and delete those of `before` that are not among them; return the number written."""
    ids = set(rows[table.key].to_pylist())
    written = store.merge_changed(table, rows)
    store.delete_ids(
        table, [row_id for row_id in before[table.key].to_pylist() if row_id not in ids]
    )
    return written
