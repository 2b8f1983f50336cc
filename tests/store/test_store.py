"""The store: merges, the lock, releases, roll-back, upkeep, all on real Lance tables."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from slowwave.schemas.errors import (
    BadRows,
    NoRelease,
    SchemaMismatch,
    StoreLocked,
    StoreMissing,
    StoreUnreadable,
)
from slowwave.schemas.tables import (
    CLAIMS,
    MESSAGES,
    RELEASED,
    SUMMARIES,
    TABLES,
    TOPICS,
    VECTOR_DIM,
    Table,
)
from slowwave.store import Snapshot, Store, writer_lock
from slowwave.store.indexes import count_unindexed
from slowwave.store.manifest import compute_table_digest
from slowwave.store.publishing import publish, read_releases, roll_back
from slowwave.store.repair import check_store
from slowwave.store.upkeep import compact_store, drop_versions_at_once, rewrite_tables


def topics(*names: str, purpose: str = "things") -> pa.Table:
    rest = {
        "purpose": purpose,
        "base": False,
        "samples": [],
        "size": 0,
        "centroid": None,
        "member_hash": "none",
    }
    return pa.Table.from_pylist(
        [{"topic_id": n, "name": n, "step_key": "k", **rest} for n in names],
        TOPICS.schema,
    )


def summary(number: int, text: str) -> dict[str, object]:
    return {
        "summary_id": str(number), "scope": "topic", "scope_id": "a", "tier": 0, "seq": number, "text": text,
        "member_ids": [], "member_hash": "x", "sealed": True,
        "vector": [1.0] + [0.0] * (VECTOR_DIM - 1), "step_key": "k",
    }  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path, create=True)


def test_rows_with_a_repeated_or_missing_key_are_refused_whole(store: Store) -> None:
    with pytest.raises(BadRows, match="1 of 3 rows repeat a topic_id"):
        store.merge(TOPICS, topics("a", "a", "b"))
    loose = pa.schema([f.with_nullable(True) for f in TOPICS.schema])
    nameless = pa.Table.from_pylist(
        [{**topics("a").to_pylist()[0], "topic_id": None}], schema=loose
    )
    with pytest.raises(BadRows, match="1 rows have no topic_id"):
        store.append(TOPICS, nameless)
    assert store.count(TOPICS) == 0


def test_merging_what_is_stored_makes_no_version(store: Store) -> None:
    store.merge(TOPICS, topics("a", "b"))
    before = store.read_versions(RELEASED)
    assert store.merge_changed(TOPICS, topics("b", "a")) == 0
    assert store.read_versions(RELEASED) == before


def test_a_vector_with_a_value_that_is_no_number_is_stored_as_none(
    store: Store,
) -> None:
    good, bad = [0.0] * VECTOR_DIM, [float("nan"), *[0.0] * (VECTOR_DIM - 1)]

    def make(*vectors: list[float] | None, first: int = 0) -> pa.Table:
        rows = [
            summary(first + number, "said") | {"vector": vector}
            for number, vector in enumerate(vectors)
        ]
        return pa.Table.from_pylist(rows, schema=SUMMARIES.schema)

    store.append(SUMMARIES, make(bad, None, good))
    store.merge(SUMMARIES, make(good, bad, first=2))
    store.merge(SUMMARIES, make(good, bad, first=4))
    kept = store.read(SUMMARIES, ["summary_id", "vector"]).to_pylist()
    assert {row["summary_id"]: row["vector"] for row in kept} == {
        "0": None,
        "1": None,
        "2": good,
        "3": None,
        "4": good,
        "5": None,
    }


@pytest.mark.parametrize("count", [1, 20])
def test_columns_of_few_rows_or_of_all_are_set_and_what_they_were_leaves_the_disk(
    store: Store, count: int
) -> None:
    store.merge(
        TOPICS,
        before := topics(
            *(f"n{number:02}" for number in range(20)), purpose="overwritten"
        ),
    )
    new = [
        {"purpose": "new", "size": number, "topic_id": f"n{number:02}"}
        for number in range(count)
    ]
    assert store.update(TOPICS, pa.Table.from_pylist(new[::-1])) == count
    with pytest.raises(BadRows, match="repeat"):
        store.update(TOPICS, pa.Table.from_pylist([new[0], new[0]]))
    after = [
        row | own
        for row, own in zip(
            before.to_pylist(), [*new, *[{}] * (20 - count)], strict=True
        )
    ]
    rewrite_tables(store, [TOPICS])
    drop_versions_at_once(store, TOPICS)
    held = b"".join(path.read_bytes() for path in store.dir.glob("topics.lance/data/*"))
    assert (b"overwritten" in held) == (count < 20)
    assert store.read(TOPICS).sort_by("topic_id").to_pylist() == after


def test_a_value_with_quotes_filters_nothing_but_itself(store: Store) -> None:
    evil = "x' OR '1'='1"
    store.merge(TOPICS, topics("a", evil))
    assert store.read(
        TOPICS, ["topic_id"], pc.field("topic_id") == evil
    ).to_pylist() == [{"topic_id": evil}]
    assert store.read_ids(TOPICS, [evil]).num_rows == 1


def test_every_table_exists_and_has_its_key_marked(store: Store) -> None:
    for table in TABLES.values():
        field = store.open_dataset(table).schema.field(table.key)
        assert not field.nullable
        assert field.metadata == {b"lance-schema:unenforced-primary-key": b"true"}


def test_readers_see_the_release_and_not_what_came_after(store: Store) -> None:
    store.merge(TOPICS, topics("a"))
    assert publish(store, "run-1", None) is not None
    store.merge(TOPICS, topics("b"))
    assert Snapshot(store.root).read(TOPICS, ["topic_id"]).to_pylist() == [
        {"topic_id": "a"}
    ]
    publish(store, "run-2", None)
    assert Snapshot(store.root).open_dataset(TOPICS).count_rows() == 2
    assert Snapshot(store.root, release="r1").open_dataset(TOPICS).count_rows() == 1


def test_other_rows_make_a_release_and_the_same_rows_in_other_files_make_none(
    store: Store,
) -> None:
    for purpose, is_new in (
        ("things", True),
        ("things", False),
        ("other things", True),
    ):
        store.merge(TOPICS, topics("a", "b", purpose=purpose))
        assert bool(publish(store, "run", None)) is is_new


def test_roll_back_is_a_release_and_outlives_a_night_without_news(store: Store) -> None:
    for name in ("a", "b"):
        store.merge(TOPICS, topics(name))
        publish(store, f"run-{name}", None)
    made = roll_back(store, "r1", "back")
    assert (made.name, made.restores) == ("r3", read_releases(store)[0].release_id)
    assert Snapshot(store.root).open_dataset(TOPICS).count_rows() == 1
    assert publish(store, "quiet night", None) is None
    with pytest.raises(NoRelease, match="no release 'r9'"):
        roll_back(store, "r9", "back")


def test_no_store_and_no_release_are_told_apart(tmp_path: Path, store: Store) -> None:
    with pytest.raises(StoreMissing):
        Snapshot(tmp_path / "elsewhere")
    with pytest.raises(StoreMissing):
        Store.open(tmp_path, "nobody")
    with pytest.raises(NoRelease, match="nothing has been released yet"):
        Snapshot(store.root)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda table: table.add_columns({"mood": "'calm'"}), "it has mood"),
        (lambda table: table.drop_columns(["purpose"]), "it lacks purpose"),
        (
            lambda table: table.alter_columns(
                {"path": "name", "data_type": pa.large_string()}
            ),
            "name as large_string",
        ),
    ],
)
def test_a_table_with_other_columns_is_refused_and_left_as_it_is(
    store: Store, change: Callable[[Any], object], told: str
) -> None:
    store.merge(TOPICS, topics("a"))
    change(store.open_dataset(TOPICS))
    publish(store, "of another version", None)
    before = store.read_versions(RELEASED)
    for create in (False, True):
        with pytest.raises(SchemaMismatch, match=f"{told}.*slowwave export OUT"):
            Store.open(store.root, create=create)
    with pytest.raises(SchemaMismatch, match=told):
        Snapshot(store.root).read(TOPICS)
    assert store.read_versions(RELEASED) == before


def test_a_release_with_a_table_of_another_version_is_refused(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.merge(TOPICS, topics("a"))
    publish(store, "of another version", None)
    monkeypatch.delitem(TABLES, TOPICS.name)
    why = "table 'topics' .*this version has no such table.*slowwave export OUT"
    for refused in (Snapshot, Store.open):
        with pytest.raises(SchemaMismatch, match=why):
            refused(store.root)
    with pytest.raises(SchemaMismatch, match=why):
        check_store(store.dir)


@pytest.mark.parametrize("table", [MESSAGES, CLAIMS])
def test_a_released_table_that_is_gone_stops_writers_before_anything_is_written(
    store: Store, table: Table
) -> None:
    store.merge(TOPICS, topics("a"))
    publish(store, "run-1", None)
    shutil.rmtree(store.dir / f"{table.name}.lance")
    before = sorted(store.dir.rglob("*"))
    with pytest.raises(
        StoreUnreadable,
        match=f"'{table.name}', which release r1 names, is gone: .*repair",
    ):
        Store.open(store.root, create=True)
    assert sorted(store.dir.rglob("*")) == before


def test_the_full_text_index_covers_every_row_before_a_release(store: Store) -> None:
    store.append(
        SUMMARIES,
        pa.Table.from_pylist([summary(0, "quick foxes jump")], schema=SUMMARIES.schema),
    )
    assert compact_store(store) == ["summaries"]
    assert compact_store(store) == []
    store.append(
        SUMMARIES,
        pa.Table.from_pylist([summary(1, "slow owls sleep")], schema=SUMMARIES.schema),
    )
    compact_store(store)
    dataset = store.open_dataset(SUMMARIES)
    assert count_unindexed(dataset) == 0
    found = dataset.to_table(["summary_id"], full_text_query="sleeping")
    assert found["summary_id"].to_pylist() == ["1"]


def test_a_full_text_index_that_a_failed_write_left_in_part_is_made_anew(
    store: Store,
) -> None:
    for number, told in enumerate(
        ["quick foxes jump", "slow owls sleep", "grey herons wade"]
    ):
        store.append(
            SUMMARIES,
            pa.Table.from_pylist([summary(number, told)], schema=SUMMARIES.schema),
        )
        compact_store(store)
        for path in store.dir.glob("summaries.lance/_indices/*/*.lance"):
            path.write_bytes(path.read_bytes()[:-9])
    compact_store(store)
    assert (
        store.open_dataset(SUMMARIES).to_table(full_text_query="herons").num_rows == 1
    )


def test_digest_ignores_order_and_volatile_columns(store: Store) -> None:
    assert compute_table_digest(TOPICS, topics("a", "b")) == compute_table_digest(
        TOPICS, topics("b", "a")
    )
    assert compute_table_digest(TOPICS, topics("a", "b")) != compute_table_digest(
        TOPICS, topics("a", "c")
    )


HOLDER = """
import sys
from pathlib import Path
from slowwave.store import writer_lock
with writer_lock(Path(sys.argv[1]), "night-1"):
    print("held", flush=True)
    sys.stdin.read()  # until it is killed
