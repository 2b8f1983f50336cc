"""Upper layers of the encoder that ships, learnt anew for another purpose, as a file of a few megabytes.

The words and lower layers are the encoder's own, so they are neither shipped nor read twice. The matrices are stored in
8 bits with a scale for each row.
"""

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from slowwave.engines.encoders.onnx import OnnxEncoder

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

SCALE = " scale"
"""Ending of the name of a matrix's scales in the archive."""
LEVELS = 127
"""Largest number of a matrix in 8 bits."""
DECIMALS = 4
"""Decimals of log-odds: their last bits differ between machines."""
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class UpperLayers:
    """Layers, and weights from the states that they give to log-odds."""

    tensors: dict[str, Floats]
    """The layers' weights; `weights` and `offsets` from the pooled states to log-odds."""

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Read saved layers."""
        with np.load(io.BytesIO(content)) as saved:
            tensors = {
                name: _widen(saved, name)
                for name in saved.files
                if not name.endswith(SCALE)
            }
        return cls(tensors)

    def to_bytes(self) -> bytes:
        """Return the layers as a compressed archive."""
        stored: dict[str, Any] = {}
        for name, tensor in self.tensors.items():
            stored |= _narrow(name, tensor)
        saved = io.BytesIO()
        np.savez_compressed(saved, **stored)
        return saved.getvalue()

    def open(self, encoder: OnnxEncoder) -> "InferenceSession":
        """Return a session of the encoder with these layers."""
        layers = {
            name: tensor
            for name, tensor in self.tensors.items()
            if name.startswith("encoder")
        }
        return encoder.open_pooling(layers)

    def compute_odds(self, pooled: npt.NDArray[np.float64]) -> Floats:
        """Return the log-odds of pooled states, shape (texts, heads).

        Args:
            pooled: one row for each text, shape (texts, states).
        """
        weights = self.tensors["weights"].astype(np.float64)
        # Not a matrix product, whose last bits depend on the number of rows.
        sums = [(pooled * of_head).sum(axis=1) for of_head in weights.T]
        odds = np.stack(sums, axis=1) + self.tensors["offsets"]
        rounded: Floats = odds.round(DECIMALS).astype(np.float32)
        return rounded


def _narrow(name: str, tensor: Floats) -> dict[str, npt.NDArray[Any]]:
    """Return a tensor as it is stored: a matrix in 8 bits with a scale for each row, others as they are."""
    if tensor.ndim < 2:
        return {name: tensor}
    scale = np.abs(tensor).max(axis=1, keepdims=True) / LEVELS
    return {
        name: (tensor / scale).round().astype(np.int8),
        name + SCALE: scale.astype(np.float32),
    }


def _widen(saved: Any, name: str) -> Floats:
    """Return a stored tensor as float32, multiplied by the scales of its rows if it has any."""
    tensor: Floats = saved[name].astype(np.float32)
    if name + SCALE in saved.files:
        tensor *= saved[name + SCALE]
    return tensor
