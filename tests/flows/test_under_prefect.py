"""When a night by the command line runs under Prefect, and that no server keeps it from running."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slowwave.cli import under_prefect
from slowwave.cli.under_prefect import find_server
from tests.vllm_servers import free_port

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "data" / "samples" / "codex"


def do_night(
    folder: Path, *options: str, **prefect: str
) -> subprocess.CompletedProcess[str]:
    given = {
        "SLOWWAVE_ENCODER": "hash-384",
        "SLOWWAVE_KEYWORDS__TOP": "0",
        "PREFECT_HOME": str(folder / "prefect"),
    }
    command = [
        sys.executable,
        "-m",
        "slowwave",
        "run",
        str(SAMPLES),
        "--store",
        str(folder / "store"),
        *options,
    ]
    own = (
        {name: value for name, value in os.environ.items() if name != "PREFECT_API_URL"}
        | given
        | prefect
    )
    return subprocess.run(
        command,
        env=own | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that accepts a connection and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/api"


def test_a_night_is_plain_unless_the_environment_or_an_option_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(under_prefect, "_find_trouble", lambda server: "")
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    assert [find_server(wanted) for wanted in (None, False, True)] == [
        None,
        None,
        "http://127.0.0.1:4200/api",
    ]
    monkeypatch.setenv("PREFECT_API_URL", "https://prefect.example/api")
    servers = [find_server(wanted) for wanted in (None, False, True)]
    assert servers == [
        "https://prefect.example/api",
        None,
        "https://prefect.example/api",
    ]
    monkeypatch.setenv("PREFECT_API_URL", "")  # as a shell unsets it for one command
    assert find_server(None) is None


def test_a_plain_night_imports_no_prefect_and_a_dead_server_costs_a_line(
    tmp_path: Path,
) -> None:
    plain = do_night(tmp_path / "plain")
    assert (plain.returncode, "Released r1" in plain.stdout) == (0, True), plain.stderr
    assert not (tmp_path / "plain" / "prefect").exists()
    port = free_port()
    dead = do_night(
        tmp_path / "dead", PREFECT_API_URL=f"http://ada:secret@127.0.0.1:{port}/api"
    )
    assert (dead.returncode, "Released r1" in dead.stdout) == (0, True), dead.stderr
    note = f"note: no Prefect server answers at 127.0.0.1:{port} ("
    assert [
        line
        for line in dead.stderr.splitlines()
        if "Prefect" in line and line.startswith(note)
    ]
    assert "secret" not in dead.stderr


def test_a_server_that_says_nothing_or_is_none_costs_a_line(
    silent: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(under_prefect, "PATIENCE", 0.2)
        for address in (silent, "nonsense", "http://", "ftp://127.0.0.1/x"):
            patch.setenv("PREFECT_API_URL", address)
            assert find_server(None) is None
            assert capsys.readouterr().err.endswith("): the night goes on without it\n")
