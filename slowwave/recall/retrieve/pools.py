"""The candidates of each kind: where they are searched, what each signal says of them, and the fusion of signals."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import and_

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.recall.hits import Kind
from slowwave.recall.query import Query
from slowwave.recall.release.view import View
from slowwave.recall.retrieve.rows import Rows, Scores, Vector
from slowwave.schemas.tables import CHAIN, GATES, OBSERVATIONS, PASSAGES, SUMMARIES, TOPICS, UTC_US, Table
from slowwave.text.words import STOP, compute_word_share


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


SUMMARY_COLUMNS = ("summary_id", "text", "scope", "scope_id", "tier", "member_ids", "first_at", "last_at", "workspace")
PASSAGE_COLUMNS = (
    "passage_id",
    "message_id",
    "session_id",
    "seq",
    "part",
    "speaker",
    "workspace",
    "text",
    "ts",
    *CHAIN,
)
CLAIM_COLUMNS = ("observation_id", "summary", "observed_at", "status", "quote", "message_ids", "speaker", "workspace")
TOPIC_COLUMNS = ("topic_id", "name", "text", "samples", "first_at", "last_at", "workspace")
POOLS: Mapping[Kind, Pool] = {
    pool.kind: pool
    for pool in (
        Pool(
            "observation",
            OBSERVATIONS,
            "observation_id",
            "observed_at",
            "observed_at",
            (*CLAIM_COLUMNS, *GATES, *CHAIN),
        ),
        Pool("message", PASSAGES, "message_id", "ts", "ts", PASSAGE_COLUMNS),
        Pool("summary", SUMMARIES, "summary_id", "first_at", "last_at", SUMMARY_COLUMNS),
        Pool("topic", TOPICS, "topic_id", "first_at", "last_at", TOPIC_COLUMNS),
    )
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


def retrieve_group_candidates(
    view: View, pool: Pool, query: Query, limit: int, vector: Vector | None, full_text: bool
) -> tuple[Candidates, Scores]:
    """Return candidates among summaries or topics, and their scores: what each index of the table finds.

    Args:
        limit: rows that each index brings.
        vector: of the query; None without an encoder.
        full_text: whether the index of full text may be asked.
    """
    # those of which some is of the query's time, and none later than `as_of`
    conditions = [pc.field("text").is_valid()] if pool.kind == "topic" else []
    if query.places:
        conditions.append(pc.field("workspace").isin(pa.array(query.places, pa.string())))
    if query.since:
        conditions.append(pc.field(pool.last) >= pa.scalar(query.since, UTC_US))
    if query.until:
        conditions.append(pc.field(pool.first) <= pa.scalar(query.until, UTC_US))
    if query.as_of:
        conditions.append(pc.field(pool.last) <= pa.scalar(query.as_of, UTC_US))
    where = reduce(and_, conditions) if conditions else None
    # what each index finds of them
    groups = Rows(view=view, table=pool.table, where=where, columns=pool.columns)
    lookups = {"text": groups.search_text(query.terms, limit)} if full_text else {}
    if vector is not None:
        lookups["vector"] = groups.search_vectors(vector, limit)
    # one row a key, in order of key, so that what follows does not hang on the order in which an index answers
    rows: dict[str, dict[str, object]] = {}
    scores: dict[str, dict[str, float]] = {name: {} for name in lookups}
    for name, lookup in lookups.items():
        for row in lookup.to_pylist():
            key = str(row[pool.table.key])
            scores[name][key] = row.pop("_score")
            rows.setdefault(key, row)
    keys = sorted(rows)
    signals = {n: np.array([s.get(key, np.nan) for key in keys], dtype=np.float64) for n, s in scores.items()}
    candidates = Candidates(pool, [rows[key] for key in keys], signals, cosine=signals.get("vector"))
    # and the share of the query's words in each
    words = [word for word in query.index_terms if word not in STOP] or query.index_terms
    texts = (str(row[pool.text]) for row in candidates.rows)
    candidates.covered = np.array([compute_word_share(words, text) for text in texts], dtype=np.float64)
    return candidates, fuse_reciprocal_ranks(candidates)


def fuse_reciprocal_ranks(candidates: Candidates, k: int = 60) -> Scores:
    """Return the sum over the signals of 1 / (k + rank); a row a signal lacks gets nothing from it.

    Cormack, Clarke and Büttcher: Reciprocal rank fusion outperforms Condorcet, SIGIR 2009.
    """
    fused = np.zeros(len(candidates.rows))
    for signal in candidates.signals.values():
        order = [i for i in rank_positions(signal, candidates.ids) if not np.isnan(signal[i])]
        fused[order] += 1.0 / (k + 1 + np.arange(len(order)))
    return fused


def fuse_standardised(signals: Mapping[str, Scores], weights: Mapping[str, float]) -> Scores:
    """Return the weighted sum of the signals, each brought to mean 0 and deviation 1 over the candidates.

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
