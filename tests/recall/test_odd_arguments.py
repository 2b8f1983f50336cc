"""What callers really pass: histories of chat APIs, moments at the edge of time, a text where a list belongs."""

from datetime import UTC, datetime
from typing import Any

import pytest

from slowwave.context.tokens import count_bytes_by_four
from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.memory import Memory
from slowwave.schemas.errors import UsageError
from slowwave.text.dates import extract_spans
from tests.recall_store import build

QUERY = "session cache Redis Postgres"


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Memory:
    root = tmp_path_factory.mktemp("odd") / "store"
    build(root)
    return Memory.open(root, encoder=HashEncoder())


@pytest.mark.parametrize("edge", [datetime.min, datetime(1, 1, 5), datetime(9999, 12, 31, 23)])
def test_time_before_the_first_year_and_after_the_last_is_no_span(memory: Memory, edge: datetime) -> None:
    now = edge.replace(tzinfo=UTC)
    said = "last year, this month, last summer, last Friday, last weekend, yesterday, two months ago, today"
    assert all(start < end for start, end in extract_spans(said, now))
    memory.recall(f"{said} in the database", now=now)
    assert extract_spans("two months ago", datetime(1, 1, 1, tzinfo=UTC)) == []


def test_a_turn_that_calls_a_tool_says_nothing_and_parts_say_their_texts(memory: Memory) -> None:
    parts: list[Any] = [
        {"type": "text", "text": "The kettle leaks again."},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "tool_result", "tool_use_id": "t1", "content": "exit 1"},
        {"type": "output_text", "text": "A new gasket is ordered."},
        "It comes on Monday \ud83d.",
    ]
    turns: list[Any] = [
        {"role": "user", "content": parts},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "t1"}]},
        {"role": "tool", "content": []},
        ("assistant", [{"type": "text", "text": "Whoever carries the ladder takes the stairs."}]),
        ("assistant", None),
    ]
    block = memory.context(f"{QUERY} \ud83d", 2_000, conversation=turns)  # half an emoji, as cut texts have
    (said,) = (p for p in block.parts if p.name == "conversation")
    assert [(line.source.message, line.source.speaker) for line in said.lines] == [("1", "user"), ("4", "assistant")]
    assert all(words in said.lines[0].text for words in ("kettle leaks", "new gasket", "on Monday"))
    assert "base64" not in said.lines[0].text


@pytest.mark.parametrize(
    "options",
    [
        {"budget": "100"},
        {"budget": True},
        {"budget": -1},
        {"format": "html"},
        {"tokenizer": 5},
        {"tokenizer": "no such tokenizer"},
    ],
)
def test_a_block_that_can_not_be_is_refused(memory: Memory, options: dict[str, Any]) -> None:
    for ask in (lambda: memory.context(QUERY, **options), lambda: memory.briefing(**options)):
        with pytest.raises(UsageError):
            ask()


@pytest.mark.parametrize("turn", [None, {"role": "user"}, {"content": b"x"}, ("a", 5)])
def test_a_turn_that_is_none_is_refused(memory: Memory, turn: Any) -> None:
    with pytest.raises(UsageError, match="turn"):
        memory.context(QUERY, conversation=[turn])


def test_a_page_without_an_address_is_refused(memory: Memory) -> None:
    with pytest.raises(UsageError):
        memory.context(QUERY, web=[{"text": "x"}])


def test_a_tokenizer_may_be_given_by_its_name(memory: Memory) -> None:
    assert memory.context(QUERY, 80, tokenizer="bytes/4") == memory.context(QUERY, 80, tokenizer=count_bytes_by_four)
    assert memory.briefing(80, tokenizer="bytes/4") == memory.briefing(80, tokenizer=count_bytes_by_four)


def test_many_queries_are_no_text(memory: Memory) -> None:
    with pytest.raises(UsageError, match="list of texts"):
        memory.recall_many("one query")
