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
from slowwave.engines.llm.openai_wire import NEW_BUDGET, explain_refusal, parse_completion
from slowwave.engines.llm.protocol import LLM, EngineUnavailable, Message, Request
from slowwave.engines.llm.select import FORMS, make_engine
from slowwave.engines.llm.servers import build_client_options
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
        """Yield the answer in pieces, at least one.

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
            except (EngineUnavailable, httpx.RequestError) as error:
                why = error.why if isinstance(error, EngineUnavailable) else f"{type(error).__name__} {error}".rstrip()
                troubles.append(f"{url}: {why}")
                if said:
                    raise EngineUnavailable(self.server.name, f"the answer broke off: {troubles[-1]}") from None
            if said:
                return
        raise EngineUnavailable(self.server.name, "; ".join(troubles) or "an empty answer")

    def _ask_server(self, url: str, request: Request) -> Iterator[str]:
        """Yield the pieces from one server; asked once more where it knows the answer's budget by another name."""
        sent = self.server.budget_field
        try:
            yield from self._send_request(url, request, sent)
        except EngineUnavailable as trouble:
            if not self.server.learn_budget_field(trouble.why, sent):
                raise
            yield from self._send_request(url, request, NEW_BUDGET)

    def _send_request(self, url: str, request: Request, budget_field: str) -> Iterator[str]:
        server, body = self.server, self.server.build_body(request, budget_field, stream=True)
        with (
            httpx.Client(**build_client_options(url, server.settings, server.name)) as client,
            client.stream("POST", "chat/completions", content=body) as response,
        ):
            if not response.is_success:
                response.read()
                raise EngineUnavailable(server.name, self._explain_failure(response))
            if "event-stream" in response.headers.get("content-type", ""):
                yield from _parse_events(response.iter_lines(), server.name)
            else:
                whole = parse_completion(response.read(), request, server.name, server.model)
                yield from [whole.text] if whole and whole.text else []

    def _explain_failure(self, response: httpx.Response) -> str:
        """Return why a server gives no answer, with what to do where that is known."""
        status, said, server = response.status_code, self.server.read_excerpt(response), self.server
        hint = "" if NEW_BUDGET in said else explain_refusal(status, said, server.model, server.settings.api_key_env)
        return hint or f"status {status}: {said}"


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
