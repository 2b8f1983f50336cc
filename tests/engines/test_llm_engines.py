"""The LLM engines against a real local server that does everything wrong, and the layers around them."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import Field

from slowwave.engines.llm import servers
from slowwave.engines.llm.budget import Budget, BudgetedLLM, MeteredLLM, estimate_tokens
from slowwave.engines.llm.cache import (
    CachedLLM,
    DictCache,
    build_completion_rows,
    compute_completion_id,
    parse_completion_rows,
)
from slowwave.engines.llm.chain import ChainLLM
from slowwave.engines.llm.checks import CheckedLLM, is_looping
from slowwave.engines.llm.openai_server import OpenAIServer
from slowwave.engines.llm.openai_wire import parse_retry_after
from slowwave.engines.llm.protocol import AnswerModel, Completion, EngineUnavailable, Request, Sampling, make_failure
from slowwave.engines.llm.scripted import ScriptedLLM, make_user_prompt
from slowwave.engines.llm.select import select_llm
from slowwave.engines.llm.vllm_offline import CallRefused, EngineDied, VLLMOffline
from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import LLMSettings
from slowwave.schemas.tables import COMPLETIONS
from tests.fake_llm_server import FakeServer, Reply, serving


class Gist(AnswerModel):
    gist: str = Field(max_length=200)


GOOD = {"gist": "the cache moved to sqlite"}
QUICK = LLMSettings(retries=3, timeout=20.0, patience=20.0, concurrency=8)
HASTY = QUICK.model_copy(update={"timeout": 3.0})


def ask(prompt: str, *, id: str | None = None, answer: Any = Gist, max_tokens: int = 50) -> Request:
    return Request(id or prompt, make_user_prompt(prompt), answer, max_tokens)


def answers(llm: Any, requests: Sequence[Request]) -> dict[str, Completion]:
    """Completions by id, exactly one a request."""
    got = list(llm.complete(requests))
    assert sorted(c.id for c in got) == sorted(r.id for r in requests)
    return {c.id: c for c in got}


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "BACKOFF_SECONDS", 0.01)
    monkeypatch.setattr(servers, "REST_SECONDS", 0.05)


TROUBLES: dict[str, tuple[list[Any], str | None, int]] = {
    # what the server does request by request (the last for good), the error that is left, the requests it took
    "429 with a pause": ([Reply(status=429, headers={"Retry-After": "0"}), GOOD], None, 2),
    "500, 502, 503": ([Reply(status=500), Reply(status=502), Reply(status=503), GOOD], None, 4),
    "500 for good": ([Reply(status=500)], "unavailable", 4),
    "a pause of an hour": ([Reply(status=429, headers={"Retry-After": "3600"})], "unavailable", 1),
    "reset": ([Reply(reset=True), GOOD], None, 2),
    "reset for good": ([Reply(reset=True)], "unavailable", 4),
    "half a body": ([Reply("x" * 500, half=True), GOOD], None, 2),
    "a page of another kind": ([Reply(body=b"<html>login</html>"), GOOD], None, 2),
    "no choices": ([Reply(body=b'{"choices": []}'), GOOD], None, 2),
    "slow drip": ([Reply("{}", drip=0.5), GOOD], None, 2),
    "slow drip for good": ([Reply("{}", drip=0.5)], "unavailable", 2),
    "refused": ([Reply(status=400, body=b"no such parameter")], "rejected", 1),
    "too long for the server": ([Reply(status=400, body=b"maximum context length is 12")], "too_long", 1),
    "another name for the budget": ([Reply(status=400, body=b"use max_completion_tokens"), GOOD], None, 2),
    "cut, then whole": ([Reply('{"gist": "the ca', finish="length"), GOOD], None, 2),
    "cut, without saying so": ([Reply('{"gist": "the ca'), GOOD], None, 2),
    "cut for good": ([Reply('{"gist": "the ca', finish="length")], "cut", 2),
    "empty": ([""], "empty", 1),
    "no JSON": (["The cache moved."], "not_json", 1),
    "wrong schema": ([{"summary": "the cache moved"}], "schema", 1),
    "longer than the schema allows": ([{"gist": "moved " * 50}], "schema", 1),
    "two answers in one": (['{"gist": "a"}{"gist": "b"}'], "not_json", 1),
    "ten times too long": ([Reply('{"gist": "' + "the cache moved and " * 400 + '"}', tokens=2000)], "runaway", 1),
    "whitespace loop": ([Reply('{"gist": ' + "\n" * 600, finish="length")], "runaway", 1),
    "phrase loop": ([Reply('{"gist": "' + "and so on " * 60, finish="length")], "runaway", 1),
    "refusal": (["I'm sorry, but I can't help with that."], "refusal", 1),
    "refusal in a field": ([{"gist": "I cannot assist with that request."}], "refusal", 1),
    "refusal by the API": ([Reply(refusal="No.")], "refusal", 1),
    "filtered": ([Reply('{"gist": "the', finish="content_filter")], "refusal", 1),
    "fenced": (['```json\n{"gist": "the cache moved to sqlite"}\n```'], None, 1),
    "thinking aloud": (['<think>a cache {</think>{"gist": "the cache moved to sqlite"}'], None, 1),
    "blanks after the answer": (['{"gist": "the cache moved to sqlite"}' + "\n" * 300], None, 1),
}


@pytest.mark.parametrize("name", TROUBLES)
def test_each_trouble_ends_in_an_answer_or_a_named_error(name: str) -> None:
    replies, error, requests = TROUBLES[name]
    with serving(lambda _, nth: replies[min(nth, len(replies) - 1)]) as server:
        got = answers(CheckedLLM(OpenAIServer("fake", [server.url], HASTY)), [ask("q")])["q"]
    assert (got.error, len(server.seen)) == (error, requests)
    assert got.value == (None if error else Gist(**GOOD))
    assert bool(got.reason) == bool(error)


def test_a_cut_answer_is_asked_again_with_twice_the_budget_and_both_are_counted() -> None:
    with serving(lambda _, nth: GOOD if nth else Reply('{"gist": "th', finish="length", tokens=50)) as server:
        got = answers(CheckedLLM(OpenAIServer("fake", [server.url], QUICK)), [ask("q")])["q"]
    assert [body["max_tokens"] for body in server.seen] == [50, 100]
    assert (got.flags, got.prompt_tokens, got.completion_tokens, got.prefix_tokens) == (("retried",), 22, 57, 6)


def test_every_trouble_at_once_loses_nothing() -> None:
    def answer(prompt: str, nth: int) -> Any:
        if prompt not in TROUBLES:
            return {"gist": prompt}
        replies = TROUBLES[prompt][0]
        return replies[min(nth, len(replies) - 1)]

    requests = [ask(name) for name in TROUBLES] + [ask(f"good {i}") for i in range(40)]
    with serving(answer) as server:
        got = answers(CheckedLLM(OpenAIServer("fake", [server.url], HASTY)), requests)
    for name, (_, error, _) in TROUBLES.items():
        if name != "another name for the budget":  # the first request that meets it settles it for all
            assert got[name].error == error, name
    assert [got[f"good {i}"].value for i in range(40)] == [Gist(gist=f"good {i}") for i in range(40)]


def test_answers_come_as_they_are_ready_and_belong_to_their_ids() -> None:
    def answer(prompt: str, nth: int) -> Any:
        return Reply('{"gist": "late"}', after=0.5) if prompt == "slow" else {"gist": "early"}

    with serving(answer) as server:
        llm = OpenAIServer("fake", [server.url], QUICK)
        got = [(c.id, c.text) for c in llm.complete([ask("slow", id="a"), ask("quick", id="b")])]
    assert got == [("b", '{"gist":"early"}'), ("a", '{"gist": "late"}')]


SCHEMA = {
    "type": "object",
    "properties": {"gist": {"type": "string", "maxLength": 200}},
    "required": ["gist"],
    "additionalProperties": False,
}


def test_what_is_sent() -> None:
    with serving(lambda *_: GOOD) as server:
        answers(OpenAIServer("fake", [server.url], QUICK), [ask("q", max_tokens=9)])
    assert server.seen == [
        {
            "model": "fake",
            "messages": [{"role": "user", "content": "q"}],
            "temperature": 0.0,
            "top_p": 1.0,
            "max_tokens": 9,
            "seed": 0,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "answer", "strict": True, "schema": SCHEMA},
            },
        }
    ]
    assert "authorization" not in {name.lower() for name in server.headers[0]}


def test_the_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLOWWAVE_LLM_API_KEY", "k-1")
    with serving(lambda *_: GOOD) as server:
        answers(OpenAIServer("fake", [server.url], QUICK), [ask("q")])
    assert server.headers[0]["Authorization"] == "Bearer k-1"


def test_an_over_long_prompt_is_refused_before_it_is_sent() -> None:
    with serving(lambda *_: GOOD, window=200) as server:
        got = answers(OpenAIServer("fake", [server.url], QUICK), [ask("word " * 300, id="long"), ask("q", id="short")])
    assert (got["long"].error, got["short"].error, len(server.seen)) == ("too_long", None, 1)
    assert "300" in got["long"].reason or "348" in got["long"].reason


def test_a_server_that_dies_in_mid_batch_and_comes_back_loses_nothing() -> None:
    died = threading.Event()

    def answer(prompt: str, nth: int) -> Any:
        if prompt == "q 20" and not died.is_set():
            died.set()
            return Reply(dies=True)
        return {"gist": prompt}

    with serving(answer) as server:
        back = threading.Timer(1.0, server.up)
        started = CheckedLLM(OpenAIServer("fake", [server.url], QUICK)).complete([ask(f"q {i}") for i in range(60)])
        got = {}
        for completion in started:
            if died.is_set() and not back.ident:
                back.start()
            got[completion.id] = completion
        back.join()
    assert {c.value.gist for c in got.values()} == {f"q {i}" for i in range(60)}


def test_a_server_that_stays_dead_leaves_errors_and_the_chain_goes_on() -> None:
    with serving(lambda prompt, _: Reply(dies=True) if prompt == "q 5" else {"gist": prompt}) as server:
        settings = QUICK.model_copy(update={"patience": 0.3, "concurrency": 1})
        chain = ChainLLM(
            [CheckedLLM(OpenAIServer("fake", [server.url], settings)), ScriptedLLM(lambda r: GOOD, model="small")]
        )
        got = answers(chain, [ask(f"q {i}") for i in range(10)])
        server.up()
    assert [got[f"q {i}"].model for i in range(10)] == ["fake"] * 5 + ["small"] * 5
    assert got["q 9"].flags == ("fallback",)
    assert chain.notes == ["scripted (small) was asked 5 times instead and answered 5"]


def test_no_server_at_the_outset_is_said_once() -> None:
    with serving(lambda *_: GOOD) as server:
        gone = server.url
    llm = OpenAIServer("fake", [gone], QUICK)
    with pytest.raises(EngineUnavailable, match="ConnectError"):
        list(llm.complete([ask("q")]))
    chain = ChainLLM([llm])
    with pytest.raises(EngineUnavailable, match="every engine"):
        list(chain.complete([ask("q")]))


def test_a_server_with_another_model_says_which() -> None:
    with (
        serving(lambda *_: GOOD, model="other") as server,
        pytest.raises(EngineUnavailable, match="other models: other"),
    ):
        list(OpenAIServer("fake", [server.url], QUICK).complete([ask("q")]))


def test_several_servers_share_the_work_and_one_may_be_dead() -> None:
    late = Reply('{"gist": "a"}', after=0.05)
    with serving(lambda *_: late) as one, serving(lambda *_: late) as gone, serving(lambda *_: late) as two:
        gone.down()
        llm = OpenAIServer("fake", [one.url, gone.url, two.url], QUICK)
        got = answers(llm, [ask(f"q {i}") for i in range(30)])
        gone.up()
    assert all(c.ok for c in got.values())
    assert min(len(one.seen), len(two.seen)) > 5
    assert len(one.seen) + len(two.seen) == 30


def test_stopping_early_ends_the_work() -> None:
    before = threading.active_count()
    with serving(lambda *_: Reply('{"gist": "a"}', after=0.2)) as server:
        started = OpenAIServer("fake", [server.url], QUICK).complete([ask(f"q {i}") for i in range(100)])
        next(started)
        started.close()  # type: ignore[attr-defined]
    assert len(server.seen) < 40
    assert threading.active_count() <= before + 8  # the server's own may still be ending


def test_unknown_repeated_and_missing_answers_are_settled_by_id() -> None:
    def untidy(request: Request) -> tuple[Completion, ...]:
        whole = Completion(request.id, '{"gist": "' + request.id + '"}')
        if request.id == "gone":
            return ()
        return (whole, replace(whole, text="{}"), replace(whole, id="nobody"))

    llm = CheckedLLM(ScriptedLLM(untidy))
    got = answers(llm, [ask("a"), ask("gone"), ask("b")])
    assert {i: (c.value, c.error) for i, c in got.items()} == {
        "a": (Gist(gist="a"), None),
        "b": (Gist(gist="b"), None),
        "gone": (None, "missing"),
    }


def test_two_requests_of_one_id_are_refused() -> None:
    with pytest.raises(ValueError, match="'q'"):
        list(ScriptedLLM([]).complete([ask("q"), ask("q")]))


def test_no_prompt_is_paid_for_twice() -> None:
    engine, cache = ScriptedLLM(lambda r: GOOD if "good" in r.messages[0]["content"] else ""), DictCache()
    requests = [ask("good", id="a"), ask("good", id="b"), ask("bad", id="c")]
    first = answers(CachedLLM(CheckedLLM(engine), cache), requests)
    second = answers(CachedLLM(CheckedLLM(engine), cache), requests)
    assert [r.id for r in engine.asked] == ["a", "c"]
    assert {i: c.cached for i, c in first.items()} == {"a": False, "b": True, "c": False}
    assert all(c.cached for c in second.values())
    assert [(c.value, c.error) for c in second.values()] == [
        (Gist(**GOOD), None),
        (Gist(**GOOD), None),
        (None, "empty"),
    ]


def test_a_passing_failure_is_asked_again_and_a_lasting_one_is_not() -> None:
    cache = DictCache()
    for error in ("unavailable", "poison"):
        request = ask(error)
        engine = ScriptedLLM([make_failure(request, error, "first"), GOOD])  # type: ignore[arg-type]
        answers(CachedLLM(engine, cache), [request])
        again = answers(CachedLLM(CheckedLLM(engine), cache), [request])[error]
        assert (again.ok, len(engine.asked)) == ((True, 2) if error == "unavailable" else (False, 1))


def test_what_was_answered_before_the_engine_gave_up_is_kept() -> None:
    def dies_at_c(request: Request) -> Any:
        if request.id == "c":
            raise EngineUnavailable("scripted", "gone")
        return GOOD

    cache = DictCache()
    with pytest.raises(EngineUnavailable):
        list(CachedLLM(ScriptedLLM(dies_at_c), cache).complete([ask("a"), ask("b"), ask("c")]))
    assert len(cache.kept) == 2


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


def test_completions_survive_their_table() -> None:
    kept = Completion("r", '{"gist": "ä"}', error="cut", reason="x", finish_reason="length", prompt_tokens=3,
                      completion_tokens=4, prefix_tokens=2, engine="openai", model="m", flags=("retried",))  # fmt: skip
    rows = build_completion_rows({"k": kept})
    assert rows.schema == COMPLETIONS.schema
    assert parse_completion_rows(rows) == {"k": kept}


def test_a_night_stops_at_its_token_budget_and_says_so() -> None:
    budget = Budget(300)
    llm = BudgetedLLM(ScriptedLLM(lambda r: GOOD), budget)
    got = answers(llm, [ask(f"q {i}", max_tokens=100) for i in range(30)])
    errors = [c.error for c in got.values()]
    assert 5 < errors.count(None) < 30
    assert errors.count(None) + errors.count("budget") == 30
    assert budget.spent <= budget.limit
    assert answers(llm, [ask("late", max_tokens=1_000)])["late"].error == "budget"


class Fragile(VLLMOffline):
    """An engine that dies of one prompt, refuses another, and may be killed once for no reason of its own."""

    def __init__(self, poison: str = "", refused: str = "", killed: int = 0) -> None:
        super().__init__("none", LLMSettings(context_window=4096, chunk=64))
        self.poison, self.refused, self.killed = poison, refused, killed
        self.calls: list[int] = []

    def _open_engine(self) -> Any:
        return None

    def _call_chat(self, requests: Sequence[Request]) -> Any:
        self.calls.append(len(requests))
        ids = {request.id for request in requests}
        if self.killed:
            self.killed -= 1
            raise EngineDied("killed")
        if self.poison in ids:
            raise EngineDied("boom")
        if self.refused in ids:
            raise CallRefused("bad grammar")
        return requests

    def _build_completion(self, request: Request, output: Any) -> Completion:
        assert output is request
        return Completion(request.id, '{"gist": "a"}')


def test_the_poison_prompt_is_found_and_it_alone_is_lost() -> None:
    engine = Fragile(poison="q 37", refused="q 3")
    got = answers(engine, [ask(f"q {i}") for i in range(100)])
    assert {i: c.error for i, c in got.items() if c.error} == {"q 37": "poison", "q 3": "rejected"}
    assert engine.restarts == 6  # 64 halved to 1
    assert sorted(engine.calls, reverse=True)[:2] == [64, 36]


def test_an_engine_killed_from_outside_loses_nothing() -> None:
    assert all(c.ok for c in answers(Fragile(killed=1), [ask("only")]).values())
    assert all(c.ok for c in answers(Fragile(killed=2), [ask(f"q {i}") for i in range(9)]).values())
    hopeless = answers(Fragile(killed=99), [ask(f"q {i}") for i in range(3)])
    assert {c.error for c in hopeless.values()} <= {"poison", "unavailable"}


def test_without_vllm_the_engine_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "vllm", None)
    llm = VLLMOffline("some/model", LLMSettings(context_window=4096))
    with pytest.raises(EngineUnavailable, match=r"slowwave\[vllm"):
        list(llm.complete([ask("q")]))


@pytest.mark.parametrize(
    ("spec", "names", "extractive"),
    [
        ("off", [], True),
        ("extractive", [], True),
        ("vllm:Qwen/Qwen3-4B", ["vllm"], False),
        ("vllm:a->scripted -> extractive", ["vllm", "scripted"], True),
        (
            "vllm:/m > openai:qwen3:4b@http://127.0.0.1:1/v1,http://127.0.0.1:2/v1 → extractive",
            ["vllm", "openai"],
            True,
        ),
        ("scripted:tests.engines.test_llm_engines:GOOD.get", None, False),
    ],
)
def test_engines_are_chosen_by_name(spec: str, names: list[str] | None, extractive: bool) -> None:
    if names is None:
        with pytest.raises(UsageError, match="expected scripted"):
            select_llm(spec)
        return
    choice = select_llm(spec, LLMSettings(max_tokens=10), DictCache())
    assert [e.name for e in choice.chain.engines] == names if choice.chain else names == []
    assert choice.extractive == extractive


def scripted_gist(request: Request) -> dict[str, str]:
    return GOOD


def test_a_function_of_ones_own_is_an_engine() -> None:
    for spec, gist in {"scripted": "", f"scripted:{__name__}:scripted_gist": GOOD["gist"]}.items():
        chain = select_llm(spec).chain
        assert chain is not None
        assert answers(chain, [ask("q")])["q"].value == Gist(gist=gist)


@pytest.mark.parametrize("spec", ["", "gpt", "vllm:", "openai:m", "openai:m@localhost:1", "off > vllm:m"])
def test_an_unknown_engine_is_refused(spec: str) -> None:
    with pytest.raises(UsageError):
        select_llm(spec)


def test_retry_after_is_seconds_or_a_date() -> None:
    now = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
    headers = [None, "7", "Thu, 01 Jan 2026 12:00:30 GMT", "Thu, 01 Jan 2026 11:00:00 GMT", "soon"]
    assert [parse_retry_after(header, now) for header in headers] == [None, 7.0, 30.0, 0.0, None]


def test_tokens_are_estimated_by_kind() -> None:
    assert estimate_tokens(["", "the cache moved", "version 3.14", "记忆"]) == [0, 3, 6, 2]


def test_a_loop_is_told_from_a_list() -> None:
    assert is_looping("so " + "and on and on " * 40)
    assert not is_looping(" ".join(f"item {i}," for i in range(100)))


@pytest.fixture(autouse=True)
def _no_threads_left() -> Iterator[None]:
    before = set(threading.enumerate())  # other files' tests share this process
    yield
    assert not [t for t in set(threading.enumerate()) - before if t.name.startswith("slowwave")]


def test_the_fake_server_can_come_back_on_its_port() -> None:
    server = FakeServer(lambda *_: GOOD)
    port = server.port
    server.down()
    server.up()
    assert server.port == port
    server.down()


def test_usage_counts_what_was_paid_by_model() -> None:
    llm = MeteredLLM(CachedLLM(CheckedLLM(ScriptedLLM([GOOD, ""])), DictCache()))
    requests = [ask("a"), ask("b")]
    answers(llm, requests)
    answers(llm, requests)
    (usage,) = llm.take_usage()
    assert (usage.requests, usage.cached, dict(usage.errors)) == (4, 2, {"empty": 2})
    assert (usage.prompt_tokens, usage.completion_tokens) == (
        2,
        9,
    )  # the answer has 36 bytes
    assert llm.take_usage() == []
