"""A running conversation: its summaries are the pyramid's own; what fits goes along, and summaries tell of the rest."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slowwave.context.conversation import (
    TEMPLATE_TOKENS,
    RunningSummary,
    Turns,
    build_conversation_shape,
)
from slowwave.context.packing import OMITTED
from slowwave.context.rendering import TITLES, Measure
from slowwave.context.tokens import count_bytes_by_four
from slowwave.engines.encoders.protocol import HashEncoder
from slowwave.engines.llm.protocol import Completion, EngineUnavailable, Request
from slowwave.engines.llm.scripted import ScriptedLLM
from slowwave.plugins.talk.talk import summarize_drafts
from slowwave.schemas.settings import ActiveSettings, ContextSettings, PyramidSettings
from slowwave.text.pyramid import MASTER, Member, Pyramid, grow

SAID = [f"Station {n} reports the tide in metres every {n} minutes." for n in range(60)]
GAUGE = "the Porto gauge reads metres"


def turns_of(
    texts: list[str], model: ScriptedLLM | None = None, words: int = 60, **active: float
) -> Turns:
    context = ContextSettings(
        active=ActiveSettings.model_validate({"recent": 2, **active})
    )
    pyramid = PyramidSettings(max_words=(words,))
    write = (
        (lambda drafts: summarize_drafts(model, pyramid.get_words, drafts))
        if model
        else None
    )
    turns = Turns(context, pyramid, Measure(count_bytes_by_four), HashEncoder(), write)
    for n, text in enumerate(texts):
        turns.add("assistant" if n % 2 else "user", text)
    return turns


def list_spans(turns: int) -> list[tuple[int, str]]:
    running = RunningSummary(PyramidSettings())
    running.extend([("user", text) for text in SAID[:turns]])
    return [(summary.tier, summary.turns) for summary in running.list_summaries()]


def test_every_sealed_turn_stands_under_one_summary_of_the_highest_level() -> None:
    assert list_spans(0) == []
    # Three groups of six under one.
    assert list_spans(23) == [
        (MASTER, "turns 1 to 23"),
        (1, "turns 1 to 18"),
    ]
    assert list_spans(40)[1:] == [(1, "turns 1 to 18"), (1, "turns 19 to 36")]
    assert list_spans(60) == [
        (MASTER, "turns 1 to 60"),
        (2, "turns 1 to 54"),
        (0, "turns 55 to 60"),
    ]


def test_turn_by_turn_gives_what_the_night_makes_of_the_same_turns() -> None:
    running = RunningSummary(PyramidSettings())
    for text in SAID[:40]:
        running.extend([("user", text)])
        running.grow()
    members = [
        Member(f"conversation-{n}", text, speaker="user")
        for n, text in enumerate(SAID[:40])
    ]
    shape = build_conversation_shape(PyramidSettings())
    made = grow(Pyramid(), members, shape, "session", "conversation")
    sealed = {
        (group.tier, group.seq): group.text for group in made if group.tier != MASTER
    }
    assert {
        (g.tier, g.seq): g.text
        for groups in running.pyramid.tiers.values()
        for g in groups
    } == sealed
    assert running.pyramid.master is not None
    assert running.pyramid.master.text == made[-1].text


def test_each_level_and_the_master_are_the_models_and_what_is_sealed_is_not_asked_about_again() -> (
    None
):
    model = ScriptedLLM(lambda request: f"Account {len(model.asked)}.")
    turns = turns_of(SAID[:20], model)
    first = turns.render_summary()
    assert first.split("\n") == [
        "So far, turns 1 to 20: Account 5.",
        "Level 2, turns 1 to 18: Account 4.",  # 3 groups of 6, 1 of them
    ]
    assert f"before, assistant: {SAID[5]}" in model.asked[1].messages[0]["content"]
    assert "\n- Account 1.\n- Account 2." in model.asked[3].messages[0]["content"]
    assert turns.render_summary() == first
    turns.add("user", "One more.")
    assert turns.render_summary().startswith("So far, turns 1 to 21: Account 6.")


def test_what_the_model_does_not_write_is_extractive(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def gone(request: Request) -> str:
        raise EngineUnavailable("scripted", "it is away")

    plain = turns_of(SAID[:20]).render_summary()
    for silent in (
        ScriptedLLM(gone),
        ScriptedLLM(lambda request: Completion(request.id, error="cut")),
    ):
        assert turns_of(SAID[:20], silent).render_summary() == plain != ""
    assert "it is away" in caplog.text


def test_what_does_not_go_along_is_told_by_summaries_of_named_turns_within_the_budget() -> (
    None
):
    model = ScriptedLLM(lambda request: f"Account {len(model.asked)}.")
    turns = turns_of(SAID[:40], model, words=20, recap_share=0.2)
    recalled = turns.recall("Which station reports every 7 minutes?", 230)
    assert [line.text for line in recalled.recap[:2]] == ["Account 9.", "Account 7."]
    assert recalled.text.startswith(
        f"{TITLES['conversation']}\nturns 1 to 36. Account 9.\nturns 1 to 18. Account 7.\n"
    )
    assert len(recalled.recent) + len(recalled.shown) + len(recalled.left_out) == 40
    asked = len(model.asked)
    for n in range(3):
        turns.add("user", f"And {n}?")
        # As long as no group is full the model is not asked again.
        assert turns.recall("Which station?", 230).recap
    assert len(model.asked) == asked
    assert turns.recall("Which station?", 5_000).recap == ()  # all go along


def test_summaries_that_find_no_room_take_none() -> None:
    long = ScriptedLLM(lambda request: "A very long account of it all. " * 40)
    query = "Which station reports every 7 minutes?"
    none, some = (
        turns_of(SAID[:20], long, recap_share=share).recall(query, 220)
        for share in (0.0, 0.4)
    )
    assert (some.recap, some.text) == ((), none.text)


def test_all_turns_go_along_while_they_fit() -> None:
    recalled = turns_of(SAID[:4]).recall("gauge", 1_000)
    assert [turn["content"] for turn in recalled.recent] == SAID[:4]
    assert (recalled.shown, recalled.left_out, recalled.text) == ((), (), "")


def test_the_latest_go_along_and_older_ones_come_by_activation_in_order() -> None:
    turns = turns_of(
        [GAUGE, "noted", *(f"idle chatter about nothing {n}" for n in range(40))]
    )
    recalled = turns.recall("which metres does the Porto gauge read?", 160)
    assert [turn["content"] for turn in recalled.recent] == [
        f"idle chatter about nothing {n}" for n in (38, 39)
    ]
    assert recalled.text.startswith(f"{TITLES['conversation']}\n1. user: {GAUGE}\n")
    numbers = [line.source.seq or 0 for line in recalled.shown]
    assert numbers == sorted(numbers)
    assert (
        max(line.relevance for line in recalled.left_out) <= recalled.shown[0].relevance
    )
    assert len(numbers) + len(recalled.left_out) == 40
    strengths = [turns.active.compute_strength(trace) for trace in turns.active.traces]
    assert strengths[0] > strengths[1]  # it was used


def test_the_latest_go_along_in_one_piece_from_a_persons_turn_on() -> None:
    said = ["short", "yes", "long " * 100, "yes", "two", "yes"]
    roles = ("user", "assistant") * 3
    cost = [
        count_bytes_by_four(f"{role}: {text}") + TEMPLATE_TOKENS
        for role, text in zip(roles, said, strict=True)
    ]
    for budget, kept in (
        (sum(cost[3:]), 2),
        (sum(cost[4:]), 2),
        (sum(cost[4:]) - 1, 0),
        (sum(cost[2:]) - 1, 2),
    ):
        recent = turns_of(said, recent=6, recent_share=1).recall("x", budget).recent
        assert [turn["content"] for turn in recent] == said[len(said) - kept :], budget


def test_what_does_not_fit_whole_is_shortened_to_what_bears_on_the_question() -> None:
    long = (
        f"Rain fell on the harbour all day long. {GAUGE.capitalize()}. "
        + "Snow came after the rain had gone. " * 30
    )
    turns = turns_of([long, "noted", "and now", "yes", "good", "well"])
    (shown,) = (
        line
        for line in turns.recall("what does the Porto gauge read?", 120).shown
        if OMITTED in line.pieces
    )
    assert shown.text.startswith(f"… {GAUGE.capitalize()}.")
    assert "Rain" not in shown.text


@settings(max_examples=40, deadline=None)
@given(
    texts=st.lists(st.text(min_size=1, max_size=60), max_size=14),
    budget=st.integers(0, 90),
)
def test_bounds_hold_for_any_talk(texts: list[str], budget: int) -> None:
    turns = turns_of(texts, capacity=5)
    recalled = turns.recall("anything", budget)
    spent = sum(
        count_bytes_by_four(turn["content"]) + TEMPLATE_TOKENS
        for turn in recalled.recent
    )
    assert spent + count_bytes_by_four(recalled.text) <= budget
    assert len(turns.active.traces) <= 5 or len(texts) <= 5
    assert all(
        0 <= turns.active.compute_strength(trace) <= 1 for trace in turns.active.traces
    )
