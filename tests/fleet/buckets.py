"""A real S3 server, one for all tests of a process; and machines, each with a cache folder of its own."""

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import obstore
import uvicorn
from obstore.store import S3Store
from starlette.requests import Request
from starlette.responses import Response

BUCKET = "slowwave-tests"
KEYS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test-secret",
    "AWS_REGION": "us-east-1",
}
WEED = Path(sys.executable).with_name("weed")
HOP_BY_HOP = (
    b"content-length",
    b"transfer-encoding",
    b"connection",
    b"content-encoding",
)
PORTS = ("s3.port", "master.port", "filer.port", "volume.port", "admin.port")


def find_ports(count: int) -> list[int]:
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    ports = [int(one.getsockname()[1]) for one in held]
    for one in held:
        one.close()
    return ports


@contextmanager
def serve_bucket(folder: Path) -> Iterator[str]:
    """Yield the address of a server of SeaweedFS's that has one bucket."""
    names = [name for port in PORTS for name in (port, f"{port}.grpc")]
    ports = dict(zip(names, find_ports(len(names)), strict=True))
    words = [
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        f"-dir={folder}",
        f"-bucket={BUCKET}",
        "-webdav=false",
    ]
    words += [
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        "-admin.ui=false",
        "-master.telemetry=false",
    ]
    words += [f"-{name}={port}" for name, port in ports.items()]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [WEED, "mini", *words], stdout=log, stderr=log, env={**os.environ, **KEYS}
        )
    try:
        url = f"http://127.0.0.1:{ports['s3.port']}"
        for _ in range(240):
            try:
                obstore.put(connect(url, "probe"), "probe", b"")
                break
            except (obstore.exceptions.BaseError, OSError):
                time.sleep(0.25)
        yield url
    finally:
        server.terminate()
        server.wait()


def connect(url: str, prefix: str) -> S3Store:
    options = {
        "client_options": {"allow_http": True},
        "retry_config": {"max_retries": 0},
    }
    config = {
        "access_key_id": KEYS["AWS_ACCESS_KEY_ID"],
        "secret_access_key": KEYS["AWS_SECRET_ACCESS_KEY"],
    }
    return S3Store(
        BUCKET,
        prefix=prefix,
        endpoint=url,
        region=KEYS["AWS_REGION"],
        **config,
        **options,
    )


def read_all(url: str, prefix: str) -> dict[str, bytes]:
    """Every object below a prefix."""
    store = connect(url, prefix)
    return {
        one["path"]: bytes(obstore.get(store, one["path"]).bytes())
        for page in obstore.list(store)
        for one in page
    }


class BadLine:
    """A way to the server that fails now and then: `spoil` says how a request fares, by its method, path and number."""

    def __init__(self, server: str, spoil: Callable[[str, str, int], str]) -> None:
        self.server, self.spoil, self.asked, self.spoilt = server, spoil, 0, list[str]()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        request, self.asked = Request(scope, receive), self.asked + 1
        how = self.spoil(request.method, request.url.path, self.asked)
        self.spoilt += [how] if how else []
        if how == "503":
            await Response("<Error><Code>SlowDown</Code></Error>", 503)(
                scope, receive, send
            )
            return
        await asyncio.sleep(0.5 if how == "slow" else 0)
        place = f"{self.server}{scope['raw_path'].decode()}?{scope['query_string'].decode()}".rstrip(
            "?"
        )
        async with httpx.AsyncClient(timeout=30) as client:
            # The host stays: it is signed.
            done = await client.request(
                request.method,
                place,
                headers=request.headers.raw,
                content=await request.body() or None,
            )
        if how == "lost":  # what was asked is done, and the answer says otherwise
            await Response("", 500)(scope, receive, send)
            return
        headers = [
            (name, value)
            for name, value in done.headers.raw
            if name.lower() not in HOP_BY_HOP
        ]
        size = int(done.headers.get("content-length", 0))
        headers += (
            [(b"content-length", str(size).encode())]
            if request.method == "HEAD" or size
            else []
        )
        if how in ("cut", "torn"):
            # A refusal that is cut is not asked for again, an object that is torn has no tag.
            headers = [
                (name, value)
                for name, value in headers
                if how == "cut" or name.lower() != b"etag"
            ]
            how = "cut" if done.is_success else ""
        await send(
            {
                "type": "http.response.start",
                "status": done.status_code,
                "headers": headers,
            }
        )
        if how == "cut":
            await send(
                {
                    "type": "http.response.body",
                    "body": done.content[: size // 2],
                    "more_body": True,
                }
            )
            raise ConnectionAbortedError
        await send({"type": "http.response.body", "body": done.content})


@contextmanager
def serve_badly(
    server: str, spoil: Callable[[str, str, int], str]
) -> Iterator[tuple[str, BadLine]]:
    """Yield the address of a bad line to a server, and the line."""
    line, (port,) = BadLine(server, spoil), find_ports(1)
    serving = uvicorn.Server(
        uvicorn.Config(line, "127.0.0.1", port, log_level="critical", lifespan="off")
    )
    thread = Thread(target=serving.run)
    thread.start()
    try:
        yield f"http://127.0.0.1:{port}", line
    finally:
        serving.should_exit = True
        thread.join()
