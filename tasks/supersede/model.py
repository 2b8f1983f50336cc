"""Predict the probability that a later claim changes an earlier one: gradient-boosted trees over pair features.

`python -m bench.fit.changes` fits and evaluates them; see docs/decisions/004 for the results. Unknown features (the
cosine without an encoder, ranks within one session) are passed as missing, so one model serves pairs of two sessions,
pairs of one session, and pairs without vectors.
"""

import json
from collections.abc import Sequence
from functools import cache, partial
from importlib.resources import files

import numpy as np
import pyarrow as pa

from slowwave.engines.encoders.onnx import open_session
from slowwave.schemas.ids import compute_content_id
from slowwave.tasks.dedupe.pairs import CHUNK_PAIRS, SCORED, SHARD_PAIRS
from slowwave.tasks.job import digest_shipped
from slowwave.tasks.progress import track_items
from slowwave.tasks.shards import HERE, Executor, ShardStep, spread
from slowwave.tasks.supersede.candidates import Scores
from slowwave.tasks.supersede.evidence import Evidence, build_matrix, compute_features
from slowwave.tasks.supersede.features import IdfTable

CHANGES_FILE = "supersede/changes.onnx"


class ChangeModel:
    """A fitted classifier: an ONNX graph from a feature matrix to log odds, with the names of the columns."""

    def __init__(self, graph: bytes) -> None:
        self.session = open_session(graph)
        self.names: list[str] = json.loads(
            self.session.get_modelmeta().custom_metadata_map["names"]
        )

    def predict_probabilities(self, features: Sequence[dict[str, float]]) -> Scores:
        """Return for each pair the probability that the later claim changes the earlier, as the ledger stores it."""
        (odds,) = self.session.run(
            ["odds"], {"pairs": build_matrix(features, self.names)}
        )
        likely: Scores = (1 / (1 + np.exp(-odds[:, 0].astype(np.float64)))).astype(
            np.float32
        )
        return likely


@cache
def load_change_model() -> ChangeModel:
    """Return the model that ships with the package."""
    return ChangeModel(files("slowwave.tasks").joinpath(CHANGES_FILE).read_bytes())


def predict_changes(evidence: Evidence, executor: Executor = HERE) -> Scores:
    """Return for each pair the probability that the later claim changes the earlier, computed in shards."""
    settings = compute_content_id(
        digest_shipped(CHANGES_FILE), repr(sorted(evidence.idf.weights.items()))
    )
    step = ShardStep(
        "changes",
        settings,
        SCORED,
        partial(judge_shard, idf=evidence.idf),
        shard_rows=SHARD_PAIRS,
    )
    scores: list[Scores] = [np.zeros(0, np.float32)]
    for start in track_items("changes", range(0, len(evidence.pairs), CHUNK_PAIRS)):
        made = spread(
            executor,
            step,
            evidence.describe(slice(start, start + CHUNK_PAIRS)),
            "claim",
        )
        scores.append(made.sort_by("place")["score"].to_numpy())
    return np.concatenate(scores)


def judge_shard(pairs: pa.Table, *, idf: IdfTable) -> pa.Table:
    """Return the probability of a change for each pair of a shard."""
    likely = load_change_model().predict_probabilities(compute_features(pairs, idf))
    return pa.table([pairs["place"], pairs["claim"], likely], schema=SCORED)
