"""Which releases are kept, and what dropping the others frees: as much as was said before."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import lance
import pyarrow as pa
import pytest

from slowwave.schemas.settings import StoreSettings
from slowwave.schemas.tables import TOPICS
from slowwave.store import Store
from slowwave.store.publishing import publish
from slowwave.store.releases import Release
from slowwave.store.upkeep import (
    compact_table,
    drop_old_versions,
    drop_versions_at_once,
    pick_kept,
)
from tests.store.test_store import topics

START = datetime(2026, 1, 1, 3, tzinfo=UTC)


def release(number: int, day: int) -> Release:
    return Release(
        f"id{number}", number, START + timedelta(days=day), None, {}, {}, None, None
    )


def test_the_newest_are_kept_and_the_last_of_each_day() -> None:
    nights = [
        release(number, day)
        for number, day in enumerate([0, 0, 1, 10, 31, 33, 33, 34], 1)
    ]
    kept = pick_kept(nights, StoreSettings(keep_releases=1, keep_daily=3))
    # The last of 1 and of 3 February; the newest.
    assert [one.number for one in kept] == [
        5,
        7,
        8,
    ]
    assert [
        one.number
        for one in pick_kept(nights, StoreSettings(keep_releases=2, keep_daily=0))
    ] == [7, 8]


def test_what_is_not_kept_is_freed_once_it_is_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.open(tmp_path, create=True)
    for name in ("a", "b", "c"):
        store.merge(TOPICS, topics(name))
        publish(store, name, None)
    store.merge(TOPICS, topics("d"))
    store.open_dataset(TOPICS).optimize.compact_files()
    publish(store, "d", None)
    few = StoreSettings(keep_releases=1)
    past = (datetime.now(UTC) - timedelta(days=7)).timestamp()
    for path in store.dir.rglob("*"):
        os.utime(path, (past, past))
    monkeypatch.setattr("slowwave.store.upkeep.GRACE", timedelta(0))
    assert drop_old_versions(store, few) > 0
    assert drop_old_versions(store, few) == 0
    assert store.read(TOPICS).num_rows == 4


def test_a_table_of_which_a_fifth_was_replaced_is_rewritten_without_that(
    tmp_path: Path,
) -> None:
    store = Store.open(tmp_path, create=True)
    names = [f"{n:05}" for n in range(2_000)]
    store.append(TOPICS, topics(*names))
    for changed, rewritten in ((300, False), (200, True)):
        rows = topics(*names[:changed]).to_pylist()
        store.merge(
            TOPICS,
            pa.Table.from_pylist(
                [{**row, "purpose": f"{changed}"} for row in rows], TOPICS.schema
            ),
        )
        assert compact_table(store, TOPICS) is rewritten
    assert store.open_dataset(TOPICS).stats.dataset_stats()["num_deleted_rows"] == 0
    assert store.count(TOPICS) == 2_000


def test_what_lance_could_not_delete_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.open(tmp_path, create=True)
    for name in ("a", "b", "c"):
        store.merge(TOPICS, topics(name))
        publish(store, name, None)
    monkeypatch.setattr(
        "lance.LanceDataset.cleanup_old_versions",
        lambda *_, **__: SimpleNamespace(bytes_removed=0),
    )
    store.merge(TOPICS, topics("d"))
    store.open_dataset(TOPICS).optimize.compact_files()
    for number in (1, 2):
        store.open_dataset(TOPICS).tags.delete(f"r{number}")
    drop_versions_at_once(store, TOPICS)
    tags = store.open_dataset(TOPICS).tags.list()
    assert [
        lance.dataset(
            str(store.dir / "topics.lance"), version=tag["version"]
        ).count_rows()
        for tag in tags.values()
    ] == [3]
    assert store.read(TOPICS).num_rows == 4
    assert len(list((store.dir / "topics.lance" / "data").iterdir())) < 5
    assert len(list((store.dir / "topics.lance" / "_versions").glob("*.manifest"))) == 2
