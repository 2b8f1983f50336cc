"""What it costs to compare claims with a large checkout.

    python -m bench.nights.large_checkout [--files 50000] [--commits 300] [--statements 500]

The repository is made by `git fast-import`: its files have 4.8 kB each, and every commit changes some. The statements
name functions that are nowhere, so that all files and the whole history are read. CPU seconds are those of this process
and of git.
"""

import os
import random
import resource
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench.harness import SCRATCH, Figures, run
from slowwave.tasks.checks.check import Text, check_texts
from slowwave.tasks.checks.checkout import find_checkout, open_git

LINES = 120
CHANGED = 20
"""Files that a commit changes."""
FOLDER = 250
"""Files of a folder."""
BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
SECONDS = 600.0


def measure(
    *,
    files: int = 50_000,
    commits: int = 300,
    statements: int = 500,
    scratch: Path = SCRATCH,
) -> Figures:
    """Return files, commits, seconds of CPU and of the clock, and the statements that are marked."""
    repository = scratch / "large"
    make_repository(repository, files, commits)
    texts = [
        Text(str(n), None, "bench", f"`find_tide_{n}()` has a cache", (), BEGIN)
        for n in range(statements)
    ]
    before, began = _read_cpu(), time.monotonic()
    with open_git(find_checkout(repository), SECONDS) as git:
        rows = check_texts(git, texts, datetime.now(UTC), "bench").rows
    clock, cpu = time.monotonic() - began, _read_cpu() - before
    figures = {"files": files, "commits": commits, "statements": statements}
    return Figures([{**figures, "marked": len(rows), "CPU s": cpu, "clock s": clock}])


def make_repository(repository: Path, files: int, commits: int) -> None:
    """Make a repository of one branch."""
    plain = {
        **os.environ,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    subprocess.run(["git", "init", "-q", str(repository)], check=True, env=plain)
    stream = b"".join(write_history(files, commits))
    for words in (["fast-import", "--quiet"], ["reset", "-q", "--hard", "main"]):
        subprocess.run(
            ["git", *words],
            cwd=repository,
            input=stream if words[0] == "fast-import" else b"",
            check=True,
            env=plain,
        )
        subprocess.run(
            ["git", "symbolic-ref", "HEAD", "refs/heads/main"],
            cwd=repository,
            check=True,
            env=plain,
        )


def write_history(files: int, commits: int) -> Iterator[bytes]:
    """Yield the commands of a history for `git fast-import`: all files at first, then some a commit."""
    chance = random.Random(66)
    for number in range(commits):
        some = (
            range(files)
            if number == 0
            else chance.sample(range(files), min(CHANGED, files))
        )
        at = int((BEGIN + timedelta(days=number)).timestamp())
        yield b"commit refs/heads/main\ncommitter bench <b@x> %d +0000\n" % at
        yield b"data 1\nx\n"
        for file in some:
            content = b"".join(
                b"def f%d_%d(port): return %d\n" % (file, line, number + line)
                for line in range(LINES)
            )
            path = b"d%d/f%d.py" % (file // FOLDER, file)
            yield b"M 100644 inline %s\ndata %d\n%s\n" % (path, len(content), content)


def _read_cpu() -> float:
    """Return the seconds of CPU of this process and its children."""
    return sum(
        used.ru_utime + used.ru_stime
        for used in map(
            resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        )
    )


if __name__ == "__main__":
    run(measure)
