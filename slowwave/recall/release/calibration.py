"""A release's own scale of relevance, fitted on queries that it can't answer.

A cosine means nothing by itself: among notes on one subject a stray question reaches .35, among others .2, and each
encoder has its own range. So when a release is published, questions on matters far from anybody's work or life
(`negatives.txt`) are put to it, and where the best hits of the median one end is written down with it. The unit is the
encoder's: how far the cosines of these questions with each other, none of which has to do with the next, spread. The
deviation of the best hits themselves, of so few questions, is mostly chance.

A summary tells who said what ("Gina: I love the studio"), and so whatever is asked about anybody is near to it. Its
scale is fitted with the same questions as the memory's own speakers would put them ("Gina: When did Thaddeus …").

A row's relevance is its cosine and the share of the query's content words that is there, together:

    0    the median's best hit, and no word
    0.7  1.75 deviations further; all words weigh two
    1    2.5 deviations

With the multilingual encoder, in another language than English, 0.7 are 1.25 deviations.

Costs two batches of the encoder and one matrix product a table, about a second.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.engines.encoders.protocol import Encoder
from slowwave.recall.hits import Kind
from slowwave.recall.release.tables import Tables, build_matrix
from slowwave.recall.release.view import Scale
from slowwave.recall.retrieve.candidates import POOLS
from slowwave.schemas.tables import CLAIMS, PASSAGES, SUMMARIES, Table
from slowwave.schemas.vocabulary import Status

SAMPLE_ROWS = 100_000
"""Rows of a table that negatives are compared with, spread evenly."""
LEAST_DEVIATION = 0.01
"""An encoder that tells nothing apart."""


def fit_calibration(view: Tables, encoder: Encoder) -> str:
    """Return the scales of a view's tables, as the release keeps them; a table without vectors has none.

    Args:
        view: of a release, or of tables that are to become one.
        encoder: the one the tables' vectors were made with.
    """
    negatives = Path(__file__).parent / "negatives.txt"
    queries = negatives.read_text(encoding="utf-8").split("\n")[:-1]
    vectors = encoder.encode(queries)
    spoken = vectors
    if view.count(SUMMARIES):
        spoken = encoder.encode(put_under_names(queries, view))
    deviation = _measure_deviation(vectors)
    scales: dict[Kind, Scale] = {}
    for kind, pool in POOLS.items():
        matrix = _sample_vectors(view, pool.table)
        if len(matrix):
            asked = spoken if pool.table is SUMMARIES else vectors
            best = (asked @ matrix.T).max(axis=1)
            scales[kind] = Scale(round(float(np.median(best)), 4), deviation)
    return json.dumps(
        {"scales": {kind: asdict(scale) for kind, scale in scales.items()}}
    )


def _measure_deviation(vectors: npt.NDArray[np.float32]) -> float:
    """Return the encoder's unit: the standard deviation of the cosines between different queries."""
    pairs = (vectors @ vectors.T)[np.triu_indices(len(vectors), 1)]
    if not len(pairs):
        return LEAST_DEVIATION
    return round(max(float(pairs.std()), LEAST_DEVIATION), 4)


def _sample_vectors(view: Tables, table: Table) -> npt.NDArray[np.float32]:
    """Return the vectors of the rows that may answer, at most SAMPLE_ROWS of them, spread evenly."""
    vector = table.vector or ""
    columns = [vector, "status"] if table is CLAIMS else [vector]
    rows = view.count(table)
    if rows > SAMPLE_ROWS:
        offsets = np.linspace(0, rows - 1, SAMPLE_ROWS).astype(np.int64)
        sample = view.take(table, offsets, columns)
    else:
        sample = view.read(table, columns)
    if table is CLAIMS:
        sample = sample.filter(pc.equal(sample["status"], Status.ACTIVE))
    return build_matrix(sample[vector].combine_chunks())


def put_under_names(queries: Sequence[str], view: Tables) -> list[str]:
    """Return queries as those who speak in a view would put them: under each name as many as it has of the passages."""
    names = view.read_column(PASSAGES, "speaker")
    if not len(names):
        return list(queries)
    spread = np.linspace(0, len(names) - 1, len(queries)).astype(np.int64)
    speakers = names.take(pc.sort_indices(names).take(pa.array(spread))).to_pylist()
    return [
        f"{name}: {query}" if name else query
        for name, query in zip(speakers, queries, strict=True)
    ]
