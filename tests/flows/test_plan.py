"""What a night would cost, said before it: against what the night then asked."""

import json
from pathlib import Path

import pytest

from slowwave.flows.nightly import run_night
from slowwave.flows.plan import (
    DEFAULTS,
    Estimate,
    MeasuredUsage,
    PlanLine,
    Rate,
    add_costs,
    measure_usage,
    plan_night,
)
from slowwave.schemas.counters import Count, CountByKind
from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import LLMSettings, Settings
from slowwave.schemas.tables import GISTS, TABLES
from slowwave.store import Store
from slowwave.tasks.job import sum_usage
from tests.command_line import typed
from tests.talk_files import session

CHATS = Path(__file__).parents[2] / "data" / "samples" / "generic"
SCRIPT = "scripted:tests.llm_scripts:faithful"


def settings(store: Path, **more: object) -> Settings:
    return Settings(
        store=store, encoder="hash-384", **{"llm": SCRIPT, "gists": "llm", **more}
    )


def test_the_plan_foretells_the_prompts_of_the_night_and_then_the_cache(
    tmp_path: Path,
) -> None:
    options = settings(tmp_path / "s")
    plan = plan_night([CHATS], options)
    assert not (tmp_path / "s").exists()
    report = run_night([CHATS], options)
    lines = {line.step: line for line in plan.lines}
    observe = {step.step: step for step in report.steps}["observe"]
    used = observe.usage["scripted"]
    assert lines["observe"].requests == used.requests
    # the template's tokens are counted
    assert lines["observe"].prompt_tokens >= used.prompt_tokens
    # the other steps by their default rates a message
    messages = observe.counts[Count.MESSAGES_SHOWN]
    assert {step for step, line in lines.items() if line.estimated} == {
        "gists",
        "supersede",
        "assign",
        "rollup",
    }
    assert (lines["rollup"].units, messages) == (58, 58)
    assert lines["rollup"].prompt_tokens == DEFAULTS["rollup"].prompt_tokens * messages
    before = Store.open(options.store).read_versions(TABLES.values())
    after = plan_night([CHATS], options)
    assert (after.sessions, after.prompt_tokens) == (0, 0)
    assert Store.open(options.store).read_versions(TABLES.values()) == before
    # Claims pending, answers kept.
    redone = plan_night([CHATS], options.model_copy(update={"encoder": "hash-384b"}))
    observed = {line.step: line for line in redone.lines}["observe"]
    assert observed.cached == observed.requests == used.requests
    assert (observed.prompt_tokens, observed.answer_tokens) == (0, 0)


def test_later_steps_cost_by_message_what_they_cost_in_earlier_nights_of_the_model(
    tmp_path: Path,
) -> None:
    options = settings(tmp_path / "s")
    night = {step.step: step for step in run_night([CHATS], options).steps}
    messages = night["observe"].counts[Count.MESSAGES_SHOWN]
    new = session(
        tmp_path,
        "s1",
        1,
        [("user", "We moved the gauge to berth 7."), ("assistant", "Noted.")] * 3,
    )
    lines = {line.step: line for line in plan_night([new], options).lines}
    for step in ("gists", "assign", "rollup"):
        used = night[step].usage["scripted"]
        assert lines[step].units == 6  # messages of the new session: nothing else waits
        assert lines[step].prompt_tokens == round(6 * used.prompt_tokens / messages) > 0
        assert lines[step].answer_tokens == round(6 * used.answer_tokens / messages) > 0


def test_what_an_earlier_night_left_is_foretold_too(tmp_path: Path) -> None:
    short = settings(tmp_path, gists="extractive")
    run_night(
        [CHATS], short.model_copy(update={"model": LLMSettings(max_tokens=14_000)})
    )
    left = plan_night([CHATS], short)
    assert left.prompt_tokens > 0
    usage = sum_usage(run_night([CHATS], short).steps)
    paid = usage["scripted"].prompt_tokens
    assert paid > 0
    assert left.prompt_tokens == pytest.approx(paid, rel=0.6)
    gists = {line.step: line for line in plan_night([CHATS], settings(tmp_path)).lines}[
        "gists"
    ]
    # No message has a gist by the model.
    assert gists.units == Store.open(short.store).count(GISTS) == 58


def test_a_session_too_short_to_be_read_costs_nothing(tmp_path: Path) -> None:
    plan = plan_night(
        [session(tmp_path, "s1", 1, [("user", "Hello.")])], settings(tmp_path / "s")
    )
    assert (plan.sessions, plan.skipped, plan.prompt_tokens) == (1, 1, 0)


def test_without_a_model_there_is_nothing_to_pay(tmp_path: Path) -> None:
    plan = plan_night([CHATS], Settings(store=tmp_path, encoder="hash-384"))
    assert (plan.lines, plan.usd, plan.seconds) == ([], 0.0, 0.0)
    assert plan.sessions > 0
    with pytest.raises(UsageError, match="no LLM engine"):
        plan_night([CHATS], settings(tmp_path, llm="gpt-9"))


