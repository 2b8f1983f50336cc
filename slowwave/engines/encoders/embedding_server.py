"""Vectors from a server: `openai:MODEL@URL`, any that answers `/v1/embeddings` (vLLM, Ollama, llama.cpp, a cloud).

Models of nested vectors (Kusupati et al., "Matryoshka representation learning", NeurIPS 2022) can return shorter ones:
`openai:MODEL#256@URL`. A key, if the server needs one, is in SLOWWAVE_ENCODER_API_KEY or in the URL. A text that is too
long for the server is cut. The last bits of a vector are up to the server.
"""

import logging
from collections.abc import Sequence
from typing import Any

import httpx
import numpy as np
from tenacity import Retrying

from slowwave.engines.encoders.protocol import Vectors, report_encoded
from slowwave.engines.http import (
    RETRIED,
    Transient,
    build_client_options,
    build_retry_options,
    describe_failure,
    mask_key,
    read_retry_after,
)
from slowwave.schemas.errors import EncoderFailed, TextsRefused

LOG = logging.getLogger(__name__)

BATCH = 64
"""Texts of one request."""
TIMEOUT = 120.0
REFUSED = (400, 413, 422)
"""Statuses by which a server says that a text is too long for its model, or that there are too many texts."""
LEFT = 0.75
"""Share of a text that is sent again if the text was too long."""
SHORTEST = 40
"""Characters of a text that is too long for no model. A server that refuses it has another reason."""
KEY = "SLOWWAVE_ENCODER_API_KEY"


class EmbeddingServer:
    """The encoder of the model `name` on a server, at a base URL that ends in `/v1`. Asks it once for its dimension.

    If the server is busy or away, a request is tried up to `attempts` times within `seconds`.

    Raises:
        EncoderFailed: the server can't be reached, or returns no vectors.
    """

    def __init__(
        self,
        name: str,
        url: str,
        attempts: int,
        seconds: float,
    ) -> None:
        self.name = name
        self.dim = 0
        try:
            base = httpx.URL(url)
            self._client = httpx.Client(**build_client_options(url, KEY, TIMEOUT))
        except (ValueError, httpx.InvalidURL) as error:
            raise EncoderFailed(name, f"{type(error).__name__}: {error}") from None
        self._url = base.copy_with(path=f"{base.path.rstrip('/')}/embeddings")
        self._retrying = Retrying(**build_retry_options(attempts, seconds))
        model, _, nested = name.partition("#")
        self._fields: dict[str, Any] = {"model": model, "encoding_format": "float"}
        if nested.isdecimal():
            self._fields["dimensions"] = int(nested)
        self.dim = len(self._ask([name])[0])

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors, float32, shape (len(texts), dim).

        A text that is too long is cut. A text that the server refuses even when it is short gets zeros.

        Raises:
            EncoderFailed: the server is away, refuses every text, or returns vectors of different lengths.
        """
        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)
        for at in range(0, len(texts), BATCH):
            # Several servers refuse an empty text.
            made = self._encode_batch([text or " " for text in texts[at : at + BATCH]])
            if made.shape[1] != self.dim:
                raise EncoderFailed(
                    self.name,
                    f"vectors of {made.shape[1]} dimensions after some of {self.dim}",
                )
            vectors[at : at + BATCH] = made / np.maximum(
                np.linalg.norm(made, axis=1, keepdims=True), 1e-12
            )
            report_encoded(len(made))
        return vectors

    def _encode_batch(self, texts: list[str]) -> Vectors:
        """Return the server's vectors. If it refuses the texts, send each half alone; cut a single text."""
        try:
            return self._ask(texts)
        except TextsRefused as refused:
            if len(texts) > 1:
                half = len(texts) // 2
                return np.concatenate(
                    [self._encode_batch(texts[:half]), self._encode_batch(texts[half:])]
                )
            return self._encode_cut(texts[0], refused.why)

    def _encode_cut(self, text: str, why: str) -> Vectors:
        """Return the vector of the longest beginning of a text that the server accepts; zeros if it accepts none."""
        short = text
        while len(short) > SHORTEST:
            short = short[: int(len(short) * LEFT)]
            try:
                made = self._ask([short])
            except TextsRefused:
                continue
            LOG.warning(
                "encoder %r was given %d of a text's %d characters: %s",
                self.name,
                len(short),
                len(text),
                why,
            )
            return made
        self._ask([self.name])  # raises if the server now refuses everything
        LOG.warning(
            "encoder %r refuses a text of %d characters, which has no vector: %s",
            self.name,
            len(text),
            why,
        )
        return np.zeros((1, self.dim), dtype=np.float32)

    def _ask(self, texts: list[str]) -> Vectors:
        """Return the server's vectors of texts. Transient failures are retried."""
        try:
            return self._retrying(self._send, texts)
        except Transient as error:
            raise EncoderFailed(self.name, error.why) from None

    def _send(self, texts: list[str]) -> Vectors:
        """Send one request, and return the vectors in the order of the texts, by the `index` of each row.

        Raises:
            Transient: the server is busy or away.
            TextsRefused: the server refuses these texts.
            EncoderFailed: the answer has another error, or no vectors.
        """
        try:
            answer = self._client.post(self._url, json={**self._fields, "input": texts})
        except httpx.RequestError as error:
            raise describe_failure(error, TIMEOUT) from None
        why = f"HTTP {answer.status_code}: {mask_key(answer.text, KEY)[:200]}"
        if answer.status_code in RETRIED:
            raise Transient(why, read_retry_after(answer.headers))
        if not answer.is_success:
            raise (TextsRefused if answer.status_code in REFUSED else EncoderFailed)(
                self.name, why
            )
        try:
            rows = sorted(answer.json()["data"], key=lambda row: row["index"])
            vectors = np.array([row["embedding"] for row in rows], dtype=np.float32)
        except (KeyError, TypeError, ValueError) as error:
            raise EncoderFailed(
                self.name, f"the server answered no vectors ({error})"
            ) from error
        if (
            vectors.ndim != 2
            or len(vectors) != len(texts)
            or not np.isfinite(vectors).all()
        ):
            raise EncoderFailed(
                self.name,
                f"the server answered {len(vectors)} vectors to {len(texts)} texts",
            )
        return vectors
