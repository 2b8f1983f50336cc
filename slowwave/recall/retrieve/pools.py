"""Candidates from the indexes of one table, full text and vectors, filtered before they are searched; and their fusion.

Every condition is an Arrow expression, every query a plain bag of terms: nothing that stands in a query is ever parsed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import reduce
from operator import and_

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from lance.query import MatchQuery

from slowwave.recall.filters import build_post_filter, build_scope_filters
from slowwave.recall.hits import GROUPS, Kind
from slowwave.recall.query import Query
from slowwave.recall.release.view import View
from slowwave.schemas.tables import (
    CHAIN,
    GATES,
    OBSERVATIONS,
    PASSAGES,
    QUANTIZED_ROWS,
    SUMMARIES,
    TOPICS,
    UTC_US,
    Table,
)
from slowwave.schemas.vocabulary import Status
from slowwave.text.words import STOP, compute_word_share

Vector = npt.NDArray[np.float32]

Scores = npt.NDArray[np.float64]

MORE = 1.5
"""How many more rows than should be needed are asked for, where not all of them pass: they lie unevenly."""
PROBES, REFINED = 20, 10
"""Cells of an index of vectors that a query without conditions looks into, of 4,096 rows; and how many times as many
rows as are asked for are compared whole, where the index is coarse."""


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
        (
            "observation_id",
            "summary",
            "observed_at",
            "status",
            "quote",
            "message_ids",
            "speaker",
            "workspace",
            *GATES,
            *CHAIN,
        ),
    ),
    "message": Pool(
        "message",
        PASSAGES,
        "message_id",
        "ts",
        "ts",
        ("passage_id", "message_id", "session_id", "seq", "part", "speaker", "workspace", "text", "ts", *CHAIN),
    ),
    "summary": Pool(
        "summary",
        SUMMARIES,
        "summary_id",
        "first_at",
        "last_at",
        ("summary_id", "text", "scope", "scope_id", "tier", "member_ids", "first_at", "last_at", "workspace"),
    ),
    "topic": Pool(
        "topic",
        TOPICS,
        "topic_id",
        "first_at",
        "last_at",
        ("topic_id", "name", "text", "samples", "first_at", "last_at", "workspace"),
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
    covered: Scores = field(default_factory=lambda: np.zeros(0))
    """Share of the query's words, by their worth, that is heard at each row; 0 to 1."""
    cosine: Scores | None = None
    """Of each row to the query, the nearer of with and without names; NaN where it has no vector; None
    without an encoder. Relevance is told by it."""
    nearest: float = -1.0
    """Cosine of the nearest of all rows to the whole query, where that is known."""

    weights: Mapping[str, float] = field(default_factory=dict)
    """Of the signals in the score, where that is their weighted sum."""

    @property
    def contributions(self) -> dict[str, Scores]:
        """What each signal adds to each row's score."""
        return {
            name: weight * standardise_signal(self.signals[name])
            for name, weight in self.weights.items()
            if name in self.signals
        }

    @property
    def ids(self) -> list[str]:
        """Keys of the rows: the last word where scores tie."""
        return [str(row[self.pool.table.key]) for row in self.rows]


def build_row_filter(view: View, pool: Pool, query: Query) -> pc.Expression | None:
    """Return the filter of a pool's rows; None when all may answer."""
    wanted: list[pc.Expression] = []
    if query.places:
        wanted.append(pc.field("workspace").isin(pa.array(query.places, pa.string())))
    if pool.kind == "observation":
        changed = (pc.field("status") == pa.scalar(Status.SUPERSEDED)) & pc.field("superseded_by").is_valid()
        wanted.append((pc.field("status") == pa.scalar(Status.ACTIVE)) | changed)
        if query.category is not None:
            wanted.append(pc.field("category") == pa.scalar(query.category))
    wanted.extend(_build_time_filters(pool, query.since, query.until))
    if pool.kind == "topic":
        wanted.append(pc.field("text").is_valid())
    if pool.kind in GROUPS and query.as_of is not None:  # it tells of all its time, the end too
        wanted.append(pc.field(pool.last) <= pa.scalar(query.as_of, UTC_US))
    if query.is_narrowed:
        wanted.extend(build_scope_filters(view, pool.kind, query))
    return reduce(and_, wanted) if wanted else None


def _build_time_filters(pool: Pool, since: datetime | None, until: datetime | None) -> list[pc.Expression]:
    after = [pc.field(pool.last) >= pa.scalar(since, UTC_US)] if since else []
    return [*after, pc.field(pool.first) <= pa.scalar(until, UTC_US)] if until else after


def retrieve_candidates(
    view: View,
    pool: Pool,
    query: Query,
    limit: int,
    vector: Vector | None,
    full_text: bool,
) -> Candidates:
    """Return what each index of a table finds: `limit` rows of full text, where it may be asked, and of the vectors."""
    found: dict[str, pa.Table] = {}
    if full_text:
        found["text"] = search_full_text(view, pool, query, limit)
    if vector is not None:
        found["vector"] = search_vectors(view, pool, query, limit, vector)
    candidates = merge_candidates(pool, found)
    candidates.cosine = candidates.signals.get("vector")
    words = [word for word in query.index_terms if word not in STOP] or query.index_terms
    column = pool.text
    candidates.covered = np.array(
        [compute_word_share(words, str(row[column])) for row in candidates.rows], dtype=np.float64
    )
    return candidates


