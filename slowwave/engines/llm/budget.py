"""The cost of a model: a layer that stops a night at its token budget, and estimates of tokens.

The night stops between requests, never inside one. A request is sent if its prompt and its maximal answer still fit the
budget. So the night never spends more than its budget, except for the error of an estimate if a server reports no
tokens. Requests that were not sent stay pending for the next night. A request that costs more than a whole budget is
never sent: it fails with a message, and does not delay the others.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from slowwave.engines.llm.protocol import (
    LLM,
    Completion,
    Layer,
    Request,
    count_prompt_tokens,
    index_by_id,
    make_failure,
)


@dataclass(slots=True)
class Budget:
    """The limit on a night's tokens (prompts and answers, all engines together), and the tokens spent so far."""

    limit: int
    spent: int = 0


class BudgetedLLM(Layer):
    """Sends requests to `inner` while the budget lasts; then yields completions with the error `budget`."""

    def __init__(self, inner: LLM, budget: Budget) -> None:
        super().__init__(inner)
        self.budget = budget

    def complete(self, requests: Sequence[Request]) -> Iterator[Completion]:
        """Yield one completion a request."""
        index_by_id(requests)
        budget = self.budget
        prompts = {
            r.id: tokens
            for r, tokens in zip(
                requests, count_prompt_tokens(self, requests), strict=True
            )
        }
        costs = {
            request.id: prompts[request.id] + request.max_tokens for request in requests
        }
        waiting = [request for request in requests if costs[request.id] <= budget.limit]
        # in rounds: the requests of one fit the budget even if every answer has its maximal length
        while waiting:
            fitting = _count_fitting(
                [costs[request.id] for request in waiting], budget.limit - budget.spent
            )
            if not fitting:
                break
            for completion in self.inner.complete(waiting[:fitting]):
                budget.spent += self._count_spent(
                    completion, prompts.get(completion.id, 0)
                )
                yield completion
            waiting = waiting[fitting:]
        spent = f"{budget.spent:,} of the night's {budget.limit:,} tokens are spent; the next night goes on"
        for request in waiting:
            yield make_failure(request=request, error="budget", reason=spent, llm=self)
        for request in requests:
            if costs[request.id] > budget.limit:
                why = f"needs {costs[request.id]:,} tokens, the night's budget is {budget.limit:,}"
                yield make_failure(
                    request=request,
                    error="budget",
                    reason=f"{why}: raise it (--max-tokens)",
                    llm=self,
                )

    def _count_spent(self, completion: Completion, prompt: int) -> int:
        """Return the tokens to charge for an answer: the engine's count, else an estimate."""
        if completion.error or completion.finish_reason == "error":
            return completion.prompt_tokens + completion.completion_tokens
        answer = completion.completion_tokens or self.count_tokens([completion.text])[0]
        return (completion.prompt_tokens or prompt) + answer


def _count_fitting(costs: Sequence[int], tokens: int) -> int:
    """Return the number of first requests that fit into the tokens together."""
    for number, cost in enumerate(costs):
        if cost > tokens:
            return number
        tokens -= cost
    return len(costs)


PIECES = re.compile(
    r"[A-Z]?[a-z]+|[A-Z]{1,2}|\d|[^\S\n]*\n\s*|[^\S\n]{2,}|[^\x00-\x7f]|[^\w\s]+|_"
)
LETTERS_A_TOKEN = 5
"""Letters a token, rounded up, of a word, a part of a camel-case name or a run of random letters."""


def estimate_tokens(texts: Sequence[str]) -> list[int]:
    """Return an estimate of the tokens of each text, by kinds of characters."""
    return [sum(map(_estimate_piece_tokens, PIECES.findall(text))) for text in texts]


def _estimate_piece_tokens(piece: str) -> int:
    """Return the tokens of one piece: a word, a digit, blanks, signs, or a character beyond ASCII."""
    if piece[0].isascii() and piece[0].isalpha():
        return -(-len(piece) // LETTERS_A_TOKEN)
    return 1 if piece[0].isspace() or len(piece) == 1 else -(-len(piece) // 2)
