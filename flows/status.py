"""The status of a memory as data: what it covers, what waits, its runs and its place on this machine.

`slowwave status`, the pages and the MCP server show it.
"""

import json
import os
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict
from urllib.request import ProxyHandler, Request, build_opener

import orjson
import pyarrow.compute as pc

from slowwave.flows.ledgers import list_quarantine, list_runs, measure_spaces
from slowwave.flows.parts.client_files import find_hooked_clients
from slowwave.flows.parts.languages import (
    describe_languages,
    describe_reader,
    describe_unread,
    list_shares,
    measure_languages,
)
from slowwave.flows.parts.schedule import find_schedule
from slowwave.resident.client import find_readers
from slowwave.schemas.counters import Count, CountByKind
from slowwave.schemas.errors import TROUBLE, UsageError
from slowwave.schemas.places import PREFECT_SERVER, name_place
from slowwave.schemas.settings import Settings
from slowwave.schemas.settings_files import load_aliases
from slowwave.schemas.tables import CHECKS, CLAIMS, FILES, MARKS, RUNS, SESSIONS
from slowwave.schemas.vocabulary import WRITERS, RunStatus, Status
from slowwave.store.encrypted_disk import is_locked
from slowwave.store.notes import find_talk_logs
from slowwave.store.releases import Release, Snapshot
from slowwave.store.store import Store
from slowwave.text.times.days import format_minute
from slowwave.text.words import count_noun

if TYPE_CHECKING:
    from slowwave.tasks.ingest.transcripts import TranscriptScan

LAST_RUN = "last run"
"""Heading of the last run."""
UNFINISHED = "forgetting"
"""Heading of a forgetting that a killed run left unfinished."""


class StatusLine(NamedTuple):
    """One line of the status: its heading, its text, and the values that the text is made of."""

    heading: str
    text: str
    value: Any


def collect_status(settings: Settings) -> list[StatusLine]:
    """Return the lines of the status, the coverage first.

    Raises:
        StoreMissing, NoRelease: there is no memory yet.
        StoreUnreadable: the memory is damaged.
    """
    coverage = measure_coverage(settings)
    night = find_schedule() or find_next_night()
    writing = measure_waiting(settings)
    run = next(iter(list_runs(settings, False).rows), None)
    last = {name: value for name, value in (run or {}).items() if name != "report"}
    no_night = "not scheduled: `slowwave schedule install`"
    return [
        StatusLine("memory", coverage["line"], coverage),
        *_list_unfinished(settings),
        _describe_quarantine(settings),
        StatusLine(LAST_RUN, _describe_run(run) if run else "none yet", last),
        StatusLine("next night", night or no_night, night),
        *_describe_store(settings),
        StatusLine("writer", writing["line"], writing),
        *_describe_reading(settings),
        StatusLine("model", settings.llm, settings.llm),
        *_list_aliases(),
        *_list_unread_checkouts(settings),
        _describe_hooks(),
        _describe_resident(settings),
    ]


def _describe_quarantine(settings: Settings) -> StatusLine:
    waits = Counter(row["reason"] for row in list_quarantine(settings, False).rows)
    reasons = "; ".join(f"{n:,} {reason}" for reason, n in waits.most_common(3))
    parts = (
        "1 line or file" if waits.total() == 1 else f"{waits.total():,} lines or files"
    )
    line = f"{parts}: {reasons[:200]}" if reasons else parts
    return StatusLine("unreadable", line, waits)


def _describe_store(settings: Settings) -> list[StatusLine]:
    """Return a line with the space's place and size, and a line about its encryption."""
    rows = measure_spaces(settings, False).rows
    space = next(row for row in rows if row["space"] == settings.space)
    place = name_place(settings.store / settings.space)
    line = f"{place}, {space['bytes'] / 1e6:,.1f} MB, live {space['release']}"
    encrypted = space["encrypted"]
    return [
        StatusLine("store", line, space),
        StatusLine("encryption", _describe_encryption(settings, encrypted), encrypted),
    ]


