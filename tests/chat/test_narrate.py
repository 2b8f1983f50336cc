"""What a model writes of a running conversation: its levels, its master, a recap; extractive where it gives nothing."""

import pytest

from slowwave.chat.narrate import Narrator
from slowwave.chat.turns import HEADING, LINE_TOKENS, RECAP, RECAP_TURNS, Turns
from slowwave.engines.llm.protocol import Completion, EngineUnavailable, Request
from slowwave.engines.llm.scripted import ScriptedLLM
from slowwave.schemas.settings import ActiveSettings, ContextSettings, Settings

SAID = [f"Station {n} reports the tide in metres every {n} minutes." for n in range(20)]


def talk(model: ScriptedLLM, lines: list[str] = SAID, **weights: float) -> Turns:
    context = ContextSettings(active=ActiveSettings(recent=2, **weights))  # type: ignore[arg-type]
    turns = Turns(Settings(context=context), model.count_tokens, None, Narrator(model))
    for n, text in enumerate(lines):
        turns.add("assistant" if n % 2 else "user", text)
    return turns


def gone(request: Request) -> str:
    raise EngineUnavailable("scripted", "it is away")


def test_each_level_and_the_master_are_the_models() -> None:
    model = ScriptedLLM(lambda request: f"Account {len(model.asked)}.")
    turns = talk(model)
    assert turns.summarise().split("\n") == ["So far: Account 5.", "Level 2: Account 4."]  # 3 groups of 6, 1 of them
    assert [SAID[5] in request.messages[0]["content"] for request in model.asked] == [True, True, False, False, False]
    assert f"before, assistant: {SAID[5]}" in model.asked[1].messages[0]["content"]
    assert "\n- Account 1.\n- Account 2." in model.asked[3].messages[0]["content"]
    assert turns.summarise() == turns.summarise()
    turns.add("user", "One more.")
    assert turns.summarise().startswith("So far: Account 6.")  # what is sealed is not asked about again


def test_what_the_model_does_not_write_is_extractive(caplog: pytest.LogCaptureFixture) -> None:
    plain = Turns(Settings(), ScriptedLLM().count_tokens)
    for n, text in enumerate(SAID):
        plain.add("assistant" if n % 2 else "user", text)
    for silent in (ScriptedLLM(gone), ScriptedLLM(lambda request: Completion(request.id, error="cut"))):
        assert talk(silent).summarise() == plain.summarise() != ""
    assert "it is away" in caplog.text


def test_the_recap_is_of_the_foremost_turns_without_room_and_within_its_share() -> None:
    model = ScriptedLLM(["Six stations report."])
    lines = [f"Station {n} reports the tide in metres every {n} minutes." for n in range(40)]
    turns = talk(model, lines, recap_share=0.4)
    told = turns.recall("Which station reports every 7 minutes?", 150)
    assert told.recap == "Six stations report."
    assert told.text.startswith(HEADING)
    assert told.text.endswith(f"{RECAP}Six stations report.")
    (asked,) = model.asked
    prompt = asked.messages[0]["content"]
    foremost = {trace.text for trace, _ in told.left_out[:RECAP_TURNS]}
    assert {text for text in lines if text in prompt} == foremost
    assert "Which station reports every 7 minutes?" in prompt
    assert asked.max_tokens <= 0.4 * 150 - LINE_TOKENS


def test_a_recap_as_long_as_it_may_be_fits_and_the_whole_keeps_to_the_budget() -> None:
    model = ScriptedLLM(lambda request: "word" * request.max_tokens)
    turns = talk(model, recap_share=0.5)
    for budget in range(120, 220, 7):
        told = turns.recall("Which station reports every 7 minutes?", budget)
        recent = sum(turns.count([turn["content"]])[0] for turn in told.recent)
        assert told.recap, budget
        assert recent + turns.count([told.text])[0] <= budget


def test_there_is_no_recap_unless_it_is_wanted_there_is_something_to_tell_and_it_fits() -> None:
    model = ScriptedLLM(lambda request: "A very long recap of it all. " * 40)
    assert talk(model).recall("Which station?", 150).recap == ""
    assert talk(model, recap_share=0.4).recall("Which station?", 5_000).recap == ""
    assert model.asked == []
    assert talk(model, recap_share=0.4).recall("Which station?", 150).recap == ""
    assert len(model.asked) == 1