def search_full_text(
    view: View, pool: Pool, query: Query, limit: int, columns: Sequence[str] | None = None, row_ids: bool = False
) -> pa.Table:
    """Return the rows full text finds, with their BM25 `_score`; the pool's columns unless others are named."""
    where, wanted = build_row_filter(view, pool, query), [*(pool.columns if columns is None else columns), "_score"]

    def best(n: int) -> pa.Table:
        scanner = view.open_dataset(pool.table).scanner(
            columns=wanted,
            full_text_query=MatchQuery(query.terms, pool.text),
            filter=where,
            prefilter=True,
            limit=n,
            with_row_id=True,
        )
        return scanner.to_table()

    found = search_post_filtered(view, pool, query, limit, best)
    return found if row_ids else found.drop_columns("_rowid")


def search_post_filtered(view: View, pool: Pool, query: Query, limit: int, best: Callable[[int], pa.Table]) -> pa.Table:
    """Return the best `limit` rows that pass the query's sieve, where it has one; `best` finds so many, with `_rowid`.

    More are asked for until enough have passed: of rows that pass as often as others the first look has enough.
    """
    strict = build_post_filter(view, pool.kind, query)
    if strict is None:
        return best(limit)
    asked, rows = int(MORE * limit / strict.share), view.count(pool.table)
    while True:
        found = best(min(asked, rows))
        passed = found.filter(pa.array(strict.mask_rows(found["_rowid"].to_numpy())))
        if len(passed) >= limit or len(found) < asked:
            return passed.slice(0, limit)
        asked *= 4


def search_vectors(view: View, pool: Pool, query: Query, limit: int, vector: Vector) -> pa.Table:
    """Return the rows nearest to the query, with their cosine `_score`; rows without a vector are left out.

    Vectors have unit length, so the dot product is the cosine; Lance returns one minus it.
    """
    found = find_nearest_rows(view, pool, query, limit, vector, pool.columns)
    cosine = pa.array(1.0 - found["_distance"].to_numpy().astype(np.float64))
    return found.drop_columns("_distance").append_column("_score", cosine)


def find_nearest_rows(
    view: View, pool: Pool, query: Query, limit: int, vector: Vector, columns: Sequence[str], row_ids: bool = False
) -> pa.Table:
    """Return the rows nearest to the query, best first, with their `_distance`: by an index of vectors that is whole,
    or one by one. Rows that fit a condition may lie in any cell of it, and all are looked into.
    """
    where, rows = build_row_filter(view, pool, query), view.count(pool.table)
    nearest: dict[str, object] = {
        "column": pool.table.vector,
        "q": vector,
        "metric": "dot",
        "use_index": view.find_broken_index(pool.table) is None,
        "nprobes": rows if query.has_conditions else PROBES,
        "refine_factor": REFINED if rows >= QUANTIZED_ROWS else None,
    }

    def best(n: int) -> pa.Table:
        scanner = view.open_dataset(pool.table).scanner(
            columns=[*columns, "_distance"],
            nearest={**nearest, "k": n},
            filter=where,
            prefilter=True,
            with_row_id=True,
        )
        return scanner.to_table()

    found = search_post_filtered(view, pool, query, limit, best)
    return found if row_ids else found.drop_columns("_rowid")


def merge_candidates(pool: Pool, lanes: Mapping[str, pa.Table]) -> Candidates:
    """Return one row a key over all lanes, with the score each lane gave it.

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


def fuse_reciprocal_ranks(candidates: Candidates, k: int = 60) -> Scores:
    """Return sum over the signals of 1 / (k + rank); a row a signal lacks gets nothing from it.

    Cormack, Clarke and Büttcher: Reciprocal rank fusion outperforms Condorcet, SIGIR 2009.
    """
    fused = np.zeros(len(candidates.rows))
    for signal in candidates.signals.values():
        order = [i for i in rank_positions(signal, candidates.ids) if not np.isnan(signal[i])]
        fused[order] += 1.0 / (k + 1 + np.arange(len(order)))
    return fused


def fuse_standardised(signals: Mapping[str, Scores], weights: Mapping[str, float]) -> Scores:
    """Return weighted sum of the signals, each brought to mean 0 and deviation 1 over the candidates.

    Unlike ranks, scores keep by how much one row beats the next. A row that a signal does not know (NaN) gets that
    signal's mean; a signal that is the same everywhere says nothing.
    """
    fused: Scores = np.sum([weights[name] * standardise_signal(signal) for name, signal in signals.items()], axis=0)
    return fused


def standardise_signal(signal: Scores) -> Scores:
    """Bring a signal to mean 0 and deviation 1 over the known values; 0 where unknown, or where all are equal."""
    known = ~np.isnan(signal)
    if not known.any() or (spread := float(signal[known].std())) < 1e-12:
        return np.zeros(len(signal))
    scaled: Scores = np.where(known, (signal - signal[known].mean()) / spread, 0.0)
    return scaled


def rank_positions(scores: Scores, ids: list[str]) -> list[int]:
    """Return positions by falling score, equal ones by id, unknown ones (NaN) last."""
    order: list[int] = np.lexsort((np.array(ids, dtype=np.str_), -scores)).tolist()
    return order


def select_best_per_owner(scores: Scores, owners: list[str], ids: list[str]) -> list[int]:
    """Return positions of the best row of each owner, best first: several passages of a message are one hit."""
    seen: dict[str, int] = {}
    for i in rank_positions(scores, ids):
        seen.setdefault(owners[i], i)
    return list(seen.values())
