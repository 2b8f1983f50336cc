"""The results of one run, and the runs before it: the data of the page Tonight and of `slowwave report`."""

from bisect import bisect_right
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import orjson
import pyarrow.compute as pc

from slowwave.flows.parts.report import (
    NewlyChanged,
    News,
    RunReport,
    collect_left_out,
    collect_news,
    collect_troubles,
    open_views,
)
from slowwave.recall.release.view import View
from slowwave.recall.views.browse import name_sessions
from slowwave.recall.views.voices import find_voices
from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import CLAIMS, MESSAGES, RUNS, SESSIONS, TRUST
from slowwave.schemas.vocabulary import Status
from slowwave.store.publishing import read_releases
from slowwave.store.store import Store
from slowwave.tasks.job import parse_steps, sum_usage
from slowwave.tasks.publish.gates import LOST, RETIRED

SHOWN = 50
NIGHTS = 60
"""Claims, changes and sessions that the page lists, and runs of its timeline, at most."""
CLAIM = ["session_id", "summary", "category", "workspace", "speaker", "observed_at"]
CLAIM += ["utc_offset", TRUST]
Data = dict[str, Any]


def describe_run(
    settings: Settings,
    run_id: str = "",
    live: View | None = None,
    places: Collection[str] | None = None,
) -> Data:
    """Return the results of a run as plain values.

    Args:
        settings: of the store and space.
        run_id: its id, or its first characters; empty for the last run that ended.
        live: the live release, if it is open already.
        places: the workspaces whose claims are listed; None for all.

    Raises:
        UsageError: no run has the id, or more than one, or none ended yet.
    """
    store = Store.open(settings.store, settings.space)
    ended = _list_ended(store)
    row = _choose_run(ended, run_id)
    by_run = {release.run_id: release for release in read_releases(store)}
    made = by_run.get(row["run_id"])
    report = _parse_report(row, made)
    views, before = open_views(made, store, live)
    new, old = views or (None, None)
    head = ("run_id", "kind", "started_at", "ended_at", "status")
    nights = [
        _describe_night(run, by_run.get(run["run_id"])) | {"lag": lag}
        for run, lag in zip(ended, _measure_lags(store, ended), strict=True)
    ]
    return {
        "run": {name: row[name] for name in head},
        "release": made.name if made else None,
        "counts": made.counts if made else None,
        "verdict": report.format_verdict(),
        "new": report.news,
        **_describe_claims(settings=settings, new=new, old=old, places=places),
        "troubles": collect_troubles(
            report=report, store=store, before=before, status=row["status"]
        ),
        "left_out": collect_left_out(report, store, before),
        "notes": report.collect_notes(),
        **_describe_steps(report),
        "nights": nights[-NIGHTS:],
    }


def _describe_steps(report: RunReport) -> Data:
    """Return the steps of a run, its time in seconds, and what each model used."""
    usage = sum_usage(report.steps)
    return {
        "steps": [
            step.as_dict() | {"of_which": step.describe_counts()}
            for step in report.steps
        ],
        "seconds": report.seconds,
        "usage": [{"model": model, **used.as_dict()} for model, used in usage.items()],
    }


def _list_ended(store: Store) -> list[Data]:
    """Return the runs that ended, the oldest first."""
    rows = sorted(store.read(RUNS).to_pylist(), key=lambda row: row["started_at"])
    return [row for row in rows if row["ended_at"] is not None]


def _choose_run(ended: list[Data], run_id: str) -> Data:
    """Return the run whose id begins so, or the last one if no id is given.

    Raises:
        UsageError: no run has the id, or more than one, or none ended yet.
    """
    found = [row for row in ended if row["run_id"].startswith(run_id)]
    found = found if run_id else ended[-1:]
    if len(found) == 1:
        return found[0]
    why = f"{len(found)} ended runs have the id {run_id!r}"
    if not run_id:
        why = "no run has ended yet"
    raise UsageError(f"{why}: `slowwave inspect runs` lists them")


def _measure_lags(store: Store, ended: list[Data]) -> list[float | None]:
    """Return each run's lag in hours, in the order of the runs.

    The lag is the time from the end of the earliest session that ended since the run before began, to the end of this
    run. It is None if no session ended in between.
    """
    times = store.read(SESSIONS, ["ended_at"])["ended_at"].drop_null()
    ends = sorted(times.to_pylist())
    lags: list[float | None] = []
    start = 0
    for run in ended:
        stop = max(start, bisect_right(ends, run["started_at"]))
        if stop > start:
            lags.append((run["ended_at"] - ends[start]).total_seconds() / 3600)
        else:
            lags.append(None)
        start = stop
    return lags


def _parse_report(row: Data, made: Any) -> RunReport:
    notes = orjson.loads(row["report"] or b"{}").get("notes", [])
    return RunReport(
        run_id=row["run_id"],
        kind=row["kind"],
        steps=parse_steps(row["report"]),
        release=made,
        notes=notes,
    )


