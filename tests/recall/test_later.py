"""What persons said later of the same matter, looked for from an older message and not from the question."""

from datetime import UTC, datetime

import pytest

from slowwave import Memory
from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.flows.nightly import run_night
from slowwave.recall.later import EACH, find_later_passages
from slowwave.recall.query import build_query
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import MESSAGES
from tests.talk_files import session

SENT = "I send the spreadsheet of queries to Marlow on Fridays only."
MOVED = "Queries to Marlow move to Thursdays from now on."
MOVED_TO = "Queries to Marlow move to {} from now on."
ELSEWHERE = "Queries to Marlow go out on Tuesdays."


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Memory:
    folder = tmp_path_factory.mktemp("later")
    answer = ("assistant", "Noted, queries to Marlow it is.")
    paths = [
        session(folder, "first", 2, [("user", SENT), answer, ("user", MOVED + " No.")]),
        session(folder, "later", 9, [("user", MOVED), answer]),
        session(folder, "other", 11, [("user", ELSEWHERE)], workspace="/barge"),
        session(folder, "more", 12, [("user", "The regatta begins at nine.")] * 4),
        *(
            session(folder, f"again{day}", day, [("user", MOVED_TO.format(weekday))])
            for day, weekday in ((15, "Mondays"), (18, "Wednesdays"))
        ),
    ]
    settings = Settings(store=folder / "store", encoder="hash-384")
    run_night(paths, settings).check_complete()
    return Memory.open(settings.store, encoder=HashEncoder())


def list_later(memory: Memory, until: datetime | None = None) -> list[str]:
    view = memory.get_view()
    rows = view.read(MESSAGES, ["message_id", "text"]).to_pylist()
    (key,) = [row["message_id"] for row in rows if row["text"] == SENT]
    query = build_query(SENT, 1, ("message",), until=until)
    found = find_later_passages(view, query, [key])
    return [row["text"] for row in found.get(key, [])]


def test_the_later_message_of_the_project_comes_first_and_no_answer(
    memory: Memory,
) -> None:
    # neither the answer, nor another project's, nor another matter of this one
    assert list_later(memory, datetime(2026, 3, 13, tzinfo=UTC)) == [MOVED]


def test_of_many_later_messages_some_are_shown(memory: Memory) -> None:
    later = list_later(memory)
    assert len(later) == EACH
    assert set(later) < {
        MOVED,
        MOVED_TO.format("Mondays"),
        MOVED_TO.format("Wednesdays"),
    }


def test_what_was_said_after_the_asked_time_is_no_later_message(memory: Memory) -> None:
    assert list_later(memory, datetime(2026, 3, 5, tzinfo=UTC)) == []
