"""Coverage: which transcripts a memory has read, and when a night reads the rest."""

import json
import os
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

import pyarrow.compute as pc

from slowwave.schemas.errors import TROUBLE, UsageError
from slowwave.schemas.places import PREFECT_SERVER
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import FILES, OBSERVATIONS, RUNS, SESSIONS
from slowwave.schemas.vocabulary import LATER, WRITERS, Status
from slowwave.store.notes import find_journals
from slowwave.store.releases import Snapshot
from slowwave.store.store import Store
from slowwave.text.words import count_noun


def measure_coverage(settings: Settings) -> dict[str, Any]:
    """Return how many transcripts the live release covers, how many wait, and the same as a `line`: of those of the
    installed tools or, where none of these was ever read, of the files that the space was given.

    It is `behind` where something has waited for more than a day: a night should have read it.
    """
    # Here, since an install for reading alone lacks what they need.
    from slowwave.tasks.ingest.formats.registry import find_installed
    from slowwave.tasks.ingest.transcripts import find_pending

    # The transcripts of the installed tools or, where none of these was ever read, those that the store knows.
    live = Snapshot(settings.store, settings.space)
    files = {row["path"]: row for row in Store.open(settings.store, settings.space).read(FILES).to_pylist()}
    paths = [path for _, path in find_installed(Path.home())]
    if files and files.keys().isdisjoint(map(str, paths)):
        paths = [path for name in files if (path := Path(name)).is_file()]
    scan = find_pending(files, settings, [*paths, *find_journals(live.dir)])
    covered, waiting, unreadable = scan.counts["files unchanged"], len(scan.pending), len(scan.unreadable)
    sessions, until = live.release.counts[SESSIONS.name], pc.max(live.read(SESSIONS, ["ended_at"])["ended_at"]).as_py()
    # The same in a line.
    line = f"Covers {covered:,} of {covered + waiting + unreadable:,} transcripts ({sessions:,} sessions)"
    line += f", up to {until:%Y-%m-%d %H:%M} UTC" if until else ""
    line += f"; {waiting:,} wait for the next night" if waiting else ""
    line += f"; {unreadable:,} can't be read." if unreadable else "."
    facts = {"covered": covered, "waiting": waiting, "unreadable": unreadable, "sessions": sessions, "until": until}
    # How long the oldest has waited.
    yesterday = (datetime.now(UTC) - timedelta(days=1)).timestamp() * 10**9
    oldest = min((transcript.mtime_ns for transcript in scan.pending), default=None)
    lag = max(0.0, time.time() - oldest / 10**9) if oldest else 0.0
    return facts | {
        "behind": any(transcript.mtime_ns < yesterday for transcript in scan.pending),
        "lag": lag,
        "line": line,
    }


def measure_waiting(settings: Settings) -> dict[str, Any]:
    """Return the memory's writer, and what waits for it and why; and the same as a `line`.

    Nothing waits for rules. What waits for a model: sessions for their claims, claims for a topic, sessions for their
    summaries. Passages answer meanwhile.
    """
    # Here, since an install for reading alone lacks what they need.
    from slowwave.tasks.llm.writer import asks_model, explain_other_writer, find_rewriter, find_writer, name_writer

    store, live = Store.open(settings.store, settings.space), Snapshot(settings.store, settings.space).release
    try:
        writer, named = find_writer(store), name_writer(settings)
    except UsageError as wrong:  # no such engine
        return {"writer": live.writer, "line": f"{live.writer}: {wrong}"}
    facts: dict[str, Any] = {"writer": writer, "named": named}
    if writer and writer != named:
        return facts | {"line": explain_other_writer(writer, named)}
    line = f"{writer or named}"
    if find_rewriter(store):
        facts["rewrites"] = live.name
        line += f", which writes the memory anew: {live.name}, by {live.writer}, answers until that is done"
    if not asks_model(settings):
        return facts | {"line": line}
    counts, why = _count_waiting(settings), _explain_waiting(store)
    some = [text for text, n in counts.items() if n]
    line += f"; {' and '.join(some)} wait: {why}" if some else ""
    return facts | {"waiting": dict(zip(("claims", "topics", "summaries"), counts.values(), strict=True)), "line": line}


def _count_waiting(settings: Settings) -> dict[str, int]:
    """Return what waits for the writer's model, in words, and how many: claims, topics, summaries."""
    from slowwave.tasks.boilerplate.task import Mask
    from slowwave.tasks.job import Job
    from slowwave.tasks.llm.ask import close_models, get_model
    from slowwave.tasks.observe.task import find_sessions_to_observe
    from slowwave.tasks.summarize.task import compute_summaries_key, find_sessions_to_summarise
    from slowwave.tasks.topics.task import compute_assign_key

    job = Job(settings, "status")
    try:
        claims = find_sessions_to_observe(job, get_model(job, "extract"), Mask(job)).height
        key, placed = compute_assign_key(job, get_model(job, "topics")), pc.field("assign_key")
        active = pc.field("status") == Status.ACTIVE
        topics = job.store.count(OBSERVATIONS, active & (placed.is_null() | (placed != key)))
        key = compute_summaries_key(job, get_model(job, "summaries"))
        summaries = find_sessions_to_summarise(job, key).height
    finally:
        close_models(job.run_id)
    return {
        f"claims of {count_noun(claims, 'session')}": claims,
        f"topics of {count_noun(topics, 'claim')}": topics,
        f"summaries of {count_noun(summaries, 'session')}": summaries,
    }


def _explain_waiting(store: Store) -> str:
    """Return why something waits, as the last run found."""
    from slowwave.tasks.job import parse_steps

    runs = sorted(store.read(RUNS, ["started_at", "report"]).to_pylist(), key=lambda row: row["started_at"])
    steps = [step for row in runs[-1:] for step in parse_steps(row["report"]) if step.step in WRITERS]
    failed = [line for step in steps for line in step.failed]
    if failed:
        return failed[0]
    spent = any(name.endswith(LATER) and n for step in steps for name, n in step.counts.items())
    return "the token budget of the last night was spent" if spent else "the next night makes them"


def describe_backlog(settings: Settings) -> str:
    """Return the coverage in a line for a briefing, where it is behind and can be measured here; else nothing."""
    with suppress(ModuleNotFoundError, *TROUBLE):
        coverage = measure_coverage(settings)
        return f"{coverage['line']}\n" if coverage["behind"] else ""
    return ""


def find_next_night() -> str | None:
    """Return the start of the next night on Prefect's server: that of `make serve`, or the environment's."""
    server = os.environ.get("PREFECT_API_URL") or PREFECT_SERVER
    conditions = {
        "flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}},
        "deployments": {"name": {"any_": ["nightly"]}},
    }
    words = json.dumps(conditions | {"sort": "EXPECTED_START_TIME_ASC", "limit": 1}).encode()
    request = Request(f"{server}/flow_runs/filter", words, {"Content-Type": "application/json"})
    with suppress(OSError, ValueError, LookupError), build_opener(ProxyHandler({})).open(request, timeout=2) as answer:
        return f"{datetime.fromisoformat(json.load(answer)[0]['expected_start_time']):%Y-%m-%d %H:%M} UTC"
    return None
