"""The cause of a failure that another process names on its standard error alone.

vLLM's engine is a process of its own. When it can't start, the client's error says "See root cause above" and nothing
more; the cause is the last line of a traceback that the engine wrote.
"""

import os
import re
import threading
import traceback
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

SECONDS = 2.0
"""How long the last lines of a process that has ended are waited for."""
RAISED = re.compile(r"(?:^|\s)((?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit)\b: \S.*)$")
"""The last line of a traceback, behind whatever names the process."""
ELSEWHERE = "root cause"
"""In the message of an error that only points to another one."""


@contextmanager
def watch_stderr(lines: deque[str]) -> Iterator[None]:
    """Add to `lines` what this process, and those that it starts inside, write to standard error.

    Every line still goes to standard error as it was, after the block too.
    """
    own = os.dup(2)
    reading, writing = os.pipe()

    def forward() -> None:
        with os.fdopen(own, "wb", buffering=0) as out, os.fdopen(reading, "rb") as heard:
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
    """Return an error's kind and message; of one that points to another, the last one in `lines` that doesn't."""
    message = traceback.format_exception_only(error)[-1].strip()
    if ELSEWHERE not in message:
        return message
    raised = [match[1] for line in lines if (match := RAISED.search(line))]
    return next((cause for cause in reversed(raised) if ELSEWHERE not in cause), message)