"""


def test_a_second_writer_is_told_who_holds_the_lock_and_a_killed_one_frees_it(
    tmp_path: Path,
) -> None:
    command, pipe = [sys.executable, "-c", HOLDER, str(tmp_path)], subprocess.PIPE
    holder = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with (
            pytest.raises(StoreLocked, match=f"process {holder.pid} .*run night-1"),
            writer_lock(tmp_path, "night-2"),
        ):
            pass
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        with writer_lock(tmp_path, "night-3") as died:
            assert died is not None
            assert (died.run_id, died.pid) == ("night-1", holder.pid)
            assert (
                json.loads((tmp_path / "writer.json").read_text())["pid"] == os.getpid()
            )
        with writer_lock(tmp_path, "night-4") as died:
            assert died is None
        (theirs := tmp_path / "theirs").write_text(json.dumps(dict.fromkeys(("run_id", "kind", "host"), "x")
            | {"pid": 1, "since": "0001-01-01T00:00:00+23:00"}))  # fmt: skip
        (tmp_path / "writer.json").symlink_to(theirs)
        before = theirs.read_bytes()
        with writer_lock(tmp_path, "night-5") as died:
            # A time that no table holds: the file is damaged.
            assert (died, theirs.read_bytes()) == (None, before)
    finally:
        holder.kill()
        holder.communicate()
