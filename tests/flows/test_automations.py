"""Nights on a real Prefect server over PostgreSQL, and what its automations tell a webhook when they go wrong."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from prefect.blocks.notifications import CustomWebhookNotificationBlock
from prefect.logging.handlers import APILogWorker
from prefect.settings import PREFECT_API_URL, temporary_settings

from slowwave.flows.parts.report import NightIncomplete
from slowwave.flows.prefect import nightly, restore_words
from slowwave.schemas.tables import CLAIMS
from slowwave.store import Store
from slowwave.tasks.publish import gates
from slowwave.tasks.publish.gates import Bounds
from tests.flows.test_serve import ROOT, SAMPLES, free_port
from tests.waiting import PATIENCE, wait_until

PREFECT = str(Path(sys.executable).with_name("prefect"))


@contextmanager
def listen() -> Iterator[tuple[str, set[str]]]:
    """Yield the address of a webhook, and the subjects that it has been sent."""
    told: set[str] = set()

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.add(
                json.loads(self.rfile.read(int(self.headers["Content-Length"])))[
                    "subject"
                ]
            )
            self.send_response(204)
            self.end_headers()

    with ThreadingHTTPServer(("127.0.0.1", 0), Hook) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", told
        server.shutdown()


@contextmanager
def start(log: Path, *command: str, **options: Any) -> Iterator[None]:
    with log.open("wb") as written:
        process = subprocess.Popen(command, stdout=written, stderr=written, **options)
    try:
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE)


@contextmanager
def start_postgres(log: Path) -> Iterator[str | None]:
    """Yield the address of an empty database; None where PostgreSQL is not installed. It refuses to run as root."""
    places = os.pathsep.join(
        [os.environ["PATH"], *map(str, Path("/usr/lib/postgresql").glob("*/bin"))]
    )
    if (initdb := shutil.which("initdb", path=places)) is None:
        yield None
        return
    user: dict[str, Any] = (
        {"user": "postgres", "group": "postgres", "extra_groups": []}
        if os.geteuid() == 0
        else {}
    )
    with TemporaryDirectory() as folder, ExitStack() as stack:
        if user:
            shutil.chown(folder, "postgres", "postgres")
        data, port = f"{folder}/data", free_port()
        made = [
            initdb,
            "--pgdata",
            data,
            "--username",
            "prefect",
            "--auth",
            "trust",
            "--no-sync",
        ]
        subprocess.run(made, check=True, cwd=folder, stdout=subprocess.DEVNULL, **user)
        server = (
            str(Path(initdb).resolve().with_name("postgres")),
            "-D",
            data,
            "-h",
            "127.0.0.1",
            "-p",
            f"{port}",
        )
        stack.enter_context(start(log, *server, "-k", folder, cwd=folder, **user))
        yield f"postgresql+asyncpg://prefect@127.0.0.1:{port}/postgres"


@contextmanager
def start_server(home: Path, database: str | None) -> Iterator[None]:
    port = free_port()
    given = {
        "PREFECT_HOME": str(home),
        "PREFECT_SERVER_UI_ENABLED": "false",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    }
    stored = (
        {} if database is None else {"PREFECT_SERVER_DATABASE_CONNECTION_URL": database}
    )
    command = (PREFECT, "server", "start", "--host", "127.0.0.1", "--port", f"{port}")

    def answers() -> bool:
        try:
            return bool(
                urlopen(f"http://127.0.0.1:{port}/api/health", timeout=5).status == 200
            )
        except (URLError, OSError):
            return False

    with start(
        home.with_name("server.log"), *command, env={**os.environ, **given, **stored}
    ):
        wait_until(answers)
        with temporary_settings({PREFECT_API_URL: f"http://127.0.0.1:{port}/api"}):
            yield
            # Prefect's services would ask this server in the next tests.
            APILogWorker.drain_all(timeout=PATIENCE)


def test_what_goes_wrong_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gates, "BOUNDS", Bounds(claims=10))
    usual = {
        "store": str(tmp_path / "store"),
        "encoder": "hash-384",
        "keywords": {"top": 0},
        "gates": {"max_lost": 0.2},
    }
    with (
        listen() as (url, told),
        start_postgres(tmp_path / "postgres.log") as database,
        start_server(tmp_path / "prefect", database),
    ):
        block = CustomWebhookNotificationBlock(
            name="hook", url=url, json_data={"subject": "{{subject}}"}
        )
        block_id = block.save("hook")
        text = (ROOT / "deployments" / "automations.yaml").read_text()
        file = tmp_path / "automations.yaml"
        file.write_text(
            text.replace("00000000-0000-0000-0000-000000000000", f"{block_id}").replace(
                "93600", "10"
            )
        )
        made = [PREFECT, "automation", "create", "--from-file", str(file)]
        given = {**os.environ, "PREFECT_API_URL": PREFECT_API_URL.value()}
        assert "Created 4 automation(s)" in subprocess.check_output(
            made, env=given, text=True
        )

        assert nightly([str(SAMPLES)], usual).release is not None
        store = Store.open(tmp_path / "store")
        ids = store.read(CLAIMS, ["claim_id"])[0].to_pylist()
        store.delete_ids(CLAIMS, ids[: len(ids) // 2])
        with pytest.raises(NightIncomplete), restore_words():
            nightly([], usual)
        wait_until(lambda: "slowwave gate held" in told, lambda: told)
        with pytest.raises(
            Exception, match="setting encoder: Input should be a valid string"
        ):
            nightly([], {**usual, "encoder": 1})
        wait_until(
            lambda: {"slowwave night failed", "slowwave lag too long"} <= told,
            lambda: told,
        )
    assert "slowwave night crashed" not in told
    if database is None:
        pytest.skip("PostgreSQL is not installed: Prefect kept these nights in SQLite")
