"""A store that goes away, is half there, and comes back: what is told meanwhile, and that no trace of it stays."""

import json
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from flows.nightly import run_night
from schemas.errors import StoreMissing, StoreUnreadable
from schemas.settings import Settings
from slowwave.cli.main import app
from slowwave.engines.hash_encoder import HashEncoder
from slowwave.recall.memory import Memory
from slowwave.recall.notes import Notes
from slowwave.recall.tokens import bytes_by_four
from slowwave.store import Store
from slowwave.store.journal import Journal, journals, remember
from tests.recall_store import build
from tests.talk_files import session

SAID = [
    ("user", "I live in Porto with my sister Nina, and I prefer tea to coffee."),
    ("assistant", "Noted: the tide gauge readings go to PostgreSQL 17, partitioned by month."),
]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("SLOWWAVE_ENCODER", "hash-384")
    monkeypatch.setenv("SLOWWAVE_RECALL__REFRESH_SECONDS", "0")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store of a real night."""
    run_night([session(tmp_path, "ferry-1", 2, SAID)], Settings(store=tmp_path / "store", encoder="hash-384"))
    return tmp_path / "store"


def typed(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def away(root: Path) -> Path:
    return root.rename(root.with_name("elsewhere"))


def broken(root: Path) -> None:
    for file in root.glob("default/releases.lance/_versions/*"):
        file.write_bytes(b"not a manifest")


def test_the_last_briefing_is_told_when_the_store_goes_away(root: Path) -> None:
    memory = Memory.open(root)
    before = memory.briefing(300)
    assert "Porto" in before.text
    assert (before.stale, memory.notes) == (False, [])
    there = away(root)
    for one in (memory, Memory.open(root)):
        again = one.briefing(300)
        assert (again.text, again.tokens, again.stale) == (before.text, before.tokens, True)
        assert len(one.notes) == 1
        assert "answered from the last briefing" in one.notes[0]
        other = one.briefing(40, tokenizer=bytes_by_four)  # of any size: the lines are kept, not the block
        assert other.stale
        assert 0 < bytes_by_four(other.text) <= 40
        assert json.loads(one.briefing(format="json").text)["stale"] is True
    there.rename(root)
    assert memory.briefing(300) == before
    assert memory.notes == []


def test_the_commands_tell_the_last_briefing_or_one_line(root: Path) -> None:
    told = typed("briefing", "--store", root)
    assert "Porto" in told.stdout
    there = away(root)
    again = typed("briefing", "--store", root)
    assert (again.exit_code, again.stdout) == (0, told.stdout)
    assert "this is the last briefing" in again.stderr
    never = typed("context", "tide gauge readings", "--store", root)
    assert (never.exit_code, never.stdout) == (0, "Nothing found.\n")
    assert "this was never asked before" in never.stderr
    there.rename(root)
    assert "the store can't be read" not in typed("briefing", "--store", root).stderr


@pytest.mark.parametrize("command", [["recall", "tide"], ["context", "tide"], ["briefing"], ["show", "ferry-1"]])
def test_broken_releases_with_nothing_cached_are_an_error_in_one_line(root: Path, command: list[str]) -> None:
    broken(root)
    result = typed(*command, "--store", root)
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert result.stderr.startswith(f"slowwave: the store at {root / 'default'} can't be read: ")
    assert result.stderr.count("\n") == 1


def test_broken_releases_raise_the_projects_own_error(root: Path) -> None:
    broken(root)
    with pytest.raises(StoreUnreadable, match="can't be read"):
        Memory.open(root)
    with pytest.raises(StoreUnreadable):
        Store.open(root)


def test_a_briefing_never_given_is_an_error_of_the_store(root: Path) -> None:
    memory = Memory.open(root)
    away(root)
    with pytest.raises((StoreMissing, StoreUnreadable)):
        memory.briefing()
    block = memory.context("tide gauge readings?", conversation=["The gauge again."])
    assert block.stale
    assert [part.name for part in block.parts] == ["conversation"]
    assert block.reason == "the store can't be read, and this was never asked before"


def test_notes_are_of_the_last_answer_alone(tmp_path: Path) -> None:
    build(tmp_path / "store")
    memory = Memory.open(tmp_path / "store", encoder=HashEncoder())
    memory.recall("Redis cache")
    there = away(tmp_path / "store")
    assert memory.recall("something else").stale
    assert len(memory.notes) == 1
    memory.recall("a third thing")
    assert len(memory.notes) == 1
    there.rename(tmp_path / "store")
    assert not memory.recall("Redis cache").stale
    assert memory.notes == []
    broken_open = memory.notes
    broken_open.append("mine")
    assert memory.notes == []  # a copy was given


def test_what_lasts_is_noted_with_every_answer(tmp_path: Path) -> None:
    build(tmp_path / "store", encoder="no such model")
    memory = Memory.open(tmp_path / "store")
    for query in ("Nina Lisbon", "Redis cache", "Nina Lisbon"):
        memory.recall(query)
        assert len(memory.notes) == 1
        assert "can't be loaded: answered by full text alone" in memory.notes[0]


def test_threads_do_not_mix_their_notes() -> None:
    notes, inside, first_done = Notes(), threading.Event(), threading.Event()

    def other() -> None:
        with notes.of_one_answer():
            notes.add("of the other")
            inside.set()
            first_done.wait(10)

    with notes.of_one_answer():
        notes.add("mine")
        notes.add("mine")
        thread = threading.Thread(target=other)
        thread.start()
        assert inside.wait(10)
        with notes.of_one_answer():  # part of this answer
            notes.add("more of mine")
    assert notes.last == ["mine", "more of mine"]
    first_done.set()
    thread.join()
    assert notes.last == ["of the other"]


def test_a_note_before_the_first_night_makes_the_store_and_one_while_it_is_away_does_not(root: Path) -> None:
    new = root.with_name("new") / "default"
    remember(new, "The first note comes before any night.")
    assert [folder.name for folder in journals(new)] == ["notes"]
    space = root / "default"
    Memory.open(root).recall("tide gauge readings")
    there = away(root)
    with pytest.raises(StoreUnreadable, match="nothing was noted"):
        remember(space, "This would hide under a mount.")
    with pytest.raises(StoreUnreadable):
        Journal(space).append("user", "This too.")
    root.mkdir()  # an empty mount point
    with pytest.raises(StoreUnreadable):
        remember(space, "This would hide under a mount.")
    assert list(root.iterdir()) == []
    root.rmdir()
    there.rename(root)
    assert remember(space, "Now it is back.").startswith("note-")
