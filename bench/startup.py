"""What a hook and a question cost each time: CPU seconds and memory of whole processes, directly and by the reader.

    python -m bench.startup [--times 5] [--code CHECKOUT] [--json]

A night over the samples makes a store in a home of its own. Then each command is run, `times` over where it is said to
be later; its figures are the least, since whatever else the machine does only adds. `reader CPU s` is what the resident
reader spent meanwhile, its start among it. Compare the rows of one run with each other: `python -c pass` is the
machine's own. A hook in a new home has no graph of the encoder: it compares words, and may say nothing.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from bench.harness import ENCODER, ROOT, SAMPLES, SCRATCH, Figures, Row, run
from slowwave.resident.client import find_readers

QUESTION = "Which database does tidepool use for the gauge readings?"
PROMPT = json.dumps({"cwd": "/home/ada/tidepool", "prompt": QUESTION})
SLOWWAVE = [sys.executable, "-P", "-m", "slowwave"]
"""The command, of the code that PYTHONPATH names, whatever the current folder has."""
HOOK, RECALL = [*SLOWWAVE, "hook", "user-prompt"], [*SLOWWAVE, "recall", QUESTION]
MOST = {
    "hook by the reader, later": 0.15,
    "recall by the reader, later": 0.3,
    "recall, directly": 1.0,
    "recall by the reader, first": 1.0,
}
"""CPU seconds of client and reader together, at most."""


LAUNCH = """
import json, os, subprocess, sys, time
start = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE)
out = process.stdout.read()
_, status, usage = os.wait4(process.pid, 0)
wall, cpu = time.perf_counter() - start, usage.ru_utime + usage.ru_stime
print(json.dumps([cpu, wall, usage.ru_maxrss / 1024, len(out), status]))
"""
"""Starts a command from a small process: a child counts its parent's memory as its own until it runs the command."""


def measure(
    *,
    times: int = 5,
    encoder: str = ENCODER,
    folder: Path = SCRATCH,
    code: Path = ROOT,
) -> Figures:
    """Return CPU seconds and memory of each kind of call, by the code of a checkout."""
    store = folder / "store"
    # a path that is short enough for a socket; a reader ends once its socket is gone
    with TemporaryDirectory(prefix="slowwave-") as runtime:
        here = {
            "PYTHONPATH": str(code.absolute()),
            "SLOWWAVE_STORE": str(store),
            "SLOWWAVE_ENCODER": encoder,
            "XDG_CONFIG_HOME": str(folder / "config"),
            "XDG_RUNTIME_DIR": runtime,
        }
        with patch.dict(os.environ, here):
            night = [*SLOWWAVE, "run", str(SAMPLES), "--plain"]
            subprocess.run(night, stdout=subprocess.DEVNULL, check=True)
            rows = [
                *measure_directly(times, folder / "cache"),
                *measure_by_reader(times, store),
            ]
    return Figures(rows, "a call")


def measure_directly(times: int, empty: Path) -> Iterator[Row]:
    """Yield the figures of calls without a reader; `empty` is a cache folder without the encoder's graph."""
    off = {"SLOWWAVE_RESIDENT": "0"}
    bare = {**off, "XDG_CACHE_HOME": str(empty)}
    python, version = [sys.executable, "-c", "pass"], [*SLOWWAVE, "--version"]
    yield measure_call("python -c pass", python, off, times)
    yield measure_call("slowwave --version", version, off, times)
    yield measure_call("hook, directly", HOOK, off, times)
    yield measure_call("hook, directly, in a new home", HOOK, bare, times)
    yield measure_call("recall, directly", RECALL, off, times)


def measure_by_reader(times: int, store: Path) -> Iterator[Row]:
    """Yield the figures of calls that a reader answers, and of the reader."""
    on = {"SLOWWAVE_RESIDENT": "1"}
    for name, command in (("hook", HOOK), ("recall", RECALL)):
        yield measure_call(f"{name} by the reader, first", command, on)
        yield measure_call(f"{name} by the reader, later", command, on, times)
        yield from end_readers(store)


def measure_call(
    name: str, command: Sequence[str], environ: dict[str, str], times: int = 1
) -> Row:
    """Return the least CPU seconds and the memory of a command that is run so many times."""
    spent = [call_once(command, environ) for _ in range(times)]
    cpu, reader, wall, megabytes, written = map(min, zip(*spent, strict=True))
    return {
        "call": name,
        "CPU s": round(cpu, 3),
        "reader CPU s": round(reader, 3),
        "wall s": round(wall, 3),
        "MB": round(megabytes),
        "bytes": written,
        "most": MOST.get(name),
    }


def call_once(
    command: Sequence[str], environ: dict[str, str]
) -> tuple[float, float, float, float, int]:
    """Return CPU seconds of a process and of the reader meanwhile, wall seconds, the process's megabytes, and the bytes
    that it wrote.

    Raises:
        RuntimeError: the command failed.
    """
    before = read_reader_cpu()
    done = subprocess.run(
        [sys.executable, "-c", LAUNCH, *command],
        input=PROMPT.encode(),
        stdout=subprocess.PIPE,
        env={**os.environ, **environ},
        check=False,
    )
    cpu, wall, megabytes, written, status = json.loads(done.stdout)
    if status:
        raise RuntimeError(f"{command} ended with {status}")
    return cpu, read_reader_cpu() - before, wall, megabytes, written


def read_reader_cpu() -> float:
    """Return the CPU seconds of the reader so far; 0 if none runs."""
    readers = find_readers(Path(os.environ["SLOWWAVE_STORE"]), "default")
    ticks = 0
    for reader in readers:
        fields = Path(f"/proc/{reader['pid']}/stat").read_text().rpartition(")")[2]
        ticks += sum(map(int, fields.split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def end_readers(store: Path) -> Iterator[Row]:
    """End the reader; yield its figures."""
    for reader in find_readers(store, "default"):
        status = Path(f"/proc/{reader['pid']}/status").read_text()
        kilobytes = int(status.partition("VmRSS:")[2].split()[0])
        cpu = read_reader_cpu()
        os.kill(reader["pid"], signal.SIGTERM)
        yield {
            "call": f"the reader, after {reader['answers']} answers",
            "CPU s": round(cpu, 3),
            "reader CPU s": 0.0,
            "wall s": 0.0,
            "MB": round(kilobytes / 1024),
            "bytes": 0,
            "most": None,
        }


if __name__ == "__main__":
    run(measure)
