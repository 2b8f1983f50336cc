"""Probes asked of a release: of which questions of `gates.probes` the first hits hold the answer, and whether an index
of vectors finds what is nearest.
"""

from collections.abc import Mapping
from datetime import datetime
from functools import partial

import numpy as np
from lance.dataset import ColumnOrdering

from slowwave.recall.hits import KINDS, fold_text
from slowwave.recall.live import QueryVectors
from slowwave.recall.query import build_query
from slowwave.recall.release.tables import build_matrix
from slowwave.recall.release.view import View
from slowwave.recall.retrieve.rows import Rows
from slowwave.recall.search import Search
from slowwave.schemas.settings import Settings
from slowwave.schemas.tables import Table

FIRST = 5
"""Hits among which the answer must stand."""
STILL = 20
"""Hits among which it must stand yet in the release to be: what news push down a few places is not lost."""
ASKED = 64
NEAREST = 10
EQUAL = 1e-4
"""Stored vectors that an index is tried with, rows that each should find, and cosines that far apart that are one."""


def find_answered(
    view: View,
    settings: Settings,
    probes: Mapping[str, str],
    now: datetime,
    first: int = FIRST,
) -> set[str]:
    """Return the questions whose answer stands in one of a release's first hits, whatever its case and spaces."""
    # what could not be used stays unsaid: it is the same for both releases
    vectors = QueryVectors(settings.encoder, None, lambda _: None)
    search = Search(
        view=view,
        settings=settings.recall,
        encoded=partial(vectors.encode_texts, view.release.encoder),
        note=lambda _: None,
    )
    answers = search.answer_queries(
        [build_query(question, first, KINDS, now=now) for question in probes]
    )
    texts = (" ".join(fold_text(hit.text) for hit in hits) for hits in answers)
    return {
        probe
        for (probe, answer), text in zip(probes.items(), texts, strict=True)
        if fold_text(answer) in text
    }


def measure_nearest_found(view: View, table: Table) -> float:
    """Return the share of the rows nearest to stored vectors, by brute force, that a search finds. Keys are hashes,
    so the vectors of the first are any, and mostly those of the release before.
    """
    rows = Rows(view=view, table=table)
    read = partial(view.open_dataset(table).scanner, [table.vector or ""])
    first = read(
        order_by=[ColumnOrdering(table.key)], limit=ASKED, with_row_id=True
    ).to_table()
    vectors = build_matrix(first.column(0).combine_chunks())
    best = np.full((len(vectors), NEAREST), -1.0)
    for batch in read().to_batches():
        best = np.partition(
            np.hstack([best, vectors @ build_matrix(batch.column(0)).T]), -NEAREST
        )[:, -NEAREST:]
    hits = 0
    for vector, near in zip(vectors, best, strict=True):
        cosines = rows.search_vectors(vector, NEAREST)["_score"].to_numpy()
        hits += int((cosines >= near.min() - EQUAL).sum())
    return hits / best.size
