"""One BLAS thread for small products: on a machine that has other work its threads wait longer for each other.

numpy's BLAS splits even a product of 20 rows over all cores and spins until the last is done. With the cores busy a
query may then take 15 times as long (`docs/decisions/006-one-blas-thread.md`). The limit is the process's own: while it
holds, other threads' numpy computes on one thread too, and the last to leave restores what was there.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock

from threadpoolctl import ThreadpoolController


class _Limit:
    """Who is inside, and what the last one restores: threads may enter and leave in any order."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.inside = 0
        self.held: object = None


LIMIT = _Limit()


@contextmanager
def limit_blas_threads() -> Iterator[None]:
    """Compute products inside by the thread that asks. Costs 0.02 ms; may be entered by many threads at once."""
    with LIMIT.lock:
        if LIMIT.inside == 0:
            LIMIT.held = _find_blas_libraries().limit(limits=1, user_api="blas")
        LIMIT.inside += 1
    try:
        yield
    finally:
        with LIMIT.lock:
            LIMIT.inside -= 1
            if LIMIT.inside == 0:
                LIMIT.held.restore_original_limits()  # type: ignore[attr-defined]
                LIMIT.held = None


@cache
def _find_blas_libraries() -> ThreadpoolController:
    """Return the BLAS libraries that are loaded, found once (2 ms); numpy's is there from its import on."""
    return ThreadpoolController()
