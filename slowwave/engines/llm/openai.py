"""Any OpenAI-compatible server as an LLM: `vllm serve`, Ollama, a cloud; one model at one base URL.

Up to `concurrency` requests are sent at once, and answers are yielded as they arrive. Temporary failures
(`slowwave/engines/http.py`) are retried. The call ends if the server refuses connections, the key, the path or the
model. The schema is sent as `response_format` of type `json_schema`: with `json_object`, models echo the schema. The
deadline covers the whole answer, so a very slow server does not block a night. `stream` yields one answer in pieces,
for a conversation.
"""

import asyncio
import queue
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import httpx
import orjson
from anyio.from_thread import start_blocking_portal
from httpx_sse import EventSource, SSEError
from tenacity import AsyncRetrying

from slowwave.engines.http import (
    RETRIED,
    Transient,
    build_client_options,
    build_retry_options,
    describe_failure,
    mask_key,
    read_retry_after,
)
from slowwave.engines.llm.budget import estimate_tokens
from slowwave.engines.llm.protocol import (
    DEFAULT_WINDOW,
    LLM,
    ChatMessage,
    Completion,
    EngineUnavailable,
    FinishReason,
    ModelNotServed,
    Request,
    build_sampling,
    index_by_id,
    make_failure,
    split_fitting,
)
from slowwave.schemas.settings import LLMSettings

ATTEMPTS = 6
"""Most attempts at a request, with about 16 s of waits in all; none begins after twice the timeout."""
KEY = "SLOWWAVE_LLM_API_KEY"
"""The variable that holds the server's key."""
THREAD = "slowwave-async"
"""Name of the thread with the event loop: callers may be synchronous, or in a loop of their own."""
WINDOW_FIELDS = (
    "max_model_len",
    "context_window",
    "context_length",
    "max_context_length",
)
"""Fields with a model's context window in servers' lists of models."""
OLD_BUDGET = "max_tokens"
NEW_BUDGET = "max_completion_tokens"
"""The two names of an answer's budget; some clouds only accept the second."""
TOO_LONG = (
    "context length",
    "context window",
    "maximum context",
    "too long",
    "too many tokens",
)
FINISHES: Mapping[str | None, FinishReason] = {
    "length": "length",
    "content_filter": "content_filter",
    "repetition": "repetition",
    "abort": "error",
    "error": "error",
}


