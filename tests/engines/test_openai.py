"""The OpenAI engine against a real local server that does everything wrong: every request ends in an answer, a named
error, or the word that the server is unavailable.
"""

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from slowwave.engines import http
from slowwave.engines.llm.budget import Budget, BudgetedLLM
from slowwave.engines.llm.cache import CachedLLM
from slowwave.engines.llm.checks import CheckedLLM
from slowwave.engines.llm.openai import OpenAIServer
from slowwave.engines.llm.protocol import EngineUnavailable
from slowwave.engines.llm.scripted import ScriptedLLM
from slowwave.engines.llm.select import ChainLLM, select_llm
from slowwave.schemas.settings import LLMSettings
from tests.engines.test_llm import GOOD, Gist, answers, ask
from tests.fake_llm_server import Reply, serving
from tests.llm_scripts import DictCache, make_user_prompt
from tests.waiting import PATIENCE

CUT = Reply('{"gist": "the ca', finish="length", tokens=50)
KEY = "SLOWWAVE_LLM_API_KEY"


def openai(url: str, **settings: Any) -> OpenAIServer:
    return OpenAIServer(
        "fake", url, LLMSettings(**{"timeout": 120.0, "concurrency": 8, **settings})
    )


@pytest.fixture(autouse=True)
def _short_waits_and_no_threads_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(http, "FIRST_WAIT", 0.01)
    before = set(threading.enumerate())  # other files' tests share this process
    yield
    assert not [
        t for t in set(threading.enumerate()) - before if t.name.startswith("slowwave")
    ]


SENTENCE = "Every station sends its readings at ten past the hour and the page draws them as one curve for each tide. "

TROUBLES: dict[str, tuple[list[Any], str | None, int]] = {
    # what the server does request by request (the last for good), the error that is left, the requests it took
    "429 with a pause": (
        [Reply(status=429, headers={"Retry-After": "0"}), GOOD],
        None,
        2,
    ),
    "500, 502, 503": (
        [Reply(status=500), Reply(status=502), Reply(status=503), GOOD],
        None,
        4,
    ),
    "500 for good": ([Reply(status=500)], "unavailable", 6),
    "a pause of an hour": (
        [Reply(status=429, headers={"Retry-After": "3600"})],
        "unavailable",
        1,
    ),
    "reset": ([Reply(reset=True), GOOD], None, 2),
    "reset for good": ([Reply(reset=True)], "unavailable", 6),
    "half a body": ([Reply("x" * 500, half=True), GOOD], None, 2),
    "a body that can't be decoded": (
        [Reply(body=b"no gzip", headers={"Content-Encoding": "gzip"}), GOOD],
        None,
        2,
    ),
    "a page of another kind": ([Reply(body=b"<html>login</html>"), GOOD], None, 2),
    "no choices": ([Reply(body=b'{"choices": []}'), GOOD], None, 2),
    "slow drip": ([Reply("{}", drip=0.5), GOOD], None, 2),
    "slow drip for good": ([Reply("{}", drip=0.5)], "unavailable", 2),
    "refused": ([Reply(status=400, body=b"no such parameter")], "rejected", 1),
    "moderated": (
        [Reply(status=403, body=b"your input was flagged by moderation")],
        "rejected",
        1,
    ),
    "too long for the server": (
        [Reply(status=400, body=b"maximum context length is 12")],
        "too_long",
        1,
    ),
    "another name for the budget": (
        [Reply(status=400, body=b"use max_completion_tokens"), GOOD],
        None,
        2,
    ),
    "cut, then whole": ([CUT, GOOD], None, 2),
    "cut, without saying so": ([Reply('{"gist": "the ca'), GOOD], None, 2),
    "cut for good": ([CUT], "cut", 2),
    "empty": ([""], "empty", 1),
    "no JSON": (["The cache moved."], "not_json", 1),
    "wrong schema": ([{"summary": "the cache moved"}], "schema", 1),
    "two answers in one": (['{"gist": "a"}{"gist": "b"}'], "not_json", 1),
    "ten times too long": (
        [Reply('{"gist": "' + "the cache moved and " * 400 + '"}', tokens=2000)],
        "runaway",
        1,
    ),
    "whitespace loop": (
        [Reply('{"gist": ' + "\n" * 600, finish="length")],
        "runaway",
        2,
    ),
    "phrase loop": (
        [Reply('{"gist": "' + "and so on " * 60, finish="length")],
        "runaway",
        2,
    ),
    "sentence loop": (
        [Reply('{"gist": "' + SENTENCE * 5, finish="length")],
        "runaway",
        2,
    ),
    "sentence loop, then whole": (
        [Reply('{"gist": "' + SENTENCE * 5, finish="length"), GOOD],
        None,
        2,
    ),
    "refusal": (["I'm sorry, but I can't help with that."], "refusal", 1),
    "refusal in a field": (
        [{"gist": "I cannot assist with that request."}],
        "refusal",
        1,
    ),
    "refusal by the API": ([Reply(refusal="No.")], "refusal", 1),
    "filtered": ([Reply('{"gist": "the', finish="content_filter")], "refusal", 1),
    "fenced": (['```json\n{"gist": "the cache moved to sqlite"}\n```'], None, 1),
    "thinking aloud": (
        ['<think>a cache {</think>{"gist": "the cache moved to sqlite"}'],
        None,
        1,
    ),
    "blanks after the answer": (
        ['{"gist": "the cache moved to sqlite"}' + "\n" * 300],
        None,
        1,
    ),
}


