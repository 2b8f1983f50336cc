"""The plain encoder that ships: hashed bags of words. No model, no torch; for tests and for a look at the pipeline.

Texts that share words lie near each other and nothing else is understood: it is no stand-in for a real encoder.
"""

from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b

import numpy as np

from slowwave.engines.encoders.protocol import Vectors
from slowwave.text.words import TERM


class HashEncoder:
    """Each word votes +1 or -1 for one of `dim` places; the sum is scaled to unit length (Weinberger et al., 2009)."""

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
            if not row.any():  # two words voted against each other
                row[_hash_word(text, self.dim)[0]] = 1.0
            row /= np.linalg.norm(row)
        return vectors


@lru_cache(maxsize=100_000)
def _hash_word(word: str, dim: int) -> tuple[int, int]:
    """Return a word's place and sign, the same on every machine."""
    digest = int.from_bytes(blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
    return digest // 2 % dim, 1 if digest % 2 else -1
