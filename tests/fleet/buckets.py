"""A real S3 server, one for all tests of a process; and machines, each with a cache folder of its own."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import obstore
from obstore.store import S3Store

BUCKET = "slowwave-tests"
KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test-secret", "AWS_REGION": "us-east-1"}
WEED = Path(sys.executable).with_name("weed")
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
    words = ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={folder}", f"-bucket={BUCKET}", "-webdav=false"]
    words += ["-s3.port.iceberg=0", "-s3.port.lance=0", "-admin.ui=false", "-master.telemetry=false"]
    words += [f"-{name}={port}" for name, port in ports.items()]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen([WEED, "mini", *words], stdout=log, stderr=log, env={**os.environ, **KEYS})
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
    options = {"client_options": {"allow_http": True}, "retry_config": {"max_retries": 0}}
    config = {"access_key_id": KEYS["AWS_ACCESS_KEY_ID"], "secret_access_key": KEYS["AWS_SECRET_ACCESS_KEY"]}
    return S3Store(BUCKET, prefix=prefix, endpoint=url, region=KEYS["AWS_REGION"], **config, **options)


def read_all(url: str, prefix: str) -> dict[str, bytes]:
    """Every object below a prefix."""
    store = connect(url, prefix)
    return {one["path"]: bytes(obstore.get(store, one["path"]).bytes()) for page in obstore.list(store) for one in page}
