"""What a hook and a question cost each time: CPU seconds and memory of whole processes, directly and by the reader.

    python -m bench.startup [--times 5] [--json]

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
from collections.abc import Sequence
from pathlib import Path

from bench.harness import SAMPLES, SCRATCH, Figures, Row, run
from slowwave.flows.nightly import run_night
from slowwave.resident.client import find_readers
from slowwave.schemas.settings import Settings

QUESTION = "Which database does tidepool use for the gauge readings?"
PROMPT = json.dumps({"cwd": "/home/ada/tidepool", "prompt": QUESTION})
SLOWWAVE = [sys.executable, "-m", "slowwave"]
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


def measure(*, times: int = 5, folder: Path = SCRATCH) -> Figures:
    """Return CPU seconds and memory of each kind of call."""
    run_night([SAMPLES], Settings(store=folder / "store"))
    (folder / "run").mkdir(mode=0o700)
    here = {
        "SLOWWAVE_STORE": str(folder / "store"),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "XDG_RUNTIME_DIR": str(folder / "run"),
    }
    os.environ.update(here)
    directly = {"SLOWWAVE_RESIDENT": "0"}
    bare = {**directly, "XDG_CACHE_HOME": str(folder / "cache")}
    by_reader = {"SLOWWAVE_RESIDENT": "1"}
    rows = [
        measure_call("python -c pass", [sys.executable, "-c", "pass"], directly, times),
        measure_call("slowwave --version", [*SLOWWAVE, "--version"], directly, times),
        measure_call("hook, directly", HOOK, directly, times),
        measure_call("hook, directly, in a new home", HOOK, bare, times),
        measure_call("recall, directly", RECALL, directly, times),
    ]
    for name, command in (("hook", HOOK), ("recall", RECALL)):
        rows.append(measure_call(f"{name} by the reader, first", command, by_reader))
        rows.append(
            measure_call(f"{name} by the reader, later", command, by_reader, times)
        )
        rows.append(end_reader(folder / "store"))
    failed = any(
        row["CPU s"] + row["reader CPU s"] > row["most"] for row in rows if row["most"]
    )
    return Figures(rows, "a call", failed=failed)


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


def end_reader(store: Path) -> Row:
    """End the reader; return its figures."""
    (reader,) = find_readers(store, "default")
    status = Path(f"/proc/{reader['pid']}/status").read_text()
    kilobytes = int(status.partition("VmRSS:")[2].split()[0])
    cpu = read_reader_cpu()
    os.kill(reader["pid"], signal.SIGTERM)
    return {
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
