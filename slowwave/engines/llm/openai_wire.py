"""The chat completions API of OpenAI and of all who speak it, as pure functions: what is sent and what comes back."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx
import orjson

from slowwave.engines.llm.protocol import Completion, ErrorKind, FinishReason, Request, Sampling

RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
"""Statuses after which the same request may succeed."""
WINDOW_FIELDS = ("max_model_len", "context_window", "context_length", "max_context_length")
"""What servers call a model's context window in their list of models."""
OLD_BUDGET, NEW_BUDGET = "max_tokens", "max_completion_tokens"
"""The two names of an answer's budget; some clouds know the second alone."""
LEAST_WINDOW = 512
"""A smaller number in a server's complaint is not taken for its context window."""
SAID_WINDOW = re.compile(
    r"(?:maximum context length|context (?:length|window|size)|n_ctx)[^\d.;]{0,40}?(\d[\d,]{2,})", re.IGNORECASE
)
NO_MODEL = re.compile(
    r"model\b.{0,200}?(?:does not exist|doesn't exist|not found|not available|is unknown|is not supported)"
    r"|(?:unknown|invalid|no such|not a valid|unsupported) model\b",
    re.IGNORECASE | re.DOTALL,
)
MODERATED = re.compile(r"moderat|flagged|content.?(?:policy|filter)|safety", re.IGNORECASE)
"""Words of a 403 that is about one prompt and not about the key."""
TOO_LONG = ("context length", "context window", "maximum context", "too long", "too many tokens")
FINISHES: Mapping[str | None, FinishReason] = {
    "length": "length",
    "content_filter": "content_filter",
    "repetition": "repetition",
    "abort": "error",
    "error": "error",
}


def build_request_body(request: Request, model: str, sampling: Sampling, budget_field: str) -> dict[str, Any]:
    """Return a request as the API takes it; `budget_field` is the name the server has for the answer's budget."""
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


def parse_completion(body: bytes, request: Request, engine: str, model: str) -> Completion | None:
    """Return the completion in a response's body; None where the body is none (cut off, or another kind of page)."""
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


def classify_error(status: int, said: str) -> ErrorKind:
    """Return what a status that is not retried says about the request."""
    long = status in (400, 413, 422) and any(words in said.lower() for words in TOO_LONG)
    return "too_long" if long else "rejected"


def parse_context_window(said: str) -> int | None:
    """Return the context window that a server names where it refuses a prompt as too long; None where it names none."""
    found = SAID_WINDOW.search(said)
    window = int(found.group(1).replace(",", "")) if found else 0
    return window if window >= LEAST_WINDOW else None


def explain_refusal(status: int, said: str, model: str, key_env: str) -> str:
    """Return why a server that refuses this request would refuse every other too, with what to do.

    Empty where it may not.
    """
    if status in (401, 403) and not MODERATED.search(said):
        return f"status {status}: set the key in {key_env}: {said[:200]}"
    if status in (400, 404) and NO_MODEL.search(said):
        return f"status {status}: no model {model!r} there: {said[:200]}"
    if status == 404:
        return f"status 404: nothing answers there; is the /v1 missing from the base URL? {said[:200]}".rstrip()
    return ""


def parse_models(response: httpx.Response) -> list[Mapping[str, Any]]:
    """Return the models a server lists; none where it has no such list."""
    try:
        listed = orjson.loads(response.content)["data"] if response.is_success else []
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return []
    return [model for model in listed if isinstance(model, dict)] if isinstance(listed, list) else []


def find_context_window(models: Sequence[Mapping[str, Any]], model: str) -> int | None:
    """Return the context window that the lists give for `model`, the smallest of several; None where they don't say."""
    said = [listed.get(name) for listed in models if is_same_model(listed.get("id"), model) for name in WINDOW_FIELDS]
    return min((window for window in said if isinstance(window, int)), default=None)


def is_same_model(listed: object, model: str) -> bool:
    """Return whether a listed name is the model's; Ollama lists `NAME:latest` and answers to `NAME`."""
    return listed in (model, f"{model}:latest")


def parse_retry_after(header: str | None, now: datetime | None = None) -> float | None:
    """Return seconds a `Retry-After` header asks for: a number, or a date (RFC 9110, 10.2.3).

    None where it is neither.
    """
    if header is None:
        return None
    if header.strip().isdecimal():
        return float(header)
    try:
        until = parsedate_to_datetime(header)
    except (ValueError, OverflowError):
        return None
    aware = until if until.tzinfo else until.replace(tzinfo=UTC)
    return max(0.0, (aware - (now or datetime.now(UTC))).total_seconds())
