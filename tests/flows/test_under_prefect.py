"""A night by the command line where Prefect's server does not come, or is dead."""

import os
import subprocess
import sys
from pathlib import Path

from tests.command_line import typed
from tests.vllm_servers import free_port

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "data" / "samples" / "codex"


def start_night(folder: Path, **prefect: str) -> subprocess.Popen[str]:
    folder.mkdir()
    given = {"SLOWWAVE_ENCODER": "hash-384", "SLOWWAVE_KEYWORDS__TOP": "0", "PREFECT_HOME": str(folder / "prefect")}
    command = [sys.executable, "-m", "slowwave", "run", str(SAMPLES), "--store", str(folder / "store")]
    own, pipe = {**os.environ, **given, **prefect, "PYTHONPATH": str(ROOT)}, subprocess.PIPE
    return subprocess.Popen(command, env=own, stdout=pipe, stderr=pipe, text=True)


def test_a_server_that_does_not_come_or_is_dead_ends_the_night_in_a_line_and_plain_it_goes(tmp_path: Path) -> None:
    late, dead = tmp_path / "late", tmp_path / "dead"
    nights = {
        late: start_night(late, PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS="0"),
        dead: start_night(dead, PREFECT_API_URL=f"http://127.0.0.1:{free_port()}/api"),
    }
    for folder, night in nights.items():
        _, trouble = night.communicate()
        assert night.returncode == 1
        (line,) = [line for line in trouble.splitlines() if not line.endswith(" s")]  # how far it is
        assert line.startswith("slowwave: Prefect failed (RuntimeError: ")
        assert line.endswith("`slowwave run --plain` does a night without Prefect")
        assert not (folder / "store").exists()
    told = typed("run", SAMPLES, "--plain", "--store", tmp_path / "plain", env={"SLOWWAVE_ENCODER": "hash-384"})
    assert (told.exit_code, "Released r1" in told.output) == (0, True), told.output