def _describe_reading(settings: Settings) -> list[StatusLine]:
    """Return a line of the encoder, one of the messages' languages, and what is not read in them."""
    shares = measure_languages(Store.open(settings.store, settings.space))
    other = describe_languages(shares, settings.encoder)
    # A language model reads claims in any language, with any encoder.
    by_rules = settings.get_llm("extract") == "off"
    unread = describe_unread(shares) if by_rules else ""
    reader = describe_reader(settings.encoder) if by_rules else ""
    encoder = "; ".join(filter(None, (settings.encoder, other, reader)))
    languages = list_shares(shares) or "unknown: the messages are too short"
    return [
        StatusLine("encoder", encoder, settings.encoder),
        StatusLine(
            "languages", f"{languages}{f'; {unread}' if unread else ''}", shares
        ),
    ]


def _describe_hooks() -> StatusLine:
    hooked = find_hooked_clients()
    none = "none: `slowwave install claude-code`, codex or cursor"
    return StatusLine("hooks", ", ".join(hooked) or none, hooked)


def _describe_resident(settings: Settings) -> StatusLine:
    """Return a line about the processes that keep this space open for hooks and questions."""
    if not settings.resident:
        return StatusLine("resident", "off (the setting `resident`)", [])
    readers = find_readers(settings.store.absolute(), settings.space)
    lines = [
        f"process {reader['pid']}, since {format_minute(datetime.fromtimestamp(reader['since'], UTC))}, "
        f"{count_noun(reader['answers'], 'answer')}"
        for reader in readers
    ]
    return StatusLine("resident", "; ".join(lines) or "none runs", readers)


def _list_aliases() -> list[StatusLine]:
    """Return a line with the workspaces that have another name; no line if there are none."""
    aliases = load_aliases()
    named = ", ".join(f"{old} is {new}" for old, new in aliases.items())
    return [StatusLine("aliases", named, aliases)] if aliases else []


def _list_unread_checkouts(settings: Settings) -> list[StatusLine]:
    """Return a line with the checkouts of which the last check did not read all; no line if there are none."""
    store = Store.open(settings.store, settings.space)
    noted = (pc.field("step") == CHECKS.name) & pc.field("note").is_valid()
    unread = sorted(store.read(MARKS, ["note"], noted)["note"].to_pylist())
    return [StatusLine("code", "; ".join(unread), unread)] if unread else []


def _describe_encryption(settings: Settings, kind: str | None) -> str:
    """Describe the encryption of the store's disk, or say that an encrypted folder beside the store is not mounted."""
    if is_locked(settings.store):
        return "off: the store's encrypted folder is not mounted, see docs/install.md"
    return f"by {kind}, unlocked" if kind else "unknown: see docs/install.md"


def _list_unfinished(settings: Settings) -> list[StatusLine]:
    """Return a line for each forgetting that a killed run left; none if there is none."""
    from slowwave.tasks.forget.lineage import read_plans

    return [
        StatusLine(
            UNFINISHED,
            f"{plan.run_id} of {format_minute(datetime.fromisoformat(plan.at))} is not finished: "
            "the next `slowwave run`, or any other command that writes, finishes it first",
            {
                "run_id": plan.run_id,
                "at": plan.at,
                "by": plan.why,
                "erased": plan.erased,
            },
        )
        for plan in read_plans(settings.store / settings.space)
    ]


def _describe_run(run: Mapping[str, Any]) -> str:
    """Return a run's time and status, with its output, or the last note if it failed or made nothing."""
    report = orjson.loads(run["report"])
    names = {"read": "messages", "observe": "claims"}
    # a malformed report that a forgetting emptied has no steps
    steps = report.get("steps", [])
    made = [
        f"{step['rows_out']:,} {names[step['step']]}"
        for step in steps
        if step["step"] in names
    ]
    made += [
        f"{step['counts'][Count.SUPERSEDED]:,} changed"
        for step in steps
        if Count.SUPERSEDED in step["counts"]
    ]
    why = (
        report.get("notes", [])[-1:]
        if run["status"] == RunStatus.FAILED or not made
        else made
    )
    reasons = f": {', '.join(why)}" if why else ""
    return f"{run['kind']} {format_minute(run['started_at'])}, {run['status']}{reasons}"


