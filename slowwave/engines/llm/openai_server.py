"""Any OpenAI-compatible server as an LLM: `vllm serve`, Ollama, a cloud; one model on one or several servers.

Requests are in flight together, at most `concurrency` a server, and answers are handed on as they come. 429, 5xx, a
reset and a timeout are tried again with backoff; a server that is down is waited for (see `servers.py`); one that
refuses the key, the path or the model before it ever gave an answer is not asked again. The schema
goes as `response_format` of type `json_schema`: with `json_object` models echo the schema. The deadline is over the
whole answer, so a server that drips a byte now and then does not hold a night.
"""

import asyncio
import queue
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx
import orjson
from anyio.from_thread import start_blocking_portal

from slowwave.engines.llm.budget import TokenCounter, load_token_counter
from slowwave.engines.llm.openai_wire import (
    NEW_BUDGET,
    OLD_BUDGET,
    RETRIED,
    build_request_body,
    classify_error,
    explain_refusal,
    find_context_window,
    is_same_model,
    parse_completion,
    parse_context_window,
    parse_models,
    parse_retry_after,
)
from slowwave.engines.llm.protocol import (
    Completion,
    EngineUnavailable,
    Request,
    build_sampling,
    index_by_id,
    make_failure,
    split_fitting,
)
from slowwave.engines.llm.servers import Pool, Server, compute_backoff, mask_key, open_pool
from slowwave.schemas.settings import LLMSettings

T = TypeVar("T")
THREAD = "slowwave-async"
"""The name of the thread with the event loop: callers may be sync, or inside a loop of their own."""
DEFAULT_WINDOW = 8_192
"""Context window where the server doesn't say and no setting does."""
SLOW_COST = 3
"""Attempts a timeout counts for."""
MAX_RETRY_AFTER = 120.0
"""Seconds; a server that asks for a longer pause is busy for tonight."""


