"""A person's message and its answer are one hit: whose words the query asks for decides what it is."""

import pytest

from slowwave import Memory
from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.flows.nightly import run_night
from slowwave.recall.prompts import only_assents
from slowwave.schemas.settings import Settings
from tests.talk_files import session

PIANO = "My grandmother's piano weighs 220 kilos and we have no lift. Can the movers of the flat take it?"
ADVICE = (
    "For a piano of 220 kilos without a lift I would book a piano mover, two days before the other movers come. "
    "Ask whether they insure the stairs, measure the landings of the flat first, and keep the piano wrapped until "
    "the room is warm, since the wood moves with the air for about a week."
)
LAMP = "The lamp in the hall flickers since Tuesday evening, whatever bulb I try."


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Memory:
    folder = tmp_path_factory.mktemp("turns")
    said = [("user", PIANO), ("assistant", ADVICE), ("user", LAMP)]
    path = session(folder, "move", 3, said)
    run_night([path], Settings(store=folder / "store", encoder="hash-384"))
    return Memory.open(folder / "store", encoder=HashEncoder())


@pytest.mark.parametrize(
    ("query", "sources"),
    [
        ("How heavy is my grandmother's piano?", [PIANO]),  # a person's words alone
        (
            "What did you recommend for my grandmother's piano?",
            [ADVICE, PIANO],
        ),  # the answer, with what it answers
    ],
)
def test_a_turn_is_one_hit_by_whose_words_are_asked_for(
    memory: Memory, query: str, sources: list[str]
) -> None:
    hits = memory.recall(query, kinds="message", everything=True)
    found = [hit for hit in hits if LAMP not in hit.text]
    assert [[one.quote for one in hit.sources] for hit in found] == [sources]
    # the exchange has both, in the order in which they were said
    assert [fragment.text for fragment in found[0].pair] == [PIANO, ADVICE]


def test_a_block_has_the_persons_words_before_the_answer(memory: Memory) -> None:
    asked = "What did you recommend for my grandmother's piano?"
    (part,) = memory.context(asked, 600).parts
    said = [line.source.by for line in part.lines if LAMP not in line.text]
    assert said == ["person", "model"]


@pytest.mark.parametrize(
    ("reply", "assents"),
    [
        ("Wonderful, thanks!", True),
        ("Super, danke", True),
        ("no, that's horrible. undo that", False),
        ("No.", False),
        ("great, but on port 9", False),  # it has a figure
        ("thanks, but no", False),
    ],
)
def test_a_reply_that_only_acknowledges_is_told_from_one_that_says_more(
    reply: str, assents: bool
) -> None:
    assert only_assents(reply) == assents
