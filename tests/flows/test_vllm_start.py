"""Nights whose in-process engine can't be started: it is tried once, and what the settings name next replaces it."""

from collections.abc import Sequence
from pathlib import Path
from traceback import format_exception_only
from typing import Any

import pytest

from slowwave.engines.llm import select
from slowwave.engines.llm.protocol import Request
from slowwave.engines.llm.vllm import VLLMOffline
from slowwave.flows.nightly import run_night
from slowwave.flows.parts.report import RunReport
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import CLAIMS, SUMMARIES
from slowwave.store import Store
from tests.killed_nights import SAMPLES


class Unstartable(VLLMOffline):
    """The real class with its tokenizer and the start of its engine replaced; it leaves the GPU when it is asked to."""

    starts = 0
    error: BaseException = TypeError("unexpected keyword 'performance_mode'")
    context_window = 8_192

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(text) // 4 for text in texts]

    def _count_prompt_tokens(self, requests: Sequence[Request]) -> Any:
        return {request.id: 9 for request in requests}, []

    def _start_engine(self) -> Any:
        type(self).starts += 1
        raise self.error

    def free_gpu(self) -> None:
        self.close()


def night(root: Path, llm: str) -> RunReport:
    return run_night(
        [SAMPLES / "claude-code"],
        Settings(store=root, encoder="hash-384", llm=llm, gists="llm"),
    )


@pytest.mark.parametrize(
    "error",
    [
        TypeError("an unexpected keyword"),
        KeyError("qwen9"),
        AssertionError(),
        Exception("vLLM's own"),
        MemoryError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_engine_that_does_not_start_is_started_once_and_the_next_one_answers(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(select, "VLLMOffline", Unstartable)
    monkeypatch.setattr(Unstartable, "starts", 0)
    monkeypatch.setattr(Unstartable, "error", error)
    report = night(tmp_path, "vllm:some/model > scripted:tests.llm_scripts:faithful")
    assert (Unstartable.starts, report.failures) == (1, [])
    notes = [
        note for step in report.steps for note in step.notes if "some/model" in note
    ]
    assert notes == [
        f"vllm:some/model is unavailable: {format_exception_only(error)[-1].strip()}"
    ]
    store = Store.open(tmp_path)
    assert store.count(CLAIMS) > 0
    assert store.count(SUMMARIES) > 0


def test_without_another_engine_the_night_says_that_its_model_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(select, "VLLMOffline", Unstartable)
    monkeypatch.setattr(Unstartable, "starts", 0)
    report = night(tmp_path, "vllm:some/model")
    assert Unstartable.starts == 1
    assert any(
        "some/model is unavailable: TypeError: unexpected keyword" in failure
        for failure in report.failures
    )


def test_ctrl_c_during_the_start_ends_the_night(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(select, "VLLMOffline", Unstartable)
    monkeypatch.setattr(Unstartable, "error", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        night(tmp_path, "vllm:some/model")
