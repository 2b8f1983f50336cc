"""Indexes of vectors: what they find beside a comparison of every row, what is added, and one that is no good."""

import random
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.flows.nightly import run_night
from slowwave.memory import Memory
from slowwave.schemas.counters import Count, CountByKind
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import EXCLUSIONS, PASSAGES
from slowwave.schemas.vocabulary import RunStatus
from slowwave.store import Store, indexes
from slowwave.store.indexes import count_unindexed, find_index
from slowwave.store.repair import check_store
from slowwave.store.upkeep import compact_store
from slowwave.tasks.job import Job, StepReport
from slowwave.tasks.publish import gates
from slowwave.tasks.publish.task import publish_release
from tests.many_claims import WORDS, name, write_rows
from tests.talk_files import write_talk

ROWS, START = 3_000, datetime(2026, 1, 1, tzinfo=UTC)


def write_passages(store: Store, numbers: range) -> list[str]:
    rng = random.Random(numbers.start)
    texts = [" ".join([*rng.sample(WORDS, 5), f"n{n}", f"m{n % 97}"]) for n in numbers]
    keys, at = name("passage", numbers), [START + timedelta(hours=n) for n in numbers]
    places = [f"project-{n % 40}" for n in numbers]
    said = {
        "passage_id": keys,
        "message_id": keys,
        "session_id": keys,
        "seq": 0,
        "part": 0,
        "role": "user",
    }
    said |= {"text": texts, "ts": at, "workspace": places, "step_key": "x"}
    write_rows(
        store,
        PASSAGES,
        len(numbers),
        said | {"vector": HashEncoder().encode(texts).tolist()},
    )
    return texts


def release(root: Path) -> StepReport:
    return publish_release(Job(Settings(store=root, encoder="hash-384"), "run"))


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two stores of the same rows, that at the root with an index of thirty cells; nothing is held in memory."""
    monkeypatch.setattr("slowwave.recall.release.tables.INDEXED_ROWS", 0)
    monkeypatch.setattr(indexes, "CELL_ROWS", 100)
    for root, fewest in ((tmp_path, ROWS), (tmp_path / "flat", ROWS + 1)):
        store = Store.open(root, create=True)
        write_passages(store, range(ROWS))
        compact_store(store, fewest=fewest)
        report = release(root)
        assert not report.failed
        assert (PASSAGES.name in report.kinds[CountByKind.NEAREST_FOUND]) == (
            root == tmp_path
        )
        assert report.counts[Count.ROWS_UNINDEXED] == 0
        assert 500 < report.counts[Count.BYTES_A_ROW] < 9_000
    return tmp_path


def test_an_index_finds_what_a_comparison_of_every_row_does_whatever_is_asked_for(
    root: Path,
) -> None:
    indexed, flat = (
        Memory.open(one, encoder=HashEncoder()) for one in (root, root / "flat")
    )
    assert find_index(indexed.get_view().open_dataset(PASSAGES), "vector")
    assert not find_index(flat.get_view().open_dataset(PASSAGES), "vector")
    late = START + timedelta(hours=ROWS - 20)
    for conditions in (
        {},
        {"workspace": "project-7"},
        {"since": late},
        {"workspace": "project-7", "until": late},
    ):
        for word in WORDS:
            one, other = (
                [hit.id for hit in m.recall(f"{word} rope n12", **conditions)]
                for m in (indexed, flat)
            )
            assert one, other == other


def test_what_is_added_is_indexed_and_found(root: Path) -> None:
    store = Store.open(root)
    for start in range(ROWS, ROWS + 40, 4):
        texts = write_passages(store, range(start, start + 4))
        compact_store(store)
    dataset = store.open_dataset(PASSAGES)
    assert count_unindexed(dataset) == 0
    assert (
        max(len(one.segments) for one in dataset.describe_indices())
        <= indexes.MOST_PARTS + 1
    )
    assert release(root).kinds[CountByKind.NEAREST_FOUND][PASSAGES.name] >= 980
    (first, *_) = Memory.open(root, encoder=HashEncoder()).recall(texts[2])
    assert first.text == texts[2]


def test_an_index_of_vectors_that_is_gone_is_built_anew_and_released(
    root: Path,
) -> None:
    store = Store.open(root)
    shutil.rmtree(store.dir / "passages.lance" / "_indices")
    assert {part.where.rpartition("/")[2] for part in check_store(store.dir).damage} > {
        "index.idx"
    }
    compact_store(store, fewest=ROWS)
    assert release(root).kinds[CountByKind.NEAREST_FOUND][PASSAGES.name] >= 980
    assert not [part for part in check_store(store.dir).damage if part.release != "r1"]
    memory = Memory.open(root, encoder=HashEncoder())
    assert memory.get_view().find_broken_index(PASSAGES) is None


def test_a_release_whose_index_misses_rows_is_held_back(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.open(root)
    write_passages(store, range(ROWS, ROWS + 1))
    compact_store(store)
    store.open_dataset(PASSAGES).create_index(
        "vector", "IVF_FLAT", metric="dot", num_partitions=1_500, replace=True
    )
    monkeypatch.setattr("slowwave.recall.retrieve.rows.PROBES", 1)
    (why,) = release(root).failed
    assert why.startswith("passages: the index of vectors finds ")
    again = release(root)  # without the index, which was dropped
    assert not again.failed
    assert again.rows_out == ROWS + 1
    assert PASSAGES.name not in again.kinds[CountByKind.NEAREST_FOUND]


def test_what_came_with_a_night_that_an_index_alone_held_back_is_kept(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, talk = (
        Settings(store=root, encoder="hash-384"),
        write_talk(root / "talk.jsonl", 1, 4),
    )
    with monkeypatch.context() as strict:
        strict.setattr(gates, "BOUNDS", gates.Bounds(nearest=1.1))
        report = run_night([talk], settings)
    assert (report.release, report.status) == (None, RunStatus.INCOMPLETE)
    again = run_night([talk], settings).release
    assert again
    assert again.counts["sessions"] == 4
    assert Store.open(root).count(EXCLUSIONS) == 0
