"""Any OpenAI-compatible server as an LLM: `vllm serve`, Ollama, a cloud; one model on one or several servers.

Requests are in flight together, at most `concurrency` a server, and answers are handed on as they come. 429, 5xx, a
reset and a timeout are tried again with backoff; a server that is down is waited for (see `servers.py`). The schema
goes as `response_format` of type `json_schema`: with `json_object` models echo the schema. The deadline is over the
whole answer, so a server that drips a byte now and then does not hold a night.
"""

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import orjson

from schemas.llm_settings import LLMSettings
from slowwave.engines.llm import Completion, EngineUnavailable, Request, by_id, failed, fitting, sampling_of
from slowwave.engines.openai_wire import (
    RETRIED,
    completion_in,
    final_error,
    models_in,
    request_body,
    retry_after,
    window_of,
)
from slowwave.engines.servers import Pool, Server, backoff, open_pool
from slowwave.engines.threads import result_of, streamed
from slowwave.engines.tokens import TokenCounter, token_counter

DEFAULT_WINDOW = 8_192
"""Context window where the server doesn't say and no setting does."""
SLOW_COST = 3
"""Attempts a timeout counts for."""
MAX_RETRY_AFTER = 120.0
"""Seconds; a server that asks for a longer pause is busy for tonight."""


@dataclass(frozen=True, slots=True)
class _Again:
    """An attempt that may be made again, and why."""

    why: str
    wait: float | None = None
    """Seconds the server asks for."""
    cost: int = 1
    """Attempts it counts for: none where no connection was made, which says nothing about the request."""


