"""The servers a night may ask: which one is free, which one is down, and for how long that may go on.

A server that refuses connections rests for a moment and is tried again. While no server at all is alive, requests
wait; after `patience` seconds of that the night gives up, once for all requests.
"""

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import httpx

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


@dataclass(slots=True)
class Pool:
    """Servers of the same model; each request goes to the least busy one that is not resting."""

    servers: Sequence[Server]
    concurrency: int
    """Requests in flight at one server, at most."""
    patience: float
    alive_at: float = field(default_factory=time.monotonic)
    """When a server last answered anything, or the pool was opened."""

    async def free(self) -> Server | None:
        """The least busy server, after a wait while all rest or are full; None when the pool's patience is over."""
        while True:
            now = time.monotonic()
            awake = [server for server in self.servers if server.rests_until <= now]
            least = min(awake, key=lambda server: server.in_flight, default=None)
            if least and least.in_flight < self.concurrency:
                return least
            if not awake and now - self.alive_at > self.patience:
                return None
            await asyncio.sleep(POLL_SECONDS)

    def answered(self, server: Server) -> None:
        """The server gave an answer, be it an error: it is alive."""
        self.alive_at, server.rests_until = time.monotonic(), 0.0

    def refused(self, server: Server) -> None:
        """The server took no connection: it rests."""
        server.rests_until = time.monotonic() + REST_SECONDS

    async def close(self) -> None:
        """Close every connection."""
        for server in self.servers:
            await server.client.aclose()


def open_pool(urls: Sequence[str], *, key: str | None, concurrency: int, timeout: float, patience: float) -> Pool:
    """Connections to each base URL. A proxy of the environment is not used for this machine itself."""
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=concurrency)
    return Pool(
        [
            Server(
                url,
                httpx.AsyncClient(
                    base_url=url,
                    headers=headers,
                    limits=limits,
                    timeout=httpx.Timeout(timeout, connect=min(10.0, timeout), pool=None),
                    trust_env=httpx.URL(url).host not in LOOPBACK,
                ),
            )
            for url in urls
        ],
        concurrency,
        patience,
    )


def backoff(attempt: int, retry_after: float | None = None) -> float:
    """Seconds to wait before attempt number `attempt` + 1: what the server asks for, or doubling with full jitter.

    Jitter keeps requests that failed together from coming back together (Brooker 2015, "Exponential backoff and
    jitter"). Half of the wait is kept as a floor.
    """
    if retry_after is not None:
        return retry_after + random.uniform(0.0, 0.1 * retry_after)
    longest = min(BACKOFF_MAX, BACKOFF_SECONDS * 2.0**attempt)
    return random.uniform(longest / 2, longest)
