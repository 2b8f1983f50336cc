"""What a model thought is cut off its answer; options of vLLM's engine are part of a model's name; copies of it."""

import os

import pytest

from slowwave.engines.llm.checks import check_completion, strip_thinking
from slowwave.engines.llm.copies import CopiedLLM, make_vllm
from slowwave.engines.llm.protocol import Completion, EngineUnavailable, Request
from slowwave.engines.llm.scripted import ScriptedLLM
from slowwave.engines.llm.vllm import (
    VLLMOffline,
    _check_options,
    name_configured_model,
    show_gpus,
)
from slowwave.engines.llm.vllm_prompts import OPEN_THOUGHTS
from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import LLMSettings, make_settings
from tests.llm_scripts import make_user_prompt


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("hm, tea or coffee; say tea.\n</think>\n\nTea.", "\n\nTea."),  # no opening tag
        ("<think>tea?</think>Tea.", "Tea."),
        ("<think>a</think>no<think>b</think>Tea.", "Tea."),  # the last one counts
        ("<think>tea, but", ""),  # never closed: nothing but thoughts
        ("The tag `</think>` closes it.", "The tag `</think>` closes it."),
        ("<think>x</think>Write `</think>`.", "Write `</think>`."),
        ("Tea.", "Tea."),
        ("I think> so", "I think> so"),
    ],
)
def test_thoughts_end_at_the_last_closing_tag(text: str, answer: str) -> None:
    assert strip_thinking(text, is_json=False) == answer


def test_whole_json_keeps_a_tag_that_it_quotes() -> None:
    quoted = '{"quote":"he typed </think> there"}'
    assert strip_thinking(quoted, is_json=True) == quoted
    assert strip_thinking(f"hm {{</think>{quoted[:9]}", is_json=True) == quoted[:9]
    assert strip_thinking('{hm}</think>{"a":1}', is_json=True) == '{"a":1}'


def test_an_answer_of_nothing_but_thoughts_is_an_error() -> None:
    request = Request("r", ({"role": "user", "content": "Tea?"},), None, max_tokens=9)
    found = check_completion(request, Completion("r", "<think>tea, or", "stop"))
    assert found.error
    told = check_completion(request, Completion("r", "so.</think>Tea.", "stop"))
    assert told.value == "Tea."


@pytest.mark.parametrize(
    ("end", "thinks"),
    [
        ("<think>\n", True),
        ("assistant\n<|begin_of_thought|>", True),
        ("[THINK]", True),
        ("<think>\n\n</think>\n\n", False),
        ("</think>", False),
        ("<|im_start|>assistant\n", False),
        ("<|thinker|>says", False),
    ],
)
def test_an_opened_thought_at_the_end_of_a_prompt(end: str, thinks: bool) -> None:
    assert bool(OPEN_THOUGHTS.search(end)) is thinks


def test_options_that_change_answers_change_the_models_name() -> None:
    plain = name_configured_model("Qwen/Qwen3-8B", {})
    fast = name_configured_model("Qwen/Qwen3-8B", {"max_num_batched_tokens": 8192})
    fp8 = name_configured_model("Qwen/Qwen3-8B", {"quantization": "fp8"})
    assert plain == fast == "Qwen/Qwen3-8B"
    assert fp8.startswith("Qwen/Qwen3-8B+")
    assert fp8 != name_configured_model("Qwen/Qwen3-8B", {"quantization": "awq"})


def test_options_are_a_table_of_the_settings() -> None:
    given = {"model": {"vllm": {"quantization": "fp8", "hf_overrides": {"a": [1]}}}}
    assert make_settings(given).model.vllm["hf_overrides"] == {"a": [1]}


@pytest.mark.vllm
def test_vllm_says_which_options_it_has() -> None:
    pytest.importorskip("vllm")
    _check_options({"quantization": "fp8", "kv_cache_dtype": "fp8"})
    with pytest.raises(EngineUnavailable, match=r"no such option \(quantization"):
        _check_options({"quantisation": "fp8"})
    with pytest.raises(EngineUnavailable, match=r"set it by model\.context_window"):
        _check_options({"max_model_len": 4})


def say_ok(_: Request) -> str:
    return "ok"


def test_each_copy_is_asked_its_share() -> None:
    asked = [Request(f"r{n}", make_user_prompt("Tea?")) for n in range(5)]
    copies = [ScriptedLLM(say_ok) for _ in range(2)]
    told = [answer.id for answer in CopiedLLM(copies).complete(asked)]
    assert sorted(told) == ["r0", "r1", "r2", "r3", "r4"]
    assert [len(copy.asked) for copy in copies] == [3, 2]


def test_what_other_copies_answer_is_kept_when_one_is_away() -> None:
    asked = [Request(f"r{n}", make_user_prompt("Tea?")) for n in range(4)]
    gone = VLLMOffline("/nonexistent", LLMSettings(context_window=4096))
    answers = CopiedLLM([ScriptedLLM(say_ok), gone]).complete(asked)
    assert [next(answers).id, next(answers).id] == ["r0", "r2"]
    with pytest.raises(EngineUnavailable, match="/nonexistent"):
        next(answers)


def test_each_copy_sees_gpus_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def list_seen(copy: int | None, gpus: int) -> str | None:
        with show_gpus(copy, gpus):
            return os.environ.get("CUDA_VISIBLE_DEVICES")

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert [list_seen(copy, 2) for copy in (None, 0, 3)] == [None, "0,1", "6,7"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,7")
    assert [list_seen(copy, 1) for copy in (None, 0, 2)] == ["4,5,7", "4", "7"]
    with pytest.raises(EngineUnavailable, match="4 copies need 4 GPUs"):
        list_seen(3, 1)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "4,5,7"


def test_copies_have_the_models_own_name() -> None:
    one = make_vllm("Qwen/Qwen3-8B", LLMSettings())
    eight = make_vllm("Qwen/Qwen3-8B", LLMSettings(vllm={"data_parallel_size": 8}))
    assert isinstance(eight, CopiedLLM)
    assert (len(eight.copies), eight.gpus, eight.model) == (8, 8, one.model)
    with pytest.raises(UsageError, match="number of copies"):
        make_vllm("Qwen/Qwen3-8B", LLMSettings(vllm={"data_parallel_size": "all"}))
