"""An encoder that remembers: what one text's vector was is looked up the next time."""

from collections.abc import Sequence

import numpy as np

from slowwave.engines.encoders.protocol import Encoder, Vectors


class KnownEncoder:
    """An encoder of whose texts each is read once."""

    def __init__(self, encoder: Encoder, texts: Sequence[str] = ()) -> None:
        self.name, self.dim, self.encoder = encoder.name, encoder.dim, encoder
        self.known: dict[str, Vectors] = {}
        self._read(texts)

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return vectors; of texts that are new, by the encoder, in one call."""
        self._read(texts)
        return np.array([self.known[text] for text in texts], dtype=np.float32).reshape(len(texts), self.dim)

    def _read(self, texts: Sequence[str]) -> None:
        new = [text for text in dict.fromkeys(texts) if text not in self.known]
        self.known |= dict(zip(new, self.encoder.encode(new), strict=True)) if new else {}
