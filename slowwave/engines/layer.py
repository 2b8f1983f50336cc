"""What is the same for every layer around an LLM: it bears its engine's name and counts as it counts."""

from collections.abc import Sequence

from slowwave.engines.llm import LLM, Sampling


class Layer:
    """Everything of an `LLM` but `complete`, from `inner`."""

    def __init__(self, inner: LLM) -> None:
        self.inner = inner

    @property
    def name(self) -> str:
        """The engine's kind."""
        return self.inner.name

    @property
    def model(self) -> str:
        """The engine's model."""
        return self.inner.model

    @property
    def sampling(self) -> Sampling:
        """The engine's sampling."""
        return self.inner.sampling

    @property
    def context_window(self) -> int:
        """The engine's context window, in tokens."""
        return self.inner.context_window

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, by the engine's count."""
        return self.inner.count_tokens(texts)

    def free_gpu(self) -> None:
        """Have the engine give up its GPU."""
        self.inner.free_gpu()

    def close(self) -> None:
        """Close the engine."""
        self.inner.close()
