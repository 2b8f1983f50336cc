"""The block of a direct question: recall's best messages whole, the newest of the same first, with their changes."""

import pytest

from slowwave import Memory
from slowwave.context.direct import build_message_snippets
from slowwave.engines.encoders.hash_encoder import HashEncoder
from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings
from tests.talk_files import session

ASKED = "When does the standup of the harbour team begin?"
MOVED = "Commit messages are written in English from now on."
PORT = "In which language are commit messages written?"
TALK = {
    2: [
        ("user", "The standup of the harbour team begins at 9:15 in the room Oslo."),
        ("assistant", "The standup of the harbour team begins at 9:15, noted for the whole spring."),
        ("user", "Commit messages are written in German."),
    ],
    9: [
        ("user", "The standup of the harbour team begins at 10:40 in the room Oslo."),
        ("user", MOVED),
    ],
}


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Memory:
    folder = tmp_path_factory.mktemp("direct")
    paths = [session(folder, f"day-{day}", day, said) for day, said in TALK.items()]
    run_night(paths, Settings(store=folder / "store", encoder="hash-384"))
    return Memory.open(folder / "store", encoder=HashEncoder())


def lines(memory: Memory, query: str, budget: int = 400) -> list[str]:
    (part,) = memory.context(query, budget).parts
    return [line.text for line in part.lines]


def test_of_two_messages_that_differ_in_a_value_the_later_opens_the_block(memory: Memory) -> None:
    said = lines(memory, ASKED)
    assert said[0] == memory.recall(ASKED, kinds="message")[0].text == TALK[9][0][1]
    assert any(line.startswith(TALK[2][0][1]) for line in said[1:])


def test_a_message_is_shown_whole_or_by_its_sentences_and_the_budget_is_kept(memory: Memory) -> None:
    for budget in range(10, 120, 10):
        block = memory.context(PORT, budget)
        assert block.tokens <= budget
    assert MOVED in lines(memory, PORT, 100)


def test_what_a_later_claim_has_changed_is_left_out_where_that_was_found_too(memory: Memory) -> None:
    block = memory.context(PORT, 400).text
    assert MOVED in block
    assert "Commit messages are written in German" not in block


def test_where_it_was_not_found_the_stale_message_tells_what_holds(memory: Memory) -> None:
    stale = [hit for hit in memory.recall(PORT, 10, "message") if "German" in hit.text]
    (told,) = build_message_snippets(memory._get_view(), stale, {})
    assert told.text.endswith(f"(changed on 2026-03-09: {MOVED[:-1]})")


def test_in_the_json_of_a_block_every_whole_message_has_its_source(memory: Memory) -> None:
    (part,) = memory.context(ASKED, 400, format="json").parts
    assert all(line.source.session and line.source.message and line.source.at for line in part.lines)
