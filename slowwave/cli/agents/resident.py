"""The process of a resident reader: `python -m slowwave.cli.agents.resident SOCKET LOCK`, started by its first client.

It keeps one memory open, and answers hooks and commands with the functions that the client itself would call, in the
client's folder and environment and with its streams. An answer is returned only if the release and the verdicts on
notes did not change meanwhile, so nothing that was just forgotten is returned. After an error the client does the work
itself, and shows the error.
"""

import io
import os
import sys
import time
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
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
"""Attempts at an answer if a release is made meanwhile."""
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
        """Close the memory if the live release or a verdict on a note changed.

        Set `is_over` if a release that this process opened was deleted, for example by a forgetting, since its caches
        may hold words of it; or if the store is gone.
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
            # deliberately broad: the client does the work itself, and shows the error if it occurs again
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
            ToolError: the call is refused, or the tool failed.
            LookupError: no tool has this name.
        """
        import asyncio

        from mcp.server.mcpserver import Context

        from slowwave.cli.opening import load_settings
        from slowwave.mcp.server import Tools, make_reading_tools

        store, space = request["place"]
        settings = load_settings(store, space)
        if self._tools is None or settings != self._tools[0]:
            calls = Tools(settings, lambda named: self.open(named, None))
            named = {tool.name: tool for tool in make_reading_tools(calls)}
            self._tools = settings, named
        tool = self._tools[1][request["name"]]
        ran = tool.run(request["arguments"], Context(), convert_result=True)
        result = asyncio.run(ran)
        return {"result": result.model_dump(mode="json", by_alias=True)}

    def open(self, settings: "Settings", release: str | None) -> "Memory":
        """Return the memory of these settings. It stays open until they or its release change.

        Raises:
            Passed: an earlier release or another store or space is requested, or readers are switched off.
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
        """Return the states of files that change with each release and with each verdict on a note."""
        from slowwave.schemas.tables import RELEASES
        from slowwave.store.logs import FILES, Review

        if self._place is None:
            return ()
        folder = Path(*self._place)
        versions = folder / f"{RELEASES.name}.lance" / "_versions"
        return tuple(map(_read_status, (versions, folder / FILES[Review])))


def _read_status(path: Path) -> tuple[int, int, int]:
    """Return the inode, mtime and size of a file or folder; zeros if it does not exist."""
    try:
        status = path.stat()
    except OSError:
        return 0, 0, 0
    return status.st_ino, status.st_mtime_ns, status.st_size


def answer_hook(request: Frame) -> Frame:
    """Return a hook's text; an empty one after a SlowwaveError, as if the client ran the hook."""
    from slowwave.cli.agents.hook_text import build_hook_text
    from slowwave.schemas.errors import SlowwaveError

    try:
        return {"text": build_hook_text(**request["asked"])}
    except SlowwaveError:
        return {"text": ""}


def answer_command(request: Frame) -> Frame:
    """Run a command, and return the `chunks` that it wrote.

    Raises:
        Passed: the command ended with another status than 0.
    """
    from typer.main import get_command

    from slowwave.cli.common import ERR, OUT
    from slowwave.cli.main import app
    from slowwave.schemas.settings_files import warn_once

    warn_once.cache_clear()
    chunks: list[tuple[int, str]] = []
    out, err = (
        Recorder.open(
            descriptor=descriptor,
            chunks=chunks,
            encoding=encoding,
            errors=errors,
            is_terminal=is_terminal,
        )
        for descriptor, (encoding, errors, is_terminal) in zip(
            (1, 2), request["streams"], strict=True
        )
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
    """A stream in place of a client's. It records everything that is written to it."""

    name = "<client>"

    def __init__(
        self,
        descriptor: int,
        chunks: list[tuple[int, str]],
        is_terminal: bool,
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
        """Return a text stream with the client's encoding."""
        raw = cls(descriptor, chunks, is_terminal)
        return io.TextIOWrapper(raw, encoding, errors, write_through=True)

    def writable(self) -> bool:
        """Return True."""
        return True

    def isatty(self) -> bool:
        """Return True if the client writes to a terminal."""
        return self.is_terminal

    def write(self, content: Any) -> int:
        """Record bytes, as Latin-1 text, and return how many there are."""
        self.chunks.append((self.descriptor, bytes(content).decode("latin-1")))
        return len(content)


@contextmanager
def as_client(request: Frame) -> Iterator[None]:
    """Use the client's folder and environment in the block.

    Only `os.environ` is replaced. The environment of the process is unchanged, since threads of libraries may read it.
    """
    own = os.environ
    with chdir(request["cwd"]):
        os.environ = dict(request["environ"])  # type: ignore[assignment]  # noqa: B003
        time.tzset()
        try:
            yield
        finally:
            os.environ = own  # noqa: B003


def main() -> None:
    """Serve until the reader should end; do nothing if memory is short.

    The lock is inherited from the client: its descriptor is the second argument, and stays open.
    """
    if is_memory_short():
        return
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # read by native code
    os.chdir("/")
    Resident(make_address(Path(sys.argv[1])), KeptMemory()).run()


if __name__ == "__main__":
    main()
