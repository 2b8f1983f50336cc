"""Errors of the engines.

EngineError
├── EngineUnavailable  a language model's engine can answer nothing (defined in llm.py)
├── EncoderNotFound    no model of that name: not a folder, not an installed package, not on the hub
├── RerankerNotFound   no cross-encoder of that name: not a folder, not on the hub, or no head that scores pairs
├── RerankFailed       a reranker gave no scores that can be used
└── WrongDimension     a model whose vectors do not fit the store's tables
"""

from collections.abc import Sequence

from schemas.errors import SlowwaveError


class EngineError(SlowwaveError):
    """A model could not be had or could not be used."""


class EncoderNotFound(EngineError):
    """No encoder of that name could be loaded; `tried` lists each place with what was wrong there."""

    def __init__(self, name: str, tried: Sequence[str]) -> None:
        self.name = name
        self.tried = tuple(tried)
        places = "".join(f"\n  - {place}" for place in self.tried)
        super().__init__(
            f"no encoder {name!r}. Tried:{places}\n"
            "Name a folder, an installed model package or a hub model in `encoder` (SLOWWAVE_ENCODER),\n"
            "or turn vectors off (SLOWWAVE_EMBEDDINGS=false): recall is then full text alone."
        )


class WrongDimension(EngineError):
    """The encoder makes vectors of `got` dimensions; the store's tables hold `expected`."""

    def __init__(self, name: str, got: int, expected: int) -> None:
        self.name, self.got, self.expected = name, got, expected
        super().__init__(
            f"encoder {name!r} makes vectors of {got} dimensions, the store holds {expected}: nothing was written. "
            f"Choose an encoder of {expected} dimensions."
        )


class RerankerNotFound(EngineError):
    """No cross-encoder of that name could be loaded; `tried` lists each place with what was wrong there."""

    def __init__(self, name: str, tried: Sequence[str]) -> None:
        self.name = name
        self.tried = tuple(tried)
        places = "".join(f"\n  - {place}" for place in self.tried)
        super().__init__(
            f"no cross-encoder {name!r}. Tried:{places}\n"
            "Name a folder or a hub model in `recall.reranker` (SLOWWAVE_RECALL__RERANKER=cross-encoder:NAME),\n"
            "or leave it empty: hits then keep recall's own order."
        )


class RerankFailed(EngineError):
    """A reranker called `name` gave no scores that can be used: `why`."""

    def __init__(self, name: str, why: str) -> None:
        self.name, self.why = name, why
        super().__init__(f"{name}: {why}")
