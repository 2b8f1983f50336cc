"""Read from the vectors of two statements how the later stands to the earlier.

A linear model gives log-odds for each kind of pair: affirmed, narrowed, replaced, restored, retracted, of a look-alike,
or unrelated. It was fitted to pairs that independent writers labelled (`docs/decisions/024-changes-kinds.md`). It reads
the vectors of the encoder that ships; those of another encoder mean something else.
"""

import io
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
import numpy.typing as npt

from slowwave.engines.encoders.protocol import find_vector_space
from slowwave.schemas.settings import Settings

Floats = npt.NDArray[np.float32]
Odds = npt.NDArray[np.float32]
READER_FILE = "changes/reader.npz"
"""The fitted model; it ships beside the step that judges pairs."""
READS = "reads "
"""Prefix of the names of features for the log-odds, one for each kind of pair."""
PRODUCTS = 20.0
"""Factor on the products of two unit vectors' components, which are small."""
SCALE = 3.0
"""Factor on all inputs: a penalty on weights then weighs less."""
DECIMALS = 4
"""Decimals of log-odds."""


@dataclass(frozen=True)
class PairReader:
    """A fitted linear model from two vectors to log-odds, one for each kind of pair."""

    kinds: list[str]
    weights: Odds
    """Shape (3 × dimension, kinds)."""
    offsets: Odds

    @classmethod
    def from_bytes(cls, content: bytes) -> "PairReader":
        """Read a saved model."""
        with np.load(io.BytesIO(content)) as saved:
            return cls(saved["kinds"].tolist(), saved["weights"], saved["offsets"])

    def to_bytes(self) -> bytes:
        """Return the model as a compressed archive."""
        saved = io.BytesIO()
        np.savez_compressed(
            saved,
            kinds=np.array(self.kinds),
            weights=self.weights,
            offsets=self.offsets,
        )
        return saved.getvalue()

    def read(self, earlier: Floats, later: Floats) -> Odds:
        """Return log-odds of shape (pairs, kinds); NaN for a pair in which a vector is zero.

        They do not depend on the other pairs, as those of a matrix product do in their last bits.
        """
        inputs = combine_vectors(earlier, later).astype(np.float64)
        sums = [(inputs * of_kind).sum(axis=1) for of_kind in self.weights.T]
        odds = (np.stack(sums, axis=1) + self.offsets).round(DECIMALS)
        unknown = ~(np.any(earlier, axis=1) & np.any(later, axis=1))
        odds[unknown] = np.nan
        return odds.astype(np.float32)

    def describe(self, earlier: Floats, later: Floats) -> dict[str, Odds]:
        """Return the log-odds of each pair by the name of the feature; none for vectors of another length."""
        if earlier.shape[1] * 3 != len(self.weights):
            return {}
        return dict(
            zip(
                (READS + kind for kind in self.kinds),
                self.read(earlier, later).T,
                strict=True,
            )
        )


def combine_vectors(earlier: Floats, later: Floats) -> Floats:
    """Return the model's input for each pair: the later vector, the difference, and the products."""
    parts = [later, later - earlier, PRODUCTS * earlier * later]
    return np.asarray(SCALE * np.hstack(parts), dtype=np.float32)


@cache
def load_reader() -> PairReader:
    """Return the model that ships with the package."""
    return PairReader.from_bytes(
        files("slowwave.tasks").joinpath(READER_FILE).read_bytes()
    )


def find_reader(encoder: str) -> PairReader | None:
    """Return the model for vectors of an encoder (the setting); None if it was not fitted to them."""
    fitted_to = Settings.model_fields["encoder"].default
    return load_reader() if find_vector_space(encoder) == fitted_to else None
