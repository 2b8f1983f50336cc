"""Gradient-boosted trees as arrays: what scikit-learn has learnt, kept and asked without it.

Its own file of a model brings scikit-learn, SciPy and torch into the process, three seconds of a night; the arrays are
a plain `.npz` that runs no code. Friedman, "Greedy function approximation", 2001.
"""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
import numpy.typing as npt

ROWS_AT_ONCE = 2_000
"""Rows that go down all trees together: some megabytes."""


@dataclass(frozen=True)
class Trees:
    """Binary trees of one classifier; arrays have the shape (trees, nodes), the root first, a leaf its own child."""

    names: npt.NDArray[np.str_]
    """Of the columns that it reads."""
    column: npt.NDArray[np.int16]
    threshold: npt.NDArray[np.float64]
    """Up to it a value goes left."""
    unknown_left: npt.NDArray[np.bool_]
    """Whether a value that is not known goes left."""
    left: npt.NDArray[np.int16]
    right: npt.NDArray[np.int16]
    value: npt.NDArray[np.float64]
    baseline: npt.NDArray[np.float64]
    """Shape (1,): log odds before any tree has spoken."""

    @classmethod
    def from_classifier(cls, names: list[str], classifier: Any) -> Self:
        """Return the trees of a fitted HistGradientBoostingClassifier of two classes, no column of it a category."""
        nodes = [predictor.nodes for (predictor,) in classifier._predictors]
        shape = len(nodes), max(map(len, nodes))
        made = cls(
            names=np.array(names),
            column=np.zeros(shape, np.int16),
            threshold=np.zeros(shape),
            unknown_left=np.zeros(shape, np.bool_),
            left=np.zeros(shape, np.int16),
            right=np.zeros(shape, np.int16),
            value=np.zeros(shape),
            baseline=np.array(classifier._baseline_prediction, dtype=np.float64).ravel(),
        )
        for tree, found in enumerate(nodes):
            own, leaf = np.arange(len(found)), found["is_leaf"].astype(bool)
            made.column[tree, own] = np.where(leaf, 0, found["feature_idx"])
            made.threshold[tree, own] = found["num_threshold"]
            made.unknown_left[tree, own] = found["missing_go_to_left"]
            made.left[tree, own] = np.where(leaf, own, found["left"])
            made.right[tree, own] = np.where(leaf, own, found["right"])
            made.value[tree, own] = found["value"]
        return made

    @classmethod
    def load(cls, file: IO[bytes]) -> Self:
        """Return what `save` has written.

        Raises:
            ValueError, KeyError: the file holds something else.
        """
        with np.load(file, allow_pickle=False) as kept:
            return cls(**{one.name: kept[one.name] for one in fields(cls)})

    def save(self, path: Path) -> None:
        """Write the arrays to an `.npz`."""
        np.savez_compressed(path, **vars(self))

    def predict_probabilities(self, matrix: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.float64]:
        """Return each row's probability of the second class; shape (rows,), of a matrix of (rows, names)."""
        parts = [self._sum_values(matrix[at : at + ROWS_AT_ONCE]) for at in range(0, len(matrix), ROWS_AT_ONCE)]
        odds = np.concatenate(parts) if parts else np.zeros(0)
        return np.asarray(1 / (1 + np.exp(-odds)), dtype=np.float64)

    def _sum_values(self, matrix: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.float64]:
        rows, trees = np.arange(len(matrix))[:, None], np.arange(len(self.column))[None, :]
        node = np.zeros((len(matrix), len(self.column)), dtype=np.int16)
        while True:
            found = matrix[rows, self.column[trees, node]]
            goes_left = np.where(np.isnan(found), self.unknown_left[trees, node], found <= self.threshold[trees, node])
            below = np.where(goes_left, self.left[trees, node], self.right[trees, node])
            if np.array_equal(below, node):
                return np.asarray(self.baseline + self.value[trees, node].sum(axis=1), dtype=np.float64)
            node = below