class OpenAIServer:
    """A model called `model` at the base URLs `urls`, each up to and with its `/v1`."""

    def __init__(self, model: str, urls: Sequence[str], settings: LLMSettings | None = None) -> None:
        if not urls:
            raise ValueError("an OpenAI-compatible engine needs at least one base URL")
        self.name = "openai"
        self.model = model
        self.urls = tuple(url.rstrip("/") + "/" for url in urls)
        self.settings = settings or LLMSettings()
        self.sampling = sampling_of(self.settings)
        self._window = self.settings.context_window
        self._counter: TokenCounter | None = None
        self._budget_field = "max_tokens"
        self._seen = False

    @property
    def context_window(self) -> int:
        """The setting, else what the servers say of the model, else 8,192.

        Raises:
            EngineUnavailable: no server answers.
        """
        if self._window is None:
            self._window = window_of(result_of(self._models()), self.model) or DEFAULT_WINDOW
        return self._window

    def complete(self, requests: Sequence[Request]) -> Iterator[Completion]:
        """One completion a request, each as it comes.

        Raises:
            EngineUnavailable: no server answers at the outset; later failures are completions with an error.
        """
        by_id(requests)
        if not self._seen:
            result_of(self._models())
        sent, refused = fitting(self, requests)
        yield from refused
        if sent:
            yield from streamed(self._sending(sent))

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """By the tokenizer of the settings, else an estimate that is rarely too low."""
        if self._counter is None:
            self._counter = token_counter(self.settings.tokenizer)
        return self._counter(texts)

    def free_gpu(self) -> None:
        """No GPU is held by this process."""

    def close(self) -> None:
        """Nothing is held between calls."""

    def _sending(self, requests: Sequence[Request]) -> Callable[[Callable[[Completion], None]], Any]:
        """The work of asking for every request and handing on each answer."""

        async def send_all(put: Callable[[Completion], None]) -> None:
            pool = self._pool()
            turns = asyncio.Semaphore(self.settings.concurrency * len(self.urls))

            async def one(request: Request) -> None:
                async with turns:
                    put(await self._answer(pool, request))

            try:
                async with asyncio.TaskGroup() as group:
                    for request in requests:
                        group.create_task(one(request))
            finally:
                await pool.close()

        return send_all

    async def _answer(self, pool: Pool, request: Request) -> Completion:
        """The answer to one request, after as many attempts as it may have."""
        attempts, why = 0, "none was alive"
        while attempts <= self.settings.retries:
            server = await pool.free()
            if server is None:
                return failed(request, "unavailable", f"no live server for {pool.patience:g} s: {why}", self)
            outcome = await self._attempt(pool, server, request)
            if isinstance(outcome, Completion):
                return outcome
            why = f"{server.url}: {outcome.why}"
            if (outcome.wait or 0.0) > MAX_RETRY_AFTER:
                return failed(request, "unavailable", f"asked to wait {outcome.wait:g} s by {why}", self)
            attempts += outcome.cost
            if outcome.cost and attempts <= self.settings.retries:
                await asyncio.sleep(backoff(attempts - 1, outcome.wait))
        return failed(request, "unavailable", f"given up after {attempts} attempts, the last at {why}", self)

    async def _attempt(self, pool: Pool, server: Server, request: Request) -> Completion | _Again:
        """One attempt at one server."""
        body = orjson.dumps(request_body(request, self.model, self.sampling, self._budget_field))
        server.in_flight += 1
        try:
            async with asyncio.timeout(self.settings.timeout):
                response = await server.client.post("chat/completions", content=body)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            pool.refused(server)
            return _Again(f"no connection ({error})", cost=0)
        except (TimeoutError, httpx.TimeoutException):
            return _Again(f"no whole answer within {self.settings.timeout:g} s", cost=SLOW_COST)
        except httpx.TransportError as error:
            return _Again(f"{type(error).__name__}: {error}")
        finally:
            server.in_flight -= 1
        pool.answered(server)
        return self._outcome(request, response)

    def _outcome(self, request: Request, response: httpx.Response) -> Completion | _Again:
        """What a response means: an answer, a reason to try again, or an error that is final."""
        if response.is_success:
            answer = completion_in(response.content, request, self.name, self.model)
            return answer or _Again(f"no chat completion in the answer: {response.text[:200]!r}")
        said = response.text[:500]
        if response.status_code in RETRIED:
            return _Again(f"status {response.status_code}: {said}", retry_after(response.headers.get("retry-after")))
        if "max_completion_tokens" in said and self._budget_field == "max_tokens":
            self._budget_field = "max_completion_tokens"  # some clouds know no other name
            return _Again("the server wants max_completion_tokens", wait=0.0)
        error = final_error(response.status_code, said)
        return failed(request, error, f"status {response.status_code}: {said}", self)

    def _pool(self) -> Pool:
        """Connections, for one call. The key is read each time and kept nowhere."""
        s = self.settings
        key = os.environ.get(s.api_key_env)
        return open_pool(self.urls, key=key, concurrency=s.concurrency, timeout=s.timeout, patience=s.patience)

    async def _models(self) -> list[Mapping[str, Any]]:
        """The models that live servers list.

        Raises:
            EngineUnavailable: no server answers, all refuse the key, or they have only other models.
        """
        pool, listed, errors = self._pool(), list[Mapping[str, Any]](), list[str]()
        try:
            for server in pool.servers:
                try:
                    response = await server.client.get("models", timeout=min(30.0, self.settings.timeout))
                except httpx.TransportError as error:
                    errors.append(f"{server.url}: {type(error).__name__} {error}".rstrip())
                    continue
                if response.status_code in (401, 403):
                    errors.append(f"{server.url}: status {response.status_code}: set {self.settings.api_key_env}")
                listed += models_in(response)
        finally:
            await pool.close()
        names = sorted({str(model.get("id")) for model in listed})
        if len(errors) == len(self.urls):
            raise EngineUnavailable(f"openai:{self.model}", "; ".join(errors))
        if names and self.model not in names:
            raise EngineUnavailable(f"openai:{self.model}", f"its servers have other models: {', '.join(names)[:500]}")
        self._seen = True
        return listed
