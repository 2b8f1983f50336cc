"""Prefect's server is killed in a step, while the last one ends, and with the night itself: the night goes on."""

import json
import os
import random
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from slowwave.store import Store
from slowwave.store.publishing import read_releases
from tests.killed_nights import SAMPLES, SMALL, digests, finished, night
from tests.vllm_servers import free_port

NIGHT = """
import json, os, sys
from slowwave.cli.under_prefect import import_prefect_quietly

import_prefect_quietly()
from prefect.client import base as client
from slowwave.flows import nightly
from slowwave.flows.prefect import run_night_under_prefect

class Never:
    value = staticmethod(lambda: 0)

held = sys.argv[4]
inner = getattr(nightly, held)

def wait(*args):
    print("in the step", flush=True)
    sys.stdin.readline()
    client.PREFECT_CLIENT_MAX_RETRIES = Never  # the server is dead now; until then it may only be busy
    return inner(*args)

wait.__name__ = held
nightly.STEPS = tuple(wait if step is inner else step for step in nightly.STEPS)
setattr(nightly, held, wait)
report = run_night_under_prefect([sys.argv[1]], {"store": sys.argv[2], **json.loads(sys.argv[3])})
print(report.release.name, *report.notes, sep="; ", flush=True)
os._exit(0)  # at the end of its process Prefect tries for minutes to send what the server should have had
"""
NIGHTS = {
    "in a step": "observe_sessions",
    "at the end": "publish_release",
    "killed": "write_passages",
}
"""Of each the step in which it is when the server dies; the last dies with it, a moment later."""


@pytest.fixture
def server(prefect_home: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A Prefect server of its own, on a free port."""
    port = free_port()
    words = [
        sys.executable,
        "-m",
        "prefect",
        "server",
        "start",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    own = {
        **os.environ,
        "PREFECT_HOME": str(prefect_home),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    }
    process = subprocess.Popen(
        words, env=own, stdout=subprocess.DEVNULL, start_new_session=True
    )
    try:
        while process.poll() is None:
            with (
                suppress(OSError),
                urllib.request.urlopen(f"http://127.0.0.1:{port}/api/health") as answer,
            ):
                assert answer.status == 200
                break
            time.sleep(0.2)
        yield process, f"http://127.0.0.1:{port}/api"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def start_night(
    words: list[str], own: dict[str, str]
) -> Iterator[subprocess.Popen[str]]:
    """Start a night; kill it and close its pipes at the end, also if the test fails before."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        words, env=own, stdin=pipe, stdout=pipe, stderr=pipe, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_night_goes_on_without_a_server_that_dies(
    server: tuple[subprocess.Popen[bytes], str],
    undisturbed: dict[str, str],
    tmp_path: Path,
) -> None:
    process, address = server
    own = {
        **os.environ,
        "PREFECT_HOME": str(tmp_path / "prefect"),
        "PREFECT_API_URL": address,
        "DO_NOT_TRACK": "1",
    }
    nights = dict[str, subprocess.Popen[str]]()
    with ExitStack() as stack:
        for name, step in NIGHTS.items():
            words = [
                sys.executable,
                "-c",
                NIGHT,
                str(SAMPLES),
                str(tmp_path / name),
                json.dumps(SMALL),
                step,
            ]
            nights[name] = one = stack.enter_context(start_night(words, own))
            assert one.stdout is not None
            assert one.stdout.readline() == "in the step\n", one.communicate()
        print("go on", file=nights["killed"].stdin, flush=True)
        time.sleep(random.uniform(0.05, 3))
        os.killpg(process.pid, signal.SIGKILL)
        nights["killed"].kill()
        process.wait()
        for name in ("in a step", "at the end"):
            print("go on", file=nights[name].stdin, flush=True)
        for name, one in nights.items():
            said, trouble = one.communicate()
            assert one.returncode == (-signal.SIGKILL if name == "killed" else 0), (
                trouble
            )
            went_on = said.startswith("r1; ") and ": the run went on without it" in said
            assert went_on or name == "killed", said
    for name in nights:
        assert finished(night(tmp_path / name)) == 0
        assert digests(tmp_path / name) == undisturbed
        assert [
            release.name for release in read_releases(Store.open(tmp_path / name))
        ] == ["r1"]
