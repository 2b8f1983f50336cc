"""The pages in a real browser, over the samples' store and over none; and who is refused."""

import shutil
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from slowwave.flows.parts.report import RunReport
from slowwave.schemas.settings import Settings

uvicorn = pytest.importorskip("uvicorn", reason="the extra `ui` is not installed")
from slowwave.ui.app import Explorer, make_app  # noqa: E402

CHROMIUM = shutil.which("chromium")


@dataclass
class Served:
    """An app that listens."""

    address: str
    explorer: Explorer

    @property
    def token(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.explorer.token}"}

    def get(self, path: str, **headers: str) -> httpx.Response:
        return httpx.get(self.address + path, headers=self.token | headers, timeout=60)


def serve(store: Path, **options: bool) -> Iterator[Served]:
    app = make_app(Settings(store=store, encoder="hash-384"), **options)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    yield Served(f"http://127.0.0.1:{port}", app.state.explorer)
    server.should_exit = True
    thread.join(10)


@pytest.fixture(scope="module")
def site(samples_night: tuple[Path, RunReport], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    store = tmp_path_factory.mktemp("ui") / "store"
    shutil.copytree(samples_night[0], store)
    yield from serve(store)


def test_only_the_pages_of_this_machine_with_the_token_are_answered(site: Served) -> None:
    assert httpx.get(f"{site.address}/search").status_code == 401
    assert site.get("/search", authorization="Bearer wrong").status_code == 401
    assert site.get("/search", host="evil.example").status_code == 400
    entered = httpx.get(f"{site.address}/search?q=tide&token={site.explorer.token}")
    assert entered.status_code == 303
    assert entered.headers["location"] == "/search?q=tide"
    assert all(word in entered.headers["set-cookie"].lower() for word in ("httponly", "samesite=strict"))
    answer = site.get("/search")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "script-src" not in answer.headers["content-security-policy"]
    assert "access-control-allow-origin" not in answer.headers
