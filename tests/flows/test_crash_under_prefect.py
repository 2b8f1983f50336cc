"""A night under Prefect killed with its server, at random times: a plain night goes on to the same tables."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.killed_nights import SAMPLES, SMALL, SMALL_COMMITS, digests, finished, night

KILLS = int(os.environ.get("SLOWWAVE_KILLS", "1"))
NIGHT = """
import json, sys
from slowwave.cli.common import import_prefect_quietly

import_prefect_quietly()
from slowwave.flows.prefect import run_night_under_prefect

run_night_under_prefect([sys.argv[1]], {"store": sys.argv[2], **json.loads(sys.argv[3])})
"""


def test_killed_under_prefect(undisturbed: dict[str, str], tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")  # shown when the test fails
    times, store = random.Random(seed), tmp_path / "store"
    own = {**os.environ, "PREFECT_HOME": str(tmp_path / "prefect"), "DO_NOT_TRACK": "1"}
    for kill in range(KILLS):
        words = [sys.executable, "-c", SMALL_COMMITS + NIGHT, str(SAMPLES), str(store), json.dumps(SMALL)]
        process = subprocess.Popen(words, env=own, start_new_session=True, stderr=subprocess.DEVNULL)
        holder = store / "default" / "writer.json"
        left = holder.stat().st_mtime_ns if holder.exists() else 0
        while process.poll() is None and not (holder.exists() and holder.stat().st_mtime_ns != left):
            time.sleep(0.02)  # Prefect's server starts; then the run takes the lock
        time.sleep(times.uniform(0.05, 3))
        os.killpg(process.pid, signal.SIGKILL)  # the night and the server that it started
        assert process.wait() in (-signal.SIGKILL, 0), kill
    assert finished(night(store)) == 0
    assert digests(store) == undisturbed
