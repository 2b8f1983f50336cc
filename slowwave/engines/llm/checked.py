"""A layer around an engine: every answer checked, cut ones asked for again, and exactly one completion a request.

What an engine may get wrong is settled here once for all of them: an answer to an id nobody asked about and a second
answer to the same id are dropped, no answer at all is asked for again. No engine that ships does any of these.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from slowwave.engines.llm.answers import check_completion
from slowwave.engines.llm.protocol import (
    LLM,
    Completion,
    EngineUnavailable,
    ErrorKind,
    Layer,
    Request,
    add_flag,
    count_prompt_tokens,
    index_by_id,
    make_failure,
)

GROWTH = 2
"""A cut answer is asked for again with this many times the budget."""
NO_ANSWER: frozenset[ErrorKind] = frozenset({"too_long", "poison", "rejected", "missing", "unavailable", "budget"})
"""Errors of a request to which there is no answer."""
GIVEN_UP = "not asked again"
"""The flag of a cut answer whose second attempt was not made, or got no answer."""


class CheckedLLM(Layer):
    """Completions of `inner`, checked. One that was cut, or left out, is asked again `cut_retries` times."""

    def __init__(self, inner: LLM, *, cut_retries: int = 1) -> None:
        super().__init__(inner)
        self.cut_retries = cut_retries

    def complete(self, requests: Sequence[Request]) -> Iterator[Completion]:
        """Yield one completion a request: its value, or the error found in it. Those to be asked again come last.

        Raises:
            EngineUnavailable: the engine is gone; cut answers that were to be asked for again are handed on before.
        """
        asked, again = index_by_id(requests), dict[str, Completion]()
        for attempt in range(self.cut_retries + 1):
            last = attempt == self.cut_retries
            spent, again = again, {}
            try:
                for completion in self._complete_once(list(asked.values())):
                    whole = _merge_attempts(completion, spent.pop(completion.id, None))
                    if last or not _is_retryable(whole):
                        yield whole
                    else:
                        again[whole.id] = whole
            except EngineUnavailable as error:
                yield from (_mark_not_retried(c, error.why) for c in (*again.values(), *spent.values()) if _is_cut(c))
                raise
            asked, hopeless = self._enlarge_budgets([asked[i] for i in again], again)
            yield from hopeless
            if not asked:
                return

    def _complete_once(self, requests: Sequence[Request]) -> Iterator[Completion]:
        """Yield exactly one checked completion a request."""
        waiting = index_by_id(requests)
        for completion in self.inner.complete(requests) if requests else ():
            request = waiting.pop(completion.id, None)
            if request is not None:
                yield check_completion(request, completion)
        for request in waiting.values():
            yield make_failure(request, "missing", "the engine gave no answer to this request", self)

    def _enlarge_budgets(
        self, requests: Sequence[Request], got: dict[str, Completion]
    ) -> tuple[dict[str, Request], list[Completion]]:
        """Return what to ask again, with a larger budget where the answer was cut; and what no larger budget fits."""
        larger: dict[str, Request] = {}
        hopeless: list[Completion] = []
        for request, used in zip(requests, count_prompt_tokens(self, requests), strict=True):
            budget = min(request.max_tokens * GROWTH, self.context_window - used)
            if got[request.id].error == "missing":
                larger[request.id] = request
            elif budget > request.max_tokens:
                larger[request.id] = replace(request, max_tokens=budget)
            else:
                hopeless.append(got[request.id])
        return larger, hopeless


def _is_cut(completion: Completion) -> bool:
    return completion.error == "cut"


def _is_retryable(completion: Completion) -> bool:
    """Return whether another attempt may do better: the answer was cut, or left out.

    Not where another attempt was in vain.
    """
    return completion.error == "missing" or (_is_cut(completion) and GIVEN_UP not in completion.flags)


def _mark_not_retried(completion: Completion, why: str) -> Completion:
    """Return a cut answer for good: it is paid for, and what it says before the cut may be of use."""
    reason = f"{completion.reason}; a larger budget was not to be had: {why}"
    return add_flag(replace(completion, reason=reason), GIVEN_UP)


def _merge_attempts(completion: Completion, before: Completion | None) -> Completion:
    """Return what two attempts at one request came to: the later one with the tokens of both, or the cut one where the
    later
    got no answer at all.
    """
    if before is None:
        return completion
    if _is_cut(before) and completion.error in NO_ANSWER:
        completion, before = _mark_not_retried(before, f"{completion.error}: {completion.reason}"), completion
    return add_flag(
        replace(
            completion,
            prompt_tokens=completion.prompt_tokens + before.prompt_tokens,
            completion_tokens=completion.completion_tokens + before.completion_tokens,
            prefix_tokens=completion.prefix_tokens + before.prefix_tokens,
        ),
        "retried",
    )
