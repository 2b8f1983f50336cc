"""How likely a later claim changes an earlier one: gradient-boosted trees over the features of the pair.

`python -m bench.fit_changes` learns and judges them; docs/decisions/035 tells what they are worth. They take what is
not known of a pair (a cosine without an encoder, company within one session) as not known, so that one model serves
between sessions, within one and without vectors.
"""

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from slowwave.tasks.supersede.candidates import Scores
from slowwave.tasks.supersede.evidence import Evidence, build_matrix

AT_ONCE = 10_000
"""Pairs that are worked out and judged at a time."""
FILE = "changes.skops"
TRUSTED = ["sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"]
"""What a saved classifier is made of, besides what skops trusts by itself: nothing else is loaded."""


@dataclass(frozen=True)
class ChangeModel:
    """A fitted classifier, and the names of its columns."""

    names: tuple[str, ...]
    classifier: Any
    """scikit-learn's HistGradientBoostingClassifier."""

    def predict_probabilities(self, known: Evidence) -> Scores:
        """Return of each pair how likely the later changes the earlier, 0 to 1."""
        found = np.zeros(len(known.pairs))
        for start in range(0, len(found), AT_ONCE):
            matrix = build_matrix(known.features[start : start + AT_ONCE], self.names)
            found[start : start + AT_ONCE] = self.classifier.predict_proba(matrix)[:, 1]
        return found


@cache
def load_change_model() -> ChangeModel:
    """Return the one that ships."""
    import skops.io  # with scikit-learn behind it: only a night with news to judge waits for them

    told = skops.io.loads(_read_bytes(), trusted=TRUSTED)
    return ChangeModel(tuple(told["names"]), told["classifier"])


@cache
def compute_model_digest() -> str:
    """Return hash of the model that ships: another one judges anew."""
    return hashlib.sha256(_read_bytes()).hexdigest()[:12]


def _read_bytes() -> bytes:
    return files("slowwave.tasks.supersede").joinpath(FILE).read_bytes()
