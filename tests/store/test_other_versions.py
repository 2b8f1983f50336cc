"""Stores of an older and of a newer slowwave, made of real ones: columns and tables are taken away, or added."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

from slowwave.cli.main import app
from slowwave.engines.encoders.hash_encoder import HashEncoder
from slowwave.memory import Memory
from slowwave.schemas.errors import NewerStore, SchemaMismatch, StoreUnreadable
from slowwave.schemas.tables import MERGES, OBSERVATIONS, PASSAGES, RELEASED, RELEASES, Table
from slowwave.store import Snapshot, Store
from slowwave.store.releases import publish, read_releases
from tests.recall_store import add, build, observation

QUERY = "session cache Redis Postgres"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SLOWWAVE_ENCODER", "hash-384")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("versions") / "store"
    build(root)
    return root


@pytest.fixture
def root(built: Path, tmp_path: Path) -> Path:
    """A store with one release, to be changed."""
    return shutil.copytree(built, tmp_path / "store")


def typed(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def told_in_one_line(result: Result, *words: str) -> bool:
    return result.exit_code == 1 and result.stderr.count("\n") == 1 and all(word in result.stderr for word in words)


def without_columns(root: Path, table: Table, *columns: str) -> None:
    """The store as a slowwave would have released it that did not know these columns yet."""
    store = Store.open(root)
    store.open_table(table).drop_columns(list(columns))
    of_release(store, {table.name: int(store.open_table(table).version)})


def without_table(root: Path, table: Table) -> None:
    """The store as a slowwave would have released it that did not know the table yet."""
    store = Store.open(root)
    shutil.rmtree(root / "default" / f"{table.name}.lance")
    of_release(store, {}, left_out=table.name)


def of_release(store: Store, versions: dict[str, int], left_out: str | None = None) -> None:
    """Write the live release's row anew."""
    (row,) = store.read(RELEASES).to_pylist()
    row["versions"] = [(key, versions.get(key, n)) for key, n in row["versions"] if key != left_out]
    row["counts"] = [(key, n) for key, n in row["counts"] if key != left_out]
    store.merge(RELEASES, pa.Table.from_pylist([row], schema=RELEASES.schema))


def test_readers_take_a_column_younger_than_the_release_for_nulls(root: Path) -> None:
    before = Memory.open(root, encoder=HashEncoder()).recall(QUERY)
    without_columns(root, PASSAGES, "speaker", "workspace")
    without_columns(root, OBSERVATIONS, "superseded_by", "detail")
    memory = Memory.open(root, encoder=HashEncoder())
    assert {hit.id for hit in memory.recall(QUERY)} == {hit.id for hit in before if hit.status == "active"}
    assert memory.notes == []
    assert memory.recall(QUERY, workspace="api", kinds="message") == []
    assert set(memory.snapshot.read(OBSERVATIONS)["superseded_by"].to_pylist()) == {None}
    assert Store.open(root).read(PASSAGES, ["speaker"]).num_rows == 9


def test_readers_take_a_table_younger_than_the_release_for_empty(root: Path) -> None:
    without_table(root, MERGES)
    memory = Memory.open(root, encoder=HashEncoder())
    assert memory.recall(QUERY)
    assert (memory.notes, memory.snapshot.read(MERGES).num_rows) == ([], 0)
    assert typed("inspect", "merges", "--store", root).stdout == "No merges.\n"
    assert typed("export", root.with_name("out"), "--store", root).exit_code == 0
    assert not (root / "default" / "merges.lance").exists()


