"""A store that goes away, is half there, and comes back: an error meanwhile, and no trace of it afterwards."""

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.engines.llm.scripted import ScriptedLLM
from slowwave.flows.nightly import run_night
from slowwave.memory import Memory
from slowwave.plugins.talk.talk import Conversation
from slowwave.recall.live import LiveRelease, Notes
from slowwave.schemas.errors import StoreMissing, StoreUnreadable
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import MESSAGES
from slowwave.store.notes import find_talk_logs, write_note
from slowwave.store.publishing import publish
from tests.command_line import typed
from tests.recall_store import add, build, message_rows
from tests.talk_files import session
from tests.waiting import PATIENCE

SAID = [
    ("user", "I live in Porto with my sister Nina, and I prefer tea to coffee."),
    (
        "assistant",
        "Noted: the tide gauge readings go to PostgreSQL 17, partitioned by month.",
    ),
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
    run_night(
        [session(folder, "ferry-1", 2, SAID)],
        Settings(store=folder / "store", encoder="hash-384"),
    )
    return folder / "store"


@pytest.fixture
def root(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "store"))


def away(root: Path) -> Path:
    return root.rename(root.with_name("elsewhere"))


def broken(root: Path) -> None:
    for file in root.glob("default/releases.lance/_versions/*"):
        file.write_bytes(b"not a manifest")


ASKED = "Where do the tide gauge readings go?"
ASKS: dict[str, Callable[[Memory], object]] = {
    "recall": lambda memory: memory.recall(ASKED),
    "sessions": lambda memory: memory.sessions(ASKED),
    "context": lambda memory: memory.context(
        ASKED, 200, conversation=["The gauge again."]
    ),
    "briefing": lambda memory: memory.briefing(300),
}


@pytest.mark.parametrize("name", ASKS)
def test_a_store_that_goes_away_is_an_error_and_answers_as_before_when_it_is_back(
    root: Path, name: str
) -> None:
    memory, ask = Memory.open(root), ASKS[name]
    before = ask(memory)
    assert before
    assert memory.notes == []
    there = away(root)
    with pytest.raises(StoreMissing):
        Memory.open(root)
    with pytest.raises(StoreUnreadable):
        ask(memory)
    there.rename(root)
    assert ask(memory) == before
    assert memory.notes == []


def test_a_talk_goes_on_while_the_store_is_away(root: Path) -> None:
    talk = Conversation(ScriptedLLM(), Memory.open(root), Settings(store=root))
    away(root)
    talk.build_prompt(ASKED)
    assert talk.recalled is not None
    assert talk.recalled.block is None
    assert "can't be read" in (talk.recalled.reason or "")


@pytest.mark.parametrize(
    "command",
    [["recall", "tide"], ["context", "tide"], ["briefing"], ["show", "ferry-1"]],
)
def test_broken_releases_are_an_error_in_one_line(
    root: Path, command: list[str]
) -> None:
    broken(root)
    result = typed(*command, "--store", root)
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert result.stderr.startswith(
        f"slowwave: the store at {root / 'default'} can't be read: "
    )
    assert result.stderr.count("\n") == 1


def test_a_release_that_can_not_be_read_at_first_is_looked_for_again(
    tmp_path: Path,
) -> None:
    store = build(tmp_path / "store")
    memory = Memory.open(store.root, encoder=HashEncoder())
    assert memory.release.name == "r1"
    add(
        store,
        MESSAGES,
        [message_rows()[0] | {"message_id": "x", "seq": 9, "native_id": "x"}],
    )
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


def test_a_store_that_breaks_between_two_reads_is_an_error(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr("slowwave.context.build.rank_messages", gone)
    with pytest.raises(StoreUnreadable, match="the disk is gone"):
        Memory.open(root).context("Where do the tide gauge readings go?", 200)


def refuse(*_: object) -> None:
    raise OSError("the encoder's files are gone")


def test_notes_are_of_the_last_answer_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(tmp_path / "store")
    memory = Memory.open(tmp_path / "store", encoder=HashEncoder())
    with monkeypatch.context() as broken_encoder:
        broken_encoder.setattr(HashEncoder, "encode", refuse)
        memory.recall("something else")
        assert len(memory.notes) == 1
        memory.recall("a third thing")
        assert len(memory.notes) == 1
    memory.recall("Redis cache")
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
            first_done.wait(PATIENCE)

    with notes.collect_answer_notes():
        notes.add("mine")
        notes.add("mine")
        thread = threading.Thread(target=other)
        thread.start()
        assert inside.wait(PATIENCE)
        with notes.collect_answer_notes():  # part of this answer
            notes.add("more of mine")
    assert notes.last == ["mine", "more of mine"]
    first_done.set()
    thread.join()
    assert notes.last == ["of the other"]


def test_a_night_makes_no_new_ledger_where_that_of_sealed_releases_is_gone(
    root: Path, tmp_path: Path
) -> None:
    shutil.rmtree(root / "default" / "releases.lance")
    night = typed(
        "run", "--plain", session(tmp_path, "short", 3, SAID), "--store", root
    )
    assert (night.exit_code, "lost r1" in night.stderr) == (1, True)


def test_a_note_before_the_first_night_makes_the_store(tmp_path: Path) -> None:
    new = tmp_path / "new" / "default"
    write_note(new, "The first note comes before any night.")
    assert [folder.name for folder in find_talk_logs(new)] == ["notes"]
