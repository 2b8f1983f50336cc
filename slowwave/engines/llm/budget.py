"""The cost of a model: a layer that stops a night at its token budget, and estimates of tokens.

The night is stopped between requests and never inside one. A request is let through when its prompt and its whole
answer budget still fit; so the night never spends more than it was given (beyond the error of an estimate, where a
server counts no tokens), and what was not asked is pending in the next night. What costs more than a whole night's
budget is never let through, says so, and holds up nothing else.
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
    """Tokens of prompts and answers a night may spend, over all engines of its chain, and has spent."""

    limit: int
    spent: int = 0


class BudgetedLLM(Layer):
    """Answers from `inner` while the budget lasts; then completions with the error `budget`, and nothing is sent."""

    def __init__(self, inner: LLM, budget: Budget) -> None:
        super().__init__(inner)
        self.budget = budget

    def complete(self, requests: Sequence[Request]) -> Iterator[Completion]:
        """Yield one completion a request."""
        index_by_id(requests)
        budget = self.budget
        prompts = {r.id: tokens for r, tokens in zip(requests, count_prompt_tokens(self, requests), strict=True)}
        costs = {request.id: prompts[request.id] + request.max_tokens for request in requests}
        waiting = [request for request in requests if costs[request.id] <= budget.limit]
        # Rounds: what is sent together fits the budget if every answer takes its whole own.
        while waiting:
            left, fitting = budget.limit - budget.spent, 0
            while fitting < len(waiting) and costs[waiting[fitting].id] <= left:
                left -= costs[waiting[fitting].id]
                fitting += 1
            if not fitting:
                break
            for completion in self.inner.complete(waiting[:fitting]):
                budget.spent += self._count_spent(completion, prompts.get(completion.id, 0))
                yield completion
            waiting = waiting[fitting:]
        spent = f"{budget.spent:,} of the night's {budget.limit:,} tokens are spent; the next night goes on"
        for request in waiting:
            yield make_failure(request, "budget", spent, self)
        for request in requests:
            if costs[request.id] > budget.limit:
                why = f"needs {costs[request.id]:,} tokens, the night's budget is {budget.limit:,}"
                yield make_failure(request, "budget", f"{why}: raise it (--max-tokens)", self)

    def _count_spent(self, completion: Completion, prompt: int) -> int:
        """Return tokens to charge for an answer: those the engine counted, else an estimate."""
        if completion.error or completion.finish_reason == "error":
            return completion.prompt_tokens + completion.completion_tokens
        answer = completion.completion_tokens or self.count_tokens([completion.text])[0]
        return (completion.prompt_tokens or prompt) + answer


PIECES = re.compile(r"[A-Z]?[a-z]+|[A-Z]{1,2}|\d|[^\S\n]*\n\s*|[^\S\n]{2,}|[^\x00-\x7f]|[^\w\s]+|_")
LETTERS_A_TOKEN = 5
"""Tokens of a word, a hump of camel case or a run of random letters: one for each five letters begun."""


def estimate_tokens(texts: Sequence[str]) -> list[int]:
    """Return tokens of each text, by kinds of characters."""
    return [sum(map(_estimate_piece_tokens, PIECES.findall(text))) for text in texts]


def _estimate_piece_tokens(piece: str) -> int:
    """Return tokens of one piece: a word, a digit, blanks, signs, or a character beyond ASCII."""
    if piece[0].isascii() and piece[0].isalpha():
        return -(-len(piece) // LETTERS_A_TOKEN)
    return 1 if piece[0].isspace() or len(piece) == 1 else -(-len(piece) // 2)