@pytest.mark.parametrize("name", TROUBLES)
def test_each_trouble_ends_in_an_answer_or_a_named_error(name: str) -> None:
    replies, error, requests = TROUBLES[name]
    with serving(lambda _, nth: replies[min(nth, len(replies) - 1)]) as server:
        patience = (
            {"timeout": 2.0}
            if any(isinstance(one, Reply) and one.drip for one in replies)
            else {}
        )
        got = answers(CheckedLLM(openai(server.url, **patience)), [ask("q")])["q"]
    assert (got.error, len(server.seen)) == (error, requests)
    assert got.value == (None if error else Gist(**GOOD))
    assert bool(got.reason) == bool(error)


def test_what_went_in_circles_is_asked_again_with_a_penalty_for_repeated_tokens() -> (
    None
):
    loop = Reply('{"gist": "' + SENTENCE * 5, finish="length")
    with serving(lambda _, nth: GOOD if nth else loop) as server:
        got = answers(CheckedLLM(openai(server.url)), [ask("q")])["q"]
    assert (got.value, got.flags) == (Gist(**GOOD), ("retried",))
    assert [request.get("frequency_penalty") for request in server.seen] == [None, 0.5]


def test_the_pause_that_a_server_asks_for_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Without the header the test would take a minute.
    monkeypatch.setattr(http, "FIRST_WAIT", 60.0)
    until = format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)
    for pause in "1", until:
        with serving(
            lambda _, nth, p=pause: (
                GOOD if nth else Reply(status=429, headers={"Retry-After": p})
            )
        ) as server:  # type: ignore[misc]
            assert answers(openai(server.url), [ask("q")])["q"].ok


def test_answers_come_as_they_are_ready_and_belong_to_their_ids() -> None:
    came = threading.Event()

    def answer(prompt: str, nth: int) -> Any:
        if prompt == "slow":
            came.wait(PATIENCE)
        return {"gist": "late" if prompt == "slow" else "early"}

    got = []
    with serving(answer) as server:
        for completion in openai(server.url).complete([ask("slow"), ask("quick")]):
            got.append((completion.id, completion.text))
            came.set()
    assert got == [("quick", '{"gist":"early"}'), ("slow", '{"gist":"late"}')]


def test_what_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(lambda *_: GOOD) as server:
        answers(openai(server.url), [ask("q", max_tokens=9)])
        monkeypatch.setenv(KEY, " sk-abc\r\n")
        answers(openai(server.url), [ask("q")])
    # Lengths of strings are checked here and not sent.
    schema = {
        "type": "object",
        "properties": {"gist": {"type": "string"}},
        "required": ["gist"],
        "additionalProperties": False,
    }
    assert server.seen[0] == {
        "model": "fake",
        "messages": [{"role": "user", "content": "q"}],
        "temperature": 0.0,
        "max_tokens": 9,
        "seed": 0,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "strict": True, "schema": schema},
        },
    }
    assert [headers.get("Authorization") for headers in server.headers] == [
        None,
        "Bearer sk-abc",
    ]


@pytest.mark.parametrize("key", ["sk-a\nsecret", "sk-sécret", "sk-\x7fsecret"])
def test_a_key_that_is_none_is_refused_and_never_shown(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY, key)
    with serving(lambda *_: GOOD) as server:
        for answering in (
            openai(server.url).complete([ask("q")]),
            openai(server.url).stream(make_user_prompt("q"), 9),
        ):
            with pytest.raises(
                EngineUnavailable, match=f"the key in {KEY} "
            ) as refused:
                next(iter(answering))
            assert "cret" not in str(refused.value)
    assert not server.seen


