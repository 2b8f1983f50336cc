"""Predict what a later claim does to an earlier one: gradient-boosted trees over pair features.

Of three classes the model gives the probability: nothing, another value, and taking back without a new value.

`python -m bench.fit.changes` fits and evaluates them; see docs/decisions/004 for the results. Unknown features (the
cosine without an encoder, ranks within one session) are passed as missing, so one model serves pairs of two sessions,
pairs of one session, and pairs without vectors.
"""

import json
from collections.abc import Sequence
from functools import cache, partial
from importlib.resources import files
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from slowwave.engines.encoders.onnx import open_session
from slowwave.schemas.ids import compute_content_id
from slowwave.tasks.dedupe.pairs import CHUNK_PAIRS, SHARD_PAIRS
from slowwave.tasks.job import digest_shipped
from slowwave.tasks.progress import track_items
from slowwave.tasks.shards import HERE, Executor, ShardStep, spread
from slowwave.tasks.supersede.candidates import Scores
from slowwave.tasks.supersede.evidence import (
    READS,
    Evidence,
    build_matrix,
    compute_features,
)
from slowwave.tasks.supersede.features import IdfTable

CHANGES_FILE = "supersede/changes.onnx"
SURE_UNREAD, LEAST_TRUST = 0.625, 0.8
"""Probability below which a guess about a pair that the reader has not read counts less, and how much it counts at
least: .5 counts as .4.

From .4 the trees alone link 20 of 500 calm claims, from .5 only 9; with the reader from .4 it is 7."""
SCORED = pa.schema(
    [
        ("place", pa.int64()),
        ("claim", pa.string()),
        ("likely", pa.float32()),
        ("taken_back", pa.float32()),
    ]
)


class Guesses(NamedTuple):
    """The classifier's probabilities, one entry a pair."""

    likely: Scores
    """That the later claim changes the earlier, by another value or by taking it back."""
    taken_back: Scores
    """That it takes the earlier back without a new value."""


class ChangeModel:
    """A fitted classifier: an ONNX graph from a feature matrix to log-odds of the classes, with the columns' names."""

    def __init__(self, graph: bytes) -> None:
        self.session = open_session(graph)
        self.names: list[str] = json.loads(
            self.session.get_modelmeta().custom_metadata_map["names"]
        )

    def predict_probabilities(self, features: Sequence[dict[str, float]]) -> Guesses:
        """Return the probabilities of each pair, as the ledger stores them."""
        (odds,) = self.session.run(
            ["odds"], {"pairs": build_matrix(features, self.names)}
        )
        weights = np.exp(odds.astype(np.float64))
        nothing, _, taken_back = (weights / weights.sum(axis=1, keepdims=True)).T
        trust = compute_trust(features, 1 - nothing)
        return Guesses(
            (trust * (1 - nothing)).astype(np.float32),
            (trust * taken_back).astype(np.float32),
        )


def compute_trust(features: Sequence[dict[str, float]], likely: Scores) -> Scores:
    """Return the factor on each pair's probability: below 1 for a weak guess about a pair that was not read."""
    read = [any(name.startswith(READS) for name in found) for found in features]
    return np.where(read, 1.0, np.clip(likely / SURE_UNREAD, LEAST_TRUST, 1.0))


@cache
def load_change_model() -> ChangeModel:
    """Return the model that ships with the package."""
    return ChangeModel(files("slowwave.tasks").joinpath(CHANGES_FILE).read_bytes())


def predict_changes(evidence: Evidence, executor: Executor = HERE) -> Guesses:
    """Return the probabilities of each pair, computed in shards."""
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
    made = [SCORED.empty_table()]
    for start in track_items("changes", range(0, len(evidence.pairs), CHUNK_PAIRS)):
        part = evidence.describe(slice(start, start + CHUNK_PAIRS))
        made.append(spread(executor, step, part, "claim").sort_by("place"))
    scores = pa.concat_tables(made)
    return Guesses(scores["likely"].to_numpy(), scores["taken_back"].to_numpy())


def judge_shard(pairs: pa.Table, *, idf: IdfTable) -> pa.Table:
    """Return the probabilities of each pair of a shard."""
    guesses = load_change_model().predict_probabilities(compute_features(pairs, idf))
    return pa.table([pairs["place"], pairs["claim"], *guesses], schema=SCORED)
