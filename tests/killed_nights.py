"""Nights in processes of their own, which tests kill: the same samples, read in many small commits."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from slowwave.schemas.tables import ACTIONS, MARKS, RELEASED, Table
from slowwave.store import Store
from slowwave.store.manifest import compute_table_digest

SMALL: dict[str, Any] = {
    "encoder": "hash-384",
    "keywords": {"top": 0},
    "gists": "extractive",
}
SAMPLES = Path(__file__).parent.parent / "data" / "samples"
COMPARED = (*RELEASED, ACTIONS, MARKS)

SMALL_COMMITS = """
from slowwave.tasks.ingest import task
task.BATCH = 50  # so that reading has many commits to be killed between
"""
NIGHT = f"""{SMALL_COMMITS}
import json, os, signal, sys
from pathlib import Path
import lancedb  # before "started", so that kills at random times hit the work and not this import
from slowwave.flows.nightly import run_night
from slowwave.schemas.settings import Settings

store, samples, die_after, small = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4])
done = 0

def call(step, *args):
    global done
    report = step(*args)
    done += 1
    if done == die_after:
        os.kill(os.getpid(), signal.SIGKILL)
    return report

print("started", flush=True)
run_night([samples], Settings(store=store, **small), call).check_complete()
print("ended", flush=True)
"""


def night(store: Path, die_after: int = 0) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", NIGHT, str(store), str(SAMPLES), str(die_after), json.dumps(SMALL)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "DO_NOT_TRACK": "1"})


def finished(process: subprocess.Popen[str]) -> int:
    process.communicate()
    return process.returncode


def digests(store: Path, tables: Iterable[Table] = COMPARED) -> dict[str, str]:
    opened = Store.open(store)
    return {table.name: compute_table_digest(table, opened.read(table)) for table in tables}
