"""Sessions set aside: nothing is distilled from them until a person takes them in again."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.flows.parts.report import RunReport
from slowwave.flows.parts.run import is_held
from slowwave.schemas.tables import EXCLUSIONS, MESSAGES, SESSIONS
from slowwave.store.releases import Release, read_releases
from slowwave.store.snapshot import CANDIDATE, Snapshot
from slowwave.store.store import Store
from slowwave.tasks.ingest.transcripts import name_path
from slowwave.tasks.job import Job
from slowwave.tasks.observe.exclusions import SESSION

MOST_NAMED = 10
"""Sessions that a run's note names."""
FEW, MOST_TIMES = 1_000, 4
"""Messages from which on a store's growth says something, and how many times as many one file may bring."""
Row = dict[str, Any]


def set_aside_candidate(job: Job, report: RunReport) -> None:
    """Where a night is held back, set aside what came with it: what it changed in sessions that were known, else the
    sessions that are new. Later nights, and a forgetting, go on.
    """
    if not is_held(job.store):
        return
    changed = _find_changed_sessions(job.store)
    came = job.store.read_ids(SESSIONS, sorted(changed or find_new_sessions(job.store, CANDIDATE))).to_pylist()
    for names in exclude_sessions(job.store, came, "came with a night that a gate held back", changed):
        report.notes.append(f"a night was held back: what came with it is set aside, `slowwave include` it: {names}")


def _find_changed_sessions(store: Store) -> dict[str, list[str]]:
    """Return of each session that has lost a message since the live release those that did not count in that."""
    made = [release for release in read_releases(store) if release.restores is None]
    live = Snapshot(store.root, store.space, made[-1].release_id).read(SESSIONS).to_pylist() if made else []
    old = {row["session_id"]: row for row in live}
    now = {
        row["session_id"]: set(row["inactive"]).difference(old[row["session_id"]]["inactive"])
        for row in store.read(SESSIONS).to_pylist()
        if row["session_id"] in old and len(row["inactive"]) < row["messages"]
    }
    uncounted = defaultdict[str, list[str]](list)
    columns = ["message_id", "session_id", "seq"]
    for row in store.read_ids(MESSAGES, [sid for sid in now if now[sid]], columns, by="session_id").to_pylist():
        held = old[row["session_id"]]
        if row["seq"] >= held["messages"] or row["message_id"] in held["inactive"]:
            uncounted[row["session_id"]].append(row["message_id"])
    return {sid: sorted(uncounted[sid]) for sid in now if not now[sid] <= set(uncounted[sid])}


def set_aside_floods(job: Job, report: RunReport, named: Collection[Path]) -> None:
    """Set aside what a file brought that holds many times what was known, unless a person named it."""
    releases = [release for release in read_releases(job.store) if release.restores is None]
    known = releases[-1].counts[MESSAGES.name] if releases else 0
    if known < FEW:
        return
    brought = defaultdict[str, list[Row]](list)
    for row in job.store.read_ids(SESSIONS, sorted(find_new_sessions(job.store, CANDIDATE))).to_pylist():
        brought[row["path"]].append(row)
    for path in sorted(brought.keys() - {name_path(one, job.settings) for one in named}):
        if sum(row["messages"] for row in brought[path]) > MOST_TIMES * known:
            for _ in exclude_sessions(job.store, brought[path], "one file brought most of all that is known"):
                report.notes.append(f"more came from {path} than all that was known: set aside, `slowwave include` it")


def find_new_sessions(store: Store, name: str) -> set[str]:
    """Return ids of the sessions that a release has and the one before it has not; none where there is no such."""
    releases = read_releases(store)
    if name == CANDIDATE:  # what came before a roll-back came with another night
        made = [release for release in releases if release.restores is None]
        return set(_list_sessions(store)) - _list_released(store, made[-1] if made else None)
    at = next((n for n, release in enumerate(releases) if name in (release.name, release.release_id)), None)
    if at is None:
        return set()
    return _list_released(store, releases[at]) - _list_released(store, releases[at - 1] if at else None)


def _list_released(store: Store, release: Release | None) -> set[str]:
    return set(_list_sessions(Snapshot(store.root, store.space, release.release_id))) if release else set()


def _list_sessions(tables: Store | Snapshot) -> list[str]:
    ids: list[str] = tables.read(SESSIONS, ["session_id"])["session_id"].to_pylist()
    return ids


def exclude_sessions(
    store: Store, sessions: Sequence[Row], why: str, messages: Mapping[str, list[str]] = MappingProxyType({})
) -> list[str]:
    """Leave sessions out that are not yet, or those of their messages that are given; return what was done."""
    known = set(store.read(EXCLUSIONS, ["row_id"])["row_id"].to_pylist())
    # One whose messages still count is of a run that was killed.
    left = [row for row in sessions if row["session_id"] not in known or len(row["inactive"]) < row["messages"]]
    new = [row for row in left if row["session_id"] not in known]
    keep_reasons(
        store,
        [
            {"row_id": row["session_id"], "kind": SESSION, "session_id": row["session_id"], "inactive": row["inactive"]}
            for row in new
        ],
        why,
    )
    ids = [row["session_id"] for row in left]
    set_inactive(store, {sid: messages[sid] if sid in messages else _list_messages(store, sid) for sid in ids})
    return [format_names(left)] if left else []


def keep_reasons(store: Store, rows: Sequence[Row], why: str) -> None:
    """Write down what is left out (rows of EXCLUSIONS without the reason and the time), and why."""
    dated = [{**row, "why": why, "at": datetime.now(UTC)} for row in rows]
    store.merge(EXCLUSIONS, pa.Table.from_pylist(dated, schema=EXCLUSIONS.schema))


def _list_messages(store: Store, session_id: str) -> list[str]:
    found = store.read(MESSAGES, ["message_id"], pc.field("session_id") == session_id)["message_id"]
    ids: list[str] = found.to_pylist()
    return sorted(ids)


def set_inactive(store: Store, inactive: dict[str, list[str]]) -> None:
    """Write down which messages of each session do not count."""
    rows = [{**row, "inactive": inactive[row["session_id"]]} for row in store.read_ids(SESSIONS, inactive).to_pylist()]
    store.merge(SESSIONS, pa.Table.from_pylist(rows, schema=SESSIONS.schema))


def format_names(sessions: Sequence[Row]) -> str:
    """Return the sessions' own ids, the first ten."""
    names = sorted(row["native_id"] for row in sessions)
    return ", ".join(names[:MOST_NAMED]) + (f" and {len(names) - MOST_NAMED} more" if names[MOST_NAMED:] else "")
