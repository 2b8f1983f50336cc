"""A layer around an engine: every answer checked, cut ones asked for again, and exactly one completion a request.

What an engine may get wrong is settled here once for all of them: an answer to an id nobody asked about and a second
answer to the same id are dropped, no answer at all is asked for again. No engine that ships does any of these.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from slowwave.engines.llm.answers import checked
from slowwave.engines.llm.protocol import (
    LLM,
    Completion,
    EngineUnavailable,
    ErrorKind,
    Layer,
    Request,
    by_id,
    failed,
    flagged,
    prompt_tokens,
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
        """One completion a request: its value, or the error found in it. Those to be asked again come last.

        Raises:
            EngineUnavailable: the engine is gone; cut answers that were to be asked for again are handed on before.
        """
        asked, again = by_id(requests), dict[str, Completion]()
        for attempt in range(self.cut_retries + 1):
            last = attempt == self.cut_retries
            spent, again = again, {}
            try:
                for completion in self._round(list(asked.values())):
                    whole = _with_former(completion, spent.pop(completion.id, None))
                    if last or not _worth_asking(whole):
                        yield whole
                    else:
                        again[whole.id] = whole
            except EngineUnavailable as error:
                yield from (_not_asked_again(c, error.why) for c in (*again.values(), *spent.values()) if _is_cut(c))
                raise
            asked, hopeless = self._larger([asked[i] for i in again], again)
            yield from hopeless
            if not asked:
                return

    def _round(self, requests: Sequence[Request]) -> Iterator[Completion]:
        """Exactly one checked completion a request."""
        waiting = by_id(requests)
        for completion in self.inner.complete(requests) if requests else ():
            request = waiting.pop(completion.id, None)
            if request is not None:
                yield checked(request, completion)
        for request in waiting.values():
            yield failed(request, "missing", "the engine gave no answer to this request", self)

    def _larger(
        self, requests: Sequence[Request], got: dict[str, Completion]
    ) -> tuple[dict[str, Request], list[Completion]]:
        """What to ask again, with a larger budget where the answer was cut; and what no larger budget fits."""
        larger: dict[str, Request] = {}
        hopeless: list[Completion] = []
        for request, used in zip(requests, prompt_tokens(self, requests), strict=True):
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


def _worth_asking(completion: Completion) -> bool:
    """Whether another attempt may do better: the answer was cut, or left out; not where another attempt was in vain."""
    return completion.error == "missing" or (_is_cut(completion) and GIVEN_UP not in completion.flags)


def _not_asked_again(completion: Completion, why: str) -> Completion:
    """A cut answer for good: it is paid for, and what it says before the cut may be of use."""
    reason = f"{completion.reason}; a larger budget was not to be had: {why}"
    return flagged(replace(completion, reason=reason), GIVEN_UP)


def _with_former(completion: Completion, before: Completion | None) -> Completion:
    """What two attempts at one request came to: the later one with the tokens of both, or the cut one where the later
    got no answer at all.
    """
    if before is None:
        return completion
    if _is_cut(before) and completion.error in NO_ANSWER:
        completion, before = _not_asked_again(before, f"{completion.error}: {completion.reason}"), completion
    return flagged(
        replace(
            completion,
            prompt_tokens=completion.prompt_tokens + before.prompt_tokens,
            completion_tokens=completion.completion_tokens + before.completion_tokens,
            prefix_tokens=completion.prefix_tokens + before.prefix_tokens,
        ),
        "retried",
    )
