"""What slowwave writes is for its owner's eyes alone, however careless the umask and whatever stood there before."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from slowwave.context.recall_log import note_hits
from slowwave.flows.nightly import run_night
from slowwave.memory import Memory
from slowwave.schemas.settings import Settings
from slowwave.store import Store
from slowwave.store.notes import TalkLog, write_note
from slowwave.store.private import make_files_private
from tests.talk_files import session

SAID = [
    ("user", "I live in Porto with my sister Nina."),
    ("assistant", "The readings go to PostgreSQL 17."),
]


@pytest.fixture(autouse=True)
def careless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "made" / "cache"))
    monkeypatch.setenv("SLOWWAVE_ENCODER", "hash-384")
    before = os.umask(0o022)
    yield
    os.umask(before)


def open_to_others(folder: Path) -> list[str]:
    return [
        str(path)
        for path in [folder, *folder.rglob("*")]
        if stat.S_IMODE(path.stat().st_mode) & 0o077
    ]


def test_a_night_notes_talks_and_answers_leave_nothing_to_others(
    tmp_path: Path,
) -> None:
    store = tmp_path / "made" / "store"
    # Before the first night: it makes the folders.
    write_note(store / "default", "The kettle leaks.")
    TalkLog(store / "default").append("user", "The ladder is in the shed.")
    run_night(
        [session(tmp_path, "ferry-1", 2, SAID)],
        Settings(store=store, encoder="hash-384"),
    )
    memory = Memory.open(store)
    assert note_hits(store / "default", memory.recall("Where do the readings go?"))
    assert memory.briefing().text
    kinds = {path.suffix for path in (tmp_path / "made").rglob("*")}
    assert kinds >= {".lance", ".manifest", ".jsonl", ".lock"}
    assert open_to_others(tmp_path / "made") == []
    assert os.umask(0o022) == 0o022  # the process's own again


def test_blocks_that_overlap_in_threads_leave_the_umask_as_it_was() -> None:
    first, second = make_files_private(), make_files_private()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert os.umask(0o077) == 0o077  # the second block is still open
    second.__exit__(None, None, None)
    assert os.umask(0o022) == 0o022


def test_a_store_that_was_open_to_others_is_closed_by_its_next_writer(
    tmp_path: Path,
) -> None:
    Store.open(tmp_path, create=True)
    for path in [tmp_path / "default", *tmp_path.glob("default/**/*")]:
        path.chmod(0o755)
    (tmp_path / "default" / "away").symlink_to(Path(__file__))
    mode = Path(__file__).stat().st_mode
    Store.open(tmp_path)
    assert open_to_others(tmp_path / "default")
    Store.open(tmp_path, create=True)
    (tmp_path / "default" / "away").unlink()
    assert open_to_others(tmp_path / "default") == []
    assert Path(__file__).stat().st_mode == mode
