"""A layer that stops a night at its token budget, between requests and never inside one.

A request is let through when its prompt and its whole answer budget still fit; so the night never spends more than it
was given (beyond the error of an estimate, where a server counts no tokens), and what was not asked is pending in the
next night. What costs more than a whole night's budget is never let through, says so, and holds up nothing else.
"""

from collections.abc import Iterator, Mapping, Sequence
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
        prompts = {r.id: used for r, used in zip(requests, prompt_tokens(self, requests), strict=True)}
        payable = [r for r in requests if prompts[r.id] + r.max_tokens <= self.budget.limit]
        costs = [prompts[request.id] + request.max_tokens for request in payable]
        start = 0
        while start < len(payable):
            end = self._fitting(costs, start)
            if end == start:
                break
            for completion in self.inner.complete(payable[start:end]):
                self.budget.spent += self._cost(completion, prompts)
                yield completion
            start = end
        for request in payable[start:]:
            yield failed(request, "budget", self._spent_message(), self)
        for request in requests:
            cost = prompts[request.id] + request.max_tokens
            if cost > self.budget.limit:
                yield failed(request, "budget", self._dear_message(cost), self)

    def _cost(self, completion: Completion, prompts: Mapping[str, int]) -> int:
        """Tokens to charge for an answer: those the engine counted, else the estimate of what it was given and gave."""
        if completion.error or completion.finish_reason == "error":
            return completion.prompt_tokens + completion.completion_tokens
        prompt = completion.prompt_tokens or prompts.get(completion.id, 0)
        return prompt + (completion.completion_tokens or self.count_tokens([completion.text])[0])

    def _fitting(self, costs: Sequence[int], start: int) -> int:
        """The end of the longest run of requests from `start` whose costs fit what is left."""
        left, end = self.budget.left, start
        while end < len(costs) and costs[end] <= left:
            left -= costs[end]
            end += 1
        return end

    def _dear_message(self, cost: int) -> str:
        return f"needs {cost:,} tokens, the night's budget is {self.budget.limit:,}: raise it (--max-tokens)"

    def _spent_message(self) -> str:
        return f"{self.budget.spent:,} of the night's {self.budget.limit:,} tokens are spent; the next night goes on"
