"""A name spelt otherwise, or a word with a slip in it, finds what was said."""

from pathlib import Path

import pytest

from slowwave import Memory
from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.flows.nightly import run_night
from slowwave.flows.parts.report import RunReport
from slowwave.schemas.settings import Settings
from tests.talk_files import session

SAID = (
    ("Ada", "Muhammad reviews every release on Thursdays."),
    ("Ada", "The tournament in the harbour is in July."),
    ("Ada", "My report on the turbines is done."),
    ("Katarzyna", "I ordered forty chairs for the hall."),
    ("Ada", "We ordered a contrast screen."),
    ("Ada", "The boiler leaks again."),
)
TOGETHER = (
    ("Ada", "Kata, is the marquee paid for?"),
    ("Katarzyna", "Yes, from the petty cash."),
    ("Ada", "Thanks, Kata! Please mark the calendar, and mark the gate."),
    ("Markus", "The van is full."),
    ("Maya", "I sow beans in May."),
    ("Ada", "May suits us."),
    ("Ada", "May is dry."),
    ("Chris", "I rent the oven."),
    ("Ada", "Christmas it is, and Christmas alone."),
)


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Memory:
    folder = tmp_path_factory.mktemp("spelling")
    talks = [
        session(folder, f"s{n}", 1, [("user", text)], speakers=[who])
        for n, (who, text) in enumerate(SAID)
    ]
    turns = [("user", text) for _, text in TOGETHER]
    talks.append(
        session(folder, "all", 1, turns, speakers=[who for who, _ in TOGETHER])
    )
    run_night(talks, Settings(store=folder / "store", encoder="hash-384"))
    return Memory.open(folder / "store", encoder=HashEncoder())


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("When does Muhhamed review?", 0),
        ("What about Muhamad?", 0),
        ("When is the torunament?", 1),
        ("contrast", 4),  # as it is spelt, though nothing else is like it
    ],
)
def test_another_spelling_finds_what_was_said(
    memory: Memory, query: str, first: int
) -> None:
    assert memory.recall(query, 1, "message")[0].text == SAID[first][1]


def test_a_speaker_whose_name_is_spelt_otherwise_is_the_one_who_speaks(
    memory: Memory,
) -> None:
    asked = "What did {} order?"
    hits, others = (
        memory.recall(asked.format(name), 6, "message")
        for name in ("Katarzina", "Barbara")
    )
    assert hits == memory.recall(asked.format("Katarzyna"), 6, "message")
    assert hits != others


@pytest.mark.parametrize(
    ("word", "name", "is_short"),
    [
        ("kata", "Katarzyna", True),
        ("mark", "Markus", False),
        ("May", "Maya", False),
        ("Christmas", "Chris", False),
    ],
)
def test_a_name_cut_short_by_others_is_the_speaker_and_a_word_like_a_name_is_not(
    memory: Memory, word: str, name: str, is_short: bool
) -> None:
    asked = "What did {} order?"
    assert (
        memory.recall(asked.format(word), 6) == memory.recall(asked.format(name), 6)
    ) == is_short


@pytest.mark.parametrize(
    "asked",
    ["Where does Maritt work?", "Who was Muhhamed?", "Which day does Adda bake?"],
)
def test_a_misspelt_name_silences_no_answer(
    samples_night: tuple[Path, RunReport], asked: str
) -> None:
    samples = Memory.open(samples_night[0])
    hits = samples.recall(asked, k=5, everything=True)
    assert len(hits) == 5
    assert all(hit.relevance is not None for hit in hits)
    for kind in ("claim", "message", "summary"):
        assert samples.recall(asked, k=5, kinds=kind)
    assert len(samples.sessions(asked, k=5)) == 5
    assert samples.context(asked, 300).parts
