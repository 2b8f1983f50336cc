"""The real vLLM with a real model of half a billion parameters, on a CPU: minutes, so `pytest -m vllm` alone runs it.

Needs an environment with vLLM; the model comes from the package index once (see `bench/nights/tiny_models.py`).
"""

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from bench.nights.tiny_models import ensure_model_folder
from slowwave.engines.llm.cache import CachedLLM
from slowwave.engines.llm.checks import CheckedLLM
from slowwave.engines.llm.openai import OpenAIServer
from slowwave.engines.llm.protocol import (
    LLM,
    AnswerModel,
    ChatMessage,
    Completion,
    EngineUnavailable,
    Request,
)
from slowwave.engines.llm.select import ChainLLM
from slowwave.engines.llm.vllm import VLLMOffline
from slowwave.engines.llm.vllm_prompts import ChatPrompts
from slowwave.schemas.settings import LLMSettings
from slowwave.tasks.isolate import do_apart
from slowwave.tasks.llm.ask import Model
from slowwave.tasks.llm.library import Library
from tests.llm_scripts import DictCache, make_user_prompt
from tests.toy_models import make_toy_model
from tests.vllm_servers import free_port, kill, served, wait_for

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.filterwarnings("ignore"),  # vLLM's own, on a CPU
    pytest.mark.skipif(
        find_spec("vllm") is None,
        reason="vLLM is not installed here: `make test-vllm` runs this",
    ),
]


class Label(AnswerModel):
    summary: str = Field(max_length=80)
    category: Literal["decision", "gotcha", "convention"]
    files: list[Annotated[str, Field(max_length=40)]] = Field(max_length=2)


GUIDE = (
    "You label engineering notes. Answer with one JSON object: a summary, a category and the files named. "
    + (
        "A decision settles a question, a gotcha is a trap somebody fell into, "
        "a convention is how things are done here. " * 6
    )
)
SETTINGS = LLMSettings(context_window=1024, max_num_seqs=8, timeout=300, concurrency=4)


def notes(number: int) -> list[Request]:
    """Notes to label; what is constant comes first and is longer than a block of the prefix cache."""
    said = "we moved the cache in store/cache_{}.py from redis to sqlite because redis lost writes"
    return [
        Request(f"note {i}", make_user_prompt(said.format(i), system=GUIDE), Label, 80)
        for i in range(number)
    ]


def answered(
    llm: LLM, requests: Sequence[Request], meanwhile: Callable[[], None] | None = None
) -> list[Completion]:
    """Completions in the order of the requests: exactly one each."""
    got = {}
    for completion in llm.complete(requests):
        if meanwhile and not got:
            meanwhile()
        assert completion.id not in got
        got[completion.id] = completion
    return [got[request.id] for request in requests]


@pytest.fixture(scope="module")
def folder() -> Path:
    return ensure_model_folder()


@pytest.fixture(scope="module")
def engine(folder: Path) -> Iterator[VLLMOffline]:
    llm = VLLMOffline(str(folder), SETTINGS)
    yield llm
    llm.close()
    assert not engine_processes()


def engine_processes() -> list[Any]:
    """vLLM's own live processes below this one."""
    import psutil

    below = psutil.Process().children(recursive=True)
    return [
        p for p in below if "VLLM" in p.name() and p.status() != psutil.STATUS_ZOMBIE
    ]


def test_a_server_killed_in_mid_batch_ends_the_call_and_asking_again_does_the_rest(
    folder: Path,
) -> None:
    port, cache = free_port(), DictCache()
    llm = CachedLLM(
        CheckedLLM(OpenAIServer("tiny", f"http://127.0.0.1:{port}/v1", SETTINGS)),
        cache,
        batch=1,
    )
    requests = notes(12)
    with ExitStack() as servers:
        first = servers.enter_context(served(folder, port))
        wait_for(port, first)
        assert llm.context_window == 1024
        assert [label.reason for label in answered(llm, requests[:2])] == [""] * 2
        with pytest.raises(EngineUnavailable, match="given up after"):
            answered(llm, requests[2:], meanwhile=lambda: kill(first))
        kept = len(cache)
        assert 3 <= kept < 12
        wait_for(port, servers.enter_context(served(folder, port)))
        labels = answered(llm, requests)
    assert [label.reason for label in labels] == [""] * 12
    assert sum(label.cached for label in labels) == kept
    fresh = [label for label in labels if not label.cached]
    # The new server's first ones have none.
    assert sum(label.prefix_tokens >= 128 for label in fresh) >= len(fresh) - 4


def test_answers_fit_the_schema_and_an_over_long_prompt_harms_nobody(
    engine: VLLMOffline,
) -> None:
    long = Request("long", make_user_prompt("word " * 2000), Label, 80)
    *labels, last = answered(CheckedLLM(engine), [*notes(8), long])
    assert [label.error for label in labels] == [None] * 8
    assert all(isinstance(label.value, Label) for label in labels)
    assert last.error == "too_long"
    # No blanks outside of strings.
    assert all("\n" not in label.text for label in labels)


class Copy(AnswerModel):
    quote: str = Field(max_length=300)


COPY = (
    "Copy the text between <<< and >>> word for word into the field quote of a JSON object. Keep every quotation mark, "
    "backslash and line break."
)
HARD = 'print("a\\n")\nprint("b")'


def test_a_text_with_quotation_marks_backslashes_and_line_breaks_can_be_copied(
    engine: VLLMOffline,
) -> None:
    (copy,) = answered(
        CheckedLLM(engine),
        [Request("q", make_user_prompt(f"<<<{HARD}>>>", system=COPY), Copy, 120)],
    )
    assert copy.value == Copy(quote=HARD)


