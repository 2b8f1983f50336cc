"""After a loss of power the tables go back to what was synced; after a kill they stay."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slowwave.flows.exclude import run_exclude, run_include
from slowwave.flows.forget import preview_forgetting, run_forget
from slowwave.flows.nightly import run_night
from slowwave.flows.reprocess import Selection, run_reprocess
from slowwave.schemas.errors import StoreUnreadable
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import (
    CLAIMS,
    COMPLETIONS,
    LINES,
    MESSAGES,
    RELEASES,
    SESSIONS,
    Table,
)
from slowwave.store import Store
from slowwave.store import lock as locks
from slowwave.store.lock import HOLDER_FILE, writer_lock
from slowwave.store.manifest import (
    check_not_torn,
    go_back_to_synced,
    list_versions,
    mark_synced,
)
from slowwave.store.releases import Snapshot
from slowwave.store.upkeep import rewrite_tables
from slowwave.tasks.forget.select import Wanted


def add(store: Store, table: Table, key: str) -> None:
    plain: dict[str, Any] = {"string": key}
    row = {
        field.name: plain.get(
            str(field.type), [] if pa.types.is_nested(field.type) else 1
        )
        for field in table.schema
    }
    store.append(table, pa.Table.from_pylist([row], schema=table.schema))


def write_and_die(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that syncs one line, writes another, and is killed."""
    with monkeypatch.context() as dying:
        dying.setattr(locks, "_let_go", lambda *_: None)
        with writer_lock(root / "default", "r", "nightly"):
            store = Store.open(root, create=True)
            add(store, LINES, "synced")
            mark_synced(store.dir)
            add(store, LINES, "not synced")
            (store.dir / "lines.lance" / "_refs" / "tags").mkdir(
                parents=True, exist_ok=True
            )
            # An empty file, as a loss leaves.
            (store.dir / "lines.lance" / "_refs" / "tags" / "r1.json").touch()
    assert (root / "default" / HOLDER_FILE).exists()


def tear(
    settings: Settings, tables: tuple[Table, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that rewrites tables and is killed, and what a loss of power leaves of its versions: empty files."""
    with monkeypatch.context() as dying:
        dying.setattr(locks, "_let_go", lambda *_: None)
        with writer_lock(settings.store / "default", "r", "forget"):
            store = Store.open(settings.store)
            before = {
                table: set(list_versions(store.dir / f"{table.name}.lance"))
                for table in tables
            }
            for table in tables:
                store.delete_ids(table, ["no such row"])
            rewrite_tables(store, before)
            for table, known in before.items():
                made = list_versions(store.dir / f"{table.name}.lance")
                for version in made.keys() - known:
                    made[version].write_bytes(b"")


def keys(root: Path) -> set[str]:
    return set(Store.open(root).read(LINES)[LINES.key].to_pylist())


@pytest.mark.parametrize(("boot", "left"), [("another start", 1), (None, 2)])
def test_what_was_not_synced_goes_when_the_machine_was_started_anew(
    boot: str | None, left: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_and_die(tmp_path, monkeypatch)
    if boot:
        monkeypatch.setattr(locks, "read_boot", lambda: boot)
    with writer_lock(tmp_path / "default", "s") as died:
        assert died is not None
        assert len(keys(tmp_path)) == left
        tags = list((tmp_path / "default" / "lines.lance" / "_refs" / "tags").iterdir())
        assert len(tags) == left - 1


def test_what_is_asked_for_by_hand_looks_at_tables_that_are_whole_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk, settings = (
        tmp_path / "talk.jsonl",
        Settings(store=tmp_path / "store", encoder="hash-384"),
    )
    for said in (
        "The cabin costs 240 euros, Ann paid for it.",
        "I decided that we poll the gauge every 10 minutes.",
    ):
        with talk.open("a") as file:
            file.write(f'{{"session_id": "s", "role": "user", "content": "{said}"}}\n')
    run_night([talk], settings)
    claim, *_ = Store.open(settings.store).read(CLAIMS)["claim_id"].to_pylist()
    asked: tuple[Callable[[], object], ...] = (
        lambda: preview_forgetting(Wanted(sessions=("s",)), settings),
        lambda: run_reprocess("observe", Selection(sessions=("s",)), settings),
        lambda: run_exclude(["s"], "it is poison", settings),
        lambda: run_include(["s"], settings),
        lambda: run_exclude([claim], "it is wrong", settings),
        lambda: run_include([claim], settings),
    )
    for number, ask in enumerate(asked):
        tear(settings, (SESSIONS, CLAIMS), monkeypatch)
        with pytest.raises(StoreUnreadable):
            Store.open(settings.store).read(SESSIONS)
        monkeypatch.setattr(locks, "read_boot", lambda at=number: f"start {at}")
        ask()
        assert Store.open(settings.store).count(SESSIONS) == 1
    # Power is lost in a forgetting: the release stays, and the forgetting can be done.
    live = Snapshot(settings.store).release
    tear(settings, (RELEASES, MESSAGES), monkeypatch)
    assert Snapshot(settings.store).release == live
    monkeypatch.setattr(locks, "read_boot", lambda: "another start")
    assert run_forget(Wanted(sessions=("s",)), settings)[1]


def test_a_table_whose_making_was_killed_is_made(tmp_path: Path) -> None:
    Store.open(tmp_path, create=True)
    folder = tmp_path / "default" / f"{MESSAGES.name}.lance" / "_versions"
    for file in folder.iterdir():
        file.unlink()
    assert Store.open(tmp_path, create=True).count(MESSAGES) == 0
    assert Store.open(tmp_path).count(COMPLETIONS) == 0


def test_a_deletion_that_is_torn_is_told_and_taken_back(tmp_path: Path) -> None:
    store = Store.open(tmp_path, create=True)
    for key in "ab":
        add(store, LINES, key)
    rewrite_tables(store, [LINES])  # of one file, of which a row goes
    store.delete_ids(LINES, ["a"])
    (torn,) = (store.dir / "lines.lance" / "_deletions").iterdir()
    torn.write_bytes(b"")
    with pytest.raises(OSError, match="only a part"):
        check_not_torn(store.open_dataset(LINES))
    Store.open(tmp_path, create=True)
    assert keys(tmp_path) == {"a", "b"}


def test_no_torn_version_stays_below_one_that_is_whole(tmp_path: Path) -> None:
    store = Store.open(tmp_path, create=True)
    mark_synced(store.dir)
    for key in "ab":
        add(store, COMPLETIONS, key)
    newest, torn, *older = sorted(
        list_versions(store.dir / "completions.lance").items(), reverse=True
    )
    torn[1].write_bytes(b"")
    go_back_to_synced(store.dir)
    assert list_versions(store.dir / "completions.lance") == dict([newest, *older])
    assert store.count(COMPLETIONS) == 2
