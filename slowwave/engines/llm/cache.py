"""The completions cache: an answer is kept by the hash of what was asked, and no prompt is paid for twice.

Greedy decoding on a GPU is not the same from batch to batch; a rerun gives identical tables because the answers come
from here. What is kept is the text as generated; the checks are made again on the way out, so they may grow stricter.
Errors that asking again would repeat are kept too (`KEPT`), the others are not.

What a crash may cost: the answers that came since the last commit. One is made when an answer comes and the last commit
is a second old, or 200 answers are in hand; so an engine slower than an answer a second loses at most the one in hand
and those that came within a second of the last commit, while it waited for the next.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Protocol

import orjson
import pyarrow as pa

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
from slowwave.schemas.tables import COMPLETIONS

BATCH = 200
"""Answers kept together, at most. A commit of 1 to 200 answers takes 14 to 40 ms (2 cores, up to 60,000 in the table):
in a burst, as of in-process vLLM whose answers come 2,000 at once, smaller batches cost and save nothing."""
BATCH_SECONDS = 1.0
"""An answer that comes this long after the last commit is kept at once, with all in hand: at most 4% of the time."""


class CompletionCache(Protocol):
    """Where answers are kept; the store's is a table, `DictCache` is the plain one."""

    def known(self, ids: Sequence[str]) -> Mapping[str, Completion]:
        """Return the kept answers among `ids`, by id of the completion (not of the request)."""
        ...

    def keep(self, completions: Mapping[str, Completion]) -> None:
        """Keep these answers, by id of the completion; they are durable when this returns."""
        ...


class DictCache:
    """Answers kept in memory."""

    def __init__(self) -> None:
        self.kept: dict[str, Completion] = {}

    def known(self, ids: Sequence[str]) -> Mapping[str, Completion]:
        """Return the kept answers among `ids`."""
        return {i: self.kept[i] for i in ids if i in self.kept}

    def keep(self, completions: Mapping[str, Completion]) -> None:
        """Keep these answers."""
        self.kept.update(completions)


def compute_completion_id(request: Request, model: str, sampling: Sampling) -> str:
    """Return the hash of everything an answer depends on: model, sampling, messages, schema and token budget."""
    asked = orjson.dumps(
        {
            "messages": [[m["role"], m["content"]] for m in request.messages],
            "schema": request.schema,
            "max_tokens": request.max_tokens,
            "sampling": [sampling.temperature, sampling.top_p, sampling.seed, sampling.repetition_penalty],
        }
    )
    return compute_content_id("completion", model, asked.decode())


def split_cached(
    requests: Sequence[Request], keys: Mapping[str, str], known: Mapping[str, Completion]
) -> tuple[list[Completion], list[Request]]:
    """Return the requests that are answered already, by their completions, and those that are not, each distinct
    prompt once.

    `keys` is the completion's id of each request's id, `known` the kept answers by completion's id.
    """
    hits: list[Completion] = []
    misses: dict[str, Request] = {}
    for request in requests:
        kept = known.get(keys[request.id])
        if kept and _is_cacheable(kept):
            hits.append(reuse_completion(request, kept))
        else:
            misses.setdefault(keys[request.id], request)
    return hits, list(misses.values())


def reuse_completion(request: Request, kept: Completion) -> Completion:
    """Return a kept answer as the answer to `request`, checked anew: its own tokens for the record, and nothing
    paid. An error stays the one that was kept.
    """
    return check_completion(request, replace(kept, id=request.id, value=None, cached=True))


def _is_cacheable(completion: Completion) -> bool:
    """Return whether asking again would give this again: an answer, or an error that lasts."""
    return completion.error is None or completion.error in KEPT


class CachedLLM(Layer):
    """Answers from `cache` where it has them; the rest from `inner`, kept before they are handed on."""

    def __init__(self, inner: LLM, cache: CompletionCache, *, batch: int = BATCH) -> None:
        super().__init__(inner)
        self.cache = cache
        self.batch = batch

    def complete(self, requests: Sequence[Request]) -> Iterator[Completion]:
        """Yield kept answers first, then new ones. Equal prompts are asked once and answered to each who asked."""
        asked = index_by_id(requests)
        keys = {i: compute_completion_id(r, self.model, self.sampling) for i, r in asked.items()}
        hits, misses = split_cached(requests, keys, self.cache.known(list(dict.fromkeys(keys.values()))))
        yield from hits
        if not misses:
            return
        done = {hit.id for hit in hits}
        sharers: dict[str, list[Request]] = {}
        for request in requests:
            if request.id not in done:
                sharers.setdefault(keys[request.id], []).append(request)
        for fresh in self._complete_and_cache(misses, keys):
            first, *others = sharers[keys[fresh.id]]
            yield fresh
            yield from (reuse_completion(other, fresh) for other in others if other.id != first.id)

    def _complete_and_cache(self, misses: Sequence[Request], keys: Mapping[str, str]) -> Iterator[Completion]:
        """Yield the engine's answers, a batch at a time, each batch kept before it is handed on."""
        batch: list[Completion] = []
        began, gone = time.monotonic(), None
        try:
            for completion in self.inner.complete(misses):
                batch.append(completion)
                if len(batch) >= self.batch or time.monotonic() - began > BATCH_SECONDS:
                    self._cache_batch(batch, keys)
                    yield from batch
                    batch, began = [], time.monotonic()
        except EngineUnavailable as error:
            gone = error
        finally:  # what was answered before the engine gave up is paid for too
            self._cache_batch(batch, keys)
        yield from batch
        if gone:
            raise gone

    def _cache_batch(self, batch: Sequence[Completion], keys: Mapping[str, str]) -> None:
        lasting = {keys[c.id]: c for c in batch if _is_cacheable(c)}
        if lasting:
            self.cache.keep(lasting)


def build_completion_rows(completions: Mapping[str, Completion]) -> pa.Table:
    """Return completions by id as rows of `completions`."""
    now = datetime.now(UTC)
    return pa.Table.from_pylist(
        [_build_row(key, completion, now) for key, completion in completions.items()], schema=COMPLETIONS.schema
    )


def parse_completion_rows(rows: pa.Table) -> dict[str, Completion]:
    """Return rows of `completions` as completions by id; their values are made by `reuse_completion`, which knows the
    request.
    """
    return {row["completion_id"]: _parse_row(row) for row in rows.to_pylist()}


def _build_row(key: str, completion: Completion, now: datetime) -> dict[str, Any]:
    return {
        "completion_id": key, "request_id": completion.id, "model": completion.model, "engine": completion.engine,
        "text": completion.text, "error": completion.error, "reason": completion.reason,
        "finish_reason": completion.finish_reason, "prompt_tokens": completion.prompt_tokens,
        "completion_tokens": completion.completion_tokens, "prefix_tokens": completion.prefix_tokens,
        "flags": list(completion.flags), "created_at": now,
    }  # fmt: skip


def _parse_row(row: Mapping[str, Any]) -> Completion:
    return Completion(
        row["request_id"], row["text"], error=row["error"], reason=row["reason"], finish_reason=row["finish_reason"],
        prompt_tokens=row["prompt_tokens"], completion_tokens=row["completion_tokens"],
        prefix_tokens=row["prefix_tokens"], engine=row["engine"], model=row["model"], flags=tuple(row["flags"]),
    )  # fmt: skip
