"""What a model thought is cut off its answer; and options of vLLM's engine are part of a model's name."""

import pytest

from slowwave.engines.llm.checks import check_completion, strip_thinking
from slowwave.engines.llm.protocol import Completion, EngineUnavailable, Request
from slowwave.engines.llm.vllm import _check_options, name_configured_model
from slowwave.schemas.settings import make_settings


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
