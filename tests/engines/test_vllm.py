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
from slowwave.engines.llm.protocol import LLM, AnswerModel, Completion, EngineUnavailable, Request
from slowwave.engines.llm.vllm import VLLMOffline
from slowwave.schemas.settings import LLMSettings
from tests.llm_scripts import DictCache, make_user_prompt
from tests.vllm_servers import free_port, kill, served, wait_for

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.filterwarnings("ignore"),  # vLLM's own, on a CPU
    pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed here: `make test-vllm` runs this"),
]


class Label(AnswerModel):
    summary: str = Field(max_length=80)
    category: Literal["decision", "gotcha", "convention"]
    files: list[Annotated[str, Field(max_length=40)]] = Field(max_length=2)


GUIDE = "You label engineering notes. Answer with one JSON object: a summary, a category and the files named. " + (
    "A decision settles a question, a gotcha is a trap somebody fell into, a convention is how things are done here. "
    * 6
)
SETTINGS = LLMSettings(context_window=1024, max_num_seqs=8, timeout=300, concurrency=4)


def notes(number: int) -> list[Request]:
    """Notes to label; what is constant comes first and is longer than a block of the prefix cache."""
    said = "we moved the cache in store/cache_{}.py from redis to sqlite because redis lost writes"
    return [Request(f"note {i}", make_user_prompt(said.format(i), system=GUIDE), Label, 80) for i in range(number)]


def answered(llm: LLM, requests: Sequence[Request], meanwhile: Callable[[], None] | None = None) -> list[Completion]:
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
    return [p for p in below if "VLLM" in p.name() and p.status() != psutil.STATUS_ZOMBIE]


def test_a_server_killed_in_mid_batch_ends_the_call_and_asking_again_does_the_rest(folder: Path) -> None:
    port, cache = free_port(), DictCache()
    llm = CachedLLM(CheckedLLM(OpenAIServer("tiny", f"http://127.0.0.1:{port}/v1", SETTINGS)), cache, batch=1)
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
    assert sum(label.prefix_tokens >= 128 for label in fresh) >= len(fresh) - 4  # the new server's first ones have none


def test_answers_fit_the_schema_and_an_over_long_prompt_harms_nobody(engine: VLLMOffline) -> None:
    long = Request("long", make_user_prompt("word " * 2000), Label, 80)
    *labels, last = answered(CheckedLLM(engine), [*notes(8), long])
    assert [label.error for label in labels] == [None] * 8
    assert all(isinstance(label.value, Label) for label in labels)
    assert last.error == "too_long"
    assert all("\n" not in label.text for label in labels)  # no blanks outside of strings


def test_equal_beginnings_are_computed_once(engine: VLLMOffline) -> None:
    labels = answered(CheckedLLM(engine), notes(4))
    assert all(label.prefix_tokens >= 128 for label in labels)  # one block of the CPU's cache
    assert all(label.prefix_tokens < label.prompt_tokens for label in labels)


def test_tokens_are_counted_as_the_engine_counts(engine: VLLMOffline) -> None:
    (request,) = notes(1)
    (label,) = answered(CheckedLLM(engine), [request])
    assert engine._count_prompt_tokens([request]) == ({request.id: label.prompt_tokens}, [])


def test_an_engine_that_is_killed_in_mid_batch_is_started_again(engine: VLLMOffline) -> None:
    engine._open_engine()
    restarts = engine.restarts
    killer = threading.Timer(3.0, lambda: [p.send_signal(signal.SIGKILL) for p in engine_processes()])
    killer.start()
    labels = answered(CheckedLLM(engine), notes(8))
    killer.join()
    assert [label.error for label in labels] == [None] * 8
    assert engine.restarts == restarts + 1
