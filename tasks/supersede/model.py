"""How likely a later claim changes an earlier one: gradient-boosted trees over the features of the pair.

`python -m bench.fit.changes` learns and judges them; docs/decisions/004 tells what they are worth. They take what is
not known of a pair (a cosine without an encoder, company within one session) as not known, so that one model serves
between sessions, within one and without vectors.
"""

from dataclasses import dataclass
from functools import cache
from io import BytesIO

import numpy as np

from slowwave.tasks.job import read_shipped
from slowwave.tasks.progress import track_items
from slowwave.tasks.supersede.candidates import Scores
from slowwave.tasks.supersede.evidence import Evidence, build_matrix
from slowwave.tasks.supersede.trees import Trees

AT_ONCE = 2_000
"""Pairs that are worked out and judged at a time."""
CHANGES_FILE = "supersede/changes.npz"


@dataclass(frozen=True)
class ChangeModel:
    """A fitted classifier, and the names of its columns."""

    names: tuple[str, ...]
    trees: Trees

    def predict_probabilities(self, known: Evidence) -> Scores:
        """Return of each pair how likely the later changes the earlier, 0 to 1."""
        found = np.zeros(len(known.pairs))
        for start in track_items("changes", range(0, len(found), AT_ONCE)):
            matrix = build_matrix(known.features[start : start + AT_ONCE], self.names)
            found[start : start + AT_ONCE] = self.trees.predict_probabilities(matrix)
        return found


@cache
def load_change_model() -> ChangeModel:
    """Return the one that ships."""
    trees = Trees.load(BytesIO(read_shipped(CHANGES_FILE)))
    return ChangeModel(tuple(trees.names.tolist()), trees)
