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

from slowwave.engines.llm.answers import checked
from slowwave.engines.llm.protocol import KEPT, LLM, Completion, EngineUnavailable, Layer, Request, Sampling, by_id
from slowwave.schemas.ids import content_id
from slowwave.schemas.tables import COMPLETIONS

BATCH = 200
"""Answers kept together, at most. A commit of 1 to 200 answers takes 14 to 40 ms (2 cores, up to 60,000 in the table):
in a burst, as of in-process vLLM whose answers come 2,000 at once, smaller batches cost and save nothing."""
BATCH_SECONDS = 1.0
"""An answer that comes this long after the last commit is kept at once, with all in hand: at most 4% of the time."""


class CompletionCache(Protocol):
    """Where answers are kept; the store's is a table, `DictCache` is the plain one."""

    def known(self, ids: Sequence[str]) -> Mapping[str, Completion]:
        """The kept answers among `ids`, by id of the completion (not of the request)."""
        ...

    def keep(self, completions: Mapping[str, Completion]) -> None:
        """Keep these answers, by id of the completion; they are durable when this returns."""
        ...


class DictCache:
    """Answers kept in memory."""

    def __init__(self) -> None:
        self.kept: dict[str, Completion] = {}

    def known(self, ids: Sequence[str]) -> Mapping[str, Completion]:
        """The kept answers among `ids`."""
        return {i: self.kept[i] for i in ids if i in self.kept}

    def keep(self, completions: Mapping[str, Completion]) -> None:
        """Keep these answers."""
        self.kept.update(completions)


def completion_id(request: Request, model: str, sampling: Sampling) -> str:
    """The hash of everything an answer depends on: model, sampling, messages, schema and token budget."""
    asked = orjson.dumps(
        {
            "messages": [[m["role"], m["content"]] for m in request.messages],
            "schema": request.schema,
            "max_tokens": request.max_tokens,
            "sampling": [sampling.temperature, sampling.top_p, sampling.seed, sampling.repetition_penalty],
        }
    )
    return content_id("completion", model, asked.decode())


def split(
    requests: Sequence[Request], keys: Mapping[str, str], known: Mapping[str, Completion]
) -> tuple[list[Completion], list[Request]]:
    """The requests that are answered already, by their completions, and those that are not, each distinct prompt once.

    `keys` is the completion's id of each request's id, `known` the kept answers by completion's id.
    """
    hits: list[Completion] = []
    misses: dict[str, Request] = {}
    for request in requests:
        kept = known.get(keys[request.id])
        if kept and _is_kept(kept):
            hits.append(again(request, kept))
        else:
            misses.setdefault(keys[request.id], request)
    return hits, list(misses.values())


def again(request: Request, kept: Completion) -> Completion:
    """A kept answer as the answer to `request`, checked anew: its own tokens for the record, and nothing paid."""
    sums = kept.error == "runaway" and "retried" in kept.flags  # its tokens are those of all attempts
    error = kept.error if kept.error == "poison" or sums else None  # what no text shows
    return checked(request, replace(kept, id=request.id, value=None, error=error, cached=True))


def _is_kept(completion: Completion) -> bool:
    """Whether asking again would give this again: an answer, or an error that lasts."""
    return completion.error is None or completion.error in KEPT


class CachedLLM(Layer):
    """Answers from `cache` where it has them; the rest from `inner`, kept before they are handed on."""

    def __init__(self, inner: LLM, cache: CompletionCache, *, batch: int = BATCH) -> None:
        super().__init__(inner)
        self.cache = cache
        self.batch = batch

    def complete(self, requests: Sequence[Request]) -> Iterator[Completion]:
        """Kept answers first, then new ones. Equal prompts are asked once and answered to each who asked."""
        asked = by_id(requests)
        keys = {i: completion_id(r, self.model, self.sampling) for i, r in asked.items()}
        hits, misses = split(requests, keys, self.cache.known(list(dict.fromkeys(keys.values()))))
        yield from hits
        if not misses:
            return
        done = {hit.id for hit in hits}
        sharers: dict[str, list[Request]] = {}
        for request in requests:
            if request.id not in done:
                sharers.setdefault(keys[request.id], []).append(request)
        for fresh in self._kept(misses, keys):
            first, *others = sharers[keys[fresh.id]]
            yield fresh
            yield from (again(other, fresh) for other in others if other.id != first.id)

    def _kept(self, misses: Sequence[Request], keys: Mapping[str, str]) -> Iterator[Completion]:
        """The engine's answers, a batch at a time, each batch kept before it is handed on."""
        batch: list[Completion] = []
        began, gone = time.monotonic(), None
        try:
            for completion in self.inner.complete(misses):
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
        lasting = {keys[c.id]: c for c in batch if _is_kept(c)}
        if lasting:
            self.cache.keep(lasting)


def completion_rows(completions: Mapping[str, Completion]) -> pa.Table:
    """Completions by id as rows of `completions`."""
    now = datetime.now(UTC)
    return pa.Table.from_pylist(
        [_row(key, completion, now) for key, completion in completions.items()], schema=COMPLETIONS.schema
    )


def completions_of(rows: pa.Table) -> dict[str, Completion]:
    """Rows of `completions` as completions by id; their values are made by `again`, which knows the request."""
    return {row["completion_id"]: _completion(row) for row in rows.to_pylist()}


def _row(key: str, completion: Completion, now: datetime) -> dict[str, Any]:
    return {
        "completion_id": key, "request_id": completion.id, "model": completion.model, "engine": completion.engine,
        "text": completion.text, "error": completion.error, "reason": completion.reason,
        "finish_reason": completion.finish_reason, "prompt_tokens": completion.prompt_tokens,
        "completion_tokens": completion.completion_tokens, "prefix_tokens": completion.prefix_tokens,
        "flags": list(completion.flags), "created_at": now,
    }  # fmt: skip


def _completion(row: Mapping[str, Any]) -> Completion:
    return Completion(
        row["request_id"], row["text"], error=row["error"], reason=row["reason"], finish_reason=row["finish_reason"],
        prompt_tokens=row["prompt_tokens"], completion_tokens=row["completion_tokens"],
        prefix_tokens=row["prefix_tokens"], engine=row["engine"], model=row["model"], flags=tuple(row["flags"]),
    )  # fmt: skip
