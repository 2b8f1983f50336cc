"""What slowwave adds to vLLM: tokens a second through its engine against a bare `LLM.chat` on the same prompts.

    python -m bench.llm_engine [--model FOLDER] [--prompts 16] [--tokens 48] [--rounds 4] [--json]

One engine, one run, turn about: bare, slowwave (checked and kept in the completions cache), and bare without a schema,
which says what constrained decoding costs. The prefix cache is emptied before each turn. Needs an environment with
vLLM; without --model the 0.5B model of `bench/tiny_models.py`.
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bench.tiny_models import model_folder
from schemas.llm_settings import LLMSettings
from slowwave.engines.checked import CheckedLLM
from slowwave.engines.completions import CachedLLM, DictCache
from slowwave.engines.llm import Request
from slowwave.engines.scripted import user
from slowwave.engines.vllm_offline import VLLMOffline

CLAIMS = {
    "type": "object",
    "properties": {
        "claims": {
            "type": "array",
            "minItems": 2,
            "maxItems": 3,
            "items": {
                "type": "object",
                "properties": {
                    "category": {"enum": ["decision", "pattern", "gotcha", "convention", "context"]},
                    "summary": {"type": "string", "maxLength": 120},
                },
                "required": ["category", "summary"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["claims"],
    "additionalProperties": False,
}
GUIDE = "You read engineering notes and write down what a colleague must know, as JSON with a list of claims. " + (
    "A decision settles a question; a pattern is a way of doing things; a gotcha is a trap. " * 10
)
NOTE = "Note {0}: service {0} moved its queue from redis to sqlite on day {1} because redis lost writes on restart."


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


def requests(number: int, tokens: int) -> list[Request]:
    """Prompts with a common beginning."""
    return [Request(str(i), user(NOTE.format(i, i % 28 + 1), system=GUIDE), CLAIMS, tokens) for i in range(number)]


def bare(engine: VLLMOffline, asked: Sequence[Request]) -> Turn:
    """`LLM.chat`, and nothing else."""
    messages: Any = [list(request.messages) for request in asked]
    params = [engine._params(request) for request in asked]
    for each in params:
        each.repetition_detection = None
    began = time.perf_counter()
    outputs = engine._open().chat(messages, params, use_tqdm=False)
    seconds = time.perf_counter() - began
    return Turn(
        seconds,
        sum(len(out.prompt_token_ids or ()) for out in outputs),
        sum(out.num_cached_tokens or 0 for out in outputs),
        sum(len(out.outputs[0].token_ids) for out in outputs),
    )


def through_slowwave(engine: VLLMOffline, asked: Sequence[Request]) -> Turn:
    """The same through the engine, its checks and an empty completions cache."""
    began = time.perf_counter()
    answers = list(CachedLLM(CheckedLLM(engine, cut_retries=0), DictCache()).complete(asked))
    seconds = time.perf_counter() - began
    return Turn(
        seconds,
        sum(answer.prompt_tokens for answer in answers),
        sum(answer.prefix_tokens for answer in answers),
        sum(answer.completion_tokens for answer in answers),
    )


def without_schema(engine: VLLMOffline, asked: Sequence[Request]) -> Turn:
    """`LLM.chat` with unconstrained answers."""
    return bare(engine, [replace(request, schema=None) for request in asked])


WAYS: dict[str, Callable[[VLLMOffline, Sequence[Request]], Turn]] = {
    "bare LLM.chat": bare,
    "slowwave": through_slowwave,
    "bare, no schema": without_schema,
}


def measured(engine: VLLMOffline, asked: Sequence[Request], rounds: int) -> dict[str, list[Turn]]:
    """Turns of each way, taken in turn, after one that nobody counts."""
    bare(engine, asked[:2])
    turns: dict[str, list[Turn]] = {way: [] for way in WAYS}
    for number in range(rounds):
        for way, run in list(WAYS.items())[:: -1 if number % 2 else 1]:
            engine._open().reset_prefix_cache()
            turns[way].append(run(engine, asked))
    return turns


def table(turns: dict[str, list[Turn]]) -> list[dict[str, Any]]:
    """A row a way: the speed of its best turn, and what it is of the bare one's; other work only ever slows a turn."""
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a folder or hub name (default: the 0.5B model from packages)")
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=48, help="answer budget")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    engine = VLLMOffline(args.model or str(model_folder()), LLMSettings(context_window=2048))
    try:
        rows = table(measured(engine, requests(args.prompts, args.tokens), args.rounds))
    finally:
        engine.close()
    if args.json:
        print(json.dumps(rows, indent=1))
        return
    for row in rows:
        print("  ".join(f"{name}: {value}" for name, value in row.items()))


if __name__ == "__main__":
    main()