def test_a_key_that_a_server_repeats_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(KEY, "sk-abc")
    with serving(
        lambda *_: Reply(status=401, body=b"Incorrect API key provided: sk-abc")
    ) as server:
        for answering in (
            openai(server.url).complete([ask("q")]),
            openai(server.url).stream(make_user_prompt("q"), 9),
        ):
            with pytest.raises(
                EngineUnavailable, match=rf"set the key in {KEY}.*provided: \[key\]"
            ):
                next(iter(answering))


def test_requests_in_flight_while_the_budgets_name_is_learned_are_sent_again() -> None:
    together = threading.Barrier(8)

    def answer(prompt: str, nth: int) -> Any:
        if nth:
            return GOOD
        together.wait(PATIENCE)
        return Reply(status=400, body=b"use max_completion_tokens")

    with serving(answer) as server:
        got = answers(openai(server.url), [ask(f"q {i}") for i in range(8)])
    assert {c.error for c in got.values()} == {None}
    assert sum("max_tokens" in body for body in server.seen) == 8


def test_an_over_long_prompt_is_refused_before_it_is_sent() -> None:
    with serving(lambda *_: GOOD, window=200) as server:
        got = answers(openai(server.url), [ask("word " * 300), ask("q")])
    assert (got["word " * 300].error, got["q"].error, len(server.seen)) == (
        "too_long",
        None,
        1,
    )
    assert "exceed the 200 tokens" in got["word " * 300].reason


def test_a_server_that_is_killed_ends_the_call_and_what_was_answered_is_kept() -> None:
    cache, requests = DictCache(), [ask(f"q {i}") for i in range(10)]
    with serving(
        lambda prompt, nth: (
            Reply(dies=True) if (prompt, nth) == ("q 5", 0) else {"gist": prompt}
        )
    ) as server:
        got = []
        with pytest.raises(EngineUnavailable, match="given up after 6 attempts"):
            got.extend(
                CachedLLM(
                    CheckedLLM(openai(server.url, concurrency=1)), cache
                ).complete(requests)
            )
        assert [completion.id for completion in got] == [f"q {i}" for i in range(5)]
        server.up()
        again = answers(CachedLLM(CheckedLLM(openai(server.url)), cache), requests)
    assert [again[f"q {i}"].value for i in range(10)] == [
        Gist(gist=f"q {i}") for i in range(10)
    ]
    assert len(server.seen) == 11


def test_a_server_that_comes_back_between_two_attempts_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "FIRST_WAIT", 0.2)
    died = threading.Event()

    def answer(prompt: str, nth: int) -> Any:
        if prompt == "q 20" and not died.is_set():
            died.set()
            # Only once it is dead: on a slow machine the question may come late.
            back.start()
            return Reply(dies=True)
        return {"gist": prompt}

    with serving(answer) as server:
        back = threading.Timer(1.0, server.up)
        got = answers(openai(server.url), [ask(f"q {i}") for i in range(60)])
        back.join()
    assert {completion.text for completion in got.values()} == {
        f'{{"gist":"q {i}"}}' for i in range(60)
    }


@pytest.mark.parametrize(
    ("status", "said", "why"),
    [
        (401, b"no key", f"set the key in {KEY}"),
        (404, b"not found", "no model 'fake' there, or no API"),
    ],
)
@pytest.mark.parametrize("listing", [200, 404])
def test_a_server_that_refuses_everybody_is_unavailable(
    status: int, said: bytes, why: str, listing: int
) -> None:
    with serving(lambda *_: Reply(status=status, body=said), listing=listing) as server:
        with pytest.raises(EngineUnavailable, match=why):
            list(
                CachedLLM(CheckedLLM(openai(server.url)), DictCache()).complete(
                    [ask(f"q {i}") for i in range(50)]
                )
            )
        assert len(server.seen) <= 8
        chain = ChainLLM([openai(server.url), ScriptedLLM(lambda request: GOOD)])
        assert answers(chain, [ask("q")])["q"].ok


def test_a_server_that_is_away_or_has_another_model_says_so_at_once() -> None:
    with serving(lambda *_: GOOD, model="other") as server:
        with pytest.raises(EngineUnavailable, match="other models: other"):
            list(openai(server.url).complete([ask("q")]))
        gone = server.url
    with pytest.raises(EngineUnavailable, match="ConnectError"):
        list(openai(gone).complete([ask("q")]))
    with pytest.raises(EngineUnavailable, match="every engine"):
        list(ChainLLM([openai(gone), openai(gone)]).complete([ask("q")]))
    with (
        serving(lambda *_: GOOD, listing=403) as server,
        pytest.raises(EngineUnavailable, match=f"403: set the key in {KEY}"),
    ):
        list(openai(server.url).complete([ask("q")]))