def test_equal_beginnings_are_computed_once(engine: VLLMOffline) -> None:
    labels = answered(CheckedLLM(engine), notes(4))
    # One block of the CPU's cache.
    assert all(label.prefix_tokens >= 128 for label in labels)
    assert all(label.prefix_tokens < label.prompt_tokens for label in labels)


def test_tokens_are_counted_as_the_engine_counts(engine: VLLMOffline) -> None:
    (request,) = notes(1)
    (label,) = answered(CheckedLLM(engine), [request])
    assert engine._count_prompt_tokens([request]) == (
        {request.id: label.prompt_tokens},
        [],
    )


def test_an_engine_that_is_killed_in_mid_batch_is_started_again(
    engine: VLLMOffline,
) -> None:
    engine._open_engine()
    restarts = engine.restarts
    killer = threading.Timer(
        3.0, lambda: [p.send_signal(signal.SIGKILL) for p in engine_processes()]
    )
    killer.start()
    labels = answered(CheckedLLM(engine), notes(8))
    killer.join()
    assert [label.error for label in labels] == [None] * 8
    assert engine.restarts == restarts + 1


def make_prompts(tmp_path: Path, template: str) -> ChatPrompts:
    return ChatPrompts(str(make_toy_model(tmp_path / "model", template)), 1024)


@pytest.mark.parametrize(
    ("template", "folds"),
    [("chatml", False), ("refuses system", True), ("drops system", True)],
)
def test_the_system_text_reaches_the_model_whatever_its_template_makes_of_the_role(
    template: str, folds: bool, tmp_path: Path
) -> None:
    prompts, turns = (
        make_prompts(tmp_path, template),
        make_user_prompt("hello", system="be brief"),
    )
    assert prompts.folds is folds
    shown = [turn["content"] for turn in prompts.prepare(turns)]
    assert shown == (["be brief\n\nhello"] if folds else ["be brief", "hello"])
    # a token each: the bytes of "be brief" and "hello", and of "user\n", "\n" and so on, the marks
    roles = ["user", "assistant"] if folds else ["system", "user", "assistant"]
    frame = sum(len(f"{role}\n") for role in roles) + 2 * len(shown) + 1 + len(shown)
    assert prompts.count_tokens(turns) == sum(map(len, shown)) + frame


def test_a_model_without_a_template_starts_no_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts: list[int] = []
    monkeypatch.setattr(VLLMOffline, "_start_engine", lambda _: starts.append(1))
    llm = VLLMOffline(str(make_toy_model(tmp_path / "model", "none")), SETTINGS)
    model = Model(ChainLLM([CheckedLLM(llm)]), Library(None))

    def ask(sessions: Sequence[str]) -> None:
        model.ask(
            "observe",
            {s: s for s in sessions},
            lambda some: notes(len(some)),
            lambda _, answer: answer,
        )
        llm.close()  # as on a GPU, which the encoder needs

    assert do_apart([f"note {n}" for n in range(20)], ask) == {}
    assert starts == []
    assert model.llm.notes == [
        f"vllm:{tmp_path}/model is unavailable: this model has no chat template: take an instruct model"
    ]


def test_a_model_that_can_only_think_is_refused_by_its_name(tmp_path: Path) -> None:
    # As the templates of DeepSeek-R1 and Qwen3-Thinking, whatever `enable_thinking` says.
    with pytest.raises(EngineUnavailable, match="can only think") as refused:
        make_prompts(tmp_path, "only thinks")
    assert f"vllm:{tmp_path}/model" in str(refused.value)
    assert make_prompts(tmp_path / "qwen3", "can think").count_tokens(
        make_user_prompt("hello")
    )


def test_a_prompt_that_the_template_refuses_is_rejected_alone(tmp_path: Path) -> None:
    llm = VLLMOffline(
        str(make_toy_model(tmp_path / "model", "refuses system")), SETTINGS
    )
    turns: list[ChatMessage] = [
        {"role": "user", "content": "a"},
        {"role": "user", "content": "b"},
    ]
    try:
        odd, *others = answered(
            llm, [Request("odd", tuple(turns), Label, 80), *notes(2)]
        )
    finally:
        llm.close()
    assert (odd.error, "must alternate" in odd.reason) == ("rejected", True)
    assert [other.error for other in others] == [None, None]


def test_calls_that_take_turns_find_their_own_answers(tmp_path: Path) -> None:
    llm = VLLMOffline(str(make_toy_model(tmp_path / "model", "chatml")), SETTINGS)
    try:
        first = llm.complete(notes(3))
        given_up: Any = llm.complete(notes(2))
        found = [next(first).id, next(given_up).id]
        given_up.close()  # its other request is withdrawn
        assert [label.error for label in answered(llm, notes(9))] == [None] * 9
        found += [label.id for label in first]
        assert sorted(found[:1] + found[2:]) == ["note 0", "note 1", "note 2"]
        assert llm.restarts == 0
        assert llm._open_engine().llm_engine.get_num_unfinished_requests() == 0
    finally:
        llm.close()


def test_a_cache_that_holds_no_request_names_the_window_that_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_toy_model(tmp_path / "model", "chatml")
    config = folder / "config.json"
    config.write_text(config.read_text().replace("32768", "16000000"))
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    llm = VLLMOffline(
        str(folder), SETTINGS.model_copy(update={"context_window": 15_000_000})
    )
    with pytest.raises(
        EngineUnavailable, match=r"set model\.context_window to 2097024 or less"
    ):
        # 512 bytes a token: 2 layers x 2 heads x 32 x key and value x 2 bytes, in blocks of 128.
        answered(llm, notes(1))
