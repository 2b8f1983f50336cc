"""Killed with SIGKILL anywhere, run again: every table equals that of a night that was never disturbed."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slowwave.schemas.tables import MARKS, RELEASED, TABLES, VECTORS
from slowwave.store import Store
from slowwave.store.digest import compute_table_digest
from slowwave.store.releases import read_releases

SAMPLES = Path(__file__).parents[2] / "data" / "samples"
COMPARED = (*RELEASED, MARKS, VECTORS)

NIGHT = """
import os, signal, sys
from pathlib import Path
from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings

store, samples, die_after = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
done = 0

def call(step, *args):
    global done
    report = step(*args)
    done += 1
    if done == die_after:
        os.kill(os.getpid(), signal.SIGKILL)
    return report

print("started", flush=True)
small = {"batch_messages": 50, "batch_files": 3}  # so that reading has many commits to be killed between
run_night([samples], Settings(store=store, encoder="hash-384", read=small, keywords={"top": 0}), call)
print("ended", flush=True)
"""
STEPS = 11
KILLS = int(os.environ.get("SLOWWAVE_KILLS", "8"))


def night(store: Path, die_after: int = 0) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", NIGHT, str(store), str(SAMPLES), str(die_after)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "DO_NOT_TRACK": "1"})


def finished(process: subprocess.Popen[str]) -> int:
    process.communicate()
    return process.returncode


def digests(store: Path) -> dict[str, str]:
    opened = Store.open(store)
    return {table.name: compute_table_digest(table, opened.read(table)) for table in COMPARED}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    store = tmp_path_factory.mktemp("undisturbed")
    assert finished(night(store)) == 0
    return digests(store)


def test_killed_after_each_step(undisturbed: dict[str, str], tmp_path: Path) -> None:
    for step in range(1, STEPS + 1):
        assert finished(night(tmp_path, die_after=step)) == -signal.SIGKILL
        # Only publish releases: until it is through, a reader sees nothing of a half-done night.
        assert len(read_releases(Store.open(tmp_path))) == (step == STEPS)
    assert finished(night(tmp_path)) == 0
    assert digests(tmp_path) == undisturbed


def test_killed_again_and_again_at_random_times(undisturbed: dict[str, str], tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")  # shown when the test fails
    times = random.Random(seed)
    for _ in range(KILLS):
        process = night(tmp_path)
        assert process.stdout is not None
        process.stdout.readline()  # "started": the imports are done
        time.sleep(times.uniform(0.05, 1.5))
        process.send_signal(signal.SIGKILL)
        finished(process)
    assert finished(night(tmp_path)) == 0
    assert digests(tmp_path) == undisturbed


def test_two_runs_at_once(undisturbed: dict[str, str], tmp_path: Path) -> None:
    first, second = night(tmp_path), night(tmp_path)
    codes = sorted([finished(first), finished(second)])
    # Which of the two is refused is chance; one that starts when the other has ended finds nothing to do.
    assert codes in ([0, 1], [0, 0])
    assert digests(tmp_path) == undisturbed
    assert len(read_releases(Store.open(tmp_path))) == 1
    assert {t.name for t in TABLES.values()} > {t.name for t in COMPARED}
