"""What goes wrong around an answer: keys, addresses, budgets, servers that refuse everybody, engines that go."""

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from slowwave.engines.llm import servers
from slowwave.engines.llm.budget import Budget, BudgetedLLM
from slowwave.engines.llm.cache import CachedLLM, DictCache, compute_completion_id
from slowwave.engines.llm.chain import ChainLLM
from slowwave.engines.llm.checks import CheckedLLM
from slowwave.engines.llm.openai_server import OpenAIServer
from slowwave.engines.llm.openai_wire import parse_context_window, parse_retry_after
from slowwave.engines.llm.protocol import AnswerModel, Completion, EngineUnavailable, Request
from slowwave.engines.llm.scripted import ScriptedLLM, make_user_prompt
from slowwave.engines.llm.select import select_llm
from slowwave.engines.llm.streaming import select_speaker
from slowwave.engines.llm.vllm_offline import VLLMOffline
from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import LLMSettings
from tests.fake_llm_server import Reply, serving


class Gist(AnswerModel):
    gist: str


GOOD = {"gist": "the cache moved to sqlite"}
CUT = Reply('{"gist": "the ca', finish="length", tokens=50)
QUICK = LLMSettings(retries=3, timeout=20.0, patience=20.0, concurrency=8)
KEY = "SLOWWAVE_LLM_API_KEY"


def ask(prompt: str, *, max_tokens: int = 50) -> Request:
    return Request(prompt, make_user_prompt(prompt), Gist, max_tokens)


def answers(llm: Any, requests: Sequence[Request]) -> dict[str, Completion]:
    """Completions by id, exactly one a request."""
    got = list(llm.complete(requests))
    assert sorted(c.id for c in got) == sorted(r.id for r in requests)
    return {c.id: c for c in got}


def openai(url: str, **more: Any) -> OpenAIServer:
    return OpenAIServer("fake", [url], QUICK.model_copy(update=more))


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "BACKOFF_SECONDS", 0.01)
    monkeypatch.setattr(servers, "REST_SECONDS", 0.05)


def test_blanks_around_a_key_are_no_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, " sk-abc\r\n")
    with serving(lambda *_: GOOD) as server:
        assert answers(openai(server.url), [ask("q")])["q"].ok
    assert server.headers[0]["Authorization"] == "Bearer sk-abc"


@pytest.mark.parametrize("key", ["sk-a\nsecret", "sk-sécret", "sk-\x7fsecret"])
def test_a_key_that_is_none_is_refused_and_never_shown(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, key)
    with serving(lambda *_: GOOD) as server:
        speaker = select_speaker(f"openai:fake@{server.url}", QUICK)
        for answering in (openai(server.url).complete([ask("q")]), speaker.stream(make_user_prompt("q"), 9)):
            with pytest.raises(EngineUnavailable, match=f"the key in {KEY} ") as refused:
                next(iter(answering))
            assert "cret" not in str(refused.value)
    assert not server.seen


def test_a_key_that_a_server_repeats_is_blotted_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, "sk-abc")
    with serving(lambda *_: Reply(status=401, body=b"Incorrect API key provided: sk-abc")) as server:
        for answering in (
            openai(server.url).complete([ask("q")]),
            select_speaker(f"openai:fake@{server.url}", QUICK).stream(make_user_prompt("q"), 9),
        ):
            with pytest.raises(EngineUnavailable, match=rf"set the key in {KEY}.*provided: \[key\]"):
                next(iter(answering))


def test_requests_in_flight_while_the_budgets_name_is_learned_are_sent_again() -> None:
    together = threading.Barrier(8)

    def answer(prompt: str, nth: int) -> Any:
        if nth:
            return GOOD
        together.wait(10)
        return Reply(status=400, body=b"use max_completion_tokens")

    with serving(answer) as server:
        got = answers(openai(server.url, retries=0), [ask(f"q {i}") for i in range(8)])
    assert {c.error for c in got.values()} == {None}
    assert sum("max_tokens" in body for body in server.seen) == 8


def test_a_body_that_cant_be_decoded_is_asked_for_again() -> None:
    garbled = Reply(body=b"no gzip", headers={"Content-Encoding": "gzip"})
    with serving(lambda _, nth: GOOD if nth else garbled) as server:
        assert answers(openai(server.url), [ask("q")])["q"].ok
        server.answer = lambda *_: garbled
        with pytest.raises(EngineUnavailable, match="DecodingError"):
            list(select_speaker(f"openai:fake@{server.url}", QUICK).stream(make_user_prompt("q"), 9))


