"""Candidates from the indexes of one table: full text and vectors, filtered before they are searched.

Every condition is a `lancedb.expr`, every query a plain bag of terms: nothing that stands in a query is ever parsed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import reduce
from operator import and_

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from lancedb.expr import Expr, col, lit
from lancedb.query import LanceVectorQueryBuilder
from lancedb.table import LanceTable

from schemas.observations import OBSERVATIONS
from schemas.passages import PASSAGES
from schemas.table import Table
from schemas.topics import SUMMARIES
from slowwave.recall.hits import Kind
from slowwave.recall.query import Query

FLAT_ROWS = 100_000
"""Up to here vectors are compared one by one: exact, and as fast as an index."""

Scores = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Pool:
    """Where hits of one kind are searched."""

    kind: Kind
    table: Table
    owner: str
    """The column a hit's id comes from: several passages belong to one message."""
    first: str
    last: str
    """When it was said: rows that overlap since … until are kept, rows without a time are not."""
    columns: tuple[str, ...]

    @property
    def text(self) -> str:
        """The column full text searches."""
        return self.table.full_text or ""


POOLS: Mapping[Kind, Pool] = {
    "observation": Pool(
        "observation",
        OBSERVATIONS,
        "observation_id",
        "observed_at",
        "observed_at",
        ("observation_id", "summary", "observed_at", "status", "quote", "message_ids"),
    ),
    "message": Pool(
        "message",
        PASSAGES,
        "message_id",
        "ts",
        "ts",
        ("passage_id", "message_id", "session_id", "seq", "part", "speaker", "text", "ts"),
    ),
    "summary": Pool(
        "summary",
        SUMMARIES,
        "summary_id",
        "first_at",
        "last_at",
        ("summary_id", "text", "scope", "tier", "member_ids", "last_at"),
    ),
}


@dataclass
class Candidates:
    """Rows that some index found, and what each index says of them.

    `rows` holds one dict a row; `signals` one array a signal, aligned with rows, higher is better, NaN where that
    index did not hand the row over.
    """

    pool: Pool
    rows: list[dict[str, object]] = field(default_factory=list)
    signals: dict[str, Scores] = field(default_factory=dict)

    @property
    def ids(self) -> list[str]:
        """Keys of the rows: the last word where scores tie."""
        return [str(row[self.pool.table.key]) for row in self.rows]


def conditions(pool: Pool, query: Query) -> Expr | None:
    """The filter of a pool's rows; None when all may answer."""
    wanted: list[Expr] = []
    if query.workspace is not None:
        wanted.append(col("workspace") == lit(query.workspace))
    if pool.kind == "observation":
        wanted.append(col("status") == lit("active"))
        if query.category is not None:
            wanted.append(col("category") == lit(query.category))
    wanted.extend(_overlap(pool, query.since, query.until))
    return reduce(and_, wanted) if wanted else None


def _overlap(pool: Pool, since: datetime | None, until: datetime | None) -> list[Expr]:
    after = [col(pool.last) >= lit(since)] if since else []
    return [*after, col(pool.first) <= lit(until)] if until else after


def lanes(
    table: LanceTable,
    pool: Pool,
    query: Query,
    limit: int,
    vector: npt.NDArray[np.float32] | None,
    full_text: bool,
) -> Candidates:
    """What each index of a table finds: `limit` rows of full text, where it may be asked, and of the vectors."""
    found: dict[str, pa.Table] = {}
    if full_text:
        found["text"] = text_lane(table, pool, query, limit)
    if vector is not None:
        found["vector"] = vector_lane(table, pool, query, limit, vector)
    return united(pool, found)


def text_lane(table: LanceTable, pool: Pool, query: Query, limit: int) -> pa.Table:
    """The rows full text finds, with their BM25 `_score`."""
    search = table.search(query.terms, query_type="fts", fts_columns=pool.text).limit(limit)
    where = conditions(pool, query)
    found: pa.Table = (search if where is None else search.where(where)).select([*pool.columns, "_score"]).to_arrow()
    return found


def vector_lane(table: LanceTable, pool: Pool, query: Query, limit: int, vector: npt.NDArray[np.float32]) -> pa.Table:
    """The rows nearest to the query, with their cosine `_score`; rows without a vector are left out.

    Vectors have unit length, so the dot product is the cosine; Lance returns one minus it.
    """
    found: pa.Table = _vector_search(table, pool, query, limit, vector).select([*pool.columns, "_distance"]).to_arrow()
    cosine = pa.array(1.0 - found["_distance"].to_numpy().astype(np.float64))
    return found.drop_columns("_distance").append_column("_score", cosine)


def nearest(
    table: LanceTable, pool: Pool, query: Query, limit: int, vector: npt.NDArray[np.float32]
) -> npt.NDArray[np.uint64]:
    """Row ids of the rows nearest to the query, best first."""
    found = _vector_search(table, pool, query, limit, vector).with_row_id(True).select(["_distance"]).to_arrow()
    ids: npt.NDArray[np.uint64] = found["_rowid"].to_numpy()
    return ids


def _vector_search(
    table: LanceTable, pool: Pool, query: Query, limit: int, vector: npt.NDArray[np.float32]
) -> LanceVectorQueryBuilder:
    search = table.search(vector, vector_column_name="vector", query_type="vector").distance_type("dot").limit(limit)
    if table.count_rows() <= FLAT_ROWS:
        search = search.bypass_vector_index()
    where = conditions(pool, query)
    return search if where is None else search.where(where)


def united(pool: Pool, lanes: Mapping[str, pa.Table]) -> Candidates:
    """One row a key over all lanes, with the score each lane gave it.

    Rows come in order of key, so that what follows does not hang on the order in which an index answers.
    """
    rows: dict[str, dict[str, object]] = {}
    scores: dict[str, dict[str, float]] = {name: {} for name in lanes}
    for name, lane in lanes.items():
        for row in lane.to_pylist():
            key = str(row[pool.table.key])
            scores[name][key] = row.pop("_score")
            rows.setdefault(key, row)
    keys = sorted(rows)
    signals = {n: np.array([s.get(key, np.nan) for key in keys], dtype=np.float64) for n, s in scores.items()}
    return Candidates(pool, [rows[key] for key in keys], signals)
