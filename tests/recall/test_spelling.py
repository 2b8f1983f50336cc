"""A name spelt otherwise, or a word with a slip in it, finds what was said."""

import pytest

from slowwave import Memory
from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings

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
    lines = [
        f'{{"session_id": "s{n}", "message_id": "m{n}", "role": "user", "speaker": "{who}", "content": "{text}"}}\n'
        for n, (who, text) in enumerate(SAID)
    ]
    lines += [
        f'{{"session_id": "all", "message_id": "t{n}", "role": "user", "speaker": "{who}", "content": "{text}"}}\n'
        for n, (who, text) in enumerate(TOGETHER)
    ]
    (folder / "talk.jsonl").write_text("".join(lines), encoding="utf-8")
    run_night([folder / "talk.jsonl"], Settings(store=folder / "store", encoder="hash-384"))
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
def test_another_spelling_finds_what_was_said(memory: Memory, query: str, first: int) -> None:
    assert memory.recall(query, 1, "message")[0].text == SAID[first][1]


def test_a_speaker_whose_name_is_spelt_otherwise_is_the_one_who_speaks(memory: Memory) -> None:
    asked = "What did {} order?"
    hits, others = (memory.recall(asked.format(name), 6, "message") for name in ("Katarzina", "Barbara"))
    assert hits == memory.recall(asked.format("Katarzyna"), 6, "message")
    assert hits != others


@pytest.mark.parametrize(
    ("word", "name", "is_short"),
    [("kata", "Katarzyna", True), ("mark", "Markus", False), ("May", "Maya", False), ("Christmas", "Chris", False)],
)
def test_a_name_cut_short_by_others_is_the_speaker_and_a_word_like_a_name_is_not(
    memory: Memory, word: str, name: str, is_short: bool
) -> None:
    asked = "What did {} order?"
    assert (memory.recall(asked.format(word), 6) == memory.recall(asked.format(name), 6)) == is_short


def test_a_word_that_is_like_none_brings_nothing_of_its_own(memory: Memory) -> None:
    view = memory.get_view()
    assert [view.find_similar_word(word) for word in ("zeppelin", "tournament", "rep")] == [None, None, None]
