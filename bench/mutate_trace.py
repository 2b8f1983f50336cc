"""A plugin of pytest for `bench/mutate.py`: which tests reach which lines of the files named in MUTATE_FILES.

What a fixture reaches while it is set up counts for every test of that file: they may share it. Written as JSON to
MUTATE_LINES: file -> line -> tests, by node id or by file; those of the quickest file first.
"""

import json
import os
import sys
import threading
from collections import defaultdict
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from time import perf_counter
from types import FrameType
from typing import Any

import pytest

FILES = frozenset(os.environ.get("MUTATE_FILES", "").split(os.pathsep))
REACHED: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
SECONDS: dict[str, float] = defaultdict(float)
"""That a test took, and those of a file together."""


@cache
def find_file(name: str) -> str | None:
    """Return the file that code is of, past links, where it is one of those looked at."""
    real = os.path.realpath(name)
    return real if real in FILES else None


@contextmanager
def note_lines(test: str) -> Iterator[None]:
    """Note each line that is run meanwhile, in every thread."""

    def enter(frame: FrameType, event: str, arg: object) -> Any:
        return note if find_file(frame.f_code.co_filename) else None

    def note(frame: FrameType, event: str, arg: object) -> Any:
        file = find_file(frame.f_code.co_filename)
        if event == "line" and file:
            REACHED[file][frame.f_lineno].add(test)
        return note

    start = perf_counter()
    threading.settrace(enter)
    sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]  # typeshed knows no way back
        for name in {test, test.split("::")[0]}:
            SECONDS[name] += perf_counter() - start


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """Note what the test's fixtures reach, for its whole file."""
    with note_lines(item.nodeid.split("::")[0]):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Note what the test itself reaches."""
    with note_lines(item.nodeid):
        return (yield)


def pytest_sessionfinish() -> None:
    """Write down what was reached."""
    order = {test: (SECONDS[test.split("::")[0]], SECONDS[test]) for test in SECONDS}
    told = {
        file: {line: sorted(tests, key=lambda test: order[test]) for line, tests in lines.items()}
        for file, lines in REACHED.items()
    }
    Path(os.environ["MUTATE_LINES"]).write_text(json.dumps(told), encoding="utf-8")
