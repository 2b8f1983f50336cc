"""The completions cache: each answer is stored by the hash of its request, so no prompt is paid for twice.

Greedy decoding on a GPU differs from batch to batch. A rerun gives identical tables because it reads the answers from
the cache. The cache stores the generated text; good answers are checked again when they are read, so checks may become
stricter. Errors that would occur again are stored too (`KEPT`), others are not.

A crash loses the answers since the last commit. A commit is made when an answer arrives and the last commit is a second
old, or when 200 answers wait. So an engine slower than one answer a second loses at most the current answer, and those
that arrived within a second of the last commit.
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
"""Most answers in a commit. A commit of 1 to 200 answers takes 14 to 40 ms (2 cores, up to 60,000 in the table). In a
burst smaller batches take longer and save nothing."""
BATCH_SECONDS = 1.0
"""An answer that arrives this long after the last commit is committed at once: that takes at most 4% of the time."""


class CompletionCache(Protocol):
    """Storage of answers; the store keeps them in a table."""

    def known(self, ids: Sequence[str]) -> Mapping[str, Completion]:
        """Return the stored answers among `ids`, by id of the completion (not of the request)."""
        ...

    def keep(self, completions: Mapping[str, Completion]) -> None:
        """Store answers, by id of the completion; they are durable when this returns."""
        ...


class CachedLLM(Layer):
    """Answers requests from `cache`, and the others from `inner`; new answers are stored before they are yielded."""

    def __init__(
        self,
        inner: LLM,
        cache: CompletionCache,
        *,
        batch: int = BATCH,
    ) -> None:
        super().__init__(inner)
        self.cache = cache
        self.batch = batch

    def complete(self, requests: Sequence[Request]) -> Iterator[Completion]:
        """Yield stored answers first, then new ones. Equal requests are sent once, and each gets the answer."""
        index_by_id(requests)
        sharers: dict[str, list[Request]] = {}
        for request in requests:
            sharers.setdefault(
                compute_completion_id(request, self.model, self.sampling), []
            ).append(request)
        completions = self.cache.known(list(sharers))
        misses: dict[str, str] = {}
        for key, (first, *others) in sharers.items():
            if key in completions and _is_cacheable(completions[key]):
                yield from (
                    reuse_completion(request, completions[key])
                    for request in (first, *others)
                )
            else:
                misses[first.id] = key
        for completion in self._complete_and_cache(
            [r for r in requests if r.id in misses], misses
        ):
            yield completion
            _, *others = sharers[misses[completion.id]]
            yield from (reuse_completion(other, completion) for other in others)

    def _complete_and_cache(
        self, misses: Sequence[Request], keys: Mapping[str, str]
    ) -> Iterator[Completion]:
        """Yield the engine's answers in batches; each batch is stored before it is yielded."""
        batch: list[Completion] = []
        began = time.monotonic()
        gone = None
        try:
            for completion in self.inner.complete(misses) if misses else ():
                batch.append(completion)
                if len(batch) >= self.batch or time.monotonic() - began > BATCH_SECONDS:
                    self._keep(batch, keys)
                    yield from batch
                    batch = []
                    began = time.monotonic()
        except EngineUnavailable as error:
            gone = error
        finally:  # answers that came before a failure of the engine are paid for too
            self._keep(batch, keys)
        yield from batch
        if gone:
            raise gone

    def _keep(self, batch: Sequence[Completion], keys: Mapping[str, str]) -> None:
        lasting = {
            keys[completion.id]: completion
            for completion in batch
            if _is_cacheable(completion)
        }
        if lasting:
            self.cache.keep(lasting)


def compute_completion_id(request: Request, model: str, sampling: Sampling) -> str:
    """Return the hash of everything an answer depends on: model, sampling, messages, schema and token budget."""
    question = {
        "messages": [
            [message["role"], message["content"]] for message in request.messages
        ],
        "schema": request.schema,
        "max_tokens": request.max_tokens,
        "sampling": asdict(sampling),
    }
    return compute_content_id("completion", model, orjson.dumps(question).decode())


def reuse_completion(request: Request, completion: Completion) -> Completion:
    """Return a stored answer as the answer to `request`, with its tokens but without cost.

    A good answer is checked again; an error is returned as it is.
    """
    return check_completion(
        request, replace(completion, id=request.id, value=None, cached=True)
    )


def _is_cacheable(completion: Completion) -> bool:
    """Return True if the request would give this again: an answer, or a permanent error."""
    return completion.error is None or completion.error in KEPT
