"""A month of nights: versions grow old while releases pin them, and each night compacts and cleans up after itself."""

from datetime import timedelta
from pathlib import Path

import pytest

from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import TOPICS
from slowwave.store import Store, upkeep
from slowwave.store.publishing import read_releases
from slowwave.store.releases import Snapshot, is_dropped
from slowwave.tasks.job import Job
from slowwave.tasks.publish.task import publish_release
from tests.store.test_store import topics
from tests.store_clock import make_older

NIGHTS = 30


def test_thirty_daily_nights_compact_and_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So that what one night adds is reason enough to compact.
    monkeypatch.setattr(upkeep, "MOST_FILES", 1)
    settings, store = (
        Settings(store=tmp_path, embeddings=False),
        Store.open(tmp_path, create=True),
    )
    for night in range(NIGHTS):
        store.append(TOPICS, topics(f"night {night}"))
        report = publish_release(Job(settings, f"run {night}"), gated=False)
        assert not report.failed
        # Lance compacts no file that is indexed with one that is not: the last night's is left.
        assert len(store.open_dataset(TOPICS).get_fragments()) <= 2
        make_older(store.dir, timedelta(days=1))
    oldest = min(
        version["timestamp"] for version in store.open_dataset(TOPICS).versions()
    )
    newest = max(
        version["timestamp"] for version in store.open_dataset(TOPICS).versions()
    )
    assert newest - oldest > timedelta(days=7), (
        "Lance did not take the versions for old"
    )
    # Each of the releases that settings keep, 14 of them, has what was there in its night.
    kept = [
        release
        for release in read_releases(store)
        if not is_dropped(store.dir, release)
    ]
    rows = [
        Snapshot(tmp_path, "default", release.release_id).read(TOPICS).num_rows
        for release in kept
    ]
    assert rows == list(range(NIGHTS - 13, NIGHTS + 1))
