"""The process of a resident reader: `python -m slowwave.cli.agents.resident SOCKET LOCK`, started by its first client.

It keeps one memory open, and answers hooks and commands by the same functions that the direct way calls, in the
client's folder, environment and streams. An answer counts only if the release and the verdicts on notes are still those
that it was made of, looked up before and after: what was forgotten meanwhile is never told. Whatever ends otherwise
than well is left to the client, which then runs it directly and shows the error.
"""

import io
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slowwave.resident.place import make_address
from slowwave.resident.server import Resident, is_memory_short
from slowwave.resident.wire import Frame

if TYPE_CHECKING:
    from slowwave.mcp.server import StrictTool
    from slowwave.memory import Memory
    from slowwave.schemas.settings import Settings
    from slowwave.store.releases import Release

TRIES = 3
"""Attempts at an answer while releases come in between."""
Stamp = tuple[tuple[int, int, int], ...]


class Passed(Exception):
    """The client has to do the work itself."""


class KeptMemory:
    """Keeps the memory of one store and space open, and answers from it."""

    def __init__(self) -> None:
        self.is_over = False
        self._place: tuple[str, str] | None = None
        self._settings: Settings | None = None
        self._memory: Memory | None = None
        self._stamp: Stamp = ()
        self._opened: dict[int, Release] = {}
        self._tools: tuple[Settings, dict[str, StrictTool]] | None = None

    def describe(self) -> Frame:
        """Return the store and the space; None for each before the first answer."""
        store, space = self._place or (None, None)
        return {"store": store, "space": space}

    def look(self) -> None:
        """Close the memory if another release is live. Have the process end if a release that it opened was deleted, as
        by a forgetting: its caches may hold words of it.
        """
        if self._memory is not None and self._read_stamp() != self._stamp:
            self._memory = None
        try:
            self.is_over = self.is_over or self._has_lost_release()
        except OSError:  # the store is gone
            self.is_over = True

    def _has_lost_release(self) -> bool:
        """Return True if a release that was opened, other than the one that is open, is no longer kept.

        Raises:
            OSError: the store is gone.
        """
        if self._place is None or not self._opened:
            return False
        from slowwave.store.releases import is_dropped

        live = self._memory.release.number if self._memory else None
        return any(
            is_dropped(Path(*self._place), release)
            for number, release in self._opened.items()
            if number != live
        )

    def answer(self, request: Frame) -> Frame:
        """Return the answer to a request, or under "pass" why the client has to do the work itself."""
        try:
            with as_client(request):
                for _ in range(TRIES):
                    answer = self._answer_once(request)
                    if self._read_stamp() == self._stamp:
                        return answer
                    self._memory = None
                return {"pass": "releases follow one another"}
        except Exception as error:
            # Deliberately broad: the direct way meets the error again and shows it.
            return {"pass": type(error).__name__}

    def _answer_once(self, request: Frame) -> Frame:
        """Return the answer by the release that is live now.

        Raises:
            Passed: the client has to do the work itself.
        """
        from slowwave.cli.opening import OPENER

        token = OPENER.set(self.open)
        try:
            if request["do"] == "tool":
                return self._answer_tool(request)
            return (
                answer_hook(request)
                if request["do"] == "hook"
                else answer_command(request)
            )
        finally:
            OPENER.reset(token)

    def _answer_tool(self, request: Frame) -> Frame:
        """Return the result of a tool of the MCP server.

        Raises:
            ToolError: it is refused, or failed.
            LookupError: there is no tool of that name.
        """
        import asyncio

        from mcp.server.mcpserver import Context

        from slowwave.cli.opening import load_settings
        from slowwave.mcp.server import Tools, make_reading_tools

        settings = load_settings(*request["place"])
        if self._tools is None or settings != self._tools[0]:
            calls = Tools(settings, lambda named: self.open(named, None))
            named = {tool.name: tool for tool in make_reading_tools(calls)}
            self._tools = settings, named
        tool = self._tools[1][request["name"]]
        ran = tool.run(request["arguments"], Context(), convert_result=True)
        result = asyncio.run(ran)
        return {"result": result.model_dump(mode="json", by_alias=True)}

    def open(self, settings: "Settings", release: str | None) -> "Memory":
        """Return the memory of these settings, kept open while they and its release stay.

        Raises:
            Passed: an earlier release, another store or space, or readers were switched off.
            UsageError, StoreError: as `Memory.open`.
        """
        from slowwave.cli.opening import open_anew

        place = (str(settings.store.absolute()), settings.space)
        self._place = self._place or place
        if place != self._place or not settings.resident:
            self.is_over = True
            raise Passed
        if release is not None:
            raise Passed
        stamp = self._read_stamp()
        is_same = stamp == self._stamp and settings == self._settings
        if self._memory is None or not is_same:
            self._memory = None
            self._settings = settings
            self._stamp = stamp
            self._memory = open_anew(settings, None)
            if self._memory.has_release:
                opened = self._memory.release
                self._opened[opened.number] = opened
        return self._memory

    def _read_stamp(self) -> Stamp:
        """Return what changes with each release, and with each verdict on a note."""
        from slowwave.schemas.tables import RELEASES
        from slowwave.store.logs import FILES, Review

        if self._place is None:
            return ()
        folder = Path(*self._place)
        versions = folder / f"{RELEASES.name}.lance" / "_versions"
        return tuple(map(_read_status, (versions, folder / FILES[Review])))