@dataclass(frozen=True, slots=True)
class _Retry:
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
        self.sampling = build_sampling(self.settings)
        self._window = self.settings.context_window
        self._counter: TokenCounter | None = None
        self.budget_field = OLD_BUDGET
        """What its servers call the budget of an answer."""
        self._seen = False
        self._proven: set[str] = set()
        """URLs that have given an answer: what they refuse later is about the request."""
        self._lost = False
        """Whether the servers were waited for in vain: a later call tries them once and does not wait again."""

    @property
    def context_window(self) -> int:
        """The setting, else what the servers say of the model, else 8,192; less where a server refused that much.

        Raises:
            EngineUnavailable: no server answers.
        """
        if self._window is None:
            self._window = find_context_window(self._load_models(), self.model) or DEFAULT_WINDOW
        return self._window

    def complete(self, requests: Sequence[Request]) -> Iterator[Completion]:
        """Yield one completion a request, each as it comes.

        Raises:
            EngineUnavailable: no server answers at the outset, or each refuses the key, the path or the model; later
                failures are completions with an error.
        """
        index_by_id(requests)
        if not self._seen:
            self._load_models()
        sent, refused = split_fitting(self, requests)
        yield from refused
        if sent:
            yield from stream_items(self._make_sender(sent))

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count by the tokenizer of the settings, else an estimate that is rarely too low."""
        if self._counter is None:
            self._counter = load_token_counter(self.settings.tokenizer)
        return self._counter(texts)

    def free_gpu(self) -> None:
        """Do nothing: no GPU is held by this process."""

    def close(self) -> None:
        """Do nothing: nothing is held between calls."""

    def _make_sender(self, requests: Sequence[Request]) -> Callable[[Callable[[Completion], None]], Any]:
        """Return the work of asking for every request and handing on each answer."""

        async def send_all(put: Callable[[Completion], None]) -> None:
            pool = open_pool(self.urls, self.settings, self._label, self._lost)
            turns = asyncio.Semaphore(self.settings.concurrency * len(self.urls))

            async def one(request: Request) -> None:
                async with turns:
                    put(await self._answer_request(pool, request))

            try:
                async with asyncio.TaskGroup() as group:
                    for request in requests:
                        group.create_task(one(request))
            except ExceptionGroup as errors:
                raise _find_unavailable(errors) or errors from None
            finally:
                self._lost = pool.lost
                await pool.close()

        return send_all

    async def _answer_request(self, pool: Pool, request: Request) -> Completion:
        """Return the answer to one request, after as many attempts as it may have."""
        attempts, why = 0, "none was alive"
        while attempts <= self.settings.retries:
            server = await pool.wait_for_server()
            if server is None:
                waited = "and an earlier wait was in vain" if self._lost else f"for {pool.patience:g} s"
                return make_failure(request, "unavailable", f"no live server {waited}: {why}", self)
            outcome = await self._try_server(pool, server, request)
            if isinstance(outcome, Completion):
                if outcome.ok:
                    self._proven.add(server.url)
                return outcome
            why = f"{server.url}: {outcome.why}"
            if (outcome.wait or 0.0) > MAX_RETRY_AFTER:
                return make_failure(request, "unavailable", f"asked to wait {outcome.wait:g} s by {why}", self)
            attempts += outcome.cost
            if outcome.cost and attempts <= self.settings.retries:
                await asyncio.sleep(compute_backoff(attempts - 1, outcome.wait))
        return make_failure(request, "unavailable", f"given up after {attempts} attempts, the last at {why}", self)

    async def _try_server(self, pool: Pool, server: Server, request: Request) -> Completion | _Retry:
        """Return one attempt at one server."""
        budget_field = self.budget_field  # that of this very attempt: another one may change it meanwhile
        body = self.build_body(request, budget_field)
        server.in_flight += 1
        try:
            async with asyncio.timeout(self.settings.timeout):
                response = await server.client.post("chat/completions", content=body)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            pool.mark_refused(server)
            return _Retry(f"no connection ({error})", cost=0)
        except (TimeoutError, httpx.TimeoutException):
            pool.mark_connected(server)
            return _Retry(f"no whole answer within {self.settings.timeout:g} s", cost=SLOW_COST)
        except httpx.RequestError as error:
            pool.mark_connected(server)
            return _Retry(f"{type(error).__name__}: {error}")
        finally:
            server.in_flight -= 1
        pool.mark_answered(server)
        return self._learn_from_refusal(server, budget_field, response) or self._parse_outcome(request, response)

    def _learn_from_refusal(self, server: Server, budget_field: str, response: httpx.Response) -> _Retry | None:
        """Return what a refusal says about the server is remembered.

        The request may be sent again where that changes it.
        """
        if response.is_success or response.status_code in RETRIED:
            return None
        status, said = response.status_code, self.read_excerpt(response)
        if self.learn_budget_field(said, budget_field):
            return _Retry(f"the server wants {NEW_BUDGET}", cost=0)
        if classify_error(status, said) == "too_long":
            window = parse_context_window(said)
            self._window = min(window, self._window) if window and self._window else self._window
            return None
        why = explain_refusal(status, said, self.model, self.settings.api_key_env)
        if not why or (server.url in self._proven and status != 401):
            return None
        server.shut = why
        return _Retry(why, cost=0)

    def _parse_outcome(self, request: Request, response: httpx.Response) -> Completion | _Retry:
        """Return what a response means: an answer, a reason to try again, or an error that is final."""
        if response.is_success:
            answer = parse_completion(response.content, request, self.name, self.model)
            return answer or _Retry(f"no chat completion in the answer: {self.read_excerpt(response)[:200]!r}")
        said = self.read_excerpt(response)
        if response.status_code in RETRIED:
            return _Retry(
                f"status {response.status_code}: {said}", parse_retry_after(response.headers.get("retry-after"))
            )
        error = classify_error(response.status_code, said)
        return make_failure(request, error, f"status {response.status_code}: {said}", self)

    def build_body(self, request: Request, budget_field: str, **more: Any) -> bytes:
        """Return a request as it is sent."""
        return orjson.dumps(build_request_body(request, self.model, self.sampling, budget_field) | more)

    def learn_budget_field(self, said: str, sent: str) -> bool:
        """Remember the budget's other name where a refusal asks for it; return whether to send the request again."""
        if NEW_BUDGET not in said or sent != OLD_BUDGET:
            return False
        self.budget_field = NEW_BUDGET
        return True

    def read_excerpt(self, response: httpx.Response) -> str:
        """Return the beginning of what a server said."""
        return mask_key(response.text, self.settings.api_key_env)[:500]

    @property
    def _label(self) -> str:
        """The engine, in errors."""
        return f"openai:{self.model}"

    def _load_models(self) -> list[Mapping[str, Any]]:
        """Return `_list_models`, for a caller that is not async."""
        with start_blocking_portal(name=THREAD) as portal:
            return portal.call(self._list_models)

    async def _list_models(self) -> list[Mapping[str, Any]]:
        """Return the models that live servers list.

        Raises:
            EngineUnavailable: no server answers, all refuse the key, or they have only other models.
        """
        pool, listed, errors = open_pool(self.urls, self.settings, self._label), list[Mapping[str, Any]](), list[str]()
        try:
            for server in pool.servers:
                try:
                    response = await server.client.get("models", timeout=min(30.0, self.settings.timeout))
                except httpx.RequestError as error:
                    errors.append(f"{server.url}: {type(error).__name__} {error}".rstrip())
                    continue
                if response.status_code in (401, 403):
                    errors.append(f"{server.url}: status {response.status_code}: set {self.settings.api_key_env}")
                listed += parse_models(response)
        finally:
            await pool.close()
        names = sorted({str(model.get("id")) for model in listed})
        if len(errors) == len(self.urls):
            raise EngineUnavailable(self._label, "; ".join(errors))
        if names and not any(is_same_model(name, self.model) for name in names):
            raise EngineUnavailable(self._label, f"its servers have other models: {', '.join(names)[:500]}")
        self._seen = True
        return listed


def stream_items(work: Callable[[Callable[[T], None]], Awaitable[None]]) -> Iterator[T]:
    """Yield what `work` puts, as it puts it; the work goes on while the caller handles an item.

    An error of the work is raised here after everything that was put before it. When the caller stops early, the
    portal cancels the work, and waits for it.
    """
    items: queue.SimpleQueue[Any] = queue.SimpleQueue()
    ended = object()
    with start_blocking_portal(name=THREAD) as portal:
        working = portal.start_task_soon(work, items.put)
        working.add_done_callback(lambda _: items.put(ended))
        yield from iter(items.get, ended)
        working.result()


def _find_unavailable(errors: ExceptionGroup) -> EngineUnavailable | None:
    """Return the error that says no request can be answered, among those of several requests."""
    return next((error for error in errors.exceptions if isinstance(error, EngineUnavailable)), None)
