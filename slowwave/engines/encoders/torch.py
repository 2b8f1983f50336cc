"""Any model of sentence-transformers, on a GPU if there is one: for nights, and models other than a plain BERT.

torch is imported when a model is loaded (3 to 15 s), not before. On a CPU and on an H200, a text's vector is the same
to the last bit, whatever texts it is encoded with.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from socket import getaddrinfo
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import getproxies

import numpy as np

from slowwave.engines.encoders.protocol import Vectors, is_unread, report_encoded

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


def load_folder(folder: Path, name: str) -> "SentenceTransformerEncoder":
    """Return the model of a folder.

    Raises:
        ModuleNotFoundError: sentence-transformers is not installed.
    """
    return SentenceTransformerEncoder(_load_model(str(folder), local=True), name)


def load_from_hub(name: str) -> "SentenceTransformerEncoder":
    """Return the model from the hub's cache on disk or, unless HF_HUB_OFFLINE is set or there is no network, the hub.

    Raises:
        OSError, ValueError: the model could not be loaded.
        ModuleNotFoundError: sentence-transformers is not installed.
    """
    return SentenceTransformerEncoder(
        _load_model(name, local=not knows_hub()), Path(name).name
    )


def knows_hub() -> bool:
    """Return True if the hub can be reached: without a network, its client retries half a minute for each file."""
    from huggingface_hub.constants import ENDPOINT

    if getproxies():
        return True
    try:
        return bool(getaddrinfo(urlsplit(ENDPOINT).hostname, None))
    except OSError:
        return False


class SentenceTransformerEncoder:
    """Unit vectors of one sentence-transformers model. `name` is the model's own, without folder or organisation."""

    def __init__(self, model: "SentenceTransformer", name: str) -> None:
        self.name = name
        self.model = model
        self.dim = int(model.get_embedding_dimension() or 0)

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors, float32, shape (len(texts), dim).

        The model cuts a text that is too long. A text whose tokens it does not know gets zeros.

        A batch has texts with the same number of tokens. Its size is a power of two that depends only on that number;
        the last batch is filled up with copies. So nothing is padded, every text is computed in the same shapes, and
        its sums have the same order whatever the other texts are.
        """
        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)
        # Tokens of a batch. More make neither a CPU nor an H200 faster. A single query must not cost a large batch, and
        # the copies that fill up the last batch of each length are wasted.
        tokens = 128 if self.model.device.type == "cpu" else 2_048
        rows_by_length: dict[int, list[int]] = {}
        tokens_of = self._read_tokens(texts)
        unknown = getattr(self.model.tokenizer, "unk_token_id", None)
        for row, read in enumerate(tokens_of):
            rows_by_length.setdefault(len(read), []).append(row)
        for length, rows in sorted(rows_by_length.items(), reverse=True):
            size = min(1_024, 1 << max(tokens // max(length, 1), 1).bit_length() - 1)
            group = [texts[row] for row in rows]
            group += group[:1] * (-len(group) % size)
            encoded = self.model.encode(
                group,
                batch_size=size,
                normalize_embeddings=True,
                show_progress_bar=False,
            )
            vectors[rows] = np.asarray(encoded, dtype=np.float32)[: len(rows)]
            vectors[
                [row for row in rows if is_unread(tokens_of[row][1:-1], unknown)]
            ] = 0.0
            report_encoded(len(rows))
        return vectors

    def _read_tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text, truncated to the model's maximum."""
        if not texts:
            return []
        tokenize: Callable[..., dict[str, list[list[int]]]] = self.model.tokenizer
        read = tokenize(
            list(texts), truncation=True, max_length=self.model.max_seq_length
        )
        return read["input_ids"]


def _load_model(name: str, *, local: bool) -> "SentenceTransformer":
    """Load the model without transformers' own progress bars. With `local`, only files on disk are used."""
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        return SentenceTransformer(name, local_files_only=local)
    finally:
        if shown:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
