"""What vLLM 0.32 leaves to its caller: noticing that its engine was killed, and ending it for good.

vLLM's offline client waits for its engine's next output without a limit. An engine that fails says so on the way out,
and the wait ends with `EngineDeadError`. One that is killed (the kernel's out-of-memory killer, say) says nothing: a
monitor thread marks it dead and closes the sockets, and the client waits for ever (v1/engine/core_client.py:
`SyncMPClient.get_output`, `start_engine_core_monitor`). `guard_engine` looks for the mark and wakes the client.
"""

import gc
import multiprocessing
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vllm import LLM as VLLM

POLL_SECONDS = 0.5


@contextmanager
def guard_engine(engine: "VLLM") -> Iterator[None]:
    """End the wait for an engine that is killed inside with vLLM's own `EngineDeadError`."""
    core: Any = engine.llm_engine.engine_core
    over = threading.Event()
    watcher = threading.Thread(target=_watch_engine, args=(core, over), name="slowwave-vllm-watch", daemon=True)
    if hasattr(core, "outputs_queue") and hasattr(core, "resources"):  # an engine within this process has neither
        watcher.start()
    try:
        yield
    finally:
        over.set()
        if watcher.is_alive():
            watcher.join()


def _watch_engine(core: Any, over: threading.Event) -> None:
    """Wake the waiting client once the engine is marked dead."""
    from vllm.v1.engine.exceptions import EngineDeadError

    while not over.wait(POLL_SECONDS):
        if core.resources.engine_dead:
            core.outputs_queue.put_nowait(EngineDeadError())
            return


def stop_engine(engine: "VLLM") -> None:
    """End the engine and its process, and give the GPU's memory back to this one."""
    import torch

    engine.llm_engine.engine_core.shutdown()
    del engine
    gc.collect()
    multiprocessing.active_children()  # its side effect is to bury children that have ended
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
