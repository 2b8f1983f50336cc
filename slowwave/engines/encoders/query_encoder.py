"""The encoder for queries: a small BERT's forward pass in numpy, so that a search need not wait for torch.

Loads in about 0.1 s where torch takes 5 to 9, and encodes a query of 20 tokens in about 10 ms on one core. Vectors
equal sentence-transformers' to 1e-5 (`tests/engines/test_query_encoder.py`). For many texts the real encoder is the
faster one.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from slowwave.engines.encoders.blas import limit_blas_threads
from slowwave.engines.encoders.hash_encoder import HashEncoder
from slowwave.engines.encoders.protocol import Encoder, Vectors
from slowwave.engines.encoders.sentence_transformer import _find_folder, _find_packaged_folder, load_encoder

Floats = npt.NDArray[np.float32]

MODULES = (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"])
"""Chains of sentence-transformers modules that this forward pass does."""

MAX_BATCH_TOKENS = 2_048
"""Tokens that go through the model together."""


def load_query_encoder(name: str) -> Encoder:
    """Return the quickest encoder of that name: in numpy where its model is a BERT on disk, else `load_encoder`'s.

    Raises:
        EncoderNotFound: nothing of that name could be loaded.
    """
    if name == HashEncoder().name:
        return HashEncoder()
    tried: list[str] = []
    folder = _find_packaged_folder(name, tried) or _find_folder(name, tried)
    if folder is not None and is_plain_bert(folder):
        return QueryEncoder(folder, Path(name).name)
    return load_encoder(name)


def is_plain_bert(folder: Path) -> bool:
    """Return whether a sentence-transformers folder holds what `QueryEncoder` computes: BERT, mean pooling, no
    prompts.
    """
    wanted = ("config.json", "modules.json", "tokenizer.json", "model.safetensors", "1_Pooling/config.json")
    if not all((folder / file).is_file() for file in wanted):
        return False
    config, pooling = _read_json(folder / "config.json"), _read_json(folder / "1_Pooling" / "config.json")
    prompts = _read_json(folder / "config_sentence_transformers.json")
    return (
        config.get("model_type") == "bert"
        and config.get("hidden_act") == "gelu"
        and config.get("position_embedding_type", "absolute") == "absolute"
        and [module["type"].split(".")[-1] for module in _read_json(folder / "modules.json")] in MODULES
        and _is_mean_pooling(pooling)
        and not any(prompts.get("prompts", {}).values())
    )


def _is_mean_pooling(pooling: Mapping[str, Any]) -> bool:
    modes = {name for name, on in pooling.items() if name.startswith("pooling_mode_") and on is True}
    return modes == {"pooling_mode_mean_tokens"} or pooling.get("pooling_mode") == "mean"


@dataclass(frozen=True)
class Shape:
    """Sizes of a BERT, from its config.json."""

    layers: int
    heads: int
    width: int
    eps: float
    reads: int
    """Tokens it reads of a text."""


class QueryEncoder:
    """Unit vectors of a BERT with mean pooling; the weights are read by the first query."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.shape = _read_shape(folder)
        self.dim = self.shape.width

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors, float32, shape (len(texts), dim).

        Texts of equal length go together: nothing is padded.
        """
        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)
        ids = [encoding.ids for encoding in self._tokenizer.encode_batch(list(texts))] if texts else []
        rows_by_length: dict[int, list[int]] = {}
        for row, tokens in enumerate(ids):
            rows_by_length.setdefault(len(tokens), []).append(row)
        for length, rows in rows_by_length.items():
            size = max(1, MAX_BATCH_TOKENS // length)
            for some in (rows[at : at + size] for at in range(0, len(rows), size)):
                with limit_blas_threads():
                    pooled = self._compute_hidden_states(np.array([ids[row] for row in some])).mean(axis=1)
                vectors[some] = pooled / np.linalg.norm(pooled, axis=1, keepdims=True)
        return vectors

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(self.folder / "tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.enable_truncation(self.shape.reads)
        return tokenizer

    @cached_property
    def _weights(self) -> dict[str, Floats]:
        from safetensors.numpy import load_file

        loaded = load_file(self.folder / "model.safetensors")
        return {name.removeprefix("bert."): tensor for name, tensor in loaded.items() if tensor.dtype == np.float32}

    def _compute_hidden_states(self, ids: npt.NDArray[np.int64]) -> Floats:
        """Return last hidden states of texts of one length; shapes (n, length) -> (n, length, width).

        Devlin et al.: BERT, NAACL 2019; post-norm layers as in Vaswani et al., 2017.
        """
        table = self._weights
        x = table["embeddings.word_embeddings.weight"][ids]
        x = x + table["embeddings.position_embeddings.weight"][: ids.shape[1]]
        x = self._apply_layer_norm(x + table["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        for layer in range(self.shape.layers):
            at = f"encoder.layer.{layer}"
            heard = self._apply_linear(
                self._compute_attention(x, f"{at}.attention.self"), f"{at}.attention.output.dense"
            )
            x = self._apply_layer_norm(x + heard, f"{at}.attention.output.LayerNorm")
            inner = gelu(self._apply_linear(x, f"{at}.intermediate.dense"))
            x = self._apply_layer_norm(x + self._apply_linear(inner, f"{at}.output.dense"), f"{at}.output.LayerNorm")
        return x

    def _compute_attention(self, x: Floats, at: str) -> Floats:
        """Compute scaled dot-product attention over all heads; shape kept."""
        n, length, width = x.shape
        heads, size = self.shape.heads, width // self.shape.heads

        def split(part: str) -> Floats:
            return self._apply_linear(x, f"{at}.{part}").reshape(n, length, heads, size).transpose(0, 2, 1, 3)

        scores = split("query") @ split("key").transpose(0, 1, 3, 2) / np.float32(size**0.5)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        heard: Floats = (weights @ split("value")).transpose(0, 2, 1, 3).reshape(n, length, width)
        return heard

    def _apply_linear(self, x: Floats, at: str) -> Floats:
        flat = x.reshape(-1, x.shape[-1]) @ self._weights[f"{at}.weight"].T
        out: Floats = (flat + self._weights[f"{at}.bias"]).reshape(*x.shape[:-1], -1)
        return out

    def _apply_layer_norm(self, x: Floats, at: str) -> Floats:
        centred = x - x.mean(axis=-1, keepdims=True)
        spread = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + np.float32(self.shape.eps))
        out: Floats = centred / spread * self._weights[f"{at}.weight"] + self._weights[f"{at}.bias"]
        return out


def gelu(x: Floats) -> Floats:
    """Return x · Φ(x), with erf to 1.5e-7 by Abramowitz and Stegun 7.1.26: numpy has none, and scipy is slow to
    import.
    """
    z = np.abs(x) * np.float32(0.5**0.5)
    t = 1 / (1 + np.float32(0.3275911) * z)
    series = np.zeros_like(t)
    for factor in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series = (series + np.float32(factor)) * t
    erf = 1 - series * np.exp(-z * z)
    out: Floats = x * np.float32(0.5) * (1 + np.copysign(erf, x))
    return out


def _read_shape(folder: Path) -> Shape:
    config = _read_json(folder / "config.json")
    limit = _read_json(folder / "sentence_bert_config.json").get("max_seq_length") or config["max_position_embeddings"]
    layers, heads, width = (int(config[name]) for name in ("num_hidden_layers", "num_attention_heads", "hidden_size"))
    return Shape(layers, heads, width, float(config["layer_norm_eps"]), int(limit))


def _read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
