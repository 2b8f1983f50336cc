"""What a step's LLM calls cost: requests, tokens, seconds, answers from the cache and errors, by model."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from slowwave.engines.layer import Layer
from slowwave.engines.llm import LLM, Completion, Request


@dataclass(slots=True)
class Usage:
    """The cost of one model's answers. Tokens are those that were paid: an answer from the cache has none."""

    model: str
    engine: str
    requests: int = 0
    cached: int = 0
    """Requests that the completions cache answered."""
    prompt_tokens: int = 0
    prefix_tokens: int = 0
    """Of the prompts' tokens, those found in the engine's prefix cache."""
    completion_tokens: int = 0
    seconds: float = 0.0
    """Spent waiting for this model's answers."""
    errors: Counter[str] = field(default_factory=Counter)

    def add(self, completion: Completion, seconds: float) -> None:
        """Count one completion that took `seconds` to come."""
        self.requests += 1
        self.cached += completion.cached
        self.seconds += seconds
        if completion.error:
            self.errors[completion.error] += 1
        if not completion.cached:
            self.prompt_tokens += completion.prompt_tokens
            self.prefix_tokens += completion.prefix_tokens
            self.completion_tokens += completion.completion_tokens


class MeteredLLM(Layer):
    """Passes everything on, and counts it; the outermost layer. `taken` reads the meter of a step and resets it."""

    def __init__(self, inner: LLM) -> None:
        super().__init__(inner)
        self._usage: dict[str, Usage] = {}

    def complete(self, requests: Sequence[Request]) -> Iterator[Completion]:
        """One completion a request, as `inner` gives them."""
        began = time.perf_counter()
        for completion in self.inner.complete(requests):
            model = completion.model or self.model
            usage = self._usage.setdefault(model, Usage(model, completion.engine or self.name))
            usage.add(completion, time.perf_counter() - began)
            yield completion
            began = time.perf_counter()  # the time the caller takes is its own

    def taken(self) -> list[Usage]:
        """What was counted since the last time, by model."""
        usage, self._usage = list(self._usage.values()), {}
        return usage
