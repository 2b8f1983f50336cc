"""The Encoder protocol: texts in, unit vectors out."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]
"""Shape (texts, dim), rows of unit length."""


class Encoder(Protocol):
    """Turns texts into unit vectors. `name` tells two models apart in every id that depends on vectors."""

    name: str
    dim: int

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return one float32 row of unit length a text, in order; shape (len(texts), dim)."""
        ...
