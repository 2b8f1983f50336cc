"""`make serve` as it is: a real server, a real worker, a night that its schedule starts, and one Ctrl-C."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
import yaml

from slowwave.flows.status import find_next_night
from slowwave.store import Store
from slowwave.store.publishing import read_releases
from tests.vllm_servers import free_port
from tests.waiting import PATIENCE, wait_until

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "data" / "samples" / "codex"


def write_deployments(folder: Path) -> Path:
    """The nightly deployment as it ships, but for one schedule more and what it reads and writes."""
    declared = yaml.safe_load((ROOT / "deployments" / "prefect.yaml").read_text())
    nightly = next(one for one in declared["deployments"] if one["name"] == "nightly")
    nightly["schedules"].append({"interval": 20, "active": True})
    overrides = {
        "store": str(folder / "store"),
        "encoder": "hash-384",
        "keywords": {"top": 0},
    }
    nightly["parameters"] = {"paths": [str(SAMPLES)], "overrides": overrides}
    written = folder / "prefect.yaml"
    written.write_text(yaml.safe_dump({**declared, "deployments": [nightly]}))
    return written


def processes_of(session: int) -> list[int]:
    listed = subprocess.run(
        ["ps", "-A", "-o", "pid="], capture_output=True, text=True, check=True
    ).stdout
    found = []
    for pid in map(int, listed.split()):
        try:
            if os.getsid(pid) == session:
                found.append(pid)
        except ProcessLookupError:
            continue
    return found


def ask(port: int, what: str) -> list[dict[str, Any]]:
    asked = Request(
        f"http://127.0.0.1:{port}/api/{what}/filter",
        b"{}",
        {"Content-Type": "application/json"},
    )
    try:
        with urlopen(asked, timeout=60) as answer:
            found: list[dict[str, Any]] = json.load(answer)
    except OSError:  # the server is on its way
        return []
    return found


def states_of_runs(port: int) -> set[str]:
    return {
        run["state_name"] for run in ask(port, "flow_runs") if run["auto_scheduled"]
    }


@pytest.fixture
def served(
    prefect_home: Path, tmp_path: Path
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """`deployments/serve.sh` in a session of its own, of which nothing is left at the end."""
    port = free_port()
    given = {
        "PORT": str(port),
        "DEPLOYMENTS": str(write_deployments(tmp_path)),
        "PREFECT_HOME": str(prefect_home),
        "TZ": "Asia/Tokyo",
        "PREFECT_WORKER_QUERY_SECONDS": "2",
        "PREFECT_SERVER_UI_ENABLED": "false",
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    command = [str(ROOT / "deployments" / "serve.sh"), str(Path(sys.executable).parent)]
    with (tmp_path / "log").open("wb") as log:
        started = subprocess.Popen(
            command,
            env={**os.environ, **given},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            yield started, port
        finally:
            for pid in processes_of(started.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            started.wait()


def test_a_scheduled_night_comes_and_one_ctrl_c_ends_all(
    served: tuple[subprocess.Popen[bytes], int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script, port = served

    def comes() -> bool:
        assert script.poll() is None
        states = states_of_runs(port)
        assert not {"Failed", "Crashed"} & states, (tmp_path / "log").read_text()[
            -5_000:
        ]
        return "Completed" in states

    wait_until(
        comes,
        lambda: (states_of_runs(port), (tmp_path / "log").read_text()[-5_000:]),
        every=1,
    )
    assert [one.name for one in read_releases(Store.open(tmp_path / "store"))] == ["r1"]
    wait_until(lambda: ask(port, "deployments"))
    schedules = [
        one["schedule"]
        for deployed in ask(port, "deployments")
        for one in deployed["schedules"]
    ]
    assert [one["timezone"] for one in schedules if one.get("cron") == "0 3 * * *"] == [
        "Asia/Tokyo"
    ]
    monkeypatch.setenv("PREFECT_API_URL", f"http://127.0.0.1:{port}/api")
    told: list[str] = []
    # A busy server does not answer each time in the 2 s that a person waits.
    wait_until(lambda: told.append(find_next_night() or "") or told[-1], every=1)
    assert re.fullmatch(r"\d+ \w{3} \d{4}, \d\d:\d\d", told[-1])
    # Whose name has the word.
    log = (tmp_path / "log").read_text().replace(str(tmp_path), "")
    assert [
        line for line in log.splitlines() if "| ERROR" in line and "schedule" in line
    ] == []
    assert len(processes_of(script.pid)) >= 3

    os.killpg(script.pid, signal.SIGINT)
    assert script.wait(PATIENCE) == 130
    assert processes_of(script.pid) == []
    assert "KeyboardInterrupt" not in (tmp_path / "log").read_text()
