"""Answers word by word, for a conversation: the other side of `protocol.py`, which is for batches.

    speaker = speaking("openai:qwen3-8b@http://127.0.0.1:8000/v1")
    for piece in speaker.stream(messages, max_tokens=500): print(piece, end="")

An OpenAI-compatible server streams (server-sent events); any other engine gives its whole answer as one piece. In a
chain the next engine is asked where one is unavailable before its first word.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Protocol

import httpx
import orjson

from slowwave.engines.llm.openai_server import OpenAIServer
from slowwave.engines.llm.openai_wire import (
    NEW_BUDGET,
    OLD_BUDGET,
    build_request_body,
    explain_refusal,
    parse_completion,
)
from slowwave.engines.llm.protocol import LLM, EngineUnavailable, Message, Request
from slowwave.engines.llm.select import FORMS, make_engine
from slowwave.engines.llm.servers import LOOPBACK, build_headers, mask_key
from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import LLMSettings

DATA, DONE = "data:", "[DONE]"


class Speaker(Protocol):
    """Anything that answers a conversation."""

    @property
    def llm(self) -> LLM:
        """The engine behind it: its name, model, context window and tokens; for questions of one answer."""
        ...

    def stream(self, messages: Sequence[Message], max_tokens: int) -> Iterator[str]:
        """Return the answer in pieces, at least one.

        Raises:
            EngineUnavailable: there is no answer, or it breaks off; pieces that came before are good.
        """
        ...


def select_speaker(spec: str, settings: LLMSettings | None = None) -> Speaker:
    """Return the speaker that an LLM setting names (see `select.py` for the forms).

    Raises:
        UsageError: it names no engine, or none of the forms.
    """
    settings = settings or LLMSettings()
    names = [name for part in re.split(r"->|→|>", spec) if (name := part.strip()) not in ("off", "extractive")]
    if not names:
        raise UsageError(f"no language model is set ({spec!r}): SLOWWAVE_LLM or --llm names one of {FORMS}")
    speakers = [_make_speaker(make_engine(name, settings)) for name in names]
    return speakers[0] if len(speakers) == 1 else FallbackSpeaker(speakers)


def _make_speaker(llm: LLM) -> Speaker:
    return ServerSpeaker(llm) if isinstance(llm, OpenAIServer) else WholeAnswerSpeaker(llm)


class WholeAnswerSpeaker:
    """Any engine as a speaker: its answer is one piece."""

    def __init__(self, llm: LLM) -> None:
        self.llm = llm

    def stream(self, messages: Sequence[Message], max_tokens: int) -> Iterator[str]:
        """As in the Protocol."""
        request = Request("turn", tuple(messages), max_tokens=max_tokens)
        completion = next(iter(self.llm.complete([request])), None)
        if completion is None or not completion.text:
            why = (completion.reason if completion else "") or "it gave no answer"
            raise EngineUnavailable(self.llm.name, why)
        yield completion.text


class FallbackSpeaker:
    """A chain of speakers: the first that says anything."""

    def __init__(self, speakers: Sequence[Speaker]) -> None:
        self.speakers = list(speakers)

    @property
    def llm(self) -> LLM:
        """The engine that is asked first, at present."""
        return self.speakers[0].llm

    def stream(self, messages: Sequence[Message], max_tokens: int) -> Iterator[str]:
        """As in the Protocol; a speaker that is unavailable is not asked again while another is left."""
        while True:
            pieces = self.speakers[0].stream(messages, max_tokens)
            try:
                first = next(pieces)
            except EngineUnavailable:
                if len(self.speakers) == 1:
                    raise
                self.speakers.pop(0)
                continue
            yield first
            yield from pieces
            return


class ServerSpeaker:
    """A model on an OpenAI-compatible server, streamed. Of several servers the first that answers is taken."""

    def __init__(self, server: OpenAIServer) -> None:
        self.server = server
        self._budget_field = OLD_BUDGET

    @property
    def llm(self) -> LLM:
        """The server as a batch engine."""
        return self.server

    def stream(self, messages: Sequence[Message], max_tokens: int) -> Iterator[str]:
        """As in the Protocol. A server that does not stream gives its whole answer as one piece."""
        request = Request("turn", tuple(messages), max_tokens=max_tokens)
        troubles: list[str] = []
        for url in self.server.urls:
            said = False
            try:
                for piece in self._ask_server(url, request):
                    said = True
                    yield piece
            except EngineUnavailable as trouble:
                troubles.append(f"{url}: {trouble.why}")
                if said:
                    raise EngineUnavailable(self.server.name, f"the answer broke off: {troubles[-1]}") from None
            if said:
                return
        raise EngineUnavailable(self.server.name, "; ".join(troubles) or "an empty answer")

    def _ask_server(self, url: str, request: Request) -> Iterator[str]:
        """Yield the pieces from one server; asked once more where it knows the answer's budget by another name."""
        sent = self._budget_field
        try:
            yield from self._read_pieces(url, request, sent)
        except EngineUnavailable as trouble:
            if NEW_BUDGET not in trouble.why or sent != OLD_BUDGET:
                raise
            self._budget_field = NEW_BUDGET
            yield from self._read_pieces(url, request, NEW_BUDGET)

    def _read_pieces(self, url: str, request: Request, budget_field: str) -> Iterator[str]:
        try:
            yield from self._send_request(url, request, budget_field)
        except httpx.RequestError as error:
            raise EngineUnavailable(self.server.name, f"{type(error).__name__} {error}".rstrip()) from None

    def _send_request(self, url: str, request: Request, budget_field: str) -> Iterator[str]:
        settings, body = self.server.settings, self._build_body(request, budget_field)
        headers = build_headers(settings.api_key_env, self.server.name)
        timeout = httpx.Timeout(settings.timeout, connect=min(10.0, settings.timeout))
        local = httpx.URL(url).host in LOOPBACK  # no proxy for this machine itself
        with (
            httpx.Client(base_url=url, headers=headers, timeout=timeout, trust_env=not local) as client,
            client.stream("POST", "chat/completions", content=body) as response,
        ):
            if not response.is_success:
                response.read()
                raise EngineUnavailable(self.server.name, self._explain_failure(response))
            if "event-stream" in response.headers.get("content-type", ""):
                yield from _parse_events(response.iter_lines(), self.server.name)
            else:
                whole = parse_completion(response.read(), request, self.server.name, self.server.model)
                yield from [whole.text] if whole and whole.text else []

    def _explain_failure(self, response: httpx.Response) -> str:
        """Return why a server gives no answer, with what to do where that is known."""
        status, key_env = response.status_code, self.server.settings.api_key_env
        said = mask_key(response.text, key_env)[:500]
        hint = "" if NEW_BUDGET in said else explain_refusal(status, said, self.server.model, key_env)
        return hint or f"status {status}: {said}"

    def _build_body(self, request: Request, budget_field: str) -> bytes:
        body = build_request_body(request, self.server.model, self.server.sampling, budget_field)
        return orjson.dumps({**body, "stream": True})


def _parse_events(lines: Iterator[str], engine: str) -> Iterator[str]:
    """Yield the text in server-sent events, up to the one that ends the answer."""
    for line in lines:
        if not line.startswith(DATA):
            continue
        data = line[len(DATA) :].strip()
        if data == DONE:
            return
        piece, ended = _parse_event(data, engine)
        if piece:
            yield piece
        if ended:
            return
    raise EngineUnavailable(engine, "the stream ended before the answer did")


def _parse_event(data: str, engine: str) -> tuple[str, bool]:
    """Return the text of one event, and whether the answer ends with it.

    Raises:
        EngineUnavailable: the event tells of an error, or is none of the API's.
    """
    try:
        event = orjson.loads(data)
        if "error" in event:
            raise EngineUnavailable(engine, str(event["error"])[:500])
        choices = event.get("choices") or [{}]
        return (choices[0].get("delta") or {}).get("content") or "", bool(choices[0].get("finish_reason"))
    except (orjson.JSONDecodeError, AttributeError, TypeError, KeyError, IndexError):
        raise EngineUnavailable(engine, f"no chat completion in the stream: {data[:200]!r}") from None