def _describe_claims(
    settings: Settings,
    new: View | None,
    old: View | None,
    *,
    places: Collection[str] | None,
) -> Data:
    """Return the claims learnt and changed, the day's sessions, and the shares that the gates limit.

    If `places` is given, only claims of these workspaces are listed and counted.
    """
    if new is None:
        nothing: Data = {"learnt": [], "changed": [], "sessions": [], "gates": []}
        nothing |= {"learnt_count": 0, "changed_count": 0, "among_new": ""}
        return nothing | {"became": {}}
    news = collect_news(new, old)
    gates = _measure_gates(settings, news, old)
    if places is not None:
        news = _select_news(news, new, places)
    learnt = news.learnt[:SHOWN]
    changed = news.changed[:SHOWN]
    ids = [claim.claim_id for claim in learnt]
    ids += [change.claim_id for change in changed]
    ids += [change.later_id for change in changed]
    claims: dict[str, Data] = {
        key: {**row}
        for key, row in new.read_by_id(CLAIMS, [*dict.fromkeys(ids)], CLAIM).items()
    }
    for key, voice in find_voices(new, ids).items():
        claims[key]["by"] = voice
    return {
        "learnt": [
            {"id": claim.claim_id, **claims[claim.claim_id]} for claim in learnt
        ],
        "learnt_count": len(news.learnt),
        "changed": [_describe_change(claims, change) for change in changed],
        "changed_count": len(news.changed),
        "among_new": news.describe_among_new(),
        "became": dict(news.lost),
        "sessions": _list_sessions(new, old),
        "gates": gates,
    }


def _select_news(news: News, new: View, places: Collection[str]) -> News:
    """Return the news with only the learnt and changed claims of some workspaces."""
    ids = [claim.claim_id for claim in news.learnt]
    ids += [change.claim_id for change in news.changed]
    ids += [*news.changed_among_new, *news.perhaps_among_new]
    rows = new.read_by_id(CLAIMS, ids, ["workspace"])
    here = {key for key, row in rows.items() if row["workspace"] in places}
    return replace(
        news,
        learnt=[claim for claim in news.learnt if claim.claim_id in here],
        changed=[change for change in news.changed if change.claim_id in here],
        changed_among_new=[key for key in news.changed_among_new if key in here],
        perhaps_among_new=[key for key in news.perhaps_among_new if key in here],
    )


def _describe_change(
    claims: Mapping[str, Data],
    change: NewlyChanged,
) -> Data:
    """Return a change with the day, the speaker and the project of both claims."""
    names = ("observed_at", "utc_offset", "speaker", "by", "workspace")
    before = claims[change.claim_id]
    after = claims.get(change.later_id, {})
    return {
        "id": change.claim_id,
        "earlier": before["summary"],
        "how": change.how,
        "later": change.later,
        "later_id": change.later_id,
        "workspace": before["workspace"],
        "earlier_facts": {name: before.get(name) for name in names},
        "later_facts": {name: after.get(name) for name in names},
    }


def _measure_gates(
    settings: Settings,
    news: News,
    old: View | None,
) -> list[Data]:
    """Return the shares of the earlier active claims that a night retired and lost, each with the limit of its gate.

    Return no rows if there is no earlier release or it has no active claim.
    """
    if old is None:
        return []
    is_active = pc.field("status") == Status.ACTIVE
    active = old.read(CLAIMS, ["status"], is_active).num_rows
    if not active:
        return []
    bounds = (
        ("retired or merged", RETIRED, "max_retired"),
        ("withdrawn or lost", LOST, "max_lost"),
    )
    return [
        {
            "gate": name,
            "share": sum(news.lost[kind] for kind in kinds) / active,
            "most": getattr(settings.gates, bound),
            "setting": f"gates.{bound}",
        }
        for name, kinds, bound in bounds
    ]


def _list_sessions(new: View, old: View | None) -> list[Data]:
    """Return the sessions that have new messages, the one with the most first."""
    columns = ["session_id", "native_id", "title", "workspace", "messages", "ended_at"]
    before = old.read(SESSIONS, ["session_id", "messages"]).to_pylist() if old else []
    messages = {row["session_id"]: row["messages"] for row in before}
    rows = []
    for row in new.read(SESSIONS, columns).to_pylist():
        count = row["messages"] - messages.get(row["session_id"], 0)
        if count > 0:
            rows.append(row | {"new": count})
    rows.sort(key=lambda row: (-row["new"], row["session_id"]))
    shown = rows[:SHOWN]
    names = name_sessions(new, [row["session_id"] for row in shown])
    return [row | {"name": names[row["session_id"]]} for row in shown]


def _describe_night(row: Data, made: Any) -> Data:
    """Return the line of a run in the timeline, without its lag."""
    report = _parse_report(row, made)
    return {
        "run_id": row["run_id"],
        "at": row["started_at"],
        "kind": row["kind"],
        "status": row["status"],
        "release": made.name if made else None,
        "new": next((step.rows_out for step in report.steps if step.step == "read"), 0),
        "claims": made.counts.get(CLAIMS.name) if made else None,
        "messages": made.counts.get(MESSAGES.name) if made else None,
        "tokens": sum(usage.tokens for usage in sum_usage(report.steps).values()),
        "seconds": report.seconds,
    }
