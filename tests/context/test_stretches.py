"""A question about a stretch of time is answered by the summaries of its sessions, the newest first."""

from pathlib import Path

import pytest

from slowwave import Memory
from slowwave.context.rendering import LineSource
from slowwave.context.stretches import Summarised, asks_what_was_done, pack_summaries
from slowwave.engines.encoders.load import load_encoder
from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.flows.nightly import run_night
from slowwave.recall.hits import NOT_SURE
from slowwave.schemas.settings import Settings
from tests.talk_files import session

TALK = {
    2: [
        ("user", "The quay gets a new crane by the firm Holm."),
        ("assistant", "The crane of the firm Holm is ordered."),
    ],
    5: [
        ("user", "The ferry to Hoy leaves at 7:40 from pier 3."),
        ("assistant", "Pier 3 is painted white; times are in `hoy.csv`."),
    ],
    9: [("user", "Tickets are sold by the kiosk from now on."), ("assistant", "The kiosk opens at 6:30.")],
}


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Memory:
    folder = tmp_path_factory.mktemp("stretches")
    paths = [session(folder, f"day-{day}", day, said) for day, said in TALK.items()]
    paths.append(session(folder, "away", 6, [("user", "The bakery in Leith sells rye bread.")], workspace="/bakery"))
    run_night(paths, Settings(store=folder / "store", encoder="hash-384"))
    return Memory.open(folder / "store", encoder=HashEncoder())


def sessions(memory: Memory, query: str, budget: int = 400, **filters: object) -> list[str | None]:
    parts = memory.context(query, budget, **filters).parts  # type: ignore[arg-type]
    assert all(line.source.message is None for part in parts for line in part.lines)
    return [line.source.session for part in parts for line in part.lines]


def test_the_sessions_of_a_time_come_newest_first_in_whole_sentences(memory: Memory) -> None:
    assert sessions(memory, "What did we do in March 2026?") == ["day-9", "away", "day-5", "day-2"]
    text = memory.context("What did we do on 5 March 2026?", 400).text
    assert text.startswith("# Memories\n5 Mar 2026 · day-5\n- ")
    assert "The ferry to Hoy leaves at 7:40 from pier 3." in text
    assert "Tickets" not in text


def test_only_the_workspace_that_is_named_or_asked_for_answers(memory: Memory) -> None:
    ferry = ["day-9", "day-5", "day-2"]
    assert sessions(memory, "What did we do in the ferry in March 2026?") == ferry
    assert sessions(memory, "What did we do in March 2026?", workspace="/ferry") == ferry
    assert sessions(memory, "What did we do in March 2026?", as_of="2026-03-05") == ["day-5", "day-2"]
    assert sessions(memory, "What did we do in March 2026?", since="2026-03-06") == ["day-9", "away"]


def test_the_newest_have_room_first_and_the_budget_is_kept(memory: Memory) -> None:
    for budget in range(10, 160, 10):
        assert memory.context("What did we do in March 2026?", budget).tokens <= budget
    assert sessions(memory, "What did we do in March 2026?", 40) == ["day-9", "away"]


def test_a_fact_of_a_time_is_told_by_messages(memory: Memory) -> None:
    (part,) = memory.context("From which pier does the ferry to Hoy leave since March 2026?", 400).parts
    assert all(line.source.message for line in part.lines)


def test_of_a_session_that_went_on_at_another_time_only_its_part_of_then_is_told(tmp_path: Path) -> None:
    said = [("user", f"Berth {n} of the new quay gets bollard number {n * 7}, painted {n} times.") for n in range(24)]
    path = session(tmp_path, "long", 5, said)
    path.write_text(path.read_text().replace("-05T10:1", "-20T10:1").replace("-05T10:2", "-20T10:2"))
    run_night([path], Settings(store=tmp_path / "store", encoder="hash-384"))
    memory = Memory.open(tmp_path / "store", encoder=HashEncoder())
    text = memory.context("What did we do on 5 March 2026?", 400).text
    assert sessions(memory, "What did we do on 5 March 2026?") == ["long"]
    assert "Berth" in text
    assert not any(f"Berth {n} " in text for n in range(10, 24))


def test_what_is_narrowed_to_a_file_is_told_by_its_messages_alone(memory: Memory) -> None:
    (part,) = memory.context("What did we do in March 2026?", 400, files="hoy.csv").parts
    assert [line.source.seq for line in part.lines] == [1]


def test_of_a_time_without_sessions_the_nearest_is_told_to_who_asks(memory: Memory) -> None:
    assert memory.context("What did we do in March 2026?", 400).confident
    block = memory.context("What did we do in May 2024?", 400)
    assert block.text.startswith(f"# Memories\n{NOT_SURE}\n")
    unasked = memory.context("What did we do in May 2024?", 400, automatic=True)
    assert (unasked.text, unasked.reason) == ("", "nothing in memory is of the time that is asked about")


def test_a_question_is_known_by_its_nearest_example() -> None:
    encoder = load_encoder(Settings().encoder)

    def asks(text: str) -> bool:
        return asks_what_was_done(text, lambda texts: dict(zip(texts, encoder.encode(list(texts)), strict=True)))

    whole = ("what happened in the project", "what did we work on", "give me an overview of our work")
    fact = ("which bakery did we visit", "what did the doctor say", "which bugs did we fix", "what did we paint")
    assert [asks(text) for text in (*whole, *fact)] == [True] * 3 + [False] * 4
    assert not asks_what_was_done("what happened", lambda _: {})  # no encoder


def test_each_session_has_a_sentence_before_one_has_two() -> None:
    told = [
        Summarised(None, ("A b c.", "D e f."), LineSource("new")),
        Summarised("Old", ("G h i.",), LineSource("old")),
    ]

    def pack(budget: int) -> list[str]:
        return [line.text for line in pack_summaries(told, budget, lambda text: len(text.split()), lambda _: 1)]

    assert pack(7) == ["A b c.", "Old."]
    assert pack(10) == ["A b c. D e f.", "Old."]
    assert pack(12) == ["A b c. D e f.", "Old. G h i."]
    assert pack(3) == []