class OpenAIServer(LLM):
    """A model called `model` at a base URL up to and with its `/v1`."""

    def __init__(
        self,
        model: str,
        url: str,
        settings: LLMSettings | None = None,
    ) -> None:
        self.name = "openai"
        self.model = model
        self.url = url.rstrip("/") + "/"
        self.settings = settings or LLMSettings()
        self.sampling = build_sampling(self.settings)
        self.budget_field = OLD_BUDGET
        """The field with an answer's budget that the server accepts."""
        self._answered = False
        """True if the server has answered a request: a 404 is then about the request, not the path."""

    @property
    def context_window(self) -> int:
        """The setting, else the value in the server's list of models, else 8,192.

        Raises:
            EngineUnavailable: the server does not answer, refuses the key, or lacks the model.
        """
        listed = self._listed_window
        return self.settings.context_window or listed

    def complete(self, requests: Sequence[Request]) -> Iterator[Completion]:
        """Yield one completion a request, each as it arrives.

        Raises:
            EngineUnavailable: the server does not answer at first, refuses connections later, or refuses the key, the
                path or the model. Other failures are completions with an error.
        """
        index_by_id(requests)
        fit, refused = split_fitting(self, requests)
        yield from refused
        if not fit:
            return
        completions: queue.SimpleQueue[Any] = queue.SimpleQueue()
        ended = object()
        # requests continue while the caller handles a completion; a caller that stops early cancels them
        with start_blocking_portal(name=THREAD) as portal:
            working = portal.start_task_soon(self._answer_all, fit, completions.put)
            working.add_done_callback(lambda _: completions.put(ended))
            yield from iter(completions.get, ended)
            working.result()

    def stream(self, messages: Sequence[ChatMessage], max_tokens: int) -> Iterator[str]:
        """Yield an answer in pieces; a server that does not stream gives it as one.

        Raises:
            EngineUnavailable: the server does not answer, or the answer breaks off.
        """
        request = Request("turn", tuple(messages), max_tokens=max_tokens)
        pieces = 0
        try:
            with httpx.Client(**self._client_options) as client:
                for piece in self._stream_answer(client, request):
                    pieces += 1
                    yield piece
        except (httpx.HTTPError, SSEError, Transient) as error:
            why = (
                f"{type(error).__name__} {error}"
                if not isinstance(error, Transient)
                else error.why
            )
            raise self._make_unavailable(
                f"the answer broke off: {why}" if pieces else why
            ) from None
        if not pieces:
            raise self._make_unavailable("an empty answer")

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return an estimate that is rarely too low."""
        return estimate_tokens(texts)

    @cached_property
    def _listed_window(self) -> int:
        """The context window in the server's list of models, which is fetched once; else 8,192."""
        try:
            with httpx.Client(**self._client_options) as client:
                response = client.get(
                    "models", timeout=min(30.0, self.settings.timeout)
                )
        except httpx.RequestError as error:
            raise self._make_unavailable(
                f"{self.url}: {type(error).__name__} {error}".rstrip()
            ) from None
        if response.status_code in (401, 403):
            raise self._make_unavailable(self._explain_refusal(response))
        try:
            listed = [
                model
                for model in orjson.loads(response.content)["data"]
                if isinstance(model, dict)
            ]
        except (orjson.JSONDecodeError, KeyError, TypeError):
            listed = []  # the server has no list of models
        # Ollama lists `NAME:latest` and answers to `NAME`.
        own = [
            model
            for model in listed
            if model.get("id") in (self.model, f"{self.model}:latest")
        ]
        if listed and not own:
            names = ", ".join(sorted(str(model.get("id")) for model in listed))
            raise ModelNotServed(
                f"openai:{self.model}", f"the server has other models: {names[:500]}"
            )
        windows = [
            model[name]
            for model in own
            for name in WINDOW_FIELDS
            if isinstance(model.get(name), int)
        ]
        return min(windows, default=DEFAULT_WINDOW)

    async def _answer_all(
        self, requests: Sequence[Request], put: Callable[[Completion], None]
    ) -> None:
        """Send the requests, `concurrency` at once, and call `put` with the completion of each.

        Raises:
            EngineUnavailable: the server would refuse all requests.
        """
        turns = asyncio.Semaphore(self.settings.concurrency)

        async def answer(client: httpx.AsyncClient, request: Request) -> None:
            async with turns:
                put(await self._answer(client, request))

        try:
            async with (
                httpx.AsyncClient(**self._client_options) as client,
                asyncio.TaskGroup() as group,
            ):
                for request in requests:
                    group.create_task(answer(client, request))
        except ExceptionGroup as errors:
            raise next(
                (e for e in errors.exceptions if isinstance(e, EngineUnavailable)),
                errors,
            ) from None

    async def _answer(self, client: httpx.AsyncClient, request: Request) -> Completion:
        """Return the answer to one request, after at most `ATTEMPTS` attempts."""
        retrying = AsyncRetrying(
            **build_retry_options(ATTEMPTS, 2 * self.settings.timeout)
        )
        try:
            return await retrying(self._send, client, request)
        except Transient as error:
            why = f"given up after {retrying.statistics['attempt_number']} attempts, the last: {error.why}"
            if not error.connected:
                raise self._make_unavailable(f"{self.url}: {why}") from None
            return make_failure(
                request=request, error="unavailable", reason=why, llm=self
            )

    async def _send(self, client: httpx.AsyncClient, request: Request) -> Completion:
        """Send a request once, and return its completion.

        Raises:
            Transient: another attempt may succeed.
            EngineUnavailable: the server would refuse all other requests too.
        """
        # Another request may change it during this attempt.
        budget_field = self.budget_field
        try:
            async with asyncio.timeout(self.settings.timeout):
                response = await client.post(
                    "chat/completions", content=self._build_body(request, budget_field)
                )
        except (httpx.RequestError, TimeoutError) as error:
            raise describe_failure(error, self.settings.timeout) from None
        if response.is_success:
            completion = self._parse_completion(response, request)
            self._answered = True
            return completion
        if self._learn_budget_field(response, budget_field):
            return await self._send(client, request)
        status = response.status_code
        excerpt = self._read_excerpt(response)
        if status in RETRIED:
            raise Transient(
                f"status {status}: {excerpt}", read_retry_after(response.headers)
            )
        if status == 404 and not self._answered:
            raise ModelNotServed(
                f"openai:{self.model}", self._explain_refusal(response)
            )
        if status == 401:
            raise self._make_unavailable(self._explain_refusal(response))
        too_long = status in (400, 413, 422) and any(
            words in excerpt.lower() for words in TOO_LONG
        )
        return make_failure(
            request=request,
            error="too_long" if too_long else "rejected",
            reason=f"status {status}: {excerpt}",
            llm=self,
        )

    def _stream_answer(self, client: httpx.Client, request: Request) -> Iterator[str]:
        """Yield the pieces of one answer."""
        budget_field = self.budget_field
        body = self._build_body(request, budget_field, stream=True)
        with client.stream("POST", "chat/completions", content=body) as response:
            if response.is_success and "event-stream" in response.headers.get(
                "content-type", ""
            ):
                yield from self._read_events(EventSource(response))
                return
            response.read()
        if response.is_success:
            whole = self._parse_completion(response, request)
            yield from [whole.text] if whole.text else []
        elif self._learn_budget_field(response, budget_field):
            yield from self._stream_answer(client, request)
        else:
            raise self._make_unavailable(self._explain_refusal(response))

    def _read_events(self, events: EventSource) -> Iterator[str]:
        """Yield the text in server-sent events, up to the one that ends the answer.

        Raises:
            Transient: the stream ends early, contains an error, or does not follow the API.
        """
        for event in events.iter_sse():
            if event.data == "[DONE]":
                return
            try:
                read = orjson.loads(event.data)
                if "error" in read:
                    raise Transient(str(read["error"])[:500])
                choice = (read.get("choices") or [{}])[0]
                piece = (choice.get("delta") or {}).get("content")
            except (
                orjson.JSONDecodeError,
                AttributeError,
                TypeError,
                KeyError,
                IndexError,
            ):
                raise Transient(
                    f"no chat completion in the stream: {event.data[:200]!r}"
                ) from None
            if piece:
                yield piece
            if choice.get("finish_reason"):
                return
        raise Transient("the stream ended before the answer did")

    def _build_body(self, request: Request, budget_field: str, **more: Any) -> bytes:
        """Return a request as the API takes it."""
        body: dict[str, Any] = {
            "model": self.model,
            "messages": request.messages,
            "temperature": self.sampling.temperature,
            budget_field: request.max_tokens,
        }
        if self.sampling.seed is not None:
            body["seed"] = self.sampling.seed
        if self.sampling.repetition_penalty != 1.0:
            body["repetition_penalty"] = self.sampling.repetition_penalty
        if request.frequency_penalty:
            body["frequency_penalty"] = request.frequency_penalty
        if request.schema is not None:
            schema = {"name": "answer", "strict": True, "schema": request.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        return orjson.dumps(body | more)

    def _parse_completion(
        self, response: httpx.Response, request: Request
    ) -> Completion:
        """Return the completion in a response's body.

        Raises:
            Transient: the body is not a completion (truncated, or another kind of page).
        """
        try:
            answer = orjson.loads(response.content)
            choice = answer["choices"][0]
            text = choice["message"].get("content") or ""
            declined = choice["message"].get("refusal")
            usage = answer.get("usage") or {}
            return Completion(
                request.id,
                declined or text,
                finish_reason="content_filter"
                if declined
                else FINISHES.get(choice.get("finish_reason"), "stop"),
                prompt_tokens=int(usage.get("prompt_tokens") or 0),
                completion_tokens=int(usage.get("completion_tokens") or 0),
                prefix_tokens=int(
                    (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
                ),
                engine=self.name,
                model=self.model,
            )
        except (
            orjson.JSONDecodeError,
            KeyError,
            IndexError,
            TypeError,
            AttributeError,
            ValueError,
        ):
            raise Transient(
                f"no chat completion in the answer: {self._read_excerpt(response)[:200]!r}"
            ) from None

    def _learn_budget_field(self, response: httpx.Response, sent: str) -> bool:
        """If a refusal asks for the budget's other name, use it from now on and return True: send the request again."""
        if NEW_BUDGET not in response.text or sent != OLD_BUDGET:
            return False
        self.budget_field = NEW_BUDGET
        return True

    def _explain_refusal(self, response: httpx.Response) -> str:
        """Return the error of an unavailable server, with advice if the cause is known."""
        hints = {
            **dict.fromkeys((401, 403), f"set the key in {KEY}: "),
            404: f"no model {self.model!r} there, or no API (does the base URL end in /v1?): ",
        }
        status = response.status_code
        return f"status {status}: {hints.get(status, '')}{self._read_excerpt(response)}"

    def _read_excerpt(self, response: httpx.Response) -> str:
        """Return the beginning of the server's message."""
        return mask_key(response.text, KEY)[:500]

    @property
    def _client_options(self) -> dict[str, Any]:
        try:
            return build_client_options(self.url, KEY, self.settings.timeout)
        except ValueError as error:
            raise self._make_unavailable(str(error)) from None

    def _make_unavailable(self, why: str) -> EngineUnavailable:
        return EngineUnavailable(f"openai:{self.model}", why)
