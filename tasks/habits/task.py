"""Habits of the workspaces in which something was done since, or from which a session went; others are left alone."""

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.tables import ACTIONS, MESSAGES, PATTERNS, SESSIONS, Table
from slowwave.store.store import Store
from slowwave.tasks.habits.calls import COLUMNS, find_actions
from slowwave.tasks.habits.patterns import find_patterns
from slowwave.tasks.job import Job, StepReport, compute_step_key, report_step
from slowwave.tasks.pending import find_pending_sessions, mark_done, split_batches
from slowwave.tasks.progress import track_items

VERSION = 3


def find_habits(job: Job) -> StepReport:
    """Write what was done in sessions that are new or changed, and the habits of their workspaces.

    Habits are written before the actions that they are made of: a session that changed its workspace, or is gone, still
    stands in the actions when a run that was killed is done again, and so says which workspaces to look at.
    """
    with report_step("habits") as report:
        store = job.store
        key = compute_step_key("habits", VERSION, job.settings.habits)
        # sessions to read, and workspaces whose habits that may change
        pending = find_pending_sessions(store, "habits", key)
        stored_actions = pl.DataFrame(store.read(ACTIONS, ["action_id", "session_id", "workspace"]))
        sessions = pl.DataFrame(store.read(SESSIONS, ["session_id", "workspace"]))
        left = stored_actions.join(sessions, on="session_id", how="anti")
        report.rows_in = pending.height
        stale = stored_actions.filter(pl.col("session_id").is_in(pending["session_id"].implode()))
        habitual = pl.DataFrame(store.read(PATTERNS, ["workspace"])).join(sessions, on="workspace", how="anti")
        places = [rows["workspace"] for rows in (pending, stale, left, habitual)]
        touched = pl.concat(places).drop_nulls().unique().sort()
        if pending.is_empty() and touched.is_empty() and left.is_empty():
            return report
        # what is done there now
        actions = [ACTIONS.make_empty_table()]
        for group in track_items("habits", list(split_batches(pending, 5_000))):
            messages = store.read_ids(MESSAGES, group["session_id"].to_list(), COLUMNS, by="session_id")
            actions.append(find_actions(messages, group.select("session_id", "workspace", "inactive").to_arrow(), key))
        fresh = pa.concat_tables(actions)
        gone = pl.concat([stale, left])
        unchanged = store.read_ids(ACTIONS, touched.to_list(), by="workspace")
        unchanged = unchanged.filter(
            pc.invert(pc.is_in(unchanged["action_id"], gone["action_id"].to_arrow().cast(pa.string())))
        )
        theirs = fresh.filter(pc.is_in(fresh["workspace"], touched.to_arrow().cast(pa.string())))
        # and the habits in it
        patterns = find_patterns(pa.concat_tables([unchanged, theirs]), job.settings.habits.exclude, key)
        _replace(store, PATTERNS, patterns, store.read_ids(PATTERNS, touched.to_list(), ["pattern_id"], by="workspace"))
        report.rows_out = _replace(store, ACTIONS, fresh, gone.select("action_id").to_arrow())
        report.counts["patterns"] = patterns.num_rows
        mark_done(store, "habits", [(s, k, None) for s, k in pending[["session_id", "input_key"]].rows()])
    return report


def _replace(store: Store, table: Table, rows: pa.Table, before: pa.Table) -> int:
    """Write the rows that differ, and delete those of before that are no more; returns how many were written."""
    ids = set(rows[table.key].to_pylist())
    written = store.merge_changed(table, rows)
    store.delete_ids(table, [row_id for row_id in before[table.key].to_pylist() if row_id not in ids])
    return written