def test_what_is_refused_of_one_prompt_alone_leaves_the_others() -> None:
    with serving(
        lambda prompt, _: Reply(status=404, body=b"no") if prompt == "b" else GOOD
    ) as server:
        got = answers(openai(server.url, concurrency=1), [ask("a"), ask("b"), ask("c")])
    assert {i: c.error for i, c in got.items()} == {
        "a": None,
        "b": "rejected",
        "c": None,
    }


def test_a_model_is_known_under_its_latest_tag() -> None:
    with serving(lambda *_: GOOD, model="fake:latest", window=2048) as server:
        llm = openai(server.url)
        assert answers(llm, [ask("q")])["q"].ok
        assert llm.context_window == 2048
    assert server.seen[0]["model"] == "fake"


def test_stopping_early_ends_the_work() -> None:
    before = threading.active_count()
    with serving(lambda *_: Reply('{"gist": "a"}', after=0.2)) as server:
        started = openai(server.url).complete([ask(f"q {i}") for i in range(100)])
        next(started)
        started.close()  # type: ignore[attr-defined]
    assert len(server.seen) < 40
    # The server's own may still be ending.
    assert threading.active_count() <= before + 8


def test_a_server_that_counts_no_tokens_spends_the_budget_all_the_same() -> None:
    with serving(lambda *_: Reply('{"gist": "the cache"}', usage=False)) as server:
        budget = Budget(1_000)
        got = answers(
            BudgetedLLM(openai(server.url), budget), [ask(f"q {i}") for i in range(60)]
        )
    assert 5 < sum(c.ok for c in got.values()) == len(server.seen) < 60
    assert 900 < budget.spent <= 1_000


def events(*pieces: str) -> list[str]:
    """Events of an answer in these pieces."""
    deltas = [{"role": "assistant"}, *({"content": piece} for piece in pieces)]
    return [json.dumps({"choices": [{"delta": delta}]}) for delta in deltas]


STREAMS: dict[str, tuple[Reply, list[str], str | None]] = {
    # what the server sends, the pieces that come, and what the error says
    "whole": (
        Reply(events=[*events("Two", " gulls", "."), "[DONE]"]),
        ["Two", " gulls", "."],
        None,
    ),
    "without a last word": (
        Reply(
            events=[
                *events("Two"),
                '{"choices": [{"delta": {}, "finish_reason": "stop"}]}',
            ]
        ),
        ["Two"],
        None,
    ),
    "not streamed": (Reply("Two gulls."), ["Two gulls."], None),
    "ends too soon": (
        Reply(events=events("Two")),
        ["Two"],
        "broke off: the stream ended",
    ),
    "an error in it": (
        Reply(events=[*events("Two"), '{"error": "no memory"}']),
        ["Two"],
        "broke off: no memory",
    ),
    "cut off": (
        Reply(events=events("Two", "gulls" * 100), half=True),
        ["Two"],
        "broke off: RemoteProtocolError",
    ),
    "no event of the API's": (
        Reply(events=["7"]),
        [],
        "no chat completion in the stream",
    ),
    "garbled": (
        Reply(body=b"no gzip", headers={"Content-Encoding": "gzip"}),
        [],
        "DecodingError",
    ),
    "empty": (Reply(""), [], "an empty answer"),
    "refused": (
        Reply(status=500, body=b"out of memory"),
        [],
        "status 500: out of memory",
    ),
}


@pytest.mark.parametrize("name", STREAMS)
def test_an_answer_comes_in_pieces_or_an_error_says_why_not(name: str) -> None:
    reply, pieces, error = STREAMS[name]
    got: list[str] = []
    with serving(lambda *_: reply) as server:
        stream = openai(server.url).stream(make_user_prompt("How many?"), 50)
        if error is None:
            got.extend(stream)
        else:
            with pytest.raises(EngineUnavailable, match=error):
                got.extend(stream)
    assert got == pieces
    assert (server.seen[0]["stream"], server.seen[0]["max_tokens"]) == (True, 50)


def test_a_chain_goes_on_to_the_next_before_the_first_word() -> None:
    here = Reply(events=[*events("Here"), "[DONE]"])
    with (
        serving(lambda *_: Reply(status=500)) as broken,
        serving(lambda *_: here) as server,
    ):
        chain = select_llm(f"openai:fake@{broken.url} > openai:fake@{server.url}")
        assert chain
        assert [list(chain.stream(make_user_prompt("?"), 50)) for _ in range(2)] == [
            ["Here"]
        ] * 2
        assert len(broken.seen) == 1
        server.answer = lambda _, nth: here if nth > 2 else Reply(status=500)
        with pytest.raises(EngineUnavailable, match="every engine"):
            list(chain.stream(make_user_prompt("?"), 50))
        assert list(chain.stream(make_user_prompt("?"), 50)) == ["Here"]
