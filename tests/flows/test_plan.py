"""What a night would cost, said before it: against what the night then asked."""

import json
from pathlib import Path

import pytest

from slowwave.flows.nightly import run_night
from slowwave.flows.plan import Estimate, Line, MeasuredUsage, add_costs, measure_usage, plan_night
from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import LLMSettings, Settings
from slowwave.schemas.tables import SUMMARIES, TABLES
from slowwave.store import Store
from tests.command_line import typed
from tests.talk_files import session

CHATS = Path(__file__).parents[2] / "data" / "samples" / "generic"
SCRIPT = "scripted:tests.llm_scripts:faithful"


def settings(store: Path, **more: object) -> Settings:
    return Settings(store=store, encoder="hash-384", **{"llm": SCRIPT, "gists": "llm", **more})


def test_the_plan_foretells_the_prompts_of_the_night_and_then_the_cache(tmp_path: Path) -> None:
    options = settings(tmp_path / "s")
    plan = plan_night([CHATS], options)
    assert not (tmp_path / "s").exists()
    report = run_night([CHATS], options)
    lines = {line.step: line for line in plan.lines}
    steps = {step.step: step.counts for step in report.steps}
    for step in ("gists", "observe"):
        assert lines[step].requests == steps[step]["scripted: requests"]
        assert lines[step].prompt_tokens >= steps[step]["scripted: prompt tokens"]  # the template's tokens are counted
    assert lines["rollup"].estimated
    assert lines["rollup"].requests == pytest.approx(steps["rollup"]["scripted: requests"], rel=0.5)
    before = Store.open(options.store).read_versions(TABLES.values())
    after = plan_night([CHATS], options)
    assert (after.sessions, after.prompt_tokens) == (0, 0)
    assert Store.open(options.store).read_versions(TABLES.values()) == before
    redone = plan_night([CHATS], options.model_copy(update={"encoder": "hash-384b"}))  # claims pending, answers kept
    observed = {line.step: line for line in redone.lines}["observe"]
    assert observed.cached == observed.requests == steps["observe"]["scripted: requests"]
    assert (observed.prompt_tokens, observed.answer_tokens) == (0, 0)


def test_what_an_earlier_night_left_is_foretold_too(tmp_path: Path) -> None:
    short = settings(tmp_path, gists="extractive")
    run_night([CHATS], short.model_copy(update={"model": LLMSettings(max_tokens=14_000)}))
    left = plan_night([CHATS], short)
    assert left.prompt_tokens > 0
    counts = {step.step: step.counts for step in run_night([CHATS], short).steps}
    paid = sum(c["scripted: prompt tokens"] for c in counts.values())
    assert paid > 0
    assert left.prompt_tokens == pytest.approx(paid, rel=0.6)
    gists = plan_night([CHATS], settings(tmp_path))  # of whole sessions, long distilled
    night = {step.step: step.counts for step in run_night([CHATS], settings(tmp_path)).steps}["gists"]
    assert {line.step: line.requests for line in gists.lines}["gists"] == night["scripted: requests"] > 0


def test_a_session_too_short_to_be_read_costs_nothing(tmp_path: Path) -> None:
    plan = plan_night([session(tmp_path, "s1", 1, [("user", "Hello.")])], settings(tmp_path / "s"))
    assert (plan.sessions, plan.skipped, plan.prompt_tokens) == (1, 1, 0)


def test_without_a_model_there_is_nothing_to_pay(tmp_path: Path) -> None:
    plan = plan_night([CHATS], Settings(store=tmp_path, encoder="hash-384"))
    assert (plan.lines, plan.usd, plan.seconds) == ([], 0.0, 0.0)
    assert plan.sessions > 0
    with pytest.raises(UsageError, match="no LLM engine"):
        plan_night([CHATS], settings(tmp_path, llm="gpt-9"))


def test_money_by_the_prices_that_are_set_and_time_by_the_rate_that_was_measured() -> None:
    estimate = Estimate("m", lines=[Line("observe", 1, 1, 2_000_000, 100_000)])
    rates = LLMSettings(usd_per_million_prompt=0.5, usd_per_million_completion=2.0, max_tokens=1_000_000)
    add_costs(estimate, rates, MeasuredUsage(answer_per_second=500))
    assert (estimate.usd, estimate.seconds) == (pytest.approx(1.2), pytest.approx(200.0))
    assert estimate.notes == ["the budget of 1,000,000 tokens a night makes this about 3 nights"]
    unknown = add_costs(Estimate("m", lines=[Line("observe", 1, 1, 10, 10)]), LLMSettings(), MeasuredUsage())
    assert unknown.seconds is None


def test_rates_are_measured_from_the_runs_of_the_same_model() -> None:
    counts = {"m: requests": 12, "m: cache hits": 2, "m: answer tokens": 5_000, "m: milliseconds": 25_000}
    report = json.dumps({"steps": [{"step": "observe", "counts": counts}, {"step": "read", "counts": {"files": 3}}]})
    known = measure_usage([report, report], "m")
    assert known.answer_tokens == {"observe": 500.0}
    assert known.answer_per_second == pytest.approx(200.0)
    assert measure_usage([report], "another").answer_per_second is None


def test_what_a_grown_session_lacks_is_foretold_by_its_own_groups(tmp_path: Path) -> None:
    more = {"gists": "extractive", "pyramid": {"sum_tokens": 60}}
    run_night([CHATS], settings(tmp_path / "s", models={"summaries": "off"}, **more))
    options = settings(tmp_path / "s", **more)
    plan = {line.step: line for line in plan_night([CHATS], options).lines}["rollup"]
    counts = {step.step: step.counts for step in run_night([CHATS], options, rewrite=True).steps}["rollup"]
    topics = sum(row["scope"] == "topic" for row in Store.open(options.store).read(SUMMARIES).to_pylist())
    assert plan.requests == counts["scripted: requests"] - topics > 10


def test_the_command_prints_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    words = ["plan", str(CHATS), "--llm", SCRIPT, "--max-tokens", "100", "--store", str(tmp_path / "s")]
    shown = typed(*words)
    assert shown.exit_code == 0, shown.output
    assert "observe" in shown.output
    assert "the budget of 100 tokens" in shown.output
    found = json.loads(typed(*words, "--json").output)
    assert found["model"] == "scripted"
    assert not (tmp_path / "s").exists()