def test_money_by_the_prices_that_are_set_and_time_by_the_rate_that_was_measured() -> (
    None
):
    estimate = Estimate("m", lines=[PlanLine("observe", 1, 1, 2_000_000, 100_000)])
    rates = LLMSettings(
        usd_per_million_prompt=0.5, usd_per_million_completion=2.0, max_tokens=1_000_000
    )
    add_costs(estimate, rates, MeasuredUsage(answer_per_second=500))
    assert (estimate.usd, estimate.seconds) == (
        pytest.approx(1.2),
        pytest.approx(200.0),
    )
    assert estimate.notes == [
        "the budget of 1,000,000 tokens a night makes this about 3 nights"
    ]
    unknown = add_costs(
        Estimate("m", lines=[PlanLine("observe", 1, 1, 10, 10)]),
        LLMSettings(),
        MeasuredUsage(),
    )
    assert unknown.seconds is None


def test_a_line_expects_what_its_messages_lead_to_and_no_more_than_a_night_asks() -> (
    None
):
    line, capped = PlanLine("supersede"), PlanLine("supersede")
    rate = Rate(requests=0.1, prompt_tokens=50, answer_tokens=5)
    line.expect(rate, 100)
    assert (line.requests, line.prompt_tokens, line.answer_tokens, line.estimated) == (
        10,
        5_000,
        500,
        True,
    )
    capped.expect(rate, 100, most=2)  # two of ten requests
    assert (capped.requests, capped.prompt_tokens, capped.answer_tokens) == (
        2,
        1_000,
        100,
    )


def test_rates_are_measured_from_the_runs_of_the_same_model() -> None:
    used = {
        "requests": 12,
        "cache_hits": 2,
        "prompt_tokens": 20_000,
        "answer_tokens": 5_000,
        "milliseconds": 25_000,
    }
    counts = {Count.MESSAGES_SHOWN: 60}
    report = json.dumps(
        {
            "steps": [
                {"step": "observe", "counts": counts, "usage": {"m": used}},
                {"step": "read", "counts": {"files": 3}},
            ]
        }
    )
    known = measure_usage([report, report], {"observe": "m"})
    # 10 of 12 requests were asked, so 50 of the 60 messages cost 5,000 tokens of answers
    assert known.rates == {
        "observe": Rate(requests=10 / 50, prompt_tokens=400, answer_tokens=100)
    }
    assert known.answer_per_second == pytest.approx(200.0)
    assert measure_usage([report], {"observe": "another"}) == MeasuredUsage()


def test_a_night_that_left_something_waiting_counts_together_with_the_one_that_did_it() -> (
    None
):
    def write_report(messages: int, left: int, **tokens: int) -> str:
        steps = [
            {"step": step, "usage": {"m": {"requests": 1, "prompt_tokens": n}}}
            for step, n in tokens.items()
        ]
        steps[0] |= {"counts": {Count.MESSAGES_SHOWN: messages}}
        steps[1] |= {"kinds": {CountByKind.WAITING: {"summaries": left}}}
        return json.dumps({"steps": steps})

    models = {"observe": "m", "rollup": "m"}
    cut = write_report(20, 7, observe=3_000, rollup=500)
    # Its summaries are not all there.
    assert measure_usage([cut], models).rates.keys() == {"observe"}
    rest = write_report(5, 0, observe=750, rollup=2_000)
    rates = measure_usage([rest, cut], models).rates
    assert (rates["observe"].prompt_tokens, rates["rollup"].prompt_tokens) == (
        3_750 / 25,
        2_500 / 25,
    )


def test_a_step_that_an_earlier_night_left_out_is_foretold_for_the_messages_that_wait_for_it(
    tmp_path: Path,
) -> None:
    report = run_night([CHATS], settings(tmp_path / "s", models={"summaries": "off"}))
    messages = {step.step: step.counts for step in report.steps}["observe"][
        Count.MESSAGES_SHOWN
    ]
    plan = {
        line.step: line for line in plan_night([CHATS], settings(tmp_path / "s")).lines
    }
    assert (plan["rollup"].units, plan["assign"].units) == (messages, 0)
    assert plan["rollup"].prompt_tokens == DEFAULTS["rollup"].prompt_tokens * messages


def test_the_command_prints_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    words = [
        "plan",
        str(CHATS),
        "--llm",
        SCRIPT,
        "--max-tokens",
        "100",
        "--store",
        str(tmp_path / "s"),
    ]
    shown = typed(*words)
    assert shown.exit_code == 0, shown.output
    assert "observe" in shown.output
    assert "the budget of 100 tokens" in shown.output
    found = json.loads(typed(*words, "--json").output)
    assert found["model"] == "scripted"
    assert not (tmp_path / "s").exists()
