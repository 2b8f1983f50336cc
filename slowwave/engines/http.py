"""HTTP access to model servers: the API key, the proxy, and which requests are retried, and when."""

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx
from tenacity import (
    RetryCallState,
    retry_if_exception_type,
    stop_after_attempt,
    stop_before_delay,
)
from tenacity.wait import wait_exponential_jitter

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
"""Statuses after which the same request may succeed."""
FIRST_WAIT = 0.5
LONGEST_WAIT = 30.0
"""Seconds before the second attempt, doubled before each further one up to the longest."""


class Transient(Exception):
    """A temporary failure: no connection, a busy server, half an answer. `wait`: the seconds that a server asks for."""

    def __init__(
        self,
        why: str,
        wait: float | None = None,
        *,
        connected: bool = True,
    ) -> None:
        self.why = why
        self.wait = wait
        self.connected = connected
        super().__init__(why)


def read_key(variable: str) -> str:
    """Return the key in the environment, or an empty text.

    Raises:
        ValueError: the key can't be sent in a header. The error of httpx would show the key.
    """
    key = os.environ.get(variable, "").strip()
    if not (key.isascii() and key.isprintable()):
        why = "holds a line break, a control character or one beyond ASCII within it; set a valid key"
        raise ValueError(f"the key in {variable} {why}")
    return key


def mask_key(text: str, variable: str) -> str:
    """Return a server's message without the API key, which some servers repeat when they refuse it."""
    key = os.environ.get(variable, "").strip()
    return text.replace(key, "[key]") if key else text


def build_client_options(url: str, key_variable: str, timeout: float) -> dict[str, Any]:
    """Return arguments of an httpx client. A proxy of the environment is not used for this machine itself.

    Raises:
        ValueError: the key in the environment is invalid.
    """
    key = read_key(key_variable)
    return {
        "base_url": url,
        "headers": {"Content-Type": "application/json"}
        | ({"Authorization": f"Bearer {key}"} if key else {}),
        "timeout": httpx.Timeout(timeout, connect=min(10.0, timeout), pool=None),
        "limits": httpx.Limits(max_connections=None),
        "trust_env": httpx.URL(url).host not in LOOPBACK,
    }


def describe_failure(error: Exception, seconds: float) -> Transient:
    """Convert an error of the transport to a temporary failure."""
    if isinstance(error, (TimeoutError, httpx.TimeoutException)) and not isinstance(
        error, httpx.ConnectTimeout
    ):
        return Transient(f"no whole answer within {seconds:g} s")
    connected = not isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout))
    return Transient(f"{type(error).__name__} {error}".rstrip(), connected=connected)


def build_retry_options(attempts: int, seconds: float) -> dict[str, Any]:
    """Return arguments of tenacity's `Retrying`.

    `Transient` is tried again, up to `attempts` times in all. No attempt begins later than `seconds` after the first.
    """
    return {
        "retry": retry_if_exception_type(Transient),
        "wait": _compute_wait,
        "stop": stop_after_attempt(attempts) | stop_before_delay(seconds),
        "reraise": True,
    }


def _compute_wait(state: RetryCallState) -> float:
    """Return the seconds before the next attempt: as the server asks, else doubling, with jitter."""
    error = state.outcome.exception() if state.outcome else None
    if isinstance(error, Transient) and error.wait is not None:
        return error.wait
    return wait_exponential_jitter(
        multiplier=FIRST_WAIT, max=LONGEST_WAIT, jitter=FIRST_WAIT
    )(state)


def read_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of a `Retry-After` header, a number or a date (RFC 9110, 10.2.3); None if it is neither."""
    header = headers.get("retry-after", "").strip()
    if header.isdecimal():
        return float(header)
    try:
        until = parsedate_to_datetime(header)
    except (ValueError, OverflowError):
        return None
    aware = until if until.tzinfo else until.replace(tzinfo=UTC)
    return max(0.0, (aware - datetime.now(UTC)).total_seconds())
