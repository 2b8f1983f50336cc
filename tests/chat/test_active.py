"""Active memory: traces with strength that fades, is raised by use and set; activation by a question; pruning."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slowwave.chat.active import ActiveMemory
from slowwave.chat.effect import estimate_effect
from slowwave.chat.turns import LINE_TOKENS, TEMPLATE_TOKENS, Turns
from slowwave.context.tokens import count_bytes_by_four
from slowwave.engines.encoders.hash_encoder import HashEncoder
from slowwave.schemas.settings import ActiveSettings, ContextSettings, Settings

GAUGE = "the Porto gauge reads metres"
TALK = (GAUGE, "dinner at eight with Clara", "rain again all day", "snow all night", "the train was late")


def memory(**weights: float) -> ActiveMemory:
    return ActiveMemory(HashEncoder(), ActiveSettings(**weights))  # type: ignore[arg-type]


def told(*texts: str, **weights: float) -> ActiveMemory:
    mind = memory(**weights)
    for text in texts:
        mind.add_turn("Ada", text)
    return mind


def count(texts: list[str]) -> list[int]:
    return [count_bytes_by_four(text) for text in texts]


def turns_of(said: tuple[str, ...], **weights: float) -> Turns:
    context = ContextSettings(active=ActiveSettings(**weights))  # type: ignore[arg-type]
    turns = Turns(Settings(context=context), count, HashEncoder())  # type: ignore[arg-type]
    for n, text in enumerate(said):
        turns.add("assistant" if n % 2 else "user", text)
    return turns


def test_strength_is_what_it_says_novelty_and_effect_weighted() -> None:
    mind = memory(says=0.6, says_full=4, novelty=0.2, effect=0.2)
    new = mind.add_turn("Ada", "gauge reads metres", effect=1.0)
    again = mind.add_turn("Ada", "gauge reads metres")
    assert new.strength == pytest.approx(0.6 * 3 / 4 + 0.2 * 1 + 0.2 * 1)
    assert again.strength == pytest.approx(0.6 * 3 / 4, abs=1e-6)  # nothing new, no effect


def test_strength_fades_rises_with_use_and_is_set() -> None:
    mind = told(*TALK[:3], strength_half_life=3, used=0.5)
    first = mind.traces[0]
    assert mind.compute_strength(first) == pytest.approx(first.strength / 2)
    faded = mind.compute_strength(first)
    mind.note_used([0])
    assert mind.compute_strength(first) == pytest.approx(faded + 0.5 * (1 - faded))
    assert mind.set_strength(1, 0.0)
    assert mind.compute_strength(mind.traces[1]) == 0.0
    assert not mind.set_strength(9, 1.0)
    with pytest.raises(ValueError, match="0 to 1"):
        mind.set_strength(0, 1.1)


@pytest.mark.parametrize("encoder", [HashEncoder(), None])
def test_a_question_calls_up_what_is_like_it_with_and_without_vectors(encoder: HashEncoder | None) -> None:
    mind = ActiveMemory(encoder, ActiveSettings(recency=0, neighbours=0))
    for text in TALK:
        mind.add_turn("Ada", text)
    activations = mind.compute_activations("which metres does the Porto gauge read")
    assert max(activations) == activations[0] > 2 * max(activations[1:])


def test_rare_words_weigh_more_and_the_turn_beside_gets_its_part() -> None:
    only = {"likeness": 0, "exchange": 0, "strength": 0, "recency": 0, "words": 1, "neighbours": 0}
    said = ("gauge port", "gauge lamp", "nothing here", "gauge rope", "what else")
    rare, common, *_ = told(*said, **only).compute_activations("gauge port")
    assert rare == pytest.approx(1.0)
    assert 0 < common < 0.5
    spread = told(*said, **{**only, "neighbours": 0.5}).compute_activations("rope")
    assert spread == pytest.approx([0, 0, 0.5, 1.0, 0.5])


def test_a_gap_left_by_pruning_is_no_neighbourhood() -> None:
    only = {"likeness": 0, "exchange": 0, "strength": 0, "recency": 0, "words": 1, "neighbours": 0.5}
    mind = told("rope", "hm", "lamp and mast and sail", capacity=2, recent=0, says_full=4, **only)
    assert [trace.number for trace in mind.traces] == [0, 2]
    assert mind.compute_activations("rope") == pytest.approx([1.0, 0.0])


def test_recency_halves_after_its_half_life() -> None:
    only = {"likeness": 0, "exchange": 0, "strength": 0, "words": 0, "neighbours": 0, "recency": 1}
    assert told(*TALK[:3], half_life=2, **only).compute_activations("x") == pytest.approx([0.5, 0.5**0.5, 1.0])


def test_beyond_capacity_the_weakest_go_and_the_latest_stay() -> None:
    mind = told("port 9090 on the gauge in Porto", "well", "the haul out is at the dock", "hm", capacity=3, recent=1)
    assert [trace.number for trace in mind.traces] == [0, 2, 3]
    assert mind.heard == 4
    kept = told(*(f"turn {n}" for n in range(200)), capacity=100, recent=6).traces
    assert [trace.number for trace in kept[-6:]] == list(range(194, 200))


def test_all_turns_go_along_while_they_fit() -> None:
    turns = turns_of(TALK[:4])
    recalled = turns.recall("gauge", 1_000)
    assert [turn["content"] for turn in recalled.recent] == list(TALK[:4])
    assert (recalled.shown, recalled.left_out, recalled.text) == ((), (), "")


def test_the_latest_are_forced_and_older_ones_come_by_activation_in_order() -> None:
    turns = turns_of((GAUGE, "noted", *(f"idle chatter about nothing {n}" for n in range(40))), recent=2)
    recalled = turns.recall("which metres does the Porto gauge read?", 120)
    assert [turn["content"] for turn in recalled.recent] == [f"idle chatter about nothing {n}" for n in (38, 39)]
    assert recalled.shown[0].trace.text == GAUGE
    numbers = [one.trace.number for one in recalled.shown]
    assert numbers == sorted(numbers)
    assert max(value for _, value in recalled.left_out) <= recalled.shown[0].activation
    assert len(numbers) + len(recalled.left_out) == 40
    assert GAUGE in recalled.text
    assert turns.active.compute_strength(turns.active.traces[0]) > turns.active.compute_strength(turns.active.traces[1])


def test_what_does_not_fit_whole_is_shortened_to_what_bears_on_the_question() -> None:
    long = f"Rain fell on the harbour all day long. {GAUGE.capitalize()}. " + "Snow came after the rain had gone. " * 30
    turns = turns_of((long, "noted", "and now", "yes", "good", "well"), recent=2)
    (shown,) = (one for one in turns.recall("what does the Porto gauge read?", 120).shown if one.shortened)
    assert GAUGE.capitalize() in shown.text
    assert shown.text.startswith("user: …")
    assert shown.text.endswith("…")
    assert "Snow" not in shown.text


@settings(max_examples=40, deadline=None)
@given(texts=st.lists(st.text(min_size=1, max_size=60), max_size=14), budget=st.integers(0, 90))
def test_bounds_hold_for_any_talk(texts: list[str], budget: int) -> None:
    turns = turns_of(tuple(texts), capacity=5, recent=2)
    recalled = turns.recall("anything", budget)
    spent = sum(tokens + TEMPLATE_TOKENS for tokens in count([turn["content"] for turn in recalled.recent]))
    spent += sum(tokens + LINE_TOKENS for tokens in count([one.text for one in recalled.shown]))
    assert spent <= budget
    assert len(turns.active.traces) <= 5 or len(texts) <= 5
    assert all(0 <= turns.active.compute_strength(trace) <= 1 for trace in turns.active.traces)


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
