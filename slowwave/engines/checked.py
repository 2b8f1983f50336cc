"""A layer around an engine: every answer checked, cut ones asked for again, and exactly one completion a request.

What an engine may get wrong is settled here once for all of them: an answer to an id nobody asked about, a second
answer to the same id, no answer at all. What did not fit is counted in `strays`.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from slowwave.engines.answers import checked
from slowwave.engines.layer import Layer
from slowwave.engines.llm import LLM, Completion, Request, by_id, failed, flagged, prompt_tokens

GROWTH = 2
"""A cut answer is asked for again with this many times the budget."""


class CheckedLLM(Layer):
    """Completions of `inner`, checked. One that was cut, or left out, is asked again `cut_retries` times."""

    def __init__(self, inner: LLM, *, cut_retries: int = 1) -> None:
        super().__init__(inner)
        self.cut_retries = cut_retries
        self.strays: Counter[str] = Counter()
        """Answers that were dropped: to an `unknown` id, or `repeated`."""

    def complete(self, requests: Sequence[Request]) -> Iterator[Completion]:
        """One completion a request: its value, or the error found in it. Those to be asked again come last."""
        asked, again = by_id(requests), dict[str, Completion]()
        for attempt in range(self.cut_retries + 1):
            last = attempt == self.cut_retries
            spent, again = again, {}
            for completion in self._round(list(asked.values())):
                whole = _with_spent(completion, spent.get(completion.id))
                if last or whole.error not in ("cut", "missing"):
                    yield whole
                else:
                    again[whole.id] = whole
            asked, hopeless = self._larger([asked[i] for i in again], again)
            yield from hopeless
            if not asked:
                return

    def _round(self, requests: Sequence[Request]) -> Iterator[Completion]:
        """Exactly one checked completion a request."""
        waiting = by_id(requests)
        known = frozenset(waiting)
        for completion in self.inner.complete(requests) if requests else ():
            request = waiting.pop(completion.id, None)
            if request is None:
                self.strays["repeated" if completion.id in known else "unknown"] += 1
            else:
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


def _with_spent(completion: Completion, before: Completion | None) -> Completion:
    """The completion, with the tokens that an earlier attempt spent on the same request added to its own."""
    if before is None:
        return completion
    return flagged(
        replace(
            completion,
            prompt_tokens=completion.prompt_tokens + before.prompt_tokens,
            completion_tokens=completion.completion_tokens + before.completion_tokens,
            prefix_tokens=completion.prefix_tokens + before.prefix_tokens,
        ),
        "retried",
    )
