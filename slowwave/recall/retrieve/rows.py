"""Rows of one table by full text or by vector: those alone that may answer a query.

Lance filters summaries and topics itself. A condition on passages or claims is a mask over all of them
(`slowwave.recall.filters`): of what an index brings the rows that pass are kept, and more are asked for until enough
have. Vectors are compared one by one where they are in memory (`Tables.load_vectors`); else an index finds the nearest.
Nothing that stands in a query is ever parsed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from lance.query import MatchQuery

from slowwave.recall.query import Ints, Mask, Vector
from slowwave.recall.release.tables import RowIndex, Tables, compute_cosines
from slowwave.schemas.tables import QUANTIZED_ROWS, Table

Scores = npt.NDArray[np.float64]

MAX_TERMS = 256
"""Terms that are looked up together; the encoder reads about as many words."""
MORE = 1.5
"""How many more rows than should be needed are asked for, where not all of them pass: they lie unevenly."""
PROBES, REFINED = 20, 10
"""Cells of an index of vectors that a query for most rows looks into, of 4,096 rows; and how many times as many rows as
are asked for are compared whole, where the index is coarse."""


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Rows of a table, as Lance filters them."""

    view: Tables
    table: Table
    where: pc.Expression | None = None
    """None for all."""
    columns: tuple[str, ...] = ()
    """What is read of each that is found."""

    @cached_property
    def share(self) -> float:
        """Of what an index brings, the rows that may answer."""
        return 1.0

    def search_text(self, terms: Sequence[str], limit: int, column: str | None = None) -> pa.Table:
        """Return the best rows that hold one of some plain terms, with their BM25 as `_score`."""
        query = MatchQuery(" ".join(terms[:MAX_TERMS]), column or self.table.full_text or "")
        return self._search("_score", limit, lambda n: {"full_text_query": query, "limit": n})

    def search_vectors(self, vector: Vector, limit: int) -> pa.Table:
        """Return the nearest rows, with their cosine as `_score`, by an index that is whole, or one by one. Few rows
        may lie in any cell of it, and all are looked into.
        """
        rows = self.view.count(self.table)
        nearest = {
            "column": self.table.vector,
            "q": vector,
            "metric": "dot",
            "use_index": self.view.find_broken_index(self.table) is None,
            "nprobes": PROBES if self.where is None and 2 * self.share > 1 else rows,
            "refine_factor": REFINED if rows >= QUANTIZED_ROWS else None,
        }
        best = self._search("_distance", limit, lambda n: {"nearest": {**nearest, "k": n}})
        # of vectors of unit length Lance returns one minus the cosine
        cosine = pa.array(1.0 - best["_distance"].to_numpy().astype(np.float64))
        return best.drop_columns("_distance").append_column("_score", cosine)

    def _search(self, score: str, limit: int, search: Callable[[int], Mapping[str, Any]]) -> pa.Table:
        """Return the best rows of a search that may answer, with their `_rowid`; where they are as frequent among its
        rows as elsewhere the first look has enough.
        """
        dataset, rows = self.view.open_dataset(self.table), self.view.count(self.table)
        wanted = limit if self.share == 1.0 else int(MORE * limit / self.share)
        columns = [*self.columns, score]
        while True:
            best = search(min(wanted, rows))
            rows_found = dataset.scanner(columns, self.where, prefilter=True, with_row_id=True, **best).to_table()
            passed = self.keep_allowed(rows_found)
            if len(passed) >= limit or len(rows_found) < wanted:
                return passed.slice(0, limit)
            wanted *= 4

    def keep_allowed(self, rows: pa.Table) -> pa.Table:
        """Return those of the rows found that may answer."""
        return rows


@dataclass(frozen=True, kw_only=True)
class MaskedRows(Rows):
    """Passages or claims, as a mask lets them through."""

    index: RowIndex
    allowed: Mask
    """By place."""

    @cached_property
    def share(self) -> float:
        """Of all rows those that may answer; one at least counts."""
        return max(int(self.allowed.sum()), 1) / max(len(self.allowed), 1)

    def keep_allowed(self, rows: pa.Table) -> pa.Table:
        """Return those of the rows found that the mask lets through."""
        return rows if self.allowed.all() else rows.filter(pa.array(self.allowed[self.locate(rows)]))

    def locate(self, rows: pa.Table) -> Ints:
        """Return the places of rows that were found."""
        return self.index.locate(rows["_rowid"].to_numpy())


@dataclass(frozen=True)
class Nearness:
    """How near passages or claims are to a vector; NaN where either has none."""

    rows: MaskedRows
    vector: Vector | None
    """Of the query; None without an encoder."""

    @cached_property
    def _every(self) -> Scores | None:
        """The cosine of each row by its offset; None where their vectors are not in memory."""
        if self.vector is None or (vectors := self.rows.view.load_vectors(self.rows.table)) is None:
            return None
        return compute_cosines(vectors, self.vector)

    def compute_cosines(self, places: Ints) -> Scores:
        """Return the cosines of the rows at some places."""
        offsets = self.rows.index.offsets[places]
        if self._every is not None:
            return self._every[offsets]
        if self.vector is None or not len(offsets):
            return np.full(len(offsets), np.nan)
        # each row is read once
        some, back = np.unique(offsets, return_inverse=True)
        return compute_cosines(self.rows.view.take(self.rows.table, some, ["vector"])["vector"], self.vector)[back]

    def find_nearest(self, limit: int) -> Ints:
        """Return the places of the nearest rows that may answer, best first."""
        if self.vector is None:
            return np.zeros(0, dtype=np.int64)
        if self._every is None:
            return self.rows.locate(self.rows.search_vectors(self.vector, limit))
        every = self._every[self.rows.index.offsets]
        return select_top(np.where(self.rows.allowed & ~np.isnan(every), every, -np.inf), limit, -np.inf)


def select_top(scores: Scores, n: int, above: float = 0.0) -> Ints:
    """Return places of the n highest scores above `above`, best first, equal ones in order of place."""
    some = np.flatnonzero(scores > above)
    if len(some) > n:  # leave out what is below the n-th best, then sort the rest
        least = np.partition(scores[some], len(some) - n)[len(some) - n]
        some = some[scores[some] >= least]
    return some[np.argsort(-scores[some], kind="stable")[:n]]
