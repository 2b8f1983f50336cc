"""What a model writes of a running conversation: its levels and its master; extractive where it gives nothing."""

import pytest

from slowwave.chat.narrate import Narrator
from slowwave.chat.turns import HEADING, Turns
from slowwave.engines.llm.protocol import Completion, EngineUnavailable, Request
from slowwave.engines.llm.scripted import ScriptedLLM
from slowwave.schemas.settings import ActiveSettings, ContextSettings, PyramidSettings, Settings

SAID = [f"Station {n} reports the tide in metres every {n} minutes." for n in range(20)]


def talk(model: ScriptedLLM, lines: list[str] = SAID, words: int = 60, **weights: float) -> Turns:
    context = ContextSettings(active=ActiveSettings(recent=2, **weights))  # type: ignore[arg-type]
    turns = Turns(
        Settings(context=context, pyramid=PyramidSettings(max_words=(words,))),
        model.count_tokens,
        None,
        Narrator(model),
    )
    for n, text in enumerate(lines):
        turns.add("assistant" if n % 2 else "user", text)
    return turns


def gone(request: Request) -> str:
    raise EngineUnavailable("scripted", "it is away")


def test_each_level_and_the_master_are_the_models() -> None:
    model = ScriptedLLM(lambda request: f"Account {len(model.asked)}.")
    turns = talk(model)
    assert turns.summarise().split("\n") == [
        "So far, turns 1 to 20: Account 5.",
        "Level 2, turns 1 to 18: Account 4.",  # 3 groups of 6, 1 of them
    ]
    assert [SAID[5] in request.messages[0]["content"] for request in model.asked] == [True, True, False, False, False]
    assert f"before, assistant: {SAID[5]}" in model.asked[1].messages[0]["content"]
    assert "\n- Account 1.\n- Account 2." in model.asked[3].messages[0]["content"]
    assert turns.summarise() == turns.summarise()
    turns.add("user", "One more.")
    assert turns.summarise().startswith("So far, turns 1 to 21: Account 6.")  # what is sealed is not asked about again


def test_what_the_model_does_not_write_is_extractive(caplog: pytest.LogCaptureFixture) -> None:
    plain = Turns(Settings(), ScriptedLLM().count_tokens)
    for n, text in enumerate(SAID):
        plain.add("assistant" if n % 2 else "user", text)
    for silent in (ScriptedLLM(gone), ScriptedLLM(lambda request: Completion(request.id, error="cut"))):
        assert talk(silent).summarise() == plain.summarise() != ""
    assert "it is away" in caplog.text


def test_what_does_not_go_along_is_told_by_summaries_of_named_turns_within_the_budget() -> None:
    model = ScriptedLLM(lambda request: f"Account {len(model.asked)}.")
    lines = [f"Station {n} reports the tide in metres every {n} minutes." for n in range(40)]
    turns = talk(model, lines, words=20, recap_share=0.2)
    told = turns.recall("Which station reports every 7 minutes?", 190)
    assert told.recap[:2] == ("In short, turns 1 to 36: Account 9.", "In short, turns 1 to 18: Account 7.")
    assert told.text.startswith(f"{HEADING}\n{told.recap[0]}\n")
    assert len(told.recent) + len(told.shown) + len(told.left_out) == 40
    recent = sum(turns.count([turn["content"]])[0] for turn in told.recent)
    assert recent + turns.count([told.text])[0] <= 190
    asked = len(model.asked)
    for n in range(3):
        turns.add("user", f"And {n}?")
        assert turns.recall("Which station?", 190).recap  # as long as no group is full the model is not asked again
    assert len(model.asked) == asked
    turns.recall("Which station?", 5_000)
    assert turns.recall("Which station?", 5_000).recap == ()  # all go along


def test_summaries_that_find_no_room_take_none() -> None:
    long = ScriptedLLM(lambda request: "A very long account of it all. " * 40)
    none, some = (talk(long, recap_share=n).recall("Which station reports every 7 minutes?", 220) for n in (0.0, 0.4))
    assert (some.recap, some.text) == ((), none.text)
    assert len(long.asked) == 5
