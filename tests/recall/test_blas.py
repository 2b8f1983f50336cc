"""numpy's products on one thread while somebody is inside, and on all of them after."""

import os
import subprocess
import sys

THREADS = """
import numpy
from threadpoolctl import threadpool_info
from slowwave.recall.release.tables import limit_blas_threads

def blas():
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}

before, first, second = blas(), limit_blas_threads(), limit_blas_threads()
first.__enter__(); second.__enter__()
inside = blas()
first.__exit__(None, None, None)
between = blas()
second.__exit__(None, None, None)
print(before, inside, between, blas())
"""


def test_one_blas_thread_until_the_last_is_out_and_the_others_come_back() -> None:
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", THREADS],
        capture_output=True,
        text=True,
        check=True,
        env=env,
    )
    assert done.stdout.strip() == "{2} {1} {1} {2}"
