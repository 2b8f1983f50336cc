"""Leave sessions out of what is distilled, and take them in again: of a poisoned transcript nothing comes back.

slowwave exclude SESSION|FILE|RELEASE --why REASON
slowwave include SESSION|FILE

The messages stay in the vault, as those do that a transcript took back; `slowwave forget` erases.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.flows.nightly import run_steps_after_read
from slowwave.flows.parts.report import RunReport
from slowwave.flows.parts.run import Caller, is_held, open_run, run_as_function, take_reason
from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import EXCLUSIONS, MESSAGES, SESSIONS
from slowwave.store.releases import Release, read_releases
from slowwave.store.snapshot import CANDIDATE, Snapshot
from slowwave.store.store import Store
from slowwave.tasks.ingest.redact import redact_path

MOST_NAMED = 10
"""Sessions that a run's note names."""
NO_SESSION = (
    "no session came with what is held back: `slowwave diff --candidate` shows what would change, "
    "`slowwave revert` takes a claim back, `slowwave reprocess` makes a step's rows anew"
)
Row = dict[str, Any]


def run_exclude(
    names: list[str], why: str, settings: Settings, call: Caller = run_as_function, *, held: bool = False
) -> RunReport:
    """Leave sessions out, and make all that leaned on them anew.

    Args:
        names: each a session by its transcript's own id, a transcript file, or a release (`r3`, `candidate`): what came
            with it.
        why: kept with the exclusion and the run.
        settings: of the store.
        call: how a step is run.
        held: whether a night must be held back; where it brought no session, what it could not use is decided on alone.

    Raises:
        UsageError: no reason is given, or a name is none, or all are left out already.
        StoreLocked: another run is at it.
    """
    why = take_reason(why, settings)
    with open_run("exclude", settings) as (job, report):
        if held and not is_held(job.store):
            raise UsageError("nothing is held back")
        if held and not _find_new_sessions(job.store, CANDIDATE):
            report.notes.append(NO_SESSION)
        else:
            sessions = _exclude_sessions(job.store, names, why)
            report.notes.append(f"left out: {_tell(sessions)}: {why}")
        run_steps_after_read(job, report, call, gated=False)  # the loss is what the person asked for
    return report


def run_reject(why: str, settings: Settings, call: Caller = run_as_function) -> RunReport:
    """Leave out what came with a night that is held back, and make anew what leaned on it.

    What is outside the bounds without it too stays held back; what could not be used, was not kept or was paid for is
    decided on, since leaving sessions out takes none of it away.

    Raises:
        UsageError: no reason is given, or nothing is held back.
        StoreLocked: another run is at it.
    """
    decided = {"max_quarantined": 1.0, "max_rejected": 1.0, "max_tokens": 0}
    bounds = settings.gates.model_copy(update=decided)
    return run_exclude([CANDIDATE], why, settings.model_copy(update={"gates": bounds}), call, held=True)


def run_include(names: list[str], settings: Settings, call: Caller = run_as_function) -> RunReport:
    """Take sessions in again that were left out.

    Raises:
        UsageError: a name is none, or nothing of it is left out.
        StoreLocked: another run is at it.
    """
    with open_run("include", settings) as (job, report):
        excluded = {row["session_id"]: row["inactive"] for row in job.store.read(EXCLUSIONS).to_pylist()}
        sessions = [row for row in find_sessions(job.store, names) if row["session_id"] in excluded]
        if not sessions:
            raise UsageError(f"not left out: {', '.join(names)}; `slowwave inspect excluded` lists what is")
        _set_inactive(job.store, {row["session_id"]: excluded[row["session_id"]] for row in sessions})
        job.store.delete_ids(EXCLUSIONS, [row["session_id"] for row in sessions])
        report.notes.append(f"taken in again: {_tell(sessions)}")
        run_steps_after_read(job, report, call)
    return report


def find_sessions(store: Store, names: list[str]) -> list[Row]:
    """Return rows of SESSIONS that the names mean, each once, by id.

    Raises:
        UsageError: a name is neither a session nor a file, nor a release that brought one.
    """
    rows = store.read(SESSIONS, ["session_id", "native_id", "path", "inactive", "messages"]).to_pylist()
    found: dict[str, Row] = {}
    for name in names:
        path = str(place := Path(name).expanduser().absolute())
        clean = redact_path(place)  # as it is stored where a secret stands in it
        some = [row for row in rows if name in (row["native_id"], row["session_id"]) or row["path"] in (path, clean)]
        some = some or [row for row in rows if row["session_id"] in _find_new_sessions(store, name)]
        if not some:
            raise UsageError(f"{name!r} is no session, no file that was read, and no release that brought a session")
        found |= {row["session_id"]: row for row in some}
    return [found[key] for key in sorted(found)]


def _exclude_sessions(store: Store, names: list[str], why: str) -> list[Row]:
    known = set(store.read(EXCLUSIONS, ["session_id"])["session_id"].to_pylist())
    found = find_sessions(store, names)
    # One whose messages still stand is of a run that was killed.
    sessions = [row for row in found if row["session_id"] not in known or len(row["inactive"]) < row["messages"]]
    if not sessions:
        raise UsageError(f"left out already: {', '.join(names)}")
    at = datetime.now(UTC)
    rows = [
        {"session_id": row["session_id"], "inactive": row["inactive"], "why": why, "at": at}
        for row in sessions
        if row["session_id"] not in known
    ]
    store.merge(EXCLUSIONS, pa.Table.from_pylist(rows, schema=EXCLUSIONS.schema))
    _set_inactive(store, {row["session_id"]: _list_messages(store, row["session_id"]) for row in sessions})
    return sessions


def _find_new_sessions(store: Store, name: str) -> set[str]:
    """Return ids of the sessions that a release has and the one before it has not; none where there is no such."""
    releases = read_releases(store)
    at = next((n for n, release in enumerate(releases) if name in (release.name, release.release_id)), None)
    if name == CANDIDATE:  # what came before a roll-back came with another night
        made = [release for release in releases if release.restores is None]
        return set(_list_sessions(store)) - _list_released(store, made[-1] if made else None)
    if at is None:
        return set()
    return _list_released(store, releases[at]) - _list_released(store, releases[at - 1] if at else None)


def _list_released(store: Store, release: Release | None) -> set[str]:
    return set(_list_sessions(Snapshot(store.root, store.space, release.release_id))) if release else set()


def _list_sessions(tables: Store | Snapshot) -> list[str]:
    ids: list[str] = tables.read(SESSIONS, ["session_id"])["session_id"].to_pylist()
    return ids


def _list_messages(store: Store, session_id: str) -> list[str]:
    found = store.read(MESSAGES, ["message_id"], pc.field("session_id") == session_id)["message_id"]
    ids: list[str] = found.to_pylist()
    return sorted(ids)


def _set_inactive(store: Store, inactive: dict[str, list[str]]) -> None:
    rows = [{**row, "inactive": inactive[row["session_id"]]} for row in store.read_ids(SESSIONS, inactive).to_pylist()]
    store.merge(SESSIONS, pa.Table.from_pylist(rows, schema=SESSIONS.schema))


def _tell(sessions: list[Row]) -> str:
    names = sorted(row["native_id"] for row in sessions)
    return ", ".join(names[:MOST_NAMED]) + (f" and {len(names) - MOST_NAMED} more" if names[MOST_NAMED:] else "")