def _read_status(path: Path) -> tuple[int, int, int]:
    """Return what tells a file or folder from another one, or from itself changed; zeros if it does not exist."""
    try:
        status = path.stat()
    except OSError:
        return 0, 0, 0
    return status.st_ino, status.st_mtime_ns, status.st_size


def answer_hook(request: Frame) -> Frame:
    """Return a hook's text. An error raised on purpose is an empty one, as it is when the client runs the hook."""
    from slowwave.cli.agents.hook_text import build_hook_text
    from slowwave.schemas.errors import SlowwaveError

    try:
        return {"text": build_hook_text(**request["asked"])}
    except SlowwaveError:
        return {"text": ""}


def answer_command(request: Frame) -> Frame:
    """Return what a command wrote.

    Raises:
        Passed: it did not end well.
    """
    from typer.main import get_command

    from slowwave.cli.common import ERR, OUT
    from slowwave.cli.main import app
    from slowwave.schemas.settings_files import warn_once

    warn_once.cache_clear()
    chunks: list[tuple[int, str]] = []
    out, err = (
        Recorder.open(descriptor, chunks, *stream)
        for descriptor, stream in zip((1, 2), request["streams"], strict=True)
    )
    with redirect_stdout(out), redirect_stderr(err):
        OUT.renew(request["environ"], stderr=False)
        ERR.renew(request["environ"], stderr=True)
        ended = get_command(app).main(
            request["words"], prog_name="slowwave", standalone_mode=False
        )
    if ended not in (None, 0):
        raise Passed
    return {"chunks": chunks}


class Recorder(io.RawIOBase):
    """The stream of a client, of which everything written is kept."""

    name = "<client>"

    def __init__(
        self, descriptor: int, chunks: list[tuple[int, str]], is_terminal: bool
    ) -> None:
        self.descriptor = descriptor
        self.chunks = chunks
        self.is_terminal = is_terminal

    @classmethod
    def open(
        cls,
        descriptor: int,
        chunks: list[tuple[int, str]],
        encoding: str,
        errors: str,
        is_terminal: bool,
    ) -> io.TextIOWrapper:
        """Return the stream for text, as the client encodes it."""
        raw = cls(descriptor, chunks, is_terminal)
        return io.TextIOWrapper(raw, encoding, errors, write_through=True)

    def writable(self) -> bool:
        """Return True."""
        return True

    def isatty(self) -> bool:
        """Return True if the client writes to a terminal."""
        return self.is_terminal

    def write(self, content: Any) -> int:
        """Keep some bytes, as text whose letters are the bytes."""
        self.chunks.append((self.descriptor, bytes(content).decode("latin-1")))
        return len(content)


@contextmanager
def as_client(request: Frame) -> Iterator[None]:
    """Have the client's folder and environment inside the block.

    The environment is that of Python's own code. The process's is left as it is: threads of libraries may read it.
    """
    own = os.environ
    os.chdir(request["cwd"])
    os.environ = dict(request["environ"])  # type: ignore[assignment]  # noqa: B003
    time.tzset()
    try:
        yield
    finally:
        os.environ = own  # noqa: B003
        os.chdir("/")


def main() -> None:
    """Serve until it is time to end. The lock is open already, by the number that the client names."""
    if is_memory_short():
        return
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # read by native code
    os.chdir("/")
    Resident(make_address(Path(sys.argv[1])), KeptMemory()).run()


if __name__ == "__main__":
    main()