def test_a_pause_that_is_no_number_is_none() -> None:
    assert [parse_retry_after(header) for header in ("²", "Thu, 01 Jan 2026 12:00:30 +99999999999999")] == [None, None]


@pytest.mark.parametrize(
    "spec", ["openai:m@http://host:port/v1", "openai:m@http:///v1", f"scripted:{__name__}:GOOD", "openai:m@ftp://h/v1"]
)
def test_what_can_be_no_engine_is_refused_at_once(spec: str) -> None:
    with pytest.raises(UsageError):
        select_llm(spec)


@pytest.mark.parametrize(
    ("status", "said", "why"),
    [
        (401, b"no key", f"set the key in {KEY}"),
        (403, b"forbidden", f"set the key in {KEY}"),
        (404, b"not found", "is the /v1 missing"),
        (404, b'{"error": "The model `fake` does not exist."}', "no model 'fake' there"),
        (400, b'{"error": "fake is not a valid model ID"}', "no model 'fake' there"),
    ],
)
@pytest.mark.parametrize("listing", [200, 404])
def test_a_server_that_refuses_everybody_is_unavailable(status: int, said: bytes, why: str, listing: int) -> None:
    with serving(lambda *_: Reply(status=status, body=said), listing=listing) as server:
        with pytest.raises(EngineUnavailable, match=why):
            list(CachedLLM(CheckedLLM(openai(server.url)), DictCache()).complete([ask(f"q {i}") for i in range(50)]))
        assert len(server.seen) <= 8
        chain = ChainLLM([openai(server.url), ScriptedLLM(lambda r: GOOD)])
        assert answers(chain, [ask("q")])["q"].ok


def test_what_is_refused_of_one_prompt_alone_leaves_the_others() -> None:
    def answer(prompt: str, nth: int) -> Any:
        moderated = Reply(status=403, body=b"your input was flagged by moderation")
        return {"a": moderated, "c": Reply(status=404, body=b"no")}.get(prompt, GOOD)

    with serving(answer) as server:
        got = answers(openai(server.url, concurrency=1), [ask("a"), ask("b"), ask("c"), ask("d")])
    assert {i: c.error for i, c in got.items()} == {"a": "rejected", "b": None, "c": "rejected", "d": None}


def test_of_two_servers_the_one_that_refuses_the_key_is_left_out() -> None:
    with serving(lambda *_: Reply(status=401)) as closed, serving(lambda *_: GOOD) as opened:
        llm = OpenAIServer("fake", [closed.url, opened.url], QUICK)
        assert all(c.ok for c in answers(llm, [ask(f"q {i}") for i in range(30)]).values())
    assert len(closed.seen) <= 8


def test_a_folder_that_is_not_there_is_no_engine() -> None:
    with pytest.raises(EngineUnavailable, match="no such folder"):
        VLLMOffline("/nonexistent").count_tokens(["q"])


def test_what_a_server_finds_too_long_is_learned_and_asked_again_when_it_grows() -> None:
    cache, long = DictCache(), Reply(status=400, body=b"This model's maximum context length is 1,024 tokens. However")
    with serving(lambda *_: long, window=4096) as server:
        llm = openai(server.url)
        assert answers(CachedLLM(CheckedLLM(llm), cache), [ask("q")])["q"].error == "too_long"
        assert (llm.context_window, cache.kept) == (1024, {})
        cache.keep(
            {compute_completion_id(ask("q"), "fake", llm.sampling): Completion("q", error="too_long")}
        )  # as it once was
        server.answer = lambda *_: GOOD
        assert answers(CachedLLM(CheckedLLM(llm), cache), [ask("q")])["q"].ok
    assert parse_context_window("the request exceeds the available context size (4096 tokens)") == 4096
    assert parse_context_window("your prompt of 9,000 tokens is too long") is None


@pytest.mark.parametrize("why", ["budget", "unavailable"])
def test_a_cut_answer_is_kept_when_there_is_no_second(why: str) -> None:
    cache = DictCache()

    def answer(prompt: str, nth: int) -> Any:
        return Reply(status=500) if nth else CUT

    with serving(answer) as server:
        engine = openai(server.url, retries=0)
        llm = BudgetedLLM(engine, Budget(160)) if why == "budget" else engine
        got = answers(CachedLLM(CheckedLLM(llm), cache), [ask("q")])["q"]
        again = answers(CachedLLM(CheckedLLM(llm), cache), [ask("q")])["q"]
    assert (got.error, got.text, got.completion_tokens) == ("cut", '{"gist": "the ca', 50)
    assert why in got.reason
    assert (again.cached, again.error, again.text) == (True, "cut", got.text)


