"""The results of one run, and the runs before it: the data of the page Tonight and of `slowwave report`."""

from bisect import bisect_right
from typing import Any

import orjson
import pyarrow.compute as pc

from slowwave.flows.parts.report import (
    RunReport,
    collect_left_out,
    collect_news,
    open_views,
)
from slowwave.recall.release.view import View
from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import MESSAGES, OBSERVATIONS, RUNS, SESSIONS
from slowwave.schemas.vocabulary import Status
from slowwave.store.publishing import read_releases
from slowwave.store.store import Store
from slowwave.tasks.job import parse_steps, parse_usage
from slowwave.tasks.publish.gates import LOST, RETIRED

SHOWN, NIGHTS = 50, 60
"""Claims, changes and sessions that the page lists, and runs of its timeline, at most."""
CLAIM = ["session_id", "summary", "category", "workspace", "speaker", "observed_at"]
Data = dict[str, Any]


def describe_run(
    settings: Settings, run_id: str = "", live: View | None = None
) -> Data:
    """Return the results of a run as plain values.

    Args:
        settings: of the store and space.
        run_id: its id, or its first characters; empty for the last run that ended.
        live: the live release, where it is open already.

    Raises:
        UsageError: no run has the id, or more than one, or none ended yet.
    """
    store = Store.open(settings.store, settings.space)
    rows = sorted(store.read(RUNS).to_pylist(), key=lambda row: row["started_at"])
    ended = [row for row in rows if row["ended_at"] is not None]
    named = (
        [row for row in ended if row["run_id"].startswith(run_id)]
        if run_id
        else ended[-1:]
    )
    if len(named) != 1:
        why = (
            f"{len(named)} ended runs have the id {run_id!r}"
            if run_id
            else "no run has ended yet"
        )
        raise UsageError(f"{why}: `slowwave inspect runs` lists them")
    (row,) = named
    by_run = {release.run_id: release for release in read_releases(store)}
    made = by_run.get(row["run_id"])
    report = _parse_report(row, made)
    views, before = open_views(made, store, live)
    # Each run's lag: hours from the first session that ended since the run before began to its own end, if any did.
    ends = sorted(
        at
        for at in store.read(SESSIONS, ["ended_at"])["ended_at"].to_pylist()
        if at is not None
    )
    lags: list[float | None] = []
    start = 0
    for run in ended:
        stop = max(start, bisect_right(ends, run["started_at"]))
        lags.append(
            (run["ended_at"] - ends[start]).total_seconds() / 3600
            if stop > start
            else None
        )
        start = stop
    return {
        "run": {
            name: row[name]
            for name in ("run_id", "kind", "started_at", "ended_at", "status")
        },
        "release": made.name if made else None,
        "counts": made.counts if made else None,
        "verdict": report.format_verdict(),
        "new": report.news,
        **_describe_claims(settings, *views if views else (None, None)),
        "left_out": collect_left_out(report, store, before),
        "notes": report.collect_notes(),
        "steps": [step.as_dict() for step in report.steps],
        "seconds": report.seconds,
        "usage": [
            {"model": model, **counts}
            for model, counts in parse_usage(report.steps).items()
        ],
        "nights": [
            _describe_night(run, by_run.get(run["run_id"])) | {"lag": lag}
            for run, lag in [*zip(ended, lags, strict=True)][-NIGHTS:]
        ],
    }


def _parse_report(row: Data, made: Any) -> RunReport:
    notes = orjson.loads(row["report"] or b"{}").get("notes", [])
    return RunReport(
        row["run_id"], row["kind"], parse_steps(row["report"]), made, notes=notes
    )


def _describe_claims(settings: Settings, new: View | None, old: View | None) -> Data:
    """Return the claims learnt and changed, the day's sessions, and the shares that the gates limit."""
    if new is None:
        nothing: Data = {
            "learnt": [],
            "learnt_count": 0,
            "changed": [],
            "changed_count": 0,
        }
        return nothing | {"became": {}, "sessions": [], "gates": []}
    news = collect_news(new, old)
    changed = news.changed[:SHOWN]
    ids = [
        *(claim.claim_id for claim in news.learnt[:SHOWN]),
        *(key for key, *_ in changed),
    ]
    claims = new.read_by_id(OBSERVATIONS, [*dict.fromkeys(ids)], CLAIM)
    # The shares of what was known that a night retired and lost, each with the most that its gate lets pass.
    active = (
        old.read(OBSERVATIONS, ["status"], pc.field("status") == Status.ACTIVE).num_rows
        if old
        else 0
    )
    bounds = (
        ("retired or merged", RETIRED, "max_retired"),
        ("withdrawn or lost", LOST, "max_lost"),
    )
    gates = [
        {
            "gate": name,
            "share": sum(news.lost[kind] for kind in kinds) / active,
            "most": getattr(settings.gates, bound),
        }
        | {"setting": f"gates.{bound}"}
        for name, kinds, bound in (bounds if active else ())
    ]
    # Sessions that have new messages, the longest first.
    columns = ["session_id", "native_id", "title", "workspace", "messages", "ended_at"]
    before = old.read(SESSIONS, ["session_id", "messages"]).to_pylist() if old else []
    messages = {row["session_id"]: row["messages"] for row in before}
    rows = new.read(SESSIONS, columns).to_pylist()
    rows = [
        row | {"new": row["messages"] - messages.get(row["session_id"], 0)}
        for row in rows
    ]
    sessions = sorted(
        (row for row in rows if row["new"] > 0),
        key=lambda row: (-row["new"], row["session_id"]),
    )[:SHOWN]
    return {
        "learnt": [
            {"id": claim.claim_id, **claims[claim.claim_id]}
            for claim in news.learnt[:SHOWN]
        ],
        "learnt_count": len(news.learnt),
        "changed": [
            {
                "id": key,
                "earlier": claims[key]["summary"],
                "how": how,
                "later": now,
                "later_id": by,
            }
            for key, how, now, by in changed
        ],
        "changed_count": len(news.changed),
        "became": dict(news.lost),
        "sessions": sessions,
        "gates": gates,
    }


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
        "claims": made.counts.get(OBSERVATIONS.name) if made else None,
        "messages": made.counts.get(MESSAGES.name) if made else None,
        "tokens": sum(
            counts["prompt tokens"] + counts["answer tokens"]
            for counts in parse_usage(report.steps).values()
        ),
        "seconds": report.seconds,
    }
