"""Compute shards in tasks of Ray Core, on this machine or a cluster (docs/fleet.md). Only this module imports Ray.

A task takes the rows of a shard and returns the rows made from them. It needs neither a store nor a shared disk. Until
the night ends, each result is kept as an Arrow file, named by the hash of step, settings and rows: if a night is
killed, the next one computes only the missing results. Ray's worker processes stay alive between tasks, with the
encoder loaded.
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
from slowwave.engines.llm.vllm import IN_FLIGHT
from slowwave.schemas.errors import SlowwaveError
from slowwave.store.private import make_private_folder, replace_file
from slowwave.tasks.shards import ShardStep

TRIES = 3
"""Attempts at a shard or a call of a language model whose worker dies: the cause may be other processes."""


class ClusterFailed(SlowwaveError):
    """Ray could not be started, or the address has no cluster."""


class RayExecutor:
    """Computes shards on a cluster's workers; results in `folder` are used again."""

    at_once = 100

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # the share of a GPU that a task with an encoder takes; 0 if the cluster has none
        self._gpus: float = 0.5 if ray.cluster_resources().get("GPU") else 0

    def map(
        self, step: ShardStep, shards: Sequence[pa.Table]
    ) -> list[pa.Table | Exception]:
        """Return the result of each shard, in order: a table, or the exception raised."""
        make_private_folder(self.folder)
        raws = [write_arrow(shard) for shard in shards]
        paths = [self._name_file(step, raw) for raw in raws]
        made: dict[Path, pa.Table | Exception] = {
            path: kept for path in paths if (kept := read_kept(path, step)) is not None
        }
        gpus = self._gpus if step.uses == "encoder" else 0
        compute = (
            ray.remote(compute_shard)
            .options(num_gpus=gpus, max_retries=TRIES - 1)
            .remote
        )
        # equal shards are computed once
        left = {
            path: raw for path, raw in zip(paths, raws, strict=True) if path not in made
        }
        sent = ray.put(step)
        running: dict[Any, Path] = {
            compute(sent, raw): path for path, raw in left.items()
        }
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
        """Return an engine with as many copies in actors as the cluster has GPUs for.

        Without a GPU there is one copy. An engine that calls a server is returned unchanged.

        Raises:
            ClusterFailed: the cluster has GPUs, but no machine has enough for one copy.
        """
        if engine.gpus is None:
            return engine
        gpus = engine.gpus if self._gpus else 0
        nodes = [
            node["Resources"].get("GPU", 0) for node in ray.nodes() if node["Alive"]
        ]
        copies = int(sum(free // gpus for free in nodes)) if gpus else 1
        if not copies:
            raise ClusterFailed(
                f"no machine of the cluster has the {gpus} GPUs of {engine.name} ({engine.model})"
            )
        return ActorLLM(engine, gpus, copies)

    def _name_file(self, step: ShardStep, rows: pa.Buffer) -> Path:
        digest = blake2b(f"{step.name}\0{step.settings}\0".encode(), digest_size=16)
        digest.update(rows)
        return self.folder / f"{step.name}-{digest.hexdigest()}.arrow"


class ActorLLM(LLM):
    """An engine with copies in actors of Ray, which start at the first call.

    An actor that dies is restarted and its call repeated. After the last attempt the engine counts as unavailable.
    """

    def __init__(
        self,
        engine: LLM,
        gpus: int,
        copies: int,
    ) -> None:
        self.name = engine.name
        self.model = engine.model
        self.sampling = engine.sampling
        self.gpus = gpus
        self._engine = engine
        self._copies = copies
        self._actors: list[Any] = []

    @property
    def context_window(self) -> int:
        """The engine's context window."""
        return int(self._get(self._ask(attrgetter("context_window"))))

    def complete(self, requests: Sequence[Request]) -> Iterator[Completion]:
        """Yield one completion a request, as calls end; calls are shared equally among the copies."""
        size = min(IN_FLIGHT, max(1, ceil(len(requests) / self._copies)))
        calls = [
            requests[start : start + size] for start in range(0, len(requests), size)
        ]
        running = [
            self._ask(methodcaller("complete", call), copy)
            for copy, call in enumerate(calls)
        ]
        while running:
            (ended,), running = ray.wait(running)
            yield from self._get(ended)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, by the engine's tokenizer."""
        return list(self._get(self._ask(methodcaller("count_tokens", texts))))

    def free_gpu(self) -> None:
        """End the actors if they use GPUs."""
        if self.gpus:
            self.close()

    def close(self) -> None:
        """Ask each actor to end after its current call, which frees its GPU."""
        for actor in self._actors:
            actor.ask.remote(methodcaller("close"))
        self._actors = []

    def _ask(self, question: Callable[[LLM], Any], copy: int = 0) -> Any:
        """Return a reference to the answer of a copy, which Ray fills in."""
        if not self._actors:
            kind = ray.remote(EngineActor).options(
                num_cpus=0,
                num_gpus=self.gpus,
                max_restarts=TRIES - 1,
                max_task_retries=TRIES - 1,
            )
            self._actors = [kind.remote(self._engine) for _ in range(self._copies)]
        return self._actors[copy % self._copies].ask.remote(question)

    def _get(self, answer: Any) -> Any:
        """Wait for an answer and return it.

        Raises:
            EngineUnavailable: the engine raised it, or its actor died after the last attempt.
        """
        try:
            return ray.get(answer)
        except RayTaskError as failed:
            raise failed.cause from failed
        except RayError as gone:
            self._actors = []
            raise EngineUnavailable(
                self.name, f"its actor on Ray is gone: {str(gone).splitlines()[0]}"
            ) from gone


class EngineActor:
    """A copy of an engine on a worker."""

    def __init__(self, engine: LLM) -> None:
        self.engine = engine

    def ask(self, question: Callable[[LLM], Any]) -> Any:
        """Call a function with the engine and return its result; an iterator as a list."""
        answer = question(self.engine)
        return [*answer] if isinstance(answer, Iterator) else answer


@contextmanager
def open_ray(folder: Path, address: str) -> Iterator[RayExecutor]:
    """Start Ray on this machine for the block, or join the cluster at the address; results are kept in `folder`.

    Raises:
        ClusterFailed: the address has no cluster, or Ray did not start.
    """
    local = address == "local"
    is_own = not ray.is_initialized()
    # Every user of this machine can read Ray's own folder, so a private one is used; its socket paths must be short.
    short = "/tmp" if sys.platform == "darwin" else None
    with TemporaryDirectory(
        prefix="slowwave-ray-", dir=short, ignore_cleanup_errors=True
    ) as private:
        try:
            host, colon, port = address.rpartition(":")
            if colon and port.isdecimal() and "/" not in host:
                # Fail at once: Ray would retry for minutes.
                socket.create_connection((host, int(port)), timeout=10).close()
            if is_own:
                # Ray's forks execute another program.
                warnings.filterwarnings("ignore", "lance is not fork-safe")
                own: dict[str, Any] = (
                    {"include_dashboard": False, "_temp_dir": f"{private}/r"}
                    if local
                    else {}
                )
                ray.init(
                    address, log_to_driver=False, logging_level=logging.ERROR, **own
                )
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
    """Read a kept result; None if the file does not exist, is incomplete or has another schema."""
    try:
        made = read_arrow(pa.py_buffer(path.read_bytes()))
    except (FileNotFoundError, pa.ArrowInvalid):
        return None
    return made if made.schema.equals(step.schema) else None
