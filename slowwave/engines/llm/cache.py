"""The completions cache: an answer is kept by the hash of what was asked, and no prompt is paid for twice.

Greedy decoding on a GPU is not the same from batch to batch; a rerun gives identical tables because the answers come
from here. What is kept is the text as generated; good answers are checked again on the way out, so the checks may grow
stricter. Errors that asking again would repeat are kept too (`KEPT`), the others are not.

What a crash may cost: the answers that came since the last commit. One is made when an answer comes and the last commit
is a second old, or 200 answers are in hand; so an engine slower than an answer a second loses at most the one in hand
and those that came within a second of the last commit, while it waited for the next.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Protocol

import orjson

from slowwave.engines.llm.checks import check_completion
from slowwave.engines.llm.protocol import (
    KEPT,
    LLM,
    Completion,
    EngineUnavailable,
    Layer,
    Request,
    Sampling,
    index_by_id,
)
from slowwave.schemas.ids import compute_content_id

BATCH = 200
"""Answers kept together, at most. A commit of 1 to 200 answers takes 14 to 40 ms (2 cores, up to 60,000 in the table):
in a burst, as of in-process vLLM whose answers come 2,000 at once, smaller batches cost and save nothing."""
BATCH_SECONDS = 1.0
"""An answer that comes this long after the last commit is kept at once, with all in hand: at most 4% of the time."""


class CompletionCache(Protocol):
    """Where answers are kept; the store's is a table."""

    def known(self, ids: Sequence[str]) -> Mapping[str, Completion]:
        """Return the kept answers among `ids`, by id of the completion (not of the request)."""
        ...

    def keep(self, completions: Mapping[str, Completion]) -> None:
        """Keep these answers, by id of the completion; they are durable when this returns."""
        ...


class CachedLLM(Layer):
    """Answers from `cache` where it has them; the rest from `inner`, kept before they are handed on."""

    def __init__(self, inner: LLM, cache: CompletionCache, *, batch: int = BATCH) -> None:
        super().__init__(inner)
        self.cache, self.batch = cache, batch

    def complete(self, requests: Sequence[Request]) -> Iterator[Completion]:
        """Yield kept answers first, then new ones. Equal prompts are asked once and answered to each who asked."""
        index_by_id(requests)
        sharers: dict[str, list[Request]] = {}
        for request in requests:
            sharers.setdefault(compute_completion_id(request, self.model, self.sampling), []).append(request)
        completions = self.cache.known(list(sharers))
        misses: dict[str, str] = {}
        for key, (first, *others) in sharers.items():
            if key in completions and _is_cacheable(completions[key]):
                yield from (reuse_completion(request, completions[key]) for request in (first, *others))
            else:
                misses[first.id] = key
        for completion in self._complete_and_cache([r for r in requests if r.id in misses], misses):
            yield completion
            _, *others = sharers[misses[completion.id]]
            yield from (reuse_completion(other, completion) for other in others)

    def _complete_and_cache(self, misses: Sequence[Request], keys: Mapping[str, str]) -> Iterator[Completion]:
        """Yield the engine's answers, a batch at a time, each batch kept before it is handed on."""
        batch: list[Completion] = []
        began, gone = time.monotonic(), None
        try:
            for completion in self.inner.complete(misses) if misses else ():
                batch.append(completion)
                if len(batch) >= self.batch or time.monotonic() - began > BATCH_SECONDS:
                    self._keep(batch, keys)
                    yield from batch
                    batch, began = [], time.monotonic()
        except EngineUnavailable as error:
            gone = error
        finally:  # what was answered before the engine gave up is paid for too
            self._keep(batch, keys)
        yield from batch
        if gone:
            raise gone

    def _keep(self, batch: Sequence[Completion], keys: Mapping[str, str]) -> None:
        lasting = {keys[completion.id]: completion for completion in batch if _is_cacheable(completion)}
        if lasting:
            self.cache.keep(lasting)


def compute_completion_id(request: Request, model: str, sampling: Sampling) -> str:
    """Return the hash of everything an answer depends on: model, sampling, messages, schema and token budget."""
    question = {
        "messages": [[message["role"], message["content"]] for message in request.messages],
        "schema": request.schema,
        "max_tokens": request.max_tokens,
        "sampling": asdict(sampling),
    }
    return compute_content_id("completion", model, orjson.dumps(question).decode())


def reuse_completion(request: Request, completion: Completion) -> Completion:
    """Return a kept answer as the answer to `request`: its own tokens for the record, and nothing paid. A good one is
    checked anew, an error stays.
    """
    return check_completion(request, replace(completion, id=request.id, value=None, cached=True))


def _is_cacheable(completion: Completion) -> bool:
    """Return whether asking again would give this again: an answer, or an error that lasts."""
    return completion.error is None or completion.error in KEPT
