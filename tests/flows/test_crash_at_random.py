"""Killed with SIGKILL at random times, run again: every table equals that of a night that was never disturbed."""

import os
import random
import time
from pathlib import Path

from tests.killed_nights import digests, finished, night

KILLS = int(os.environ.get("SLOWWAVE_KILLS", "8"))


def test_killed_again_and_again_at_random_times(undisturbed: dict[str, str], tmp_path: Path) -> None:
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
