"""Errors of the engines; `slowwave.schemas.errors` draws the tree of all."""

from collections.abc import Sequence

from slowwave.schemas.errors import SlowwaveError


class EngineError(SlowwaveError):
    """A model could not be had or could not be used."""


class EncoderNotFound(EngineError):
    """No encoder of that name could be loaded; `tried` lists each place with what was wrong there."""

    def __init__(self, name: str, tried: Sequence[str]) -> None:
        self.name, self.tried = name, tuple(tried)
        places = "".join(f"\n  - {place}" for place in self.tried)
        super().__init__(
            f"no encoder {name!r}. Tried:{places}\n"
            "Name a folder, an installed model package or a hub model in `encoder` (SLOWWAVE_ENCODER),\n"
            "or turn vectors off (SLOWWAVE_EMBEDDINGS=false): recall is then full text alone."
        )


class EncoderFailed(EngineError):
    """The encoder called `name`, which is a server's, gave no vectors: `why`."""

    def __init__(self, name: str, why: str) -> None:
        self.name, self.why = name, why
        super().__init__(f"encoder {name!r}: {why}")


class TextsRefused(EncoderFailed):
    """The server says that it can't do with these texts: one may be too long."""


class WrongDimension(EngineError):
    """The encoder makes vectors of `got` dimensions; the store's are of `expected`."""

    def __init__(self, name: str, got: int, expected: int) -> None:
        self.name, self.got, self.expected = name, got, expected
        super().__init__(
            f"encoder {name!r} makes vectors of {got} dimensions, those of this space have {expected}: none was "
            "written. Go on with the encoder of before, or begin a space with this one: `slowwave export OUT --table "
            "messages --table sessions` and `slowwave run OUT --space NEW`."
        )
