"""What a process wrote to standard error, as the cause of a failure."""

import os
import subprocess
import sys
import threading
from collections import deque

import pytest

from slowwave.engines.llm.root_cause import find_root_cause, watch_stderr

POINTER = RuntimeError(
    "Engine core initialization failed. See root cause above. Failed core proc(s): {}"
)


def test_the_cause_is_what_another_process_raised(
    capfd: pytest.CaptureFixture[str],
) -> None:
    written: deque[str] = deque(maxlen=9)
    program = "import sys; print('(W pid=1) ERROR [x.py:1] ValueError: first', file=sys.stderr); {}['cache']"

    def fail() -> None:
        with watch_stderr(written):
            subprocess.run([sys.executable, "-c", program], check=False)
            raise POINTER

    with pytest.raises(RuntimeError):
        fail()
    assert find_root_cause(POINTER, written) == "KeyError: 'cache'"
    assert "KeyError: 'cache'" in capfd.readouterr().err  # it went on to the terminal
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "after\n"
    assert "after" not in written


def test_an_error_that_points_nowhere_is_its_own_cause() -> None:
    assert (
        find_root_cause(ValueError("no such dtype"), ["KeyError: 'x'"])
        == "ValueError: no such dtype"
    )
    assert find_root_cause(KeyError(), []) == "KeyError"
    elsewhere = "Exception: WorkerProc failed, see the stack trace for root cause"
    assert find_root_cause(POINTER, [elsewhere]) == f"RuntimeError: {POINTER}"


def test_a_process_that_outlives_the_block_is_still_heard(
    capfd: pytest.CaptureFixture[str],
) -> None:
    program = "import sys; sys.stdin.read(); print('late', file=sys.stderr)"
    with watch_stderr(deque(maxlen=9)):
        child = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE)
    child.communicate()
    for thread in threading.enumerate():
        if thread.name == "slowwave-stderr":
            thread.join()
    assert capfd.readouterr().err == "late\n"
