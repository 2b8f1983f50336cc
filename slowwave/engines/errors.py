"""Errors of the engines.

EngineError
├── EngineUnavailable  a language model's engine can answer nothing (defined in llm.py)
├── EncoderNotFound    no model of that name: not a folder, not an installed package, not on the hub
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
