"""Sessions in quarantine: nothing is distilled from them until a person includes them."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa

from slowwave.flows.parts.report import RunReport
from slowwave.flows.parts.run import is_held, list_made
from slowwave.schemas.rows import ExclusionRow, SessionRow
from slowwave.schemas.tables import EXCLUSIONS, MESSAGES, SESSIONS
from slowwave.store.publishing import read_releases
from slowwave.store.releases import CANDIDATE, Snapshot, is_dropped
from slowwave.store.store import Store
from slowwave.tasks.ingest.transcripts import name_path
from slowwave.tasks.job import Job
from slowwave.tasks.observe.exclusions import SESSION

MOST_NAMED = 10
"""Sessions that a run's note names."""
FEW = 1_000
MOST_TIMES = 4
"""Floods are looked for once a release has FEW messages. One file may bring MOST_TIMES as many messages as it."""


def quarantine_candidate(job: Job, report: RunReport) -> None:
    """Quarantine what a held-back night added: new sessions, and changes to known sessions. Later nights go on."""
    if not is_held(job.store):
        return
    changed = _find_uncounted(job.store)
    ids = sorted(changed or find_new_sessions(job.store, CANDIDATE))
    came = job.store.read_ids(SESSIONS, ids).to_pylist()
    why = "a gate held back the night that added it"
    if names := exclude_sessions(
        store=job.store, sessions=came, why=why, messages=changed
    ):
        report.notes.append(
            f"a night was held back: what it added is excluded; `slowwave include ID` includes it: {names}"
        )


def _find_uncounted(store: Store) -> dict[str, list[str]]:
    """Return, for each session that lost an old message since the live release, the messages that the release lacks."""
    made = list_made(store)
    live = Snapshot(store.root, store.space, made[-1].release_id) if made else None
    rows = live.read(SESSIONS).to_pylist() if live else []
    old = {row["session_id"]: row for row in rows}
    # The messages of each session that became inactive.
    newly = {
        row["session_id"]: set(row["inactive"]).difference(
            old[row["session_id"]]["inactive"]
        )
        for row in store.read(SESSIONS).to_pylist()
        if row["session_id"] in old and len(row["inactive"]) < row["messages"]
    }
    uncounted = defaultdict[str, list[str]](list)
    columns = ["message_id", "session_id", "seq"]
    touched = [sid for sid, messages in newly.items() if messages]
    for row in store.read_ids(MESSAGES, touched, columns, by="session_id").to_pylist():
        before = old[row["session_id"]]
        if row["seq"] >= before["messages"] or row["message_id"] in before["inactive"]:
            uncounted[row["session_id"]].append(row["message_id"])
    return {
        sid: sorted(uncounted[sid])
        for sid, messages in newly.items()
        if not messages <= set(uncounted[sid])
    }


def quarantine_floods(
    job: Job,
    report: RunReport,
    named: Collection[Path],
) -> None:
    """Quarantine a file with many times as many messages as were known, unless a person named it."""
    made = list_made(job.store)
    if not made or (messages := made[-1].counts[MESSAGES.name]) < FEW:
        return
    brought = defaultdict[str, list[SessionRow]](list)
    for row in job.store.read_ids(
        SESSIONS, sorted(find_new_sessions(job.store, CANDIDATE))
    ).to_pylist():
        brought[row["path"]].append(row)
    for path in sorted(
        brought.keys() - {name_path(file, job.settings) for file in named}
    ):
        if sum(
            row["messages"] for row in brought[path]
        ) > MOST_TIMES * messages and exclude_sessions(
            job.store, brought[path], "one file holds most of the memory"
        ):
            report.notes.append(
                f"{path} has more messages than the rest of the memory: it is excluded; `slowwave include` includes it"
            )


def find_new_sessions(store: Store, name: str) -> set[str]:
    """Return ids of the sessions that a release has and the one before it lacks.

    Return all its sessions for the first release, and none if no release has the name or id. `CANDIDATE` names the
    newest tables, which are compared with the last release that is not a roll-back.
    """
    newer: Store | Snapshot = store
    # Sessions that a rollback removed came with an earlier night.
    if name == CANDIDATE:
        releases = list_made(store)
    else:
        releases = read_releases(store)
        at = next(
            (
                n
                for n, made in enumerate(releases)
                if name in (made.name, made.release_id)
            ),
            None,
        )
        if at is None:
            return set()
        newer = Snapshot(store.root, store.space, releases[at].release_id)
        releases = releases[:at]
    older = (
        Snapshot(store.root, store.space, releases[-1].release_id) if releases else None
    )
    now, before = (
        set(tables.read(SESSIONS, ["session_id"])["session_id"].to_pylist())
        if tables
        else set()
        for tables in (newer, older)
    )
    return now - before


def list_bringing(store: Store, since: str) -> list[str]:
    """Return the names of the kept releases after `since` that added a session, oldest first, without roll-backs."""
    releases = read_releases(store)
    at = next(n for n, made in enumerate(releases) if made.name == since)
    later = [
        made
        for made in releases[at + 1 :]
        if made.restores is None and not is_dropped(store.dir, made)
    ]
    return [made.name for made in later if find_new_sessions(store, made.name)]


def exclude_sessions(
    store: Store,
    sessions: Sequence[SessionRow],
    why: str,
    messages: Mapping[str, list[str]] = MappingProxyType({}),
) -> str:
    """Exclude sessions, or only the given messages of them, unless they are excluded already; return a description."""
    excluded = set(store.read(EXCLUSIONS, ["row_id"])["row_id"].to_pylist())
    # a run that was killed can leave an excluded session whose messages still count
    left = {
        row["session_id"]: row
        for row in sessions
        if row["session_id"] not in excluded or len(row["inactive"]) < row["messages"]
    }
    new: list[ExclusionRow] = [
        {
            "row_id": sid,
            "kind": SESSION,
            "session_id": sid,
            "inactive": row["inactive"],
            "words": None,
        }
        for sid, row in left.items()
        if sid not in excluded
    ]
    keep_reasons(store, new, why)
    inactive = {sid: messages[sid] for sid in left if sid in messages}
    every = store.read_ids(
        MESSAGES,
        left.keys() - inactive.keys(),
        ["session_id", "message_id"],
        by="session_id",
    )
    for row in every.sort_by("message_id").to_pylist():
        inactive.setdefault(row["session_id"], []).append(row["message_id"])
    set_inactive(store, inactive)
    return format_names([*left.values()])


def keep_reasons(
    store: Store,
    rows: Sequence[ExclusionRow],
    why: str,
) -> None:
    """Write the exclusions (rows of EXCLUSIONS without reason and time) with the reason and the time."""
    dated = [{**row, "why": why, "at": datetime.now(UTC)} for row in rows]
    store.merge(EXCLUSIONS, pa.Table.from_pylist(dated, schema=EXCLUSIONS.schema))


def set_inactive(store: Store, inactive: Mapping[str, list[str]]) -> None:
    """Write the ids of the messages that do not count into each session's row."""
    rows = [
        {**row, "inactive": inactive[row["session_id"]]}
        for row in store.read_ids(SESSIONS, inactive).to_pylist()
    ]
    store.merge(SESSIONS, pa.Table.from_pylist(rows, schema=SESSIONS.schema))


def format_names(sessions: Sequence[SessionRow]) -> str:
    """Return the first ten of the sessions' own ids in a line, and how many more there are."""
    names = sorted(row["native_id"] for row in sessions)
    return ", ".join(names[:MOST_NAMED]) + (
        f" and {len(names) - MOST_NAMED} more" if names[MOST_NAMED:] else ""
    )
