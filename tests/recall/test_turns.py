"""A person's message and its answer are one hit: whose words the query asks for decides what it is."""

import pytest

from slowwave import Memory
from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.flows.nightly import run_night
from slowwave.recall.prompts import only_assents
from slowwave.recall.search import leans_on_answer
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


@pytest.mark.parametrize(
    ("reply", "leans"),
    [
        ("wrong, 31 of the invoices have no number. Check the whole list", True),
        ("nope, the parcel locker by the station closed in the summer", True),
        ("nein, der Termin beim Notar ist erst am Montag darauf", True),
        ("no, undo that", True),  # of few words
        # what goes on without an objection
        ("ok, then rename the column and write the migration for it", False),
        ("thanks, and which of the two ferries takes bicycles on board?", False),
        # what is understood without the answer, for it begins with a matter of its own
        ("The second greenhouse needs a new pump before the frost comes", False),
    ],
)
def test_a_reply_that_begins_with_an_objection_stands_beside_what_it_answers(
    reply: str, leans: bool
) -> None:
    assert leans_on_answer(reply) == leans
