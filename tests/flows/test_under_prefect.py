"""A night by the command line where Prefect's server does not come, or is dead."""

import os
import socket
import subprocess
import sys
from pathlib import Path

from slowwave.schemas.tables import RUNS
from slowwave.store import Store
from slowwave.store.releases import read_releases

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "data" / "samples" / "codex"


def closed_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def start_night(folder: Path, **prefect: str) -> subprocess.Popen[str]:
    folder.mkdir()
    given = {"SLOWWAVE_ENCODER": "hash-384", "SLOWWAVE_KEYWORDS__TOP": "0", "PREFECT_HOME": str(folder / "prefect")}
    command = [
        sys.executable,
        "-c",
        "from slowwave.cli.main import main; main()",
        "run",
        str(SAMPLES),
        "--store",
        str(folder / "store"),
    ]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, env={**os.environ, **given, **prefect, "PYTHONPATH": str(ROOT)}, stdout=pipe, stderr=pipe, text=True
    )


def test_a_night_goes_on_without_a_server_that_does_not_come_or_is_dead(tmp_path: Path) -> None:
    late, dead = tmp_path / "late", tmp_path / "dead"
    nights = {
        late: start_night(late, PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS="0"),
        dead: start_night(dead, PREFECT_API_URL=f"http://127.0.0.1:{closed_port()}/api"),
    }
    for folder, night in nights.items():
        said, trouble = night.communicate()
        assert night.returncode == 0, trouble
        assert "Released r1" in said
        (line,) = [line for line in trouble.splitlines() if not line.endswith(" s")]  # how far it is
        assert line.startswith("slowwave: Prefect failed, so nightly goes on without it (RuntimeError: ")
        store = Store.open(folder / "store")
        assert [one.name for one in read_releases(store)] == ["r1"]
        assert store.count(RUNS) == 1
