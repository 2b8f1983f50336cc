"""How likely a later claim changes an earlier one: gradient-boosted trees over the features of the pair.

`python -m bench.fit.changes` learns and judges them; docs/decisions/004 tells what they are worth. They take what is
not known of a pair (a cosine without an encoder, company within one session) as not known, so that one model serves
between sessions, within one and without vectors.
"""

import json
from functools import cache

import numpy as np

from slowwave.engines.encoders.onnx import open_session
from slowwave.tasks.job import read_shipped
from slowwave.tasks.progress import track_items
from slowwave.tasks.supersede.candidates import Scores
from slowwave.tasks.supersede.evidence import Evidence, build_matrix

AT_ONCE = 2_000
"""Pairs that are worked out and judged at a time."""
CHANGES_FILE = "supersede/changes.onnx"


class ChangeModel:
    """A fitted classifier: an ONNX graph from a matrix of features to log odds, with the names of its columns."""

    def __init__(self, graph: bytes) -> None:
        self.session = open_session(graph)
        self.names: list[str] = json.loads(self.session.get_modelmeta().custom_metadata_map["names"])

    def predict_probabilities(self, known: Evidence) -> Scores:
        """Return the probability of each pair that the later changes the earlier."""
        odds = np.zeros(len(known.pairs))
        for start in track_items("changes", range(0, len(odds), AT_ONCE)):
            matrix = build_matrix(known.features[start : start + AT_ONCE], self.names)
            odds[start : start + AT_ONCE] = self.session.run(["odds"], {"pairs": matrix})[0][:, 0]
        return np.asarray(1 / (1 + np.exp(-odds)), dtype=np.float64)


@cache
def load_change_model() -> ChangeModel:
    """Return the one that ships."""
    return ChangeModel(read_shipped(CHANGES_FILE))
