"""A store that goes away, is half there, and comes back: what is told meanwhile, and that no trace of it stays."""

import json
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from slowwave.context.rendering import STALE
from slowwave.context.tokens import count_bytes_by_four
from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.flows.nightly import run_night
from slowwave.memory import Memory
from slowwave.recall.live import LiveRelease, Notes
from slowwave.schemas.errors import StoreMissing, StoreUnreadable
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import MESSAGES
from slowwave.store.notes import find_journals, write_note
from slowwave.store.publishing import publish
from tests.command_line import typed
from tests.recall_store import add, build, message_rows
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
    monkeypatch.setattr(LiveRelease, "WAIT", 0)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of a real night."""
    folder = tmp_path_factory.mktemp("away")
    run_night([session(folder, "ferry-1", 2, SAID)], Settings(store=folder / "store", encoder="hash-384"))
    return folder / "store"


@pytest.fixture
def root(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "store"))


def away(root: Path) -> Path:
    return root.rename(root.with_name("elsewhere"))


def broken(root: Path) -> None:
    for file in root.glob("default/releases.lance/_versions/*"):
        file.write_bytes(b"not a manifest")


def test_the_last_briefing_is_told_when_the_store_goes_away(root: Path) -> None:
    memory = Memory.open(root)
    before, plain = memory.briefing(300), memory.briefing(300, format="json")
    assert "stale" not in json.loads(plain.text)
    assert "Porto" in before.text
    assert (before.stale, memory.notes) == (False, [])
    there = away(root)
    for one in (memory, Memory.open(root)):
        again = one.briefing(300)
        assert again.text.splitlines()[:2] == ["# Known", STALE]
        assert (again.text.replace(f"{STALE}\n", ""), again.stale) == (before.text, True)
        assert before.tokens < again.tokens <= 300
        assert len(one.notes) == 1
        assert "answered from the last briefing" in one.notes[0]
        assert json.loads(one.briefing(300, format="json").text)["stale"] is True
        with pytest.raises((StoreMissing, StoreUnreadable)):
            one.briefing(120)
    there.rename(root)
    assert memory.briefing(300) == before
    assert memory.notes == []


@pytest.mark.parametrize("command", [["recall", "tide"], ["context", "tide"], ["briefing"], ["show", "ferry-1"]])
def test_broken_releases_with_nothing_cached_are_an_error_in_one_line(root: Path, command: list[str]) -> None:
    broken(root)
    result = typed(*command, "--store", root)
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert result.stderr.startswith(f"slowwave: the store at {root / 'default'} can't be read: ")
    assert result.stderr.count("\n") == 1


def test_a_block_never_asked_for_says_so_and_has_the_conversation(root: Path) -> None:
    memory = Memory.open(root)
    away(root)
    block = memory.context("tide gauge readings?", conversation=["The gauge again."])
    assert block.stale
    assert [part.name for part in block.parts] == ["conversation"]
    assert block.reason == "the store can't be read, and this was never asked before"


def test_a_block_of_an_old_answer_says_so_where_it_is_old_and_within_its_budget(root: Path) -> None:
    memory, asked = Memory.open(root), "Where do the tide gauge readings go?"
    fresh = memory.context(asked, 200, tokenizer=count_bytes_by_four)
    assert "PostgreSQL" in fresh.text
    assert STALE not in fresh.text
    there = away(root)
    assert f"# Memories\n{STALE}\n" in memory.context(asked, 200, conversation=["The gauge again."]).text
    for budget in range(0, 90, 5):
        block = memory.context(asked, budget, tokenizer=count_bytes_by_four)
        assert count_bytes_by_four(block.text) == block.tokens <= budget
        assert (STALE in block.text) == bool(block.parts)
    only_talk = memory.context("never asked before", 200, conversation=["The gauge again."])
    assert (only_talk.stale, STALE in only_talk.text) == (True, False)
    there.rename(root)
    assert memory.context(asked, 200, tokenizer=count_bytes_by_four) == fresh


def test_a_command_tells_a_trouble_once(root: Path) -> None:
    memory = Memory.open(root)
    memory.recall("tide gauge readings")
    memory.recall("tide gauge readings", memory.settings.context.hits, ("message",))
    memory.briefing()
    away(root)
    # A process of its own: the log goes where it goes for a user.
    program = "import sys; from slowwave.cli.main import app\nfor words in sys.argv[2:]: "
    program += "app([*words.split('/'), '--store', sys.argv[1]], standalone_mode=False)"
    commands = ("recall/tide gauge readings", "context/tide gauge readings", "briefing")
    words = [sys.executable, "-c", program, str(root), *commands]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stderr.splitlines()
    assert len(told) == len(commands)
    assert all(line.startswith("note: the store can't be read") for line in told)
    assert all("answered from the last" in line for line in told)


def test_a_release_that_can_not_be_read_at_first_is_looked_for_again(tmp_path: Path) -> None:
    store = build(tmp_path / "store")
    memory = Memory.open(store.root, encoder=HashEncoder())
    assert memory.release.name == "r1"
    add(store, MESSAGES, [message_rows()[0] | {"message_id": "x", "seq": 9, "native_id": "x"}])
    publish(store, "run-2", "hash-384")
    data = store.dir / "releases.lance" / "data"
    there = data.rename(tmp_path / "data")
    for _ in range(2):  # for as long as it can't be read
        memory.recall("Redis cache")
        assert memory.release.name == "r1"
        (note,) = memory.notes
        assert "answered from r1" in note
    there.rename(data)
    memory.recall("Redis cache")
    assert (memory.release.name, memory.notes) == ("r2", [])


def test_a_store_that_breaks_between_two_reads_leaves_what_was_found(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr("slowwave.context.build.rank_messages", gone)
    block = Memory.open(root).context("Where do the tide gauge readings go?", 200)
    assert (block.stale, "PostgreSQL 17" in block.text) == (True, True)
    assert "(the disk is gone): answered with what was just found" in block.notes[0]


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
        with notes.collect_answer_notes():
            notes.add("of the other")
            inside.set()
            first_done.wait(10)

    with notes.collect_answer_notes():
        notes.add("mine")
        notes.add("mine")
        thread = threading.Thread(target=other)
        thread.start()
        assert inside.wait(10)
        with notes.collect_answer_notes():  # part of this answer
            notes.add("more of mine")
    assert notes.last == ["mine", "more of mine"]
    first_done.set()
    thread.join()
    assert notes.last == ["of the other"]


def test_a_night_makes_no_new_ledger_where_that_of_sealed_releases_is_gone(root: Path, tmp_path: Path) -> None:
    shutil.rmtree(root / "default" / "releases.lance")
    night = typed("run", "--plain", session(tmp_path, "short", 3, SAID), "--store", root)
    assert (night.exit_code, "lost r1" in night.stderr) == (1, True)


def test_a_note_before_the_first_night_makes_the_store(tmp_path: Path) -> None:
    new = tmp_path / "new" / "default"
    write_note(new, "The first note comes before any night.")
    assert [folder.name for folder in find_journals(new)] == ["notes"]
