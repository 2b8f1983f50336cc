"""Vectors from a server: `openai:MODEL@URL`, any that answers `/v1/embeddings` (vLLM, Ollama, llama.cpp, a cloud).

Of models of nested vectors (Kusupati et al., "Matryoshka representation learning", NeurIPS 2022) shorter ones can be
had: `openai:MODEL#256@URL`. A key, where the server wants one, stands in SLOWWAVE_ENCODER_API_KEY, or in the URL. A
text that is longer than the server takes is cut. What a text's vector is in the last bit is up to the server.
"""

import logging
import os
import time
from collections.abc import Sequence
from typing import Any

import httpx
import numpy as np

from slowwave.engines.encoders.protocol import Vectors
from slowwave.engines.errors import EncoderFailed, TextsRefused

LOG = logging.getLogger(__name__)

BATCH = 64
"""Texts of one request."""
FIRST_PAUSE = 0.5
"""Seconds before the second try; doubled before each further one."""
TIMEOUT = 120.0
BUSY = (408, 429, 500, 502, 503, 504)
"""Statuses after which a request is sent again."""
REFUSED = (400, 413, 422)
"""Statuses by which a server says that a text is too long for its model, or that they are too many."""
LEFT = 0.75
"""What is left of a text that was too long, before it is sent again."""
SHORTEST = 40
"""Characters of a text that no model finds too long: what is refused then is refused for something else."""
KEY = "SLOWWAVE_ENCODER_API_KEY"


class EmbeddingServer:
    """Unit vectors of the model `name`, at a base URL up to and with its `/v1`. Asks it once, for its dimension.

    A request is sent `tries` times where the server is busy or away.

    Raises:
        EncoderFailed: the server can't be reached, or gives no vectors.
    """

    def __init__(self, name: str, url: str, tries: int) -> None:
        self.name, self.url, self.tries, self.dim = name, url, tries, 0
        key = os.environ.get(KEY, "").strip()
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._client = httpx.Client(timeout=TIMEOUT, headers=headers)
        model, _, nested = name.partition("#")
        self._asked: dict[str, Any] = {"model": model, "encoding_format": "float"}
        if nested.isdecimal():
            self._asked["dimensions"] = int(nested)
        self.dim = len(self._ask([name])[0])

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors, float32, shape (len(texts), dim); zeros of a text that the server refuses however short.

        Raises:
            EncoderFailed: the server is away, or refuses whatever it is sent, or gives no vectors of one length.
        """
        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)
        for at in range(0, len(texts), BATCH):
            # Several servers refuse an empty text.
            made = self._encode_batch([text or " " for text in texts[at : at + BATCH]])
            if made.shape[1] != self.dim:
                raise EncoderFailed(self.name, f"vectors of {made.shape[1]} dimensions after some of {self.dim}")
            vectors[at : at + BATCH] = made / np.maximum(np.linalg.norm(made, axis=1, keepdims=True), 1e-12)
        return vectors

    def _encode_batch(self, texts: list[str]) -> Vectors:
        """Return the server's vectors; of texts that it refuses each half is sent alone, and one that is alone cut."""
        try:
            return self._ask(texts)
        except TextsRefused as refused:
            if len(texts) > 1:
                half = len(texts) // 2
                return np.concatenate([self._encode_batch(texts[:half]), self._encode_batch(texts[half:])])
            return self._encode_cut(texts[0], refused.why)

    def _encode_cut(self, text: str, why: str) -> Vectors:
        """Return the vector of as much of a text as the server takes."""
        short = text
        while len(short) > SHORTEST:
            short = short[: int(len(short) * LEFT)]
            try:
                made = self._ask([short])
            except TextsRefused:
                continue
            LOG.warning("encoder %r was given %d of a text's %d characters: %s", self.name, len(short), len(text), why)
            return made
        self._ask([self.name])  # raises where by now everything is refused
        LOG.warning("encoder %r refuses a text of %d characters, which has no vector: %s", self.name, len(text), why)
        return np.zeros((1, self.dim), dtype=np.float32)

    def _ask(self, texts: list[str]) -> Vectors:
        why = ""
        for attempt in range(self.tries):
            if attempt:
                time.sleep(FIRST_PAUSE * 2 ** (attempt - 1))
            try:
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
                raise (TextsRefused if answer.status_code in REFUSED else EncoderFailed)(self.name, why)
        raise EncoderFailed(self.name, why)

    def _post(self, texts: list[str]) -> httpx.Response:
        url = httpx.URL(self.url)
        return self._client.post(
            url.copy_with(path=f"{url.path.rstrip('/')}/embeddings"), json={**self._asked, "input": texts}
        )

    def _parse(self, answer: httpx.Response, count: int) -> Vectors:
        """Return an answer's vectors in the order of the texts: its rows say which text they are of."""
        try:
            rows = sorted(answer.json()["data"], key=lambda row: row["index"])
            vectors = np.array([row["embedding"] for row in rows], dtype=np.float32)
        except (KeyError, TypeError, ValueError) as trouble:
            raise EncoderFailed(self.name, f"the server answered no vectors ({trouble})") from trouble
        if vectors.ndim != 2 or len(vectors) != count or not np.isfinite(vectors).all():
            raise EncoderFailed(self.name, f"the server answered {len(vectors)} vectors to {count} texts")
        return vectors
