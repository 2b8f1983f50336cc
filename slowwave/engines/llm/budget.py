"""What a model costs: a layer that stops a night at its token budget, one that counts, and estimates of tokens.

The night is stopped between requests and never inside one.

A request is let through when its prompt and its whole answer budget still fit; so the night never spends more than it
was given (beyond the error of an estimate, where a server counts no tokens), and what was not asked is pending in the
next night. What costs more than a whole night's budget is never let through, says so, and holds up nothing else.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from slowwave.engines.llm.protocol import (
    LLM,
    Completion,
    EngineUnavailable,
    Layer,
    Request,
    count_prompt_tokens,
    index_by_id,
    make_failure,
)


@dataclass(slots=True)
class Budget:
    """Tokens of prompts and answers a night may spend, over all engines of its chain, and has spent."""

    limit: int
    spent: int = 0

    @property
    def left(self) -> int:
        """Tokens that may still be spent."""
        return max(0, self.limit - self.spent)


class BudgetedLLM(Layer):
    """Answers from `inner` while the budget lasts; then completions with the error `budget`, and nothing is sent."""

    def __init__(self, inner: LLM, budget: Budget) -> None:
        super().__init__(inner)
        self.budget = budget

    def complete(self, requests: Sequence[Request]) -> Iterator[Completion]:
        """Yield one completion a request.

        What is let through at once fits the budget if every answer takes its whole own.
        """
        index_by_id(requests)
        prompts = {r.id: used for r, used in zip(requests, count_prompt_tokens(self, requests), strict=True)}
        payable = [r for r in requests if prompts[r.id] + r.max_tokens <= self.budget.limit]
        costs = [prompts[request.id] + request.max_tokens for request in payable]
        start = 0
        while start < len(payable):
            end = self._find_fitting_end(costs, start)
            if end == start:
                break
            for completion in self.inner.complete(payable[start:end]):
                self.budget.spent += self._compute_cost(completion, prompts)
                yield completion
            start = end
        for request in payable[start:]:
            yield make_failure(request, "budget", self._format_exhausted(), self)
        for request in requests:
            cost = prompts[request.id] + request.max_tokens
            if cost > self.budget.limit:
                yield make_failure(request, "budget", self._format_over_limit(cost), self)

    def _compute_cost(self, completion: Completion, prompts: Mapping[str, int]) -> int:
        """Return tokens to charge for an answer: those the engine counted, else the estimate of what it was given and
        gave.
        """
        if completion.error or completion.finish_reason == "error":
            return completion.prompt_tokens + completion.completion_tokens
        prompt = completion.prompt_tokens or prompts.get(completion.id, 0)
        return prompt + (completion.completion_tokens or self.count_tokens([completion.text])[0])

    def _find_fitting_end(self, costs: Sequence[int], start: int) -> int:
        """Return the end of the longest run of requests from `start` whose costs fit what is left."""
        left, end = self.budget.left, start
        while end < len(costs) and costs[end] <= left:
            left -= costs[end]
            end += 1
        return end

    def _format_over_limit(self, cost: int) -> str:
        return f"needs {cost:,} tokens, the night's budget is {self.budget.limit:,}: raise it (--max-tokens)"

    def _format_exhausted(self) -> str:
        return f"{self.budget.spent:,} of the night's {self.budget.limit:,} tokens are spent; the next night goes on"


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
    """Passes everything on, and counts it; the outermost layer. `take_usage` reads the meter of a step and resets
    it.
    """

    def __init__(self, inner: LLM) -> None:
        super().__init__(inner)
        self._usage: dict[str, Usage] = {}

    def complete(self, requests: Sequence[Request]) -> Iterator[Completion]:
        """Yield one completion a request, as `inner` gives them."""
        began = time.perf_counter()
        for completion in self.inner.complete(requests):
            model = completion.model or self.model
            usage = self._usage.setdefault(model, Usage(model, completion.engine or self.name))
            usage.add(completion, time.perf_counter() - began)
            yield completion
            began = time.perf_counter()  # the time the caller takes is its own

    def take_usage(self) -> list[Usage]:
        """Return what was counted since the last time, by model."""
        usage, self._usage = list(self._usage.values()), {}
        return usage


TokenCounter = Callable[[Sequence[str]], list[int]]

PIECES = re.compile(r"[A-Z]?[a-z]+|[A-Z]{1,2}|\d|[^\S\n]*\n\s*|[^\S\n]{2,}|[^\x00-\x7f]|[^\w\s]+|_")
LETTERS_A_TOKEN = 5
"""Tokens of a word, a hump of camel case or a run of random letters: one for each five letters begun."""


def load_token_counter(folder: str | None) -> TokenCounter:
    """Return counts by the `tokenizer.json` in `folder`; without a folder, by estimate.

    Raises:
        EngineUnavailable: there is no tokenizer in that folder.
    """
    if folder is None:
        return estimate_tokens
    file = Path(folder).expanduser() / "tokenizer.json"
    if not file.is_file():
        raise EngineUnavailable("tokenizer", f"no tokenizer.json in {folder}; name a model's folder, or leave it unset")
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.no_truncation()
    return lambda texts: [len(read.ids) for read in tokenizer.encode_batch(list(texts), add_special_tokens=False)]


def estimate_tokens(texts: Sequence[str]) -> list[int]:
    """Return tokens of each text, by kinds of characters."""
    return [sum(map(_estimate_piece_tokens, PIECES.findall(text))) for text in texts]


def _estimate_piece_tokens(piece: str) -> int:
    """Return tokens of one piece: a word, a digit, blanks, signs, or a character beyond ASCII."""
    if piece[0].isascii() and piece[0].isalpha():
        return -(-len(piece) // LETTERS_A_TOKEN)
    if piece[0].isspace() or len(piece) == 1:
        return 1
    return -(-len(piece) // 2)