class Coverage(TypedDict):
    """How much of the transcripts the live release covers."""

    covered: int
    """Transcripts that the release holds as they are now."""
    waiting: int
    """Transcripts that are new or changed."""
    unreadable: int
    sessions: int
    until: datetime | None
    """When the last session ended."""
    lag: float
    """Seconds since the oldest waiting transcript was written."""
    behind: bool
    """True if one has waited for more than a day: a night should have read it."""
    line: str
    """The same in a sentence."""


def measure_coverage(settings: Settings) -> Coverage:
    """Count the transcripts that the live release covers, and those that wait."""
    live = Snapshot(settings.store, settings.space)
    scan = _scan_transcripts(settings, live.dir)
    oldest = min((transcript.mtime_ns for transcript in scan.pending), default=None)
    lag = max(0.0, time.time() - oldest / 10**9) if oldest else 0.0
    found = Coverage(
        covered=scan.counts[Count.FILES_UNCHANGED],
        waiting=len(scan.pending),
        unreadable=len(scan.unreadable),
        sessions=live.release.counts[SESSIONS.name],
        until=pc.max(live.read(SESSIONS, ["ended_at"])["ended_at"]).as_py(),
        lag=lag,
        behind=lag > timedelta(days=1).total_seconds(),
        line="",
    )
    found["line"] = _describe_coverage(found)
    return found


def _scan_transcripts(settings: Settings, folder: Path) -> "TranscriptScan":
    """Scan the installed tools' transcripts; if the space has read none of them, scan the files it has read."""
    # Here, since an install for reading alone lacks what they need.
    from slowwave.tasks.ingest.formats.registry import find_installed
    from slowwave.tasks.ingest.transcripts import find_pending

    files = {
        row["path"]: row
        for row in Store.open(settings.store, settings.space).read(FILES).to_pylist()
    }
    paths = [path for _, path in find_installed(Path.home())]
    if files and files.keys().isdisjoint(map(str, paths)):
        paths = [path for name in files if (path := Path(name)).is_file()]
    return find_pending(files, settings, [*paths, *find_talk_logs(folder)])


def _describe_coverage(found: Coverage) -> str:
    """Return the counts in a sentence."""
    covered = found["covered"]
    waiting = found["waiting"]
    unreadable = found["unreadable"]
    line = f"Covers {covered:,} of {covered + waiting + unreadable:,} transcripts ({found['sessions']:,} sessions)"
    if found["until"]:
        line += f", up to {format_minute(found['until'])}"
    if waiting:
        line += (
            f"; {waiting:,} {'waits' if waiting == 1 else 'wait'} for the next night"
        )
    return line + (f"; {unreadable:,} can't be read." if unreadable else ".")


def measure_waiting(settings: Settings) -> dict[str, Any]:
    """Return the memory's `writer`, what is `waiting` for it, and the same with the reason as a `line`.

    Nothing waits for the rules. Sessions wait for a model to write their claims and summaries, and claims wait for a
    topic. Their passages answer meanwhile. `waiting` is missing if the writer asks no model.
    """
    live = Snapshot(settings.store, settings.space).release
    try:
        return _describe_writer(settings, live)
    except UsageError as wrong:  # the settings name an unknown engine, prompt or pack
        return {"writer": live.writer, "line": f"{live.writer}: {wrong}"}


