"""A store's vectors have the dimension of its encoder: any, and another one with another encoder."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slowwave import Memory
from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.flows.export import export_tables
from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import CLAIMS, PASSAGES, SUMMARIES, TABLES, TOPICS
from slowwave.store.releases import Snapshot
from slowwave.store.store import Store

SAMPLES = Path(__file__).parents[2] / "data" / "samples"
QUERY = "Who polls the gauges of the maritime authority?"


def find_dims(store: Store) -> set[tuple[str, int]]:
    """Names of the tables that have vectors, with their dimensions on disk."""
    found = (
        (table.name, store.open_dataset(table).schema) for table in TABLES.values()
    )
    return {
        (name, f.type.list_size)
        for name, schema in found
        for f in schema
        if pa.types.is_fixed_size_list(f.type)
    }


def find_expected(dim: int) -> set[tuple[str, int]]:
    return {(table.name, dim) for table in (CLAIMS, PASSAGES, SUMMARIES, TOPICS)}


def test_a_night_a_query_and_an_export_of_another_dimension(tmp_path: Path) -> None:
    dim = 768
    settings = Settings(store=tmp_path / "store", encoder=f"hash-{dim}")
    assert run_night([SAMPLES / "codex"], settings).release is not None
    assert run_night([SAMPLES / "codex"], settings).release is None
    assert (
        run_night([SAMPLES / "codex", SAMPLES / "openclaw"], settings).release
        is not None
    )
    assert find_dims(Store.open(settings.store)) == find_expected(dim)
    snapshot = Snapshot(settings.store)
    for table in (PASSAGES, CLAIMS, SUMMARIES):
        assert snapshot.read(table, ["vector"])["vector"].null_count == 0
    found = Memory.open(settings.store, encoder=HashEncoder(dim)).recall(QUERY)
    assert found
    assert found.warnings == ()
    export_tables(settings, tmp_path / "out", "parquet", ["passages"])
    assert (
        pq.read_schema(tmp_path / "out" / "passages.parquet")
        .field("vector")
        .type.list_size
        == dim
    )


def test_another_encoder_makes_every_vector_again_while_the_release_answers_with_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(store=tmp_path, encoder="hash-8")
    run_night([SAMPLES / "codex", SAMPLES / "openclaw"], settings)
    found = Memory.open(tmp_path, encoder=HashEncoder(8)).recall(QUERY)
    claims = Store.open(tmp_path).read(CLAIMS, ["claim_id"])["claim_id"].to_pylist()
    changed = settings.model_copy(update={"encoder": "hash-768"})

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        # The passages are encoded, no claim is.
        broken.setattr("slowwave.tasks.passages.task.note_failed_units", stop)
        with pytest.raises(KeyboardInterrupt):
            run_night([SAMPLES / "codex", SAMPLES / "openclaw"], changed)
    assert [
        hit.id for hit in Memory.open(tmp_path, encoder=HashEncoder(8)).recall(QUERY)
    ] == [hit.id for hit in found]
    report = run_night([SAMPLES / "codex", SAMPLES / "openclaw"], changed)
    assert (report.release is not None, report.failures) == (True, [])
    store = Store.open(tmp_path)
    assert find_dims(store) == find_expected(768)
    for table in (PASSAGES, CLAIMS, SUMMARIES):
        assert store.read(table, ["vector"])["vector"].null_count == 0
    assert sorted(store.read(CLAIMS)["claim_id"].to_pylist()) == sorted(claims)
    assert Memory.open(tmp_path, encoder=HashEncoder(768)).recall(QUERY).warnings == ()
    # Once is enough.
    assert run_night([SAMPLES / "codex", SAMPLES / "openclaw"], changed).release is None


def test_a_store_that_had_no_vectors_takes_the_first_encoders_dimension(
    tmp_path: Path,
) -> None:
    without = Settings(store=tmp_path, encoder="hash-8", embeddings=False)
    run_night([SAMPLES / "codex"], without)
    assert find_dims(Store.open(tmp_path)) == find_expected(384)
    claims = Store.open(tmp_path).read(CLAIMS, ["claim_id"])
    assert (
        run_night(
            [SAMPLES / "codex"], without.model_copy(update={"embeddings": True})
        ).release
        is not None
    )
    store = Store.open(tmp_path)
    assert find_dims(store) == find_expected(8)
    assert store.read(PASSAGES, ["vector"])["vector"].null_count == 0
    assert set(claims["claim_id"].to_pylist()) == set(
        store.read(CLAIMS)["claim_id"].to_pylist()
    )
    assert (
        Snapshot(tmp_path, release="r1").read(PASSAGES, ["vector"])["vector"].null_count
        > 0
    )
    assert Memory.open(tmp_path, encoder=HashEncoder(8)).recall(QUERY).warnings == ()


@pytest.mark.failing
def test_a_first_step_that_fails_leaves_a_store_that_takes_the_dimension_next_night(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(store=tmp_path, encoder="hash-8")

    def fail(*_: object, **__: object) -> None:
        raise KeyError("x")

    with monkeypatch.context() as broken:
        # After all was written.
        broken.setattr("slowwave.tasks.passages.task.note_failed_units", fail)
        report = run_night([SAMPLES / "codex"], settings)
    assert report.release is not None
    assert report.failures == [
        "passages failed, what it had made before stands: KeyError: 'x'"
    ]
    assert Store.open(tmp_path).count(PASSAGES) == 0
    assert run_night([SAMPLES / "codex"], settings).failures == []
    assert find_dims(Store.open(tmp_path)) == find_expected(8)
    assert Memory.open(tmp_path, encoder=HashEncoder(8)).recall(QUERY)


def read_vectors(store: Path) -> dict[str, bytes]:
    """Every vector of a store's last release."""
    snapshot = Snapshot(store)
    return {
        row[table.key]: np.asarray(row["vector"]).tobytes()
        for table in (PASSAGES, CLAIMS, SUMMARIES)
        for row in snapshot.read(table, [table.key, "vector"]).to_pylist()
    }


def test_a_store_changes_to_eight_bits_as_a_whole_and_is_asked_in_them(
    tmp_path: Path,
) -> None:
    talks = [SAMPLES / "codex"]
    settings = Settings(store=tmp_path / "changed")
    eight = settings.model_copy(update={"encoder": "all-MiniLM-L6-v2:8bit"})
    run_night(talks, settings)
    before = read_vectors(settings.store)
    run_night(talks, eight)
    fresh = eight.model_copy(update={"store": tmp_path / "fresh"})
    run_night(talks, fresh)
    now = read_vectors(settings.store)
    assert now == read_vectors(fresh.store)
    assert all(now[key] != before[key] for key in now.keys() & before.keys())
    # A reader whose settings name 32 bits asks by the release's encoder.
    memory = Memory.open(settings.store)
    assert memory.release.encoder == "all-MiniLM-L6-v2:8bit"
    found = memory.recall(QUERY)
    assert found
    assert found.warnings == ()
    assert (
        memory.recall(QUERY)[0].text == Memory.open(fresh.store).recall(QUERY)[0].text
    )
