"""Active memory: traces with strength, activation that fades and is lifted, pruning, selection within a budget."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slowwave.chat.active import ActiveMemory, count_entities, format_trace
from slowwave.chat.effect import estimate_effect
from slowwave.context.tokens import count_bytes_by_four
from slowwave.engines.encoders.hash_encoder import HashEncoder
from slowwave.schemas.settings import ActiveSettings


def memory(**weights: float) -> ActiveMemory:
    return ActiveMemory(HashEncoder(), ActiveSettings(**weights))  # type: ignore[arg-type]


def test_activation_halves_after_its_half_life() -> None:
    mind = memory(half_life=2, boost=0)
    first = mind.add_turn("Ada", "The gauge stands in Porto")
    mind.add_turn("Ben", "quite another matter")
    mind.add_turn("Ben", "something else again")
    assert first.activation == 1.0
    assert mind.traces[0].activation == pytest.approx(0.5)


def test_a_turn_like_the_query_is_lifted_and_others_are_not() -> None:
    mind = memory(half_life=1)
    for text in ("the gauge in Porto reads metres", "dinner at eight with Clara", "rain again all day"):
        mind.add_turn("Ada", text)
    before = [trace.activation for trace in mind.traces]
    mind.boost_by_query("which metres does the Porto gauge read")
    after = [trace.activation for trace in mind.traces]
    assert after[0] > before[0]
    assert after[1:] == pytest.approx(before[1:], abs=0.05)


def test_strength_is_novelty_entities_and_effect_weighted() -> None:
    mind = memory()
    new = mind.add_turn("Ada", "we use port 9090 and main.py in Porto", effect=1.0)
    again = mind.add_turn("Ada", "we use port 9090 and main.py in Porto")
    assert count_entities("we use port 9090 and main.py in Porto") == 3
    assert new.strength == pytest.approx(0.4 * 1 + 0.3 * 3 / 4 + 0.3 * 1)
    assert again.strength == pytest.approx(0.3 * 3 / 4, abs=1e-6)  # nothing new, no effect


def test_at_capacity_the_lowest_score_goes_and_the_latest_stay() -> None:
    mind = memory(capacity=3, recent=1, half_life=1000, boost=0)
    mind.add_turn("Ada", "port 9090 on host gauge_1 in Porto with main.py", effect=1.0)
    mind.add_turn("Ada", "well")
    mind.add_turn("Ada", "the haul out is at 13:30 in `dock.py`", effect=1.0)
    mind.add_turn("Ada", "hm")
    assert [trace.number for trace in mind.traces] == [0, 2, 3]
    assert mind.heard == 4


def test_selection_takes_the_latest_then_the_most_activated() -> None:
    mind = memory(recent=1, half_life=3, boost=1)
    for text in ("the Porto gauge reads metres", "dinner with Clara", "rain all day", "snow all night"):
        mind.add_turn("Ada", text)
    mind.boost_by_query("Porto gauge metres")
    room = sum(len(format_trace(mind.traces[n])) for n in (0, 3))
    assert [trace.number for trace in mind.select(room, len)] == [0, 3]
    assert mind.select(0, len) == []


@settings(max_examples=50, deadline=None)
@given(
    texts=st.lists(st.text(min_size=1, max_size=40), max_size=12), budget=st.integers(0, 60), capacity=st.integers(1, 6)
)
def test_bounds_hold_for_any_talk(texts: list[str], budget: int, capacity: int) -> None:
    mind = memory(capacity=capacity, recent=2)
    for text in texts:
        mind.add_turn("Ada", text)
    chosen = mind.select(budget, count_bytes_by_four)
    assert len(mind.traces) <= capacity
    assert sum(count_bytes_by_four(format_trace(trace)) for trace in chosen) <= budget
    assert all(0 <= trace.strength <= 1 and 0 <= trace.activation <= 1 for trace in mind.traces)
    assert [trace.number for trace in chosen] == sorted(trace.number for trace in chosen)


def test_the_effect_is_the_share_of_statements_that_are_new_or_change_something() -> None:
    assert estimate_effect("The harbour wall was built in 1962.", 0.3) == pytest.approx(
        0.7
    )  # how far it is from memory
    assert estimate_effect("Where are the readings kept?", 0.0) == 0.0  # a question states nothing
    assert estimate_effect("We moved the readings from port 8080 to 9090.", 0.9) == 1.0  # near, and yet a change
    assert estimate_effect("Is it true? I prefer tea. The wall is old stone.", 0.8) == pytest.approx((1.0 + 0.2) / 2)
    assert estimate_effect("The harbour wall was built in 1962.", None) == 0.0  # not known
    assert [estimate_effect(text, 0.0) for text in ("", "Thanks!", "ok", "```\nx = 1\n```")] == [0.0] * 4


@pytest.mark.parametrize(
    ("said", "effect"),
    [
        ("Please replace foo with bar.", 0.25),
        ("Now move the port from 8080 to 9090, please.", 0.25),
        ("Could you switch the test over to pytest.", 0.25),
        ("That movie moved me to tears.", 0.25),
        ("My company moved me to Berlin last year.", 1.0),
        ("We switch to Postgres.", 1.0),
        ("No, change the port to 9090.", 1.0),
        ("Please use tabs from now on.", 1.0),
        ("Please remember that I live in Porto.", 1.0),
    ],
)
def test_a_request_is_no_change_unless_it_is_meant_to_stand(said: str, effect: float) -> None:
    assert estimate_effect(said, 0.75) == effect


def test_an_effect_that_is_no_share_is_refused() -> None:
    with pytest.raises(ValueError, match="share"):
        memory().add_turn("Ada", "hello", effect=2)
