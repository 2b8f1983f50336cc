"""Vectors from a server: `openai:MODEL@URL`, any that answers `/v1/embeddings` (vLLM, Ollama, llama.cpp, a cloud).

It is asked for vectors of the store's own length, which models of nested vectors give (Kusupati et al., "Matryoshka
representation learning", NeurIPS 2022); one of another length is refused before anything is written. A key, where the
server wants one, stands in SLOWWAVE_ENCODER_API_KEY. What a text's vector is in the last bit is up to the server.
"""

import os
import time
from collections.abc import Sequence

import httpx
import numpy as np

from slowwave.engines.encoders.protocol import Vectors
from slowwave.engines.errors import EncoderFailed
from slowwave.schemas.tables import VECTOR_DIM

BATCH = 64
"""Texts of one request."""
FIRST_PAUSE = 0.5
"""Seconds before the second try; doubled before each further one."""
TIMEOUT = 120.0
BUSY = (408, 429, 500, 502, 503, 504)
"""Statuses after which a request is sent again."""
REFUSED = (400, 422)
"""Statuses by which a server says that it does not know `dimensions`."""
KEY = "SLOWWAVE_ENCODER_API_KEY"


class EmbeddingServer:
    """Unit vectors of the model `name` at a base URL, up to and with its `/v1`. Asks it once, for its dimension.

    A request is sent `tries` times where the server is busy or away.

    Raises:
        EncoderFailed: the server can't be reached, or gives no vectors.
    """

    def __init__(self, name: str, url: str, tries: int) -> None:
        self.name, self.url, self.tries, self.dim = name, url.rstrip("/"), tries, 0
        key = os.environ.get(KEY, "").strip()
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._client = httpx.Client(timeout=TIMEOUT, headers=headers)
        self._asked = {"encoding_format": "float", "dimensions": VECTOR_DIM}
        self.dim = len(self._ask([name])[0])

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors, float32, shape (len(texts), dim).

        Raises:
            EncoderFailed: the server is away, or what it gives are no vectors of one length.
        """
        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)
        for at in range(0, len(texts), BATCH):
            made = self._ask([text or " " for text in texts[at : at + BATCH]])  # several servers refuse an empty text
            if made.shape[1] != self.dim:
                raise EncoderFailed(self.name, f"vectors of {made.shape[1]} dimensions after some of {self.dim}")
            vectors[at : at + BATCH] = made / np.maximum(np.linalg.norm(made, axis=1, keepdims=True), 1e-12)
        return vectors

    def _ask(self, texts: list[str]) -> Vectors:
        why = ""
        for attempt in range(self.tries):
            if attempt:
                time.sleep(FIRST_PAUSE * 2 ** (attempt - 1))
            try:
                answer = self._post(texts)
                if answer.status_code in REFUSED and not self.dim:  # a model of one length; later it is about the texts
                    self._asked.pop("dimensions", None)
                    answer = self._post(texts)
            except (httpx.HTTPError, httpx.InvalidURL) as trouble:
                why = f"{type(trouble).__name__}: {trouble}"
                if isinstance(trouble, httpx.InvalidURL):
                    break
                continue
            if answer.is_success:
                return self._parse(answer, len(texts))
            why = f"HTTP {answer.status_code}: {answer.text[:200]}"
            if answer.status_code not in BUSY:
                break
        raise EncoderFailed(self.name, f"{self.url}: {why}")

    def _post(self, texts: list[str]) -> httpx.Response:
        return self._client.post(f"{self.url}/embeddings", json={"model": self.name, "input": texts, **self._asked})

    def _parse(self, answer: httpx.Response, count: int) -> Vectors:
        """Return an answer's vectors in the order of the texts: its rows say which text they are of."""
        try:
            rows = sorted(answer.json()["data"], key=lambda row: row["index"])
            vectors = np.array([row["embedding"] for row in rows], dtype=np.float32)
        except (KeyError, TypeError, ValueError) as trouble:
            raise EncoderFailed(self.name, f"{self.url} answered no vectors ({trouble})") from trouble
        if vectors.ndim != 2 or len(vectors) != count or not np.isfinite(vectors).all():
            raise EncoderFailed(self.name, f"{self.url} answered {len(vectors)} vectors to {count} texts")
        return vectors