def test_a_writer_makes_what_is_missing_and_that_alone_is_no_release(root: Path) -> None:
    without_columns(root, OBSERVATIONS, "detail", "topic_id")
    without_table(root, MERGES)
    store = Store.open(root, create=True)
    assert set(store.open_table(OBSERVATIONS).schema.names) == set(OBSERVATIONS.schema.names)
    assert publish(store, "quiet night", None) is None
    made = store.read_versions(RELEASED)
    assert publish(Store.open(root, create=True), "second quiet night", None) is None
    assert (store.read_versions(RELEASED), len(read_releases(store))) == (made, 1)
    add(store, OBSERVATIONS, [observation("o-2", "The cache is warm.", "warm", "ses-a-m1", detail="Since r2.")])
    store.merge(OBSERVATIONS, store.read_ids(OBSERVATIONS, ["o-new"]))
    assert publish(store, "night with news", None) is not None
    held = {row["observation_id"]: row["detail"] for row in Snapshot(root).read(OBSERVATIONS).to_pylist()}
    assert held == {"o-new": None, "o-old": None, "o-2": "Since r2."}
    assert Snapshot(root, release="r1").read(OBSERVATIONS, ["detail"]).num_rows == 2


@pytest.mark.parametrize("create", [True, False])
def test_columns_that_no_version_can_do_without_are_not_made_up(root: Path, create: bool) -> None:
    without_columns(root, OBSERVATIONS, "quote")
    with pytest.raises(SchemaMismatch, match=r"lacks quote.*slowwave export OUT.*slowwave run OUT --store NEW"):
        Store.open(root, create=create)
    with pytest.raises(SchemaMismatch, match="lacks quote"):
        Memory.open(root)


def test_a_column_of_another_type_is_refused(root: Path) -> None:
    store = Store.open(root)
    store.open_table(OBSERVATIONS).alter_columns({"path": "detail", "data_type": pa.large_string()})
    with pytest.raises(SchemaMismatch, match="has detail as large_string"):
        Store.open(root)


def test_a_newer_store_is_refused_in_one_line_and_left_as_it_is(root: Path) -> None:
    store = Store.open(root)
    store.open_table(OBSERVATIONS).add_columns({"mood": "'calm'"})
    of_release(store, {"observations": int(store.open_table(OBSERVATIONS).version)})
    before = store.read_versions(RELEASED)
    for command in (["run", "--plain", root], ["verify"], ["recall", QUERY], ["export", root / "out"]):
        assert told_in_one_line(typed(*command, "--store", root), "observations", "mood", "update slowwave"), command
    assert store.read_versions(RELEASED) == before


def test_a_release_with_a_table_unknown_here_is_a_newer_slowwaves(root: Path) -> None:
    of_release(Store.open(root), {})
    store = Store.open(root)
    (row,) = store.read(RELEASES).to_pylist()
    row["versions"] = [*row["versions"], ("dreams", 1)]
    store.merge(RELEASES, pa.Table.from_pylist([row], schema=RELEASES.schema))
    for opened in (Store.open, Memory.open, Snapshot):
        with pytest.raises(NewerStore, match="release r1 names a table 'dreams'"):
            opened(root)


@pytest.mark.parametrize("table", RELEASED, ids=lambda table: table.name)
def test_a_released_table_that_is_gone_stops_the_night_before_anything_is_written(root: Path, table: Table) -> None:
    shutil.rmtree(root / "default" / f"{table.name}.lance")
    before = sorted(root.rglob("*"))
    with pytest.raises(
        StoreUnreadable, match=f"'{table.name}', which release r1 names, is gone: .*repair.* back from a"
    ):
        Store.open(root, create=True)
    assert sorted(root.rglob("*")) == before


def test_the_night_over_a_damaged_store_is_one_line(root: Path, tmp_path: Path) -> None:
    shutil.rmtree(root / "default" / "observations.lance")
    night = typed("run", "--plain", tmp_path, "--store", root)
    assert told_in_one_line(night, "'observations'", "is gone", "export OUT")
    saved = typed("export", tmp_path / "out", "--table", "messages", "--table", "sessions", "--store", root)
    assert saved.exit_code == 0, saved.stderr
    assert "'observations'" in typed("recall", QUERY, "--store", root).stderr
