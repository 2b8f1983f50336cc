"""The Encoder protocol (texts in, unit vectors out), a plain encoder without a model, and shared functions."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from slowwave.text.words import TERM

Vectors = npt.NDArray[np.float32]
"""Shape (texts, dim), rows of unit length."""
MULTILINGUAL = "multilingual"
"""The setting for the encoder of many languages, and its name."""
SERVER = "openai:"
"""Prefix of the setting for an embedding server: `openai:MODEL@URL`."""
EIGHT_BITS = ":8bit"
"""Suffix of the setting, and of the name, of a model that is computed in 8 bits: `all-MiniLM-L6-v2:8bit`."""


UNREAD = 0.2
"""Share of unknown tokens in a text above which the encoder can't represent it."""


def is_unread(tokens: Sequence[int], unknown: int | None) -> bool:
    """Return True if too many of a text's tokens are the unknown one, by its id.

    An English model knows only a few characters of a Chinese text. Texts that differ in the others would get the same
    vector. Return False if the vocabulary has no unknown token (None).
    """
    return unknown is not None and tokens.count(unknown) > UNREAD * len(tokens)


class Encoder(Protocol):
    """Turns texts into unit vectors. `name` tells two models apart in every id that depends on vectors.

    A text that it can't represent gets zeros: such a row is compared by its words alone.
    """

    name: str
    dim: int

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return one float32 row of unit length a text, in order; shape (len(texts), dim)."""
        ...


_watchers: ContextVar[tuple[Callable[[int], None], ...]] = ContextVar(
    "watchers", default=()
)


@contextmanager
def watch_encoding(tick: Callable[[int], None]) -> Iterator[None]:
    """Call `tick` with the number of texts after each batch that an encoder computes inside the block."""
    token = _watchers.set((*_watchers.get(), tick))
    try:
        yield
    finally:
        _watchers.reset(token)


_may_build: ContextVar[bool] = ContextVar("may_build", default=True)


@contextmanager
def without_new_graphs() -> Iterator[None]:
    """Forbid building an encoder's graph in the block. An encoder whose graph is not built yet counts as missing."""
    token = _may_build.set(False)
    try:
        yield
    finally:
        _may_build.reset(token)


def may_build_graphs() -> bool:
    """Return False inside `without_new_graphs`."""
    return _may_build.get()


def report_encoded(texts: int) -> None:
    """Call the callbacks of `watch_encoding`: a batch of this many texts was encoded."""
    for tick in _watchers.get():
        tick(texts)


def hide_url(setting: str) -> str:
    """Return the setting as a release stores it. A server's URL is left out, so that no store can send queries away."""
    return compute_encoder_name(setting) if setting.startswith(SERVER) else setting


def describe_vectors(setting: str) -> str:
    """Return the identity of an encoder's vectors for step keys, from the setting `encoder`.

    It changes if an encoder that ships returns other vectors than before.
    """
    return f"{setting} 2" if setting == MULTILINGUAL else hide_url(setting)


def compute_encoder_name(setting: str) -> str:
    """Return the encoder's name in ids, from the setting `encoder`: without folder, organisation or URL."""
    return (
        split_server(setting)[0] if setting.startswith(SERVER) else Path(setting).name
    )


def find_vector_space(name: str) -> str:
    """Return the encoder whose vectors these are, whether they are computed in 32 or in 8 bits.

    Models that were fitted to its vectors read both (`docs/decisions/005-vectors.md`). They are not compared with each
    other: they belong to two encoders by name.
    """
    return name.removesuffix(EIGHT_BITS)


def split_server(setting: str) -> tuple[str, str]:
    """Return the model and the base URL of `openai:MODEL@URL`; the URL is "" if there is none of http or https.

    The URL may contain a user and a password.
    """
    model, at, rest = setting.removeprefix(SERVER).partition("@http")
    return model, f"http{rest}" if at and rest.startswith(("://", "s://")) else ""


class HashEncoder:
    """Hashed bags of words, without a model: for tests and for a look at the pipeline.

    Each word adds +1 or -1 to one of `dim` places; the sum is scaled to unit length (Weinberger et al., 2009). Only
    texts that share words are near each other, so this can't replace a real encoder.
    """

    def __init__(self, dim: int = 384) -> None:
        self.dim = dim
        self.name = f"hash-{dim}"

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors, float32, shape (len(texts), dim); a text without words is hashed whole."""
        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for word in TERM.findall(text.lower()) or [text]:
                place, sign = _hash_word(word, self.dim)
                row[place] += sign
            if not row.any():  # words cancelled each other out
                row[_hash_word(text, self.dim)[0]] = 1.0
            row /= np.linalg.norm(row)
        return vectors


@lru_cache(maxsize=100_000)
def _hash_word(word: str, dim: int) -> tuple[int, int]:
    """Return a word's place and sign, the same on every machine."""
    digest = int.from_bytes(
        blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big"
    )
    return digest // 2 % dim, 1 if digest % 2 else -1


class KnownEncoder:
    """An encoder that keeps the vectors of its last `size` texts, so that each is encoded once.

    100,000 texts take about 160 MB at 384 dimensions. `texts` are encoded at once.
    """

    def __init__(
        self,
        encoder: Encoder,
        texts: Sequence[str] = (),
        size: int = 100_000,
    ) -> None:
        self.name = encoder.name
        self.dim = encoder.dim
        self.encoder = encoder
        self.size = size
        self.known: dict[str, Vectors] = {}
        self.encode(texts)

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors, shape (len(texts), dim). New texts are encoded in one call of the inner encoder."""
        new = [text for text in dict.fromkeys(texts) if text not in self.known]
        self.known |= (
            dict(zip(new, self.encoder.encode(new), strict=True)) if new else {}
        )
        vectors = np.array(
            [self.known[text] for text in texts], dtype=np.float32
        ).reshape(len(texts), self.dim)
        for text in list(self.known)[: -self.size]:
            del self.known[text]
        return vectors
