"""How near is near: a release's own scale of relevance, from queries that it can't answer.

A cosine means nothing by itself: among notes on one subject a stray question reaches .35, among others .2, and each
encoder has its own range. So when a release is published, questions on matters far from anybody's work or life
(`negatives.txt`) are put to it, and what their best hits reach is written down with it:

    0    where the median of them ends
    0.7  two standard deviations further, where 2 in 100 of them would end
    1    where 2.9 deviations end

Costs one batch of the encoder and one matrix product a table, about a second.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from schemas.observations import OBSERVATIONS
from slowwave.engines.encoder import Encoder, Vectors
from slowwave.recall.hits import Kind
from slowwave.recall.search import POOLS, Pool
from slowwave.recall.view import View

MARK, DEVIATIONS = 0.7, 2.0
"""Where the mark stands on the scale, and how far above the median."""

UPPER = 0.9
"""The quantile that tells the deviation, and its place in a normal distribution: beyond it a few chance hits stand."""
UPPER_PLACE = 1.2816

SAMPLE_ROWS = 100_000
"""Rows of a table that negatives are compared with, spread evenly."""

LEAST_DEVIATION = 0.01
"""A table of a handful of rows tells little."""


@dataclass(frozen=True)
class Scale:
    """Best cosines that known negatives reach in one table: their median and (robust) standard deviation."""

    median: float
    deviation: float

    def relevance(self, cosine: float) -> float:
        """A cosine on the release's scale, 0 to 1."""
        return float(np.clip(MARK * (cosine - self.median) / (DEVIATIONS * self.deviation), 0.0, 1.0))


@dataclass(frozen=True)
class Calibration:
    """The scales of one release, by kind of memory."""

    encoder: str
    queries: int
    scales: dict[Kind, Scale]

    def to_json(self) -> str:
        """As the release keeps it."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "Calibration":
        """As the release kept it."""
        plain = json.loads(text)
        scales = {kind: Scale(float(s["median"]), float(s["deviation"])) for kind, s in plain["scales"].items()}
        return cls(str(plain["encoder"]), int(plain["queries"]), scales)


@cache
def negatives() -> tuple[str, ...]:
    """The questions that ship."""
    return tuple((Path(__file__).parent / "negatives.txt").read_text(encoding="utf-8").split("\n")[:-1])


def calibration(view: View, encoder: Encoder, queries: Sequence[str] = ()) -> Calibration:
    """The scales of a view's tables; a table without vectors has none.

    Args:
        view: of a release, or of tables that are to become one.
        encoder: the one the tables' vectors were made with.
        queries: known negatives; those that ship, unless given.
    """
    asked = list(queries or negatives())
    vectors = encoder.encode(asked)
    found = {kind: _scale(view, pool, vectors) for kind, pool in POOLS.items()}
    return Calibration(encoder.name, len(asked), {kind: scale for kind, scale in found.items() if scale})


def _scale(view: View, pool: Pool, queries: Vectors) -> Scale | None:
    rows = sampled_vectors(view, pool)
    if not len(rows):
        return None
    best: npt.NDArray[np.float32] = (queries @ rows.T).max(axis=1)
    median, upper = (float(x) for x in np.quantile(best, [0.5, UPPER]))
    return Scale(round(median, 4), round(max((upper - median) / UPPER_PLACE, LEAST_DEVIATION), 4))


def sampled_vectors(view: View, pool: Pool) -> Vectors:
    """Vectors of a pool's rows that may answer, shape (rows, dim): all, or `SAMPLE_ROWS` of them."""
    rows = view.count(pool.table)
    if not rows:
        return np.zeros((0, 0), dtype=np.float32)
    offsets = np.arange(rows) if rows <= SAMPLE_ROWS else np.linspace(0, rows - 1, SAMPLE_ROWS).astype(np.int64)
    active = ["status"] if pool.table is OBSERVATIONS else []
    taken = view.take(pool.table, offsets, ["vector", *active]) if rows > SAMPLE_ROWS else None
    taken = taken if taken is not None else view.read(pool.table, ["vector", *active])
    known = taken["vector"].is_valid().to_numpy()
    if active:
        known &= np.array([status == "active" for status in taken["status"].to_pylist()], dtype=bool)
    column = taken["vector"].combine_chunks().filter(known)
    return np.asarray(column.flatten(), dtype=np.float32).reshape(len(column), -1)
