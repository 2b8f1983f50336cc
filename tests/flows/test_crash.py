"""Killed with SIGKILL after each step, at random, and two at once: every table equals that of a night that was never
disturbed.
"""

import os
import random
import signal
import time
from pathlib import Path

from slowwave.flows.nightly import STEPS
from slowwave.schemas.tables import TABLES
from slowwave.store import Store
from slowwave.store.publishing import read_releases
from tests.killed_nights import COMPARED, digests, finished, night

KILLS = int(os.environ.get("SLOWWAVE_KILLS", "8"))


def test_killed_after_each_step(undisturbed: dict[str, str], tmp_path: Path) -> None:
    last = len(STEPS) + 2  # the reading before them, the release after them
    for step in range(1, last + 1):
        assert finished(night(tmp_path, die_after=step)) == -signal.SIGKILL
        # Only publish releases: until it is through, a reader sees nothing of a half-done night.
        assert len(read_releases(Store.open(tmp_path))) == (step == last)
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


def test_killed_again_and_again_at_random_times(
    undisturbed: dict[str, str], tmp_path: Path
) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")  # shown when the test fails
    times = random.Random(seed)
    for _ in range(KILLS):
        process = night(tmp_path)
        time.sleep(times.uniform(0.05, 1.5))
        process.kill()
        finished(process)
    assert finished(night(tmp_path)) == 0
    assert digests(tmp_path) == undisturbed
