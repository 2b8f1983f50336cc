"""Let the resident reader run a command, and write the output of that command in this process.

If the command fails there, or the reader does not answer, this process runs the command itself. Only the standard
library is imported.
"""

import os
import sys
from collections.abc import Sequence
from typing import NamedTuple

from slowwave.resident.client import ask

SERVED = (
    "recall",
    "context",
    "briefing",
    "recent",
)
"""Commands that read one space and write nothing but their answer."""
NOT_SERVED = (
    "--help",
    "--release",
    "--web",
)
"""Options with which this process runs the command itself: help, an earlier release, and the web, which is slow."""
SECONDS = 30.0
"""Seconds that a command waits for the resident reader."""


class Output(NamedTuple):
    """What a command wrote: pairs of file descriptor and bytes."""

    chunks: list[tuple[int, bytes]]

    def write(self) -> None:
        """Write the output to this process's streams.

        If the other side closes the pipe, as `head` does, exit with 1.
        """
        try:
            for descriptor, content in self.chunks:
                stream = (sys.stdout if descriptor == 1 else sys.stderr).buffer
                stream.write(content)
                stream.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            raise SystemExit(1) from None


def ask_for(words: Sequence[str]) -> Output | None:
    """Return the output of a command line that the reader ran; None if this process has to run it."""
    if not words or words[0] not in SERVED:
        return None
    named = [word.partition("=")[0] for word in words]
    if not set(named).isdisjoint(NOT_SERVED) or named.count("--space") > 1:
        return None
    streams = [
        [stream.encoding, stream.errors, stream.isatty()]
        for stream in (sys.stdout, sys.stderr)
    ]
    request = {
        "do": "command",
        "words": list(words),
        "streams": streams,
    }
    store, space = (find_option(words, name) for name in ("--store", "--space"))
    answer = ask(request=request, store=store, space=space, seconds=SECONDS)
    try:
        return Output(
            [
                (int(descriptor), text.encode("latin-1"))
                for descriptor, text in (answer or {})["chunks"]
            ]
        )
    except (LookupError, TypeError, ValueError, AttributeError):
        return None


def find_option(words: Sequence[str], name: str) -> str | None:
    """Return the value of an option in a command line; None if it is missing.

    This only chooses the reader. The reader parses the words itself, and refuses another store or space.
    """
    for at, word in enumerate(words):
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
        if word == name:
            return next(iter(words[at + 1 : at + 2]), None)
    return None
