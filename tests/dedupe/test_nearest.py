"""The nearest rows of a row: as many as are wanted, and none below the least cosine."""

import numpy as np
import pytest

from slowwave.tasks.dedupe.candidates import find_vector_pairs

ANGLES = (0, 10, 20, 30, 90)
"""Degrees: the cosines with the first row are .98, .94, .87 and 0."""


@pytest.mark.parametrize(
    ("nearest", "min_cosine", "expected"),
    [
        (2, 0.5, [[0, 1], [0, 2]]),  # three are near enough, two are wanted
        (4, 0.9, [[0, 1], [0, 2]]),  # more are wanted than are near enough
        (4, -0.5, [[0, 1], [0, 2], [0, 3], [0, 4]]),
    ],
)
def test_the_nearest_of_a_row(
    nearest: int, min_cosine: float, expected: list[list[int]]
) -> None:
    turned = np.radians(ANGLES)
    vectors = np.column_stack([np.cos(turned), np.sin(turned)]).astype(np.float32)
    pairs = find_vector_pairs(
        vectors, np.ones(len(ANGLES), bool), nearest, min_cosine, among=np.array([0])
    )
    assert pairs.tolist() == expected
