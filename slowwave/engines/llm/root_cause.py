"""Find the cause of a failure that another process writes only to its standard error.

vLLM's engine is a separate process. If it can't start, the client's error only says "See root cause above"; the cause
is the last line of the traceback that the engine wrote.
"""

import os
import re
import threading
import traceback
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

SECONDS = 2.0
"""Seconds to wait for the last lines of a process that has ended."""
RAISED = re.compile(
    r"(?:^|\s)((?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit)\b: \S.*)$"
)
"""The last line of a traceback, after a prefix that names the process."""
ELSEWHERE = "root cause"
"""Part of the message of an error that only refers to another one."""


@contextmanager
def watch_stderr(lines: deque[str]) -> Iterator[None]:
    """Add to `lines` the standard error of this process, and of processes that it starts in the block.

    Every line is still written to standard error, also after the block.
    """
    own = os.dup(2)
    reading, writing = os.pipe()

    def forward() -> None:
        with (
            os.fdopen(own, "wb", buffering=0) as out,
            os.fdopen(reading, "rb") as heard,
        ):
            for line in heard:
                lines.append(line.decode(errors="replace").rstrip())
                out.write(line)

    os.dup2(writing, 2)
    os.close(writing)
    restored = os.dup(own)
    thread = threading.Thread(target=forward, name="slowwave-stderr", daemon=True)
    thread.start()
    try:
        yield
    except BaseException:
        os.dup2(restored, 2)
        thread.join(SECONDS)  # it ends with the last process that could write
        raise
    finally:
        os.dup2(restored, 2)
        os.close(restored)


def find_root_cause(error: Exception, lines: Iterable[str]) -> str:
    """Return an error's kind and message; if it refers to another error, the last one in `lines` that does not."""
    message = traceback.format_exception_only(error)[-1].strip()
    if ELSEWHERE not in message:
        return message
    raised = [match[1] for line in lines if (match := RAISED.search(line))]
    return next(
        (cause for cause in reversed(raised) if ELSEWHERE not in cause), message
    )
