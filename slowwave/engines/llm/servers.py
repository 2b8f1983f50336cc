"""The servers a night may ask: which one is free, which one is down, and for how long that may go on.

A server that refuses connections rests for a moment and is tried again. While no server at all is alive, requests
wait; after `patience` seconds of that the night gives up, once for all requests. A server that would refuse every
request alike (the key, the path) is shut for good.
"""

import asyncio
import os
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from slowwave.engines.llm.protocol import EngineUnavailable
from slowwave.schemas.settings import LLMSettings

REST_SECONDS = 1.0
"""How long a server that refused a connection is left alone."""
POLL_SECONDS = 0.05
BACKOFF_SECONDS, BACKOFF_MAX = 0.5, 30.0
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(slots=True)
class Server:
    """One base URL with its connections."""

    url: str
    client: httpx.AsyncClient
    in_flight: int = 0
    rests_until: float = 0.0
    refused_at: float | None = None
    """When it first refused a connection since it last gave an answer."""
    shut: str = ""
    """Why it is not asked any more."""


@dataclass(slots=True)
class Pool:
    """Servers of the same model; each request goes to the least busy one that is not resting."""

    servers: Sequence[Server]
    engine: str
    """Its name, for errors."""
    concurrency: int
    """Requests in flight at one server, at most."""
    patience: float
    """Seconds that every server may refuse connections; counted from the first refusal of the last one to do so."""
    lost: bool = False
    """Whether the patience is over, here or in an earlier call: servers are then tried, and not waited for."""

    async def wait_for_server(self) -> Server | None:
        """Return the least busy server, after a wait while all rest or are full; None when the pool's patience is over.

        Raises:
            EngineUnavailable: every server is shut.
        """
        while True:
            now, opened = time.monotonic(), [server for server in self.servers if not server.shut]
            if not opened:
                raise EngineUnavailable(self.engine, "; ".join(f"{s.url}: {s.shut}" for s in self.servers))
            awake = [server for server in opened if server.rests_until <= now]
            least = min(awake, key=lambda server: server.in_flight, default=None)
            if least and least.in_flight < self.concurrency:
                return least
            if not awake and self._has_given_up(opened, now):
                self.lost = True
                return None
            await asyncio.sleep(POLL_SECONDS)

    def mark_answered(self, server: Server) -> None:
        """Note that the server gave an answer, be it an error: it is alive."""
        server.rests_until, server.refused_at, self.lost = 0.0, None, False

    def mark_connected(self, server: Server) -> None:
        """Note that the server took a connection, whatever became of it: a later refusal is a first one."""
        server.refused_at = None

    def mark_refused(self, server: Server) -> None:
        """Note that the server took no connection: it rests."""
        now = time.monotonic()
        server.rests_until = now + REST_SECONDS
        if server.refused_at is None:
            server.refused_at = now

    def _has_given_up(self, resting: Sequence[Server], now: float) -> bool:
        """Return whether servers that all rest have refused for long enough."""
        patience = 0.0 if self.lost else self.patience
        return all(server.refused_at is not None and now - server.refused_at > patience for server in resting)

    async def close(self) -> None:
        """Close every connection."""
        for server in self.servers:
            await server.client.aclose()


def build_headers(key_env: str, engine: str) -> dict[str, str]:
    """Return the headers of every request, with the key that the environment holds under `key_env`. It is kept nowhere.

    Raises:
        EngineUnavailable: the key can't stand in a header. httpx would say so too, and show it.
    """
    key = os.environ.get(key_env, "").strip()
    if not (key.isascii() and key.isprintable()):
        why = "holds a line break, a control character or one beyond ASCII within it: no server's key does; set it anew"
        raise EngineUnavailable(engine, f"the key in {key_env} {why}")
    return {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})


def mask_key(text: str, key_env: str) -> str:
    """Return what a server said, with the key blotted out: some repeat it where they refuse it."""
    key = os.environ.get(key_env, "").strip()
    return text.replace(key, "[key]") if key else text


def open_pool(urls: Sequence[str], settings: LLMSettings, engine: str, lost: bool = False) -> Pool:
    """Return connections to each base URL.

    Raises:
        EngineUnavailable: the key in the environment is none.
    """
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=settings.concurrency)
    clients = [httpx.AsyncClient(**build_client_options(url, settings, engine), limits=limits) for url in urls]
    return Pool([*map(Server, urls, clients)], engine, settings.concurrency, settings.patience, lost)


def build_client_options(url: str, settings: LLMSettings, engine: str) -> dict[str, Any]:
    """Return how httpx is to talk to a base URL, at once or in a stream.

    A proxy of the environment is not used for this machine itself.

    Raises:
        EngineUnavailable: the key in the environment is none.
    """
    return {
        "base_url": url,
        "headers": build_headers(settings.api_key_env, engine),
        "timeout": httpx.Timeout(settings.timeout, connect=min(10.0, settings.timeout), pool=None),
        "trust_env": httpx.URL(url).host not in LOOPBACK,
    }


def compute_backoff(attempt: int, retry_after: float | None = None) -> float:
    """Return seconds to wait before attempt number `attempt` + 1: what the server asks for, or doubling with full
    jitter.

    Jitter keeps requests that failed together from coming back together (Brooker 2015, "Exponential backoff and
    jitter"). Half of the wait is kept as a floor.
    """
    if retry_after is not None:
        return retry_after + random.uniform(0.0, 0.1 * retry_after)
    longest = min(BACKOFF_MAX, BACKOFF_SECONDS * 2.0**attempt)
    return random.uniform(longest / 2, longest)
