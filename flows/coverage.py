"""Coverage: which transcripts a memory has read, and when a night reads the rest."""

import json
import os
import time
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

import numpy as np
import pyarrow.compute as pc

from slowwave.engines.encoders.load import PACKAGED
from slowwave.schemas.errors import TROUBLE, name_install
from slowwave.schemas.places import PREFECT_SERVER
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import FILES, MESSAGES, SESSIONS
from slowwave.schemas.vocabulary import SPOKEN
from slowwave.store.notes import find_journals
from slowwave.store.releases import Snapshot
from slowwave.store.store import Store
from slowwave.text.languages import ENGLISH
from slowwave.text.words import find_text_language

SAMPLE = 1_000
"""Messages whose language is looked at, spread evenly over the store."""


def describe_languages(store: Store, encoder: str | None) -> str:
    """Return which other language most messages are in if the encoder reads English alone; else an empty string."""
    dataset = store.open_dataset(MESSAGES)
    rows = dataset.count_rows()
    if encoder not in PACKAGED or not rows:
        return ""
    offsets = np.unique(np.linspace(0, rows - 1, SAMPLE).astype(np.int64)).tolist()
    sample = dataset.take(offsets, columns=["text", "origin"]).to_pylist()
    languages = Counter(find_text_language(row["text"]) for row in sample if row["origin"] in SPOKEN)
    del languages[None]
    language, count = next(iter(languages.most_common(1)), (ENGLISH, 0))
    if language == ENGLISH or 2 * count < languages.total():
        return ""
    return (
        f"{count / languages.total():.0%} of the messages are {language}, and the encoder {encoder} reads English: "
        f'set encoder = "multilingual" to find them by meaning too ({name_install("multilingual")})'
    )


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
