"""A home with a store, in which commands are asked directly or by way of a resident reader, which ends with it."""

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.waiting import wait_until

ROOT = Path(__file__).parent.parent


class Home:
    """Folders of one user, with a runtime folder of a path that is short enough for a socket."""

    def __init__(self, folder: Path, store: Path) -> None:
        self.store, self.runtime = store, Path(tempfile.mkdtemp(prefix="slowwave-"))
        self.environ = {
            "XDG_RUNTIME_DIR": str(self.runtime),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "SLOWWAVE_STORE": str(store),
            "SLOWWAVE_RESIDENT": "1",
            "PYTHONPATH": str(ROOT),
        }

    @property
    def folder(self) -> Path:
        """Where readers listen."""
        return self.runtime / "slowwave"

    def start(
        self, *words: str, given: object = None, **environ: str
    ) -> "subprocess.Popen[bytes]":
        """A command in a process of its own."""
        command = [sys.executable, "-m", "slowwave", *words]
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **self.environ, **environ},
        )
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.write(b"" if given is None else json.dumps(given).encode())
        process.stdin.close()
        process.stdin = None
        return process

    def call(
        self, *words: str, given: object = None, **environ: str
    ) -> tuple[int, bytes, bytes]:
        """Exit status, output and errors of a command."""
        process = self.start(*words, given=given, **environ)
        out, err = process.communicate()
        return process.returncode, out, err

    def call_directly(
        self, *words: str, given: object = None
    ) -> tuple[int, bytes, bytes]:
        return self.call(*words, given=given, SLOWWAVE_RESIDENT="0")

    def find_pids(self) -> list[int]:
        """The processes that listen."""
        return list(find_listeners(self.folder))

    def wait_for_reader(self) -> int:
        """The process of the reader, as soon as it listens."""
        wait_until(self.find_pids, every=0.01)
        return self.find_pids()[0]

    def close(self) -> None:
        for pid in self.find_pids():
            os.kill(pid, signal.SIGKILL)


def find_listeners(folder: Path) -> dict[int, int]:
    """The processes that listen in a folder, each with its user."""
    found = {}
    for path in folder.glob("*.socket"):
        with suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(path))
            raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            pid, user, _ = struct.unpack("3i", raw)
            found[pid] = user
    return found


def read_json(answer: Sequence[Any]) -> Any:
    """What a command printed as JSON."""
    return json.loads(answer[1])
