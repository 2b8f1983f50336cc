"""Wait for a state, not for a number of seconds: a test takes as long as the machine needs."""

import time
from collections.abc import Callable

PATIENCE = 1_000
"""Seconds after which a test gives up. It ends a test that hangs, and none that is only slow.

It is less than `faulthandler_timeout` (pyproject.toml), which ends what waits for nothing of this kind."""


def wait_until(
    true: Callable[[], object],
    otherwise: Callable[[], object] = lambda: "",
    every: float = 0.1,
    patience: float = PATIENCE,
) -> None:
    """Return as soon as `true` returns something true, asked every so many seconds.

    Args:
        true: The state; it may raise an assertion if the state can no longer come.
        otherwise: The message, if the state does not come.
        every: Seconds between two looks.
        patience: Seconds after which it gives up.
    """
    until = time.monotonic() + patience
    while not true():
        assert time.monotonic() < until, otherwise()
        time.sleep(every)
