"""Predict what a later claim does to an earlier one: gradient-boosted trees over pair features.

Of three classes the model gives the probability: nothing, another value, and taking back without a new value.

What the linear model of pairs reads from the vectors of the two sentences are features of the trees
(`slowwave/engines/encoders/pair_reader.py`).

`python -m bench.fit.changes` fits and evaluates them; see docs/decisions/004 and 024 for the results. Unknown features
(the cosine without an encoder, ranks within one session) are passed as missing, so one model serves pairs of two
sessions and pairs of one. Pairs that were not read, which have no vectors or those of another encoder, have a model
of their own.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cache, partial
from importlib.resources import files
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from slowwave.engines.encoders.onnx import open_session
from slowwave.engines.encoders.pair_reader import READS
from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.vocabulary import (
    AFFIRMED,
    NARROWED,
    OF_ANOTHER,
    PERHAPS_RETRACTED,
    RETRACTED,
)
from slowwave.tasks.changes.features import (
    ANOTHER,
    VALUES,
    IdfTable,
    build_matrix,
    compute_features,
)
from slowwave.tasks.changes.letters import (
    LETTERS_FILE,
    load_letter_reader,
    read_letters,
)
from slowwave.tasks.changes.pairs import Evidence, Scores
from slowwave.tasks.dedupe.pairs import CHUNK_PAIRS, SHARD_PAIRS
from slowwave.tasks.job import digest_shipped
from slowwave.tasks.progress import track_items
from slowwave.tasks.shards import HERE, Executor, ShardStep, spread

CHANGES_FILE = "changes/changes.onnx"
UNREAD_FILE = "changes/changes_unread.onnx"
"""The model for pairs that the reader has not read."""
AS_OFTEN = ((0.0, 0.35, 0.5, 1.0), (0.0, 0.4, 0.5, 1.0))
"""Probabilities of the model of three classes, and those that are right as often as the earlier model's (024)."""
AS_SURE = (0.0, 0.4, 0.9, 1.0), (0.0, 0.4, 0.94, 1.0)
"""Probabilities of a model of two classes, and those of the other model that are right as often."""
SCORED = pa.schema(
    [
        ("place", pa.int64()),
        ("claim", pa.string()),
        ("likely", pa.float32()),
        ("taken_back", pa.float32()),
        ("plain", pa.string()),
    ]
)
LEAST_KEPT = 0.4
"""Least weight of a claim's words, as a share, that a claim which agrees with it has."""
LEAST_NEAR = 0.35
"""Least cosine of a claim and one of a narrower case."""
LEAST_ABOUT = 0.25
"""Least weight of a retraction's words, as a share, that what it retracts has."""
PLAINLY_RETRACTED = 1.75
"""Log-odds of the reader. Of two writers not learnt from, 30 of 35 such pairs are retractions."""


class Guesses(NamedTuple):
    """The classifier's probabilities, one entry a pair."""

    likely: Scores
    """That the later claim changes the earlier, by another value or by taking it back."""
    taken_back: Scores
    """That it takes the earlier back without a new value."""


class PairGuesses(NamedTuple):
    """What is found of pairs, one entry a pair."""

    likely: Scores
    taken_back: Scores
    plain: Sequence[str | None]
    """What a pair plainly is (`find_plain_kind`)."""


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
        odds = odds.astype(np.float64)
        if odds.shape[1] == 1:
            # A model of two classes does not know what is taken back.
            likely = np.interp(1 / (1 + np.exp(-odds[:, 0])), *AS_SURE)
            return Guesses(likely.astype(np.float32), np.zeros_like(likely, np.float32))
        weights = np.exp(odds)
        nothing, _, taken_back = (weights / weights.sum(axis=1, keepdims=True)).T
        likely = np.interp(1 - nothing, *AS_OFTEN)
        return Guesses(likely.astype(np.float32), taken_back.astype(np.float32))


@cache
def load_change_model(file: str = CHANGES_FILE) -> ChangeModel:
    """Return a model that ships with the package."""
    return ChangeModel(files("slowwave.tasks").joinpath(file).read_bytes())


