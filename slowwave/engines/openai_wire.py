"""The chat completions API of OpenAI and of all who speak it, as pure functions: what is sent and what comes back."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx
import orjson

from slowwave.engines.llm import Completion, ErrorKind, FinishReason, Request, Sampling

RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
"""Statuses after which the same request may succeed."""
WINDOW_FIELDS = ("max_model_len", "context_window", "context_length", "max_context_length")
"""What servers call a model's context window in their list of models."""
TOO_LONG = ("context length", "context window", "maximum context", "too long", "too many tokens")
FINISHES: Mapping[str | None, FinishReason] = {
    "length": "length",
    "content_filter": "content_filter",
    "repetition": "repetition",
    "abort": "error",
    "error": "error",
}


def request_body(request: Request, model: str, sampling: Sampling, budget_field: str) -> dict[str, Any]:
    """A request as the API takes it; `budget_field` is the name the server has for the answer's budget."""
    body: dict[str, Any] = {
        "model": model,
        "messages": request.messages,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        budget_field: request.max_tokens,
    }
    if sampling.seed is not None:
        body["seed"] = sampling.seed
    if sampling.repetition_penalty != 1.0:
        body["repetition_penalty"] = sampling.repetition_penalty
    if request.schema is not None:
        schema = {"name": "answer", "strict": True, "schema": request.schema}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return body


def completion_in(body: bytes, request: Request, engine: str, model: str) -> Completion | None:
    """The completion in a response's body; None where the body is none (cut off, or another kind of page)."""
    try:
        answer = orjson.loads(body)
        choice = answer["choices"][0]
        said, declined = choice["message"].get("content") or "", choice["message"].get("refusal")
        usage = answer.get("usage") or {}
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        return Completion(
            request.id,
            declined or said,
            finish_reason="content_filter" if declined else FINISHES.get(choice.get("finish_reason"), "stop"),
            prompt_tokens=int(usage.get("prompt_tokens") or 0),
            completion_tokens=int(usage.get("completion_tokens") or 0),
            prefix_tokens=int(cached),
            engine=engine,
            model=model,
        )
    except (orjson.JSONDecodeError, KeyError, IndexError, TypeError, AttributeError, ValueError):
        return None


def final_error(status: int, said: str) -> ErrorKind:
    """What a status that is not retried says about the request."""
    long = status in (400, 413, 422) and any(words in said.lower() for words in TOO_LONG)
    return "too_long" if long else "rejected"


def models_in(response: httpx.Response) -> list[Mapping[str, Any]]:
    """The models a server lists; none where it has no such list."""
    try:
        listed = orjson.loads(response.content)["data"] if response.is_success else []
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return []
    return [model for model in listed if isinstance(model, dict)] if isinstance(listed, list) else []


def window_of(models: Sequence[Mapping[str, Any]], model: str) -> int | None:
    """The context window that the lists give for `model`, the smallest of several; None where they don't say."""
    said = [listed.get(name) for listed in models if listed.get("id") == model for name in WINDOW_FIELDS]
    return min((window for window in said if isinstance(window, int)), default=None)


def retry_after(header: str | None, now: datetime | None = None) -> float | None:
    """Seconds a `Retry-After` header asks for: a number, or a date (RFC 9110, 10.2.3); None where it is neither."""
    if header is None:
        return None
    if header.strip().isdigit():
        return float(header)
    try:
        until = parsedate_to_datetime(header)
    except ValueError:
        return None
    aware = until if until.tzinfo else until.replace(tzinfo=UTC)
    return max(0.0, (aware - (now or datetime.now(UTC))).total_seconds())
