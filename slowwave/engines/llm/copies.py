"""Copies of an engine in this process, each on GPUs of its own: data parallelism without a cluster.

vLLM's class for offline use refuses `data_parallel_size` (0.32), so each copy is an engine of its own.
"""

from collections.abc import Iterator, Sequence
from queue import SimpleQueue
from threading import Event, Thread

from slowwave.engines.llm.protocol import LLM, Completion, Request, index_by_id
from slowwave.engines.llm.vllm import VLLMOffline
from slowwave.schemas.errors import UsageError
from slowwave.schemas.settings import LLMSettings

COPIES = "data_parallel_size"
"""The option of vLLM's that names the number of copies."""


class CopiedLLM(LLM):
    """Several engines of one model. Each gets a share of the requests, in a thread of its own."""

    def __init__(self, copies: Sequence[LLM]) -> None:
        first = copies[0]
        self.name = first.name
        self.model = first.model
        self.sampling = first.sampling
        self.gpus = sum(copy.gpus or 0 for copy in copies)
        self.copies = copies

    @property
    def context_window(self) -> int:
        """The context window of the model, in tokens."""
        return self.copies[0].context_window

    def complete(self, requests: Sequence[Request]) -> Iterator[Completion]:
        """Yield one completion a request, as the copies finish them.

        Raises:
            EngineUnavailable: a copy can't answer; the others' answers are yielded before.
        """
        index_by_id(requests)
        answers = SimpleQueue[Completion | Exception | None]()
        is_over = Event()

        def ask(copy: LLM, share: Sequence[Request]) -> None:
            try:
                for completion in copy.complete(share):
                    answers.put(completion)
                    if is_over.is_set():
                        break
            except Exception as error:
                answers.put(error)
            finally:
                answers.put(None)

        threads = [
            Thread(target=ask, args=(copy, requests[n :: len(self.copies)]))
            for n, copy in enumerate(self.copies[: len(requests)])
        ]
        for thread in threads:
            thread.start()
        try:
            yield from _collect(answers, len(threads))
        finally:
            is_over.set()
            for thread in threads:
                thread.join()

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count by the model's tokenizer."""
        return self.copies[0].count_tokens(texts)

    def free_gpu(self) -> None:
        """Let every copy free its GPUs."""
        for copy in self.copies:
            copy.free_gpu()

    def close(self) -> None:
        """Close every copy."""
        for copy in self.copies:
            copy.close()


def _collect(
    answers: "SimpleQueue[Completion | Exception | None]", running: int
) -> Iterator[Completion]:
    """Yield answers until all `running` threads have put None into the queue; then raise the first error, if any."""
    errors: list[Exception] = []
    while running:
        answer = answers.get()
        if answer is None:
            running -= 1
        elif isinstance(answer, Exception):
            errors.append(answer)
        else:
            yield answer
    if errors:
        raise errors[0]


def make_vllm(source: str, settings: LLMSettings) -> LLM:
    """Return in-process vLLM, or as many copies of it as `model.vllm.data_parallel_size` says.

    Raises:
        UsageError: the option is not a number of copies.
    """
    number = settings.vllm.get(COPIES, 1)
    if type(number) is not int or number < 1:
        raise UsageError(
            f"model.vllm.{COPIES} = {number!r}: expected a number of copies, 1 or more"
        )
    others = {name: value for name, value in settings.vllm.items() if name != COPIES}
    own = settings.model_copy(update={"vllm": others})
    if number == 1:
        return VLLMOffline(source, own)
    return CopiedLLM([VLLMOffline(source, own, copy) for copy in range(number)])