def _describe_writer(settings: Settings, live: Release) -> dict[str, Any]:
    # Here, since an install for reading alone lacks what they need.
    from slowwave.tasks.llm.writer import (
        asks_model,
        explain_other_writer,
        find_rewriter,
        find_writer,
        name_writer,
    )

    store = Store.open(settings.store, settings.space)
    writer = find_writer(store)
    named = name_writer(settings)
    rewriter = find_rewriter(store)
    facts: dict[str, Any] = {"writer": writer, "named": named}
    if writer and writer != named:
        return facts | {
            "line": explain_other_writer(
                writer, named, is_rewritten=rewriter not in (None, live.writer)
            )
        }
    line = f"{writer or named}"
    if rewriter:
        facts["rewrites"] = live.name
        line += f", which is rewriting the memory; until it is done, {live.name} by {live.writer} answers"
    if not asks_model(settings):
        return facts | {"line": line}
    counts = _count_waiting(settings)
    why = _explain_waiting(store)
    some = [text for text, n in counts.items() if n]
    line += f"; {' and '.join(some)} wait: {why}" if some else ""
    return facts | {
        "waiting": dict(
            zip(("claims", "topics", "summaries"), counts.values(), strict=True)
        ),
        "line": line,
    }


def _count_waiting(settings: Settings) -> dict[str, int]:
    """Return the number of claims, topics and summaries that wait for the writer's model, by their description."""
    from slowwave.tasks.boilerplate.task import Mask
    from slowwave.tasks.job import Job
    from slowwave.tasks.llm.ask import close_models, get_model
    from slowwave.tasks.observe.task import find_sessions_to_observe
    from slowwave.tasks.summarize.task import (
        compute_summaries_key,
        find_sessions_to_summarise,
    )
    from slowwave.tasks.topics.task import compute_assign_key

    job = Job(settings, "status")
    try:
        claims = find_sessions_to_observe(
            job, get_model(job, "extract"), Mask(job)
        ).height
        key = compute_assign_key(job, get_model(job, "topics"))
        placed = pc.field("assign_key")
        active = pc.field("status") == Status.ACTIVE
        topics = job.store.count(CLAIMS, active & (placed.is_null() | (placed != key)))
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
    """Return the reason of the last run why something waits: a failure, a spent budget, or that a night is to come."""
    from slowwave.tasks.job import parse_steps

    runs = sorted(
        store.read(RUNS, ["started_at", "report"]).to_pylist(),
        key=lambda row: row["started_at"],
    )
    steps = [
        step
        for row in runs[-1:]
        for step in parse_steps(row["report"])
        if step.step in WRITERS
    ]
    failed = [line for step in steps for line in step.failed]
    if failed:
        return failed[0]
    spent = any(step.kinds[CountByKind.WAITING].total() for step in steps)
    return (
        "the token budget of the last night was spent"
        if spent
        else "the next night makes them"
    )


def describe_backlog(settings: Settings) -> str:
    """Return a line with the coverage for a briefing if a transcript has waited for more than a day; else "".

    Return "" too if the coverage can't be measured, for example in an install for reading alone.
    """
    with suppress(ModuleNotFoundError, *TROUBLE):
        coverage = measure_coverage(settings)
        return f"{coverage['line']}\n" if coverage["behind"] else ""
    return ""


def find_next_night() -> str | None:
    """Return the start of the next night on Prefect's server (PREFECT_API_URL, or that of `make serve`).

    Return None if the server does not answer in 2 s, or no night is scheduled.
    """
    server = os.environ.get("PREFECT_API_URL") or PREFECT_SERVER
    conditions = {
        "flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}},
        "deployments": {"name": {"any_": ["nightly"]}},
    }
    words = json.dumps(
        conditions | {"sort": "EXPECTED_START_TIME_ASC", "limit": 1}
    ).encode()
    request = Request(
        f"{server}/flow_runs/filter", words, {"Content-Type": "application/json"}
    )
    with (
        suppress(OSError, ValueError, LookupError),
        build_opener(ProxyHandler({})).open(request, timeout=2) as answer,
    ):
        start = json.load(answer)[0]["expected_start_time"]
        return format_minute(datetime.fromisoformat(start))
    return None
