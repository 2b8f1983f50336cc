"""The layers around an engine (checks, cache, token budget, chain), how one is chosen, and vLLM's search for poison."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from pydantic import Field

from slowwave.engines.llm.budget import Budget, BudgetedLLM, estimate_tokens
from slowwave.engines.llm.cache import CachedLLM, compute_completion_id
from slowwave.engines.llm.checks import CheckedLLM
from slowwave.engines.llm.protocol import (
    AnswerModel,
    Completion,
    EngineUnavailable,
    ErrorKind,
    Request,
    Sampling,
    make_failure,
)
from slowwave.engines.llm.scripted import ScriptedLLM
from slowwave.engines.llm.select import ChainLLM, select_llm
from slowwave.engines.llm.vllm import EngineDied, VLLMOffline
from slowwave.schemas.counters import ModelUsage
from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import LLMSettings
from slowwave.tasks.job import StepReport
from slowwave.tasks.llm.ask import Model
from slowwave.tasks.llm.library import Library
from tests.llm_scripts import DictCache, make_user_prompt


class Gist(AnswerModel):
    gist: str = Field(max_length=200)


GOOD = {"gist": "the cache moved to sqlite"}


def ask(prompt: str, *, id: str | None = None, max_tokens: int = 50) -> Request:
    return Request(id or prompt, make_user_prompt(prompt), Gist, max_tokens)


def answers(llm: Any, requests: Sequence[Request]) -> dict[str, Completion]:
    """Completions by id, exactly one a request."""
    got = list(llm.complete(requests))
    assert sorted(c.id for c in got) == sorted(r.id for r in requests)
    return {c.id: c for c in got}


def cut(request: Request) -> Completion:
    tokens = request.max_tokens
    return Completion(
        request.id,
        '{"gist": "the ca',
        finish_reason="length",
        prompt_tokens=11,
        completion_tokens=tokens,
    )


def test_a_cut_answer_is_asked_again_with_twice_the_budget_and_both_are_counted() -> (
    None
):
    def script(request: Request) -> Completion:
        whole = Completion(
            request.id, '{"gist": "the cache"}', prompt_tokens=11, completion_tokens=7
        )
        return cut(request) if request.max_tokens == 50 else whole

    engine = ScriptedLLM(script)
    got = answers(CheckedLLM(engine), [ask("q")])["q"]
    assert [request.max_tokens for request in engine.asked] == [50, 100]
    assert (got.value, got.flags) == (Gist(gist="the cache"), ("retried",))
    assert (got.prompt_tokens, got.completion_tokens) == (22, 57)


@pytest.mark.parametrize("error", ["budget", "missing"])
def test_a_cut_answer_is_kept_when_there_is_no_second(error: ErrorKind) -> None:
    def script(request: Request) -> Any:
        return (
            cut(request)
            if request.max_tokens == 50
            else make_failure(request, error, "no more")
        )

    engine, cache = ScriptedLLM(script), DictCache()
    got = answers(CachedLLM(CheckedLLM(engine), cache), [ask("q")])["q"]
    again = answers(CachedLLM(CheckedLLM(engine), cache), [ask("q")])["q"]
    assert (got.error, got.text, got.completion_tokens) == (
        "cut",
        '{"gist": "the ca',
        50,
    )
    assert (again.cached, again.error, again.text, len(engine.asked)) == (
        True,
        "cut",
        got.text,
        2,
    )


def test_a_cut_answer_is_yielded_when_the_engine_goes_before_its_second() -> None:
    def script(request: Request) -> Any:
        if request.max_tokens > 50 or request.id == "c":
            raise EngineUnavailable("scripted", "gone")
        return cut(request) if request.id == "a" else GOOD

    for ids in ["a", "b"], ["a", "b", "c"]:
        cache, got = DictCache(), list[Completion]()
        llm = CachedLLM(CheckedLLM(ScriptedLLM(script)), cache)
        with pytest.raises(EngineUnavailable, match="gone"):
            got.extend(llm.complete([ask(i) for i in ids]))
        assert {c.id: c.error for c in got} == {"a": "cut", "b": None}
        assert len(cache) == 2


def test_a_runaway_after_a_cut_stays_one_in_the_cache() -> None:
    long = Completion("q", '{"gist": "the cache"}', completion_tokens=401)
    cache = DictCache()
    for cached in (False, True):
        engine = ScriptedLLM(
            lambda request: cut(request) if request.max_tokens == 50 else long
        )
        got = answers(CachedLLM(CheckedLLM(engine), cache), [ask("q")])["q"]
        assert (got.error, got.cached) == ("runaway", cached)


def test_unknown_repeated_and_missing_answers_are_settled_by_id() -> None:
    def untidy(request: Request) -> tuple[Completion, ...]:
        whole = Completion(request.id, f'{{"gist": "{request.id}"}}')
        if request.id == "gone":
            return ()
        return (whole, replace(whole, text="{}"), replace(whole, id="nobody"))

    engine = ScriptedLLM(untidy)
    got = answers(CheckedLLM(engine), [ask("a"), ask("gone"), ask("b")])
    assert {i: (c.value, c.error) for i, c in got.items()} == {
        "a": (Gist(gist="a"), None),
        "b": (Gist(gist="b"), None),
        "gone": (None, "missing"),
    }
    assert [request.id for request in engine.asked] == ["a", "gone", "b", "gone"]


def test_two_requests_of_one_id_are_refused() -> None:
    with pytest.raises(ValueError, match="'q'"):
        list(ScriptedLLM([]).complete([ask("q"), ask("q")]))


def test_plain_text_is_checked_too() -> None:
    texts = {
        "a": "  An account.",
        "b": "I'm sorry, but I can't help with that.",
        "c": "and on " * 100,
        "d": "",
    }
    llm = CheckedLLM(ScriptedLLM(lambda request: texts[request.id]))
    got = answers(llm, [Request(name, make_user_prompt("q")) for name in texts])
    assert {name: got[name].error for name in texts} == {
        "a": None,
        "b": "refusal",
        "c": "runaway",
        "d": "empty",
    }
    assert got["a"].value == "An account."


def test_no_prompt_is_paid_for_twice() -> None:
    engine, cache = (
        ScriptedLLM(lambda r: GOOD if "good" in r.messages[0]["content"] else ""),
        DictCache(),
    )
    requests = [ask("good", id="a"), ask("good", id="b"), ask("bad", id="c")]
    first = answers(CachedLLM(CheckedLLM(engine), cache), requests)
    second = answers(CachedLLM(CheckedLLM(engine), cache), requests)
    assert [r.id for r in engine.asked] == ["a", "c"]
    assert {i: c.cached for i, c in first.items()} == {
        "a": False,
        "b": True,
        "c": False,
    }
    assert all(c.cached for c in second.values())
    good = Gist(**GOOD), None
    assert [(second[i].value, second[i].error) for i in "abc"] == [
        good,
        good,
        (None, "empty"),
    ]


@pytest.mark.parametrize(
    ("error", "kept"), [("unavailable", False), ("too_long", False), ("poison", True)]
)
def test_a_passing_failure_is_asked_again_and_a_lasting_one_is_not(
    error: ErrorKind, kept: bool
) -> None:
    request, cache = ask("q"), DictCache()
    engine = ScriptedLLM([make_failure(request, error, "first"), GOOD])
    answers(CachedLLM(engine, cache), [request])
    again = answers(CachedLLM(CheckedLLM(engine), cache), [request])["q"]
    assert (again.ok, len(engine.asked)) == (not kept, 1 if kept else 2)


def test_the_key_is_everything_an_answer_depends_on_and_nothing_else() -> None:
    request, sampling = ask("q", id="one"), Sampling()
    same = compute_completion_id(ask("q", id="two"), "m", sampling)
    others = [
        compute_completion_id(ask("p"), "m", sampling),
        compute_completion_id(replace(request, answer=None), "m", sampling),
        compute_completion_id(replace(request, max_tokens=51), "m", sampling),
        compute_completion_id(request, "n", sampling),
        compute_completion_id(request, "m", Sampling(temperature=0.5)),
    ]
    assert compute_completion_id(request, "m", sampling) == same
    assert len({same, *others}) == 6


def test_a_night_stops_at_its_token_budget_and_says_so() -> None:
    budget = Budget(300)
    llm = BudgetedLLM(ScriptedLLM(lambda r: GOOD), budget)
    got = answers(llm, [ask(f"q {i}", max_tokens=100) for i in range(30)])
    errors = [c.error for c in got.values()]
    assert 5 < errors.count(None) < 30
    assert errors.count(None) + errors.count("budget") == 30
    assert budget.spent <= budget.limit
    dear = answers(
        BudgetedLLM(ScriptedLLM(lambda r: GOOD), Budget(500)),
        [ask("dear", max_tokens=1000), ask("cheap")],
    )
    assert dear["cheap"].ok
    assert dear["dear"].error == "budget"
    # 1 of text, 48 of template.
    assert dear["dear"].reason.startswith(
        "needs 1,049 tokens, the night's budget is 500"
    )


def test_usage_counts_what_was_paid_by_model() -> None:
    model = Model(
        ChainLLM([CachedLLM(CheckedLLM(ScriptedLLM([GOOD, ""])), DictCache())]),
        Library(None),
    )
    for _ in range(2):
        model.ask(
            "observe",
            {"a": "a", "b": "b"},
            lambda items: [ask(item) for item in items],
            lambda _, c: c.value,
        )
    model.record_usage(report := StepReport("observe"))
    (used,) = report.usage.values()
    assert report.usage == {
        "scripted": ModelUsage(
            requests=4,
            cache_hits=2,
            prompt_tokens=2,
            answer_tokens=9,
            milliseconds=used.milliseconds,
            errors=Counter(empty=2),
        )
    }
    model.record_usage(again := StepReport("topics"))
    assert not again.usage


def test_tokens_are_estimated_by_kind() -> None:
    assert estimate_tokens(["", "the cache moved", "version 3.14", "记忆"]) == [
        0,
        3,
        6,
        2,
    ]


def test_a_spent_budget_is_not_told_as_a_failure_of_the_next_engine() -> None:
    budget = Budget(1)
    chain = ChainLLM(
        [
            BudgetedLLM(ScriptedLLM(lambda r: GOOD, model=name), budget)
            for name in ("large", "small")
        ]
    )
    answers(chain, [ask(f"q {i}") for i in range(5)])
    assert chain.notes == [
        "scripted (small) was not asked 5 times instead: the night's token budget is spent"
    ]


FLYING = 64
"""Requests that the fragile engine has at once."""


class Fragile(VLLMOffline):
    """An engine that dies of one prompt, refuses another, and may be killed once for no reason of its own."""

    def __init__(self, poison: str = "", refused: str = "", killed: int = 0) -> None:
        super().__init__("none", LLMSettings(context_window=4096))
        self.poison, self.refused, self.killed = poison, refused, killed
        self.calls: list[int] = []

    def _count_prompt_tokens(self, requests: Sequence[Request]) -> Any:
        return {request.id: 9 for request in requests}, []

    def _ask_engine(self, requests: Sequence[Request]) -> Iterator[Completion]:
        for start in range(0, len(requests), FLYING):
            flying = requests[start : start + FLYING]
            self.calls.append(len(flying))
            if self.killed:
                self.killed -= 1
                raise EngineDied("killed", flying)
            # The first is answered before the engine dies.
            if len(flying) > 1:
                yield Completion(flying[0].id, '{"gist": "a"}')
                flying = flying[1:]
            if self.poison in {request.id for request in flying}:
                raise EngineDied("boom", flying)
            for request in flying:
                if request.id == self.refused:
                    yield make_failure(request, "rejected", "bad grammar", self)
                else:
                    yield Completion(request.id, '{"gist": "a"}')


def test_the_poison_prompt_is_found_and_it_alone_is_lost() -> None:
    engine = Fragile(poison="q 37", refused="q 3")
    got = answers(engine, [ask(f"q {i}") for i in range(100)])
    assert {i: c.error for i, c in got.items() if c.error} == {
        "q 37": "poison",
        "q 3": "rejected",
    }
    # 63 suspects, then 30, 14, 6 and 2, then 1: what was finished before a death is not asked again.
    assert engine.restarts == 5
    assert engine.calls[:2] == [64, 32]
    assert engine.calls[-1] == 36


def test_an_engine_killed_from_outside_loses_nothing() -> None:
    assert all(c.ok for c in answers(Fragile(killed=1), [ask("only")]).values())
    assert all(
        c.ok
        for c in answers(Fragile(killed=2), [ask(f"q {i}") for i in range(9)]).values()
    )
    hopeless = answers(Fragile(killed=99), [ask(f"q {i}") for i in range(3)])
    assert {c.error for c in hopeless.values()} <= {"poison", "unavailable"}


def test_without_vllm_or_its_model_the_engine_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(EngineUnavailable, match="no such folder"):
        VLLMOffline("/nonexistent").count_tokens(["q"])
    monkeypatch.setitem(__import__("sys").modules, "vllm", None)
    with pytest.raises(EngineUnavailable, match=r"slowwave\[vllm"):
        list(
            VLLMOffline("some/model", LLMSettings(context_window=4096)).complete(
                [ask("q")]
            )
        )


def scripted_gist(request: Request) -> dict[str, str]:
    return GOOD


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        ("off", []),
        ("vllm:Qwen/Qwen3-4B", ["vllm"]),
        ("vllm:a->scripted", ["vllm", "scripted"]),
        (
            "vllm:/m > openai:qwen3:4b@http://127.0.0.1:1/v1 → scripted",
            ["vllm", "openai", "scripted"],
        ),
    ],
)
def test_engines_are_chosen_by_name(spec: str, names: list[str]) -> None:
    chain = select_llm(spec, LLMSettings(max_tokens=10), DictCache())
    assert [e.name for e in chain.engines] == names if chain else names == []


def test_a_function_of_ones_own_is_an_engine() -> None:
    for spec, gist in {
        "scripted": "",
        f"scripted:{__name__}:scripted_gist": GOOD["gist"],
    }.items():
        chain = select_llm(spec)
        assert chain is not None
        assert answers(chain, [ask("q")])["q"].value == Gist(gist=gist)


@pytest.mark.parametrize(
    "spec",
    [
        *(
            "",
            "gpt",
            "vllm:",
            "openai:m",
            "off > vllm:m",
            f"scripted:{__name__}:GOOD",
            "scripted:no.such:thing",
        ),
        *(
            "openai:m@localhost:1",
            "openai:m@http://host:port/v1",
            "openai:m@http:///v1",
            "openai:m@ftp://h/v1",
        ),
        "openai:m@http://one/v1,http://two/v1",
    ],
)
def test_an_unknown_engine_is_refused(spec: str) -> None:
    with pytest.raises(UsageError, match=r"expected|no base URL"):
        select_llm(spec)
