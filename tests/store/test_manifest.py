"""Manifests: what was altered, cut or lost since a release was made is found; real Lance files, changed for real."""

from pathlib import Path

import pytest

from slowwave.schemas.errors import StoreUnreadable
from slowwave.schemas.settings import StoreSettings
from slowwave.schemas.tables import RELEASES, TOPICS
from slowwave.store import Snapshot, Store, releases
from slowwave.store.lock import writer_lock
from slowwave.store.manifest import list_release_manifests
from slowwave.store.publishing import publish, read_releases, roll_back
from slowwave.store.releases import Release
from slowwave.store.repair import check_store, mend_releases, salvage
from slowwave.store.upkeep import drop_old_versions
from tests.store.test_store import topics


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store of two releases."""
    made = Store.open(tmp_path, create=True)
    for name in ("a", "b"):
        made.merge(TOPICS, topics(name))
        publish(made, name, None)
    return made


def find_data(store: Store) -> Path:
    return max(
        (store.dir / "topics.lance" / "data").iterdir(),
        key=lambda path: path.stat().st_mtime_ns,
    )


def put_back(store: Store) -> list[str]:
    told = salvage(store.dir, check_store(store.dir).damage)[1]
    mend_releases(store)
    return told


def test_altered_bytes_are_found_by_reading_and_not_by_sizes(store: Store) -> None:
    data = find_data(store)
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 1
    data.write_bytes(content)
    assert check_store(store.dir, read=False)[0] == []
    assert [(one.where, one.what) for one in check_store(store.dir)[0]] == [
        (f"topics.lance/data/{data.name}", "its bytes were altered")
    ]


def test_a_cut_file_is_found_and_its_table_is_not_served(store: Store) -> None:
    data = find_data(store)
    data.write_bytes(data.read_bytes()[:-9])
    (damage,) = check_store(store.dir, read=False)[0]
    assert "bytes, was" in damage.what
    with pytest.raises(StoreUnreadable, match="slowwave check --repair"):
        Snapshot(store.root).read(TOPICS)
    assert Snapshot(store.root, release="r1").read(TOPICS).num_rows == 1


def test_a_lost_row_of_the_ledger_is_noticed_by_all_and_put_back(store: Store) -> None:
    before = store.read(RELEASES).to_pylist()
    newest = min((store.dir / "releases.lance" / "_versions").glob("*.manifest"))
    newest.unlink()
    for hint in (store.dir / "releases.lance" / "_versions").glob("*hint*"):
        hint.unlink()
    with pytest.raises(StoreUnreadable, match="lost r2"):
        Snapshot(store.root)
    with pytest.raises(StoreUnreadable, match="lost r2"):
        Store.open(store.root, create=True)
    aside = (store.dir / "releases.lance").rename(store.root / "aside")
    with pytest.raises(StoreUnreadable, match="lost r2"):
        # And not that there is no store.
        Snapshot(store.root)
    aside.rename(store.dir / "releases.lance")
    assert [one.where for one in check_store(store.dir)[0]] == ["releases"]
    assert put_back(store) == [
        "r2: its row in the ledger was put back from its manifest"
    ]
    assert check_store(store.dir)[0] == []
    assert store.read(RELEASES).sort_by("number").to_pylist() == before
    assert Snapshot(store.root).read(TOPICS).num_rows == 2


def test_an_altered_manifest_of_a_release_is_found_and_made_anew(store: Store) -> None:
    with writer_lock(store.dir, "a"):
        pass
    manifest = store.dir / "manifests" / "r1.json"
    before = manifest.read_bytes()
    for altered, where in (
        (before.replace(b'"run_id": "a"', b'"run_id": "x"'), "releases"),
        (b"{}", "manifests/r1.json"),
    ):
        manifest.write_bytes(altered)
        assert {one.where for one in check_store(store.dir).damage} == {
            "manifests/r1.json",
            where,
        }
        assert "manifests/r1.json was altered" in put_back(store)[0]
        assert (manifest.read_bytes(), check_store(store.dir)) == (before, ([], 2, 0))
        with writer_lock(store.dir, "b"):
            pass


def test_a_file_that_is_now_something_else_is_gone_also_where_no_release_pins_it(
    store: Store,
) -> None:
    with writer_lock(store.dir, "a"):
        store.merge(TOPICS, topics("c"))
    data = find_data(store)
    data.unlink()
    data.symlink_to("/dev/null")
    assert [(one.release, one.what) for one in check_store(store.dir).damage] == [
        ("newest", "is gone")
    ]


@pytest.mark.parametrize(
    "altered",
    [
        b'{"row": 1, "previous": 3, "files": [1]}',
        b'{"a.manifest": [1, "b"]}',
        b"\xff",
        b'{"run_id": "a", "kind": "run", "pid": 1, "host": "h", "since": "never"}',
        b"[" * 100_000,
    ],
)
def test_what_the_store_wrote_down_of_its_files_may_be_altered_itself(
    store: Store, altered: bytes
) -> None:
    (store.dir / "manifests" / "rx.json").write_bytes(altered)  # nobody's
    with writer_lock(store.dir, "a"):
        pass
    for name in ("manifests/r2.json", "manifest.json", "writer.json"):
        (store.dir / name).write_bytes(altered)
    with writer_lock(store.dir, "b") as died:
        assert died is None
        assert {"manifests/r2.json", "manifest.json"} <= {
            one.where for one in check_store(store.dir).damage
        }
        put_back(store)
    assert check_store(store.dir).damage == []
    assert Snapshot(store.root).read(TOPICS).num_rows == 2


def test_a_writer_killed_between_x_row_leaves_nothing_to_mend(store: Store) -> None:
    manifests = store.dir / "manifests"
    (manifests / "r2.json").rename(manifests / "r2.part")  # killed after the row
    (manifests / "r3.part").write_bytes(b"half a se")  # killed before it
    assert check_store(store.dir)[0] == []
    store.merge(TOPICS, topics("c"))
    publish(store, "c", None)
    assert sorted(path.name for path in manifests.iterdir()) == [
        "r1.json",
        "r2.json",
        "r3.json",
    ]
    assert check_store(store.dir) == ([], 3, 0)


def test_a_release_without_a_manifest_is_counted_and_not_called_damaged(
    store: Store,
) -> None:
    (store.dir / "manifests" / "r1.json").unlink()
    assert check_store(store.dir) == ([], 1, 1)
    put_back(store)
    assert check_store(store.dir) == ([], 2, 0)


def test_manifests_go_with_their_releases_and_a_roll_back_has_one(store: Store) -> None:
    roll_back(store, "r1", "back")
    drop_old_versions(store, StoreSettings(keep_releases=2))
    assert list_release_manifests(store.dir) == [2, 3]
    assert check_store(store.dir) == ([], 2, 0)
    assert [one.name for one in read_releases(store)] == ["r1", "r2", "r3"]


def test_a_release_made_while_the_ledger_is_read_is_no_lost_row(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = releases.read_ledger

    def read_slowly(folder: Path) -> list[Release]:
        found = read(folder)
        monkeypatch.setattr(releases, "read_ledger", read)
        store.merge(TOPICS, topics("c"))
        publish(store, "c", None)
        return found

    monkeypatch.setattr(releases, "read_ledger", read_slowly)
    assert Snapshot(store.root).release.name == "r2"
    assert Snapshot(store.root).release.name == "r3"