def predict_pairs(features: Sequence[dict[str, float]]) -> Guesses:
    """Return the probabilities of each pair by the model for pairs that were read, or that were not."""
    likely, taken_back = np.zeros((2, len(features)), np.float32)
    is_read = np.array(
        [any(name.startswith(READS) for name in found) for found in features], bool
    )
    for file, mask in ((CHANGES_FILE, is_read), (UNREAD_FILE, ~is_read)):
        places = np.flatnonzero(mask).tolist()
        if places:
            model = load_change_model(file)
            found = model.predict_probabilities([features[at] for at in places])
            likely[places], taken_back[places] = found
    return Guesses(likely, taken_back)


def find_plain_kind(features: Mapping[str, float]) -> str | None:
    """Return AFFIRMED, NARROWED or RETRACTED if plain; else OF_ANOTHER if the later claim names another thing.

    PERHAPS_RETRACTED is less plain: what the later sentence is, read alone, has to bear it out.
    """
    kind = _find_read_kind(features)
    names_old = features.get("names the old value")
    is_open = kind in (None, PERHAPS_RETRACTED)
    if is_open and features.get(ANOTHER) and not names_old:
        return OF_ANOTHER
    return kind


def _find_read_kind(features: Mapping[str, float]) -> str | None:
    """Return the kind of a pair if its features say plainly how the later claim stands to the earlier.

    The reader must find that kind likelier than all others, and the two share words. A narrower case is a person's to
    make, and a retraction of what a person said too. An affirmation keeps a value, has no other value of any kind, and
    negates no less and no more.
    """
    read = {name: odds for name, odds in features.items() if name.startswith(READS)}
    best = max(read, key=lambda name: read[name], default="").removeprefix(READS)
    by_persons = not (features.get("by a model") or features.get("was by a model"))
    is_near = features.get("cosine", 0.0) >= LEAST_NEAR
    if best == RETRACTED:
        is_sure = features[READS + RETRACTED] >= PLAINLY_RETRACTED
        is_about = features.get("of the later", 0.0) >= LEAST_ABOUT and is_near
        plain = RETRACTED if is_sure else PERHAPS_RETRACTED
        return plain if is_about and by_persons else None
    if features.get("of the earlier", 0.0) < LEAST_KEPT:
        return None
    if best == NARROWED:
        return NARROWED if is_near and not features.get("by a model") else None
    keeps = any(features.get(f"{kind} kept") for kind in VALUES)
    differs = any(features.get(f"other {kind}") for kind in VALUES)
    same = keeps and not differs and not features.get("turned")
    return AFFIRMED if best == AFFIRMED and same else None


def predict_changes(evidence: Evidence, executor: Executor = HERE) -> PairGuesses:
    """Return the guesses for each pair, computed in shards."""
    settings = compute_content_id(
        digest_shipped(CHANGES_FILE),
        digest_shipped(UNREAD_FILE),
        digest_shipped(LETTERS_FILE),
        repr(sorted(evidence.idf.weights.items())),
    )
    step = ShardStep(
        name="changes",
        settings=settings,
        schema=SCORED,
        do=partial(judge_shard, idf=evidence.idf),
        shard_rows=SHARD_PAIRS,
    )
    made = [SCORED.empty_table()]
    for start in track_items("changes", range(0, len(evidence.pairs), CHUNK_PAIRS)):
        part = evidence.describe(slice(start, start + CHUNK_PAIRS))
        made.append(
            spread(executor=executor, step=step, rows=part, by="claim").sort_by("place")
        )
    scores = pa.concat_tables(made)
    return PairGuesses(
        likely=scores["likely"].to_numpy(),
        taken_back=scores["taken_back"].to_numpy(),
        plain=scores["plain"].to_pylist(),
    )


def judge_shard(pairs: pa.Table, *, idf: IdfTable) -> pa.Table:
    """Return the scores and the plain kind of each pair of a shard."""
    texts = [
        (pair["left"]["summary"], pair["right"]["summary"])
        for pair in pairs.select(["left", "right"]).to_pylist()
    ]
    read = load_letter_reader()
    features = read_letters(compute_features(pairs, idf), texts, read)
    plain = pa.array(map(find_plain_kind, features), pa.string())
    columns = [pairs["place"], pairs["claim"], *predict_pairs(features), plain]
    return pa.table(columns, schema=SCORED)