def test_a_cut_answer_is_handed_on_when_the_engine_goes_before_its_second() -> None:
    cut = Completion("a", '{"gist": "the ca', finish_reason="length", completion_tokens=50)

    def script(request: Request) -> Any:
        if request.max_tokens > 50 or request.id == "c":
            raise EngineUnavailable("scripted", "gone")
        return cut if request.id == "a" else GOOD

    for ids in ["a", "b"], ["a", "b", "c"]:
        cache, got = DictCache(), list[Completion]()
        llm = CachedLLM(CheckedLLM(ScriptedLLM(script)), cache)
        with pytest.raises(EngineUnavailable, match="gone"):
            got.extend(llm.complete([ask(i) for i in ids]))
        assert {c.id: c.error for c in got} == {"a": "cut", "b": None}
        assert len(cache.kept) == 2


def test_what_costs_more_than_a_whole_night_says_so_and_holds_up_nothing() -> None:
    llm = BudgetedLLM(ScriptedLLM(lambda r: GOOD), Budget(500))
    got = answers(llm, [ask("dear", max_tokens=1000), ask("cheap")])
    assert got["cheap"].ok
    assert got["dear"].error == "budget"
    assert got["dear"].reason.startswith("needs 1,049 tokens, the night's budget is 500")  # 1 of text, 48 of template


def test_a_server_that_counts_no_tokens_spends_the_budget_all_the_same() -> None:
    with serving(lambda *_: Reply('{"gist": "the cache"}', usage=False)) as server:
        budget = Budget(1_000)
        got = answers(BudgetedLLM(openai(server.url), budget), [ask(f"q {i}") for i in range(60)])
    assert 5 < sum(c.ok for c in got.values()) == len(server.seen) < 60
    assert 900 < budget.spent <= 1_000


def test_a_runaway_after_a_cut_stays_one_in_the_cache() -> None:
    replies = [CUT, Reply('{"gist": "the cache"}', tokens=401)]
    cache = DictCache()
    with serving(lambda _, nth: replies[nth]) as server:
        for cached in (False, True):
            got = answers(CachedLLM(CheckedLLM(openai(server.url)), cache), [ask("q")])["q"]
            assert (got.error, got.cached) == ("runaway", cached)


def test_patience_begins_with_the_first_refusal_and_not_before_a_long_answer() -> None:
    def answer(prompt: str, nth: int) -> Any:
        return Reply(dies=True, after=1.5) if not nth and prompt == "q 0" else GOOD

    with serving(answer) as server:
        back = threading.Timer(2.2, server.up)  # 0.7 s after it went, which is within the patience
        back.start()
        got = answers(openai(server.url, patience=1.4, concurrency=1, retries=9), [ask("q 0"), ask("q 1")])
        back.join()
    assert {c.error for c in got.values()} == {None}


def test_a_server_that_was_waited_for_in_vain_is_tried_but_not_waited_for_again() -> None:
    with serving(lambda *_: GOOD) as server:
        llm = openai(server.url, patience=0.4)
        assert answers(llm, [ask("q")])["q"].ok
        server.down()
        assert answers(llm, [ask("q")])["q"].error == "unavailable"
        later = answers(llm, [ask(f"q {i}") for i in range(20)])
        assert {c.error for c in later.values()} == {"unavailable"}
        assert all("an earlier wait was in vain" in c.reason for c in later.values())
        server.up()
        assert answers(llm, [ask("q")])["q"].ok


def test_a_model_is_known_under_its_latest_tag() -> None:
    with serving(lambda *_: GOOD, model="fake:latest", window=2048) as server:
        llm = openai(server.url)
        assert answers(llm, [ask("q")])["q"].ok
        assert llm.context_window == 2048
    assert server.seen[0]["model"] == "fake"


def test_a_spent_budget_is_not_told_as_a_failure_of_the_next_engine() -> None:
    budget = Budget(1)
    chain = ChainLLM([BudgetedLLM(ScriptedLLM(lambda r: GOOD, model=name), budget) for name in ("large", "small")])
    answers(chain, [ask(f"q {i}") for i in range(5)])
    assert chain.notes == ["scripted (small) was not asked 5 times instead: the night's token budget is spent"]
