"""A layer that stops a night at its token budget, between requests and never inside one.

A request is let through when its prompt and its whole answer budget still fit; so the night never spends more than it
was given, and what was not asked is pending in the next night.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from slowwave.engines.layer import Layer
from slowwave.engines.llm import LLM, Completion, Request, by_id, failed, prompt_tokens


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
        """One completion a request. What is let through at once fits the budget if every answer takes its whole own."""
        by_id(requests)
        costs = [used + r.max_tokens for r, used in zip(requests, prompt_tokens(self, requests), strict=True)]
        start = 0
        while start < len(requests):
            end = self._fitting(costs, start)
            if end == start:
                break
            for completion in self.inner.complete(requests[start:end]):
                self.budget.spent += completion.prompt_tokens + completion.completion_tokens
                yield completion
            start = end
        for request in requests[start:]:
            yield failed(request, "budget", self._spent_message(), self)

    def _fitting(self, costs: Sequence[int], start: int) -> int:
        """The end of the longest run of requests from `start` whose costs fit what is left."""
        left, end = self.budget.left, start
        while end < len(costs) and costs[end] <= left:
            left -= costs[end]
            end += 1
        return end

    def _spent_message(self) -> str:
        return f"{self.budget.spent:,} of the night's {self.budget.limit:,} tokens are spent; the next night goes on"
