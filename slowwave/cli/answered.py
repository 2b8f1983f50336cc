"""Commands that the resident reader answers: it runs them as this process would, and this process writes their output.

What ends with an error, and all that is not answered, is run by this process itself. Only the standard library is
imported.
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
"""Options of which each has the command run here: of help, an earlier release, and the web that takes its time."""
SECONDS = 30.0
"""Seconds that a command waits for the resident reader."""


class Output(NamedTuple):
    """What a command wrote: pairs of file descriptor and bytes."""

    chunks: list[tuple[int, bytes]]

    def write(self) -> None:
        """Write it to this process's streams. Whoever reads a part alone, as `head` does, ends it with status 1."""
        try:
            for descriptor, content in self.chunks:
                stream = (sys.stdout if descriptor == 1 else sys.stderr).buffer
                stream.write(content)
                stream.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            raise SystemExit(1) from None


def ask_for(words: Sequence[str]) -> Output | None:
    """Return what the reader's run of a command line wrote; None if this process has to run it."""
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
    answer = ask(request, store, space, SECONDS)
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
    """Return an option's value; None if it is not there. The reader parses the words anew, and refuses what differs."""
    for at, word in enumerate(words):
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
        if word == name:
            return next(iter(words[at + 1 : at + 2]), None)
    return None
