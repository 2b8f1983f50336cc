"""Shards computed by tasks of Ray Core, on this machine or a cluster (docs/fleet.md). Ray is imported here alone.

A task is given a shard's rows and returns the rows made of them; it needs no store and no shared disk. Each result is
kept as an Arrow file named by the hash of step, settings and rows until the night has ended, so after a kill the next
night computes only the rest. Ray keeps its worker processes between tasks, and with them the encoder.
"""

import logging
import shutil
import socket
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from math import ceil
from operator import attrgetter, methodcaller
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import ray
from ray.exceptions import RayError, RayTaskError

from slowwave.engines.llm.protocol import LLM, Completion, EngineUnavailable, Request
from slowwave.engines.llm.vllm import CHUNK
from slowwave.schemas.errors import SlowwaveError
from slowwave.store.private import make_private_folder, replace_file
from slowwave.tasks.shards import ShardStep

TRIES = 3
"""Times a shard, or a call of a language model, is tried whose worker dies: it may be killed for what others do."""


class ClusterFailed(SlowwaveError):
    """Ray could not be started, or there is no cluster at the address."""


class RayExecutor:
    """Computes shards on a cluster's workers; results that `folder` has are not computed again."""

    at_once = 100

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # of a GPU that a task with an encoder takes, where the cluster has GPUs
        self._gpus: float = 0.5 if ray.cluster_resources().get("GPU") else 0

    def map(self, step: ShardStep, shards: Sequence[pa.Table]) -> list[pa.Table | Exception]:
        """Return the result of each shard, in order: a table, or what was raised."""
        make_private_folder(self.folder)
        raws = [write_arrow(shard) for shard in shards]
        paths = [self._name_file(step, raw) for raw in raws]
        made: dict[Path, pa.Table | Exception] = {
            path: kept for path in paths if (kept := read_kept(path, step)) is not None
        }
        gpus = self._gpus if step.uses == "encoder" else 0
        compute = ray.remote(compute_shard).options(num_gpus=gpus, max_retries=TRIES - 1).remote
        left = {path: raw for path, raw in zip(paths, raws, strict=True) if path not in made}  # equal shards are one
        sent = ray.put(step)
        running: dict[Any, Path] = {compute(sent, raw): path for path, raw in left.items()}
        while running:
            (ended,), _ = ray.wait([*running])
            path = running.pop(ended)
            try:
                result = ray.get(ended)
                replace_file(path, result)
                made[path] = read_arrow(result)
            except RayError as failed:
                cause = getattr(failed, "cause", None)
                made[path] = cause if isinstance(cause, Exception) else failed
        return [made[path] for path in paths]

    def place(self, engine: LLM) -> LLM:
        """Return the engine on actors, as many as the cluster has GPUs for; one that asks a server is asked from here.

        Raises:
            ClusterFailed: no machine has all the GPUs that a copy takes, though there are some.
        """
        if engine.gpus is None:
            return engine
        gpus = engine.gpus if self._gpus else 0
        nodes = [node["Resources"].get("GPU", 0) for node in ray.nodes() if node["Alive"]]
        copies = int(sum(free // gpus for free in nodes)) if gpus else 1
        if not copies:
            raise ClusterFailed(f"no machine of the cluster has the {gpus} GPUs of {engine.name} ({engine.model})")
        return ActorLLM(engine, gpus, copies)

    def _name_file(self, step: ShardStep, rows: pa.Buffer) -> Path:
        digest = blake2b(f"{step.name}\0{step.settings}\0".encode(), digest_size=16)
        digest.update(rows)
        return self.folder / f"{step.name}-{digest.hexdigest()}.arrow"


class ActorLLM(LLM):
    """An engine whose copies live in actors of Ray, begun when something is asked first.

    One that dies is begun again, and what it was asked is asked again; the last time it counts as unavailable.
    """

    def __init__(self, engine: LLM, gpus: int, copies: int) -> None:
        self.name, self.model, self.sampling, self.gpus = engine.name, engine.model, engine.sampling, gpus
        self._engine, self._copies = engine, copies
        self._actors: list[Any] = []

    @property
    def context_window(self) -> int:
        """The engine's."""
        return int(self._get(self._ask(attrgetter("context_window"))))

    def complete(self, requests: Sequence[Request]) -> Iterator[Completion]:
        """Yield one completion a request, a call's when it has ended; each copy gets as many calls."""
        size = min(CHUNK, max(1, ceil(len(requests) / self._copies)))
        calls = [requests[start : start + size] for start in range(0, len(requests), size)]
        running = [self._ask(methodcaller("complete", call), copy) for copy, call in enumerate(calls)]
        while running:
            (ended,), running = ray.wait(running)
            yield from self._get(ended)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return tokens of each text, by the engine's count."""
        return list(self._get(self._ask(methodcaller("count_tokens", texts))))

    def free_gpu(self) -> None:
        """End the actors, where they hold GPUs."""
        if self.gpus:
            self.close()

    def close(self) -> None:
        """End the actors, each with what it was asked; a GPU is free for others when its actor has ended."""
        for actor in self._actors:
            actor.ask.remote(methodcaller("close"))
        self._actors = []

    def _ask(self, question: Callable[[LLM], Any], copy: int = 0) -> Any:
        """Return what will hold the answer of a copy."""
        if not self._actors:
            kind = ray.remote(EngineActor).options(
                num_cpus=0, num_gpus=self.gpus, max_restarts=TRIES - 1, max_task_retries=TRIES - 1
            )
            self._actors = [kind.remote(self._engine) for _ in range(self._copies)]
        return self._actors[copy % self._copies].ask.remote(question)

    def _get(self, answer: Any) -> Any:
        """Return an answer.

        Raises:
            EngineUnavailable: the engine says so, or its actor has died for good.
        """
        try:
            return ray.get(answer)
        except RayTaskError as failed:
            raise failed.cause from failed
        except RayError as gone:
            self._actors = []
            raise EngineUnavailable(self.name, f"its actor on Ray is gone: {str(gone).splitlines()[0]}") from gone


class EngineActor:
    """A copy of an engine, on a worker."""

    def __init__(self, engine: LLM) -> None:
        self.engine = engine

    def ask(self, question: Callable[[LLM], Any]) -> Any:
        """Return what the engine says to a question."""
        answer = question(self.engine)
        return [*answer] if isinstance(answer, Iterator) else answer


@contextmanager
def open_ray(folder: Path, address: str) -> Iterator[RayExecutor]:
    """Start Ray on this machine for the block, or join the cluster at the address; results are kept in `folder`.

    Raises:
        ClusterFailed: there is none at the address.
    """
    local, is_own = address == "local", not ray.is_initialized()
    # Ray lets everybody on this machine into its own folder, so it lies in another; paths of its sockets must be short.
    short = "/tmp" if sys.platform == "darwin" else None
    with TemporaryDirectory(prefix="slowwave-ray-", dir=short, ignore_cleanup_errors=True) as private:
        try:
            host, colon, port = address.rpartition(":")
            if colon and port.isdecimal() and "/" not in host:  # Ray itself would try for minutes
                socket.create_connection((host, int(port)), timeout=10).close()
            if is_own:
                warnings.filterwarnings("ignore", "lance is not fork-safe")  # what Ray forks becomes another program
                own: dict[str, Any] = {"include_dashboard": False, "_temp_dir": f"{private}/r"} if local else {}
                ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **own)
        except (OSError, RayError, RuntimeError, ValueError) as away:
            raise ClusterFailed(f"no Ray at {address}: {away}") from away
        try:
            yield RayExecutor(folder)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            if is_own:
                ray.shutdown()


def compute_shard(step: ShardStep, rows: pa.Buffer) -> pa.Buffer:
    """Return a shard's result; runs on a worker."""
    return write_arrow(step.run(read_arrow(rows)))


def write_arrow(table: pa.Table) -> pa.Buffer:
    """Return a table as the bytes of an Arrow file."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as out:
        out.write_table(table.combine_chunks())
    return sink.getvalue()


def read_arrow(raw: pa.Buffer) -> pa.Table:
    """Return the table in the bytes of an Arrow file."""
    return pa.ipc.open_file(raw).read_all()


def read_kept(path: Path, step: ShardStep) -> pa.Table | None:
    """Return the result that a file holds; None where there is no such file, or not the whole of it."""
    try:
        made = read_arrow(pa.py_buffer(path.read_bytes()))
    except (FileNotFoundError, pa.ArrowInvalid):
        return None
    return made if made.schema.equals(step.schema) else None
