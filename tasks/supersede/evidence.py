"""The evidence about claims that may change each other: pairs of an earlier and a later one, with features."""

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.tasks.dedupe.candidates import (
    Floats,
    Pairs,
    compute_cosines,
    deduplicate_pairs,
)
from slowwave.tasks.dedupe.candidates import Rows as Places
from slowwave.tasks.dedupe.normalise import ClaimTexts, normalise_claim
from slowwave.tasks.dedupe.pairs import order_by_words, stack_unit_vectors, tell_pairs
from slowwave.tasks.supersede.candidates import (
    LEAST_LIKENESS,
    LIKEST,
    Scores,
    compute_likeness,
    find_candidate_pairs,
    find_reply_pairs,
)
from slowwave.tasks.supersede.claims import CandidateClaims
from slowwave.tasks.supersede.features import (
    IdfTable,
    Surroundings,
    compute_pair_features,
)
from slowwave.tasks.supersede.reader import Odds, PairReader

ABOUT = 0.15
"""Another session counts as about as alike if its most similar claim is at most this much less similar than the best.
What comes up in many sessions is seldom a decision that a later claim changes."""
READS = "reads "
"""Prefix of the features for the log-odds of `PairReader`, one for each kind of pair."""
SAYS = "says "
"""Prefix of the features for words and word pairs of the later claim; a model uses those it was fitted with."""
Flags = npt.NDArray[np.bool_]
COMPANY = (
    "nearer before",
    "nearer after",
    "behind before",
    "behind after",
    "lead",
    "sessions about as like",
)
READ = ("summary", "speaker", "category", "pack")


@dataclass(frozen=True)
class Evidence:
    """Pairs of claims in order of time, as places in the order of the claims' ids."""

    pairs: Pairs
    """Shape (pairs, 2): the earlier claim, the later claim."""
    likeness: Scores
    """0 to 2: how much the two are about the same thing."""
    apart: Flags
    """Whether the two are from different sessions."""
    describe: Callable[[slice], pa.Table]
    """Returns one row for each pair of a slice: the input of `compute_features`, which another process may run."""
    idf: IdfTable
    """Weights of the claims' words."""

    @cached_property
    def features(self) -> list[dict[str, float]]:
        """The features of each pair by name. For a big store use `describe`: all features do not fit into memory."""
        return compute_features(self.describe(slice(None)), self.idf)

    @classmethod
    def from_candidates(
        cls,
        candidates: CandidateClaims,
        among: Set[int] | None = None,
        idf: IdfTable | None = None,
        reader: PairReader | None = None,
    ) -> "Evidence":
        """Return the pairs of claims to judge; with `among`, those with a row in it.

        Without `idf`, words are weighted by the candidates alone. `reader` reads the vectors of each pair.
        """
        ranker = PairRanker.from_candidates(candidates, idf)
        rows = (
            None
            if among is None or len(among) == len(ranker.claims)
            else np.array(sorted(among), dtype=np.int64)
        )
        chosen = ranker.choose_pairs(rows)
        describe = partial(
            _describe_pairs,
            ranked=chosen,
            table=candidates.table,
            around=ranker.build_around(chosen),
            reads=ranker.read_pairs(chosen.pairs, reader),
        )
        return cls(chosen.pairs, chosen.likeness, chosen.apart, describe, ranker.idf)


@dataclass(frozen=True)
class RankedPairs:
    """Pairs of claims in order of time; each field has one entry a pair."""

    pairs: Pairs
    cosines: Scores
    """NaN without vectors."""
    likeness: Scores
    apart: Flags
    company: Scores
    """The columns COMPANY; shape (pairs, columns)."""
    is_reply: Flags
    """Whether a person said the later claim in reply to the earlier one of a model."""

    def select(self, places: npt.NDArray[np.int64]) -> "RankedPairs":
        """Return some of the pairs."""
        return RankedPairs(
            pairs=self.pairs[places],
            cosines=self.cosines[places],
            likeness=self.likeness[places],
            apart=self.apart[places],
            company=self.company[places],
            is_reply=self.is_reply[places],
        )

    def describe(self, at: int, around: Surroundings) -> dict[str, float | None]:
        """Return the features of a pair that need more than its two claims."""
        cosine = None if np.isnan(self.cosines[at]) else float(self.cosines[at])
        old, new = self.pairs[at].tolist()
        known: dict[str, float | None] = {
            "cosine": cosine,
            "by a model": around.by_model[new],
            "was by a model": around.by_model[old],
            "later's words are older": around.compute_older_share(old, new),
            "in reply": float(self.is_reply[at]),
        }
        if not self.apart[at]:
            return known
        company = dict(zip(COMPANY, self.company[at].tolist(), strict=True))
        return {
            **known,
            **company,
            **around.compute_features(old, new, vectors=cosine is not None),
        }


@dataclass(frozen=True)
class PairRanker:
    """The candidate claims, as needed to find pairs of them and to rank these."""

    candidates: CandidateClaims
    claims: ClaimTexts
    vectors: Floats
    has_vector: Flags
    idf: IdfTable
    sessions: npt.NDArray[np.str_]
    """The session of each claim."""

    @classmethod
    def from_candidates(
        cls, candidates: CandidateClaims, idf: IdfTable | None
    ) -> "PairRanker":
        """Read the claims; without `idf` compute it from their words."""
        claims = ClaimTexts(candidates.table)
        vectors, has_vector = stack_unit_vectors(candidates.table)
        return cls(
            candidates=candidates,
            claims=claims,
            vectors=vectors,
            has_vector=has_vector,
            idf=idf or IdfTable.from_stems(claims.stems),
            sessions=np.array(candidates.table["session_id"].to_pylist()),
        )

    def rank_pairs(self, among: Places | None) -> RankedPairs:
        """Return the candidate pairs (with a row in `among`, if any) with their likeness and ranks."""
        table = self.candidates.table
        times = self.candidates.table["observed_at"].to_numpy()
        near = find_candidate_pairs(
            table, self.claims, self.vectors, self.has_vector, among
        )
        replies = find_reply_pairs(table, among)
        near = deduplicate_pairs([near, replies])
        pairs = np.where(
            (times[near[:, 0]] <= times[near[:, 1]])[:, None], near, near[:, ::-1]
        )
        pairs = pairs[times[pairs[:, 0]] != times[pairs[:, 1]]]
        old, new = pairs.T
        cosines = compute_cosines(pairs, self.vectors, self.has_vector)
        likeness = compute_likeness(pairs, cosines, self.claims, self.idf)
        apart = self.sessions[old] != self.sessions[new]
        everyday = np.asarray(pc.equal(table["pack"], "personal"), dtype=bool)
        kind = apart + 2 * everyday[pairs].all(axis=1)
        company = _rank_pairs(pairs, likeness, kind, self.sessions)
        return RankedPairs(
            pairs=pairs,
            cosines=cosines,
            likeness=likeness,
            apart=apart,
            company=company,
            is_reply=_mask_pairs(pairs, replies),
        )

    def choose_pairs(self, rows: Places | None) -> RankedPairs:
        """Return the pairs to judge (with a row in `rows`, if any): the likest of each claim, and replies."""
        if rows is None:
            ranked = self.rank_pairs(None)
            judged: Flags = np.ones(len(ranked.pairs), dtype=bool)
        else:
            # A pair's rank depends on the other pairs of its two claims, so rank those of the nearest claims too.
            first = self.rank_pairs(rows)
            near = (first.company[:, [1, 0]] < 2 * LIKEST) & np.isin(first.pairs, rows)
            reach = np.union1d(rows, first.pairs[near.any(axis=1) | first.is_reply])
            ranked = self.rank_pairs(reach)
            has_row = np.isin(ranked.pairs, rows).any(axis=1)
            judged = np.asarray(has_row & np.isin(ranked.pairs, reach).all(axis=1))
        judged &= ranked.is_reply | (
            (ranked.company[:, :2].min(axis=1) < LIKEST)
            & (ranked.likeness >= LEAST_LIKENESS)
        )
        places = np.flatnonzero(judged)
        order = order_by_words(ranked.pairs[places], self.claims)
        return ranked.select(places[order])

    def read_pairs(self, pairs: Pairs, reader: PairReader | None) -> dict[str, Odds]:
        """Return the log-odds of each pair by the name of the feature; none without a reader or vectors."""
        dim = self.vectors.shape[1]
        if reader is None or dim * 3 != len(reader.weights):
            return {}
        old, new = pairs.T
        read = reader.read(self.vectors[old], self.vectors[new])
        return {READS + kind: read[:, at] for at, kind in enumerate(reader.kinds)}

    def build_around(self, ranked: RankedPairs) -> Surroundings:
        """Return the surroundings of the claims in some pairs."""
        sessions = np.unique(self.sessions[ranked.pairs]).tolist()
        return Surroundings(
            self.candidates, self.claims, self.vectors, self.idf, sessions
        )


def _describe_pairs(
    part: slice,
    *,
    ranked: RankedPairs,
    table: pa.Table,
    around: Surroundings,
    reads: dict[str, Odds],
) -> pa.Table:
    """Return one row for each pair of a slice, as `compute_features` reads it."""
    known = pa.array(
        [
            ranked.describe(at, around)
            | {name: _get_known(odds[at]) for name, odds in reads.items()}
            for at in range(len(ranked.pairs))[part]
        ]
    )
    return tell_pairs(table, ranked.pairs[part], READ, known=known)


def _mask_pairs(pairs: Pairs, some: Pairs) -> Flags:
    """Return a mask of the pairs that are among some pairs."""
    coded, among = (each[:, 0] << 32 | each[:, 1] for each in (pairs, some))
    return np.isin(coded, among)


def _get_known(value: float) -> float | None:
    """Return a number, None for NaN."""
    return None if np.isnan(value) else float(value)


def compute_features(pairs: pa.Table, idf: IdfTable) -> list[dict[str, float]]:
    """Return the features of pairs described by `Evidence.describe`; a feature with an unknown value is left out."""
    computed = []
    for pair in pairs.to_pylist():
        old = pair["left"]
        new = pair["right"]
        earlier, later = (
            normalise_claim(claim["summary"], claim["speaker"]) for claim in (old, new)
        )
        named = old["speaker"] is not None and new["speaker"] is not None
        features = compute_pair_features(earlier, later, idf) | {
            "one speaker": old["speaker"] == new["speaker"],
            "two speakers": named and old["speaker"] != new["speaker"],
            "everyday": new["pack"] == "personal",
        }
        if old["category"] and new["category"]:
            features |= {
                "one category": old["category"] == new["category"],
                "event": new["category"] == "event",
                "was an event": old["category"] == "event",
            }
        features |= dict.fromkeys(
            (SAYS + gram for gram in list_grams(later.words)), 1.0
        )
        computed.append(
            features
            | {
                name: value
                for name, value in pair["known"].items()
                if value is not None
            }
        )
    return computed


def _rank_pairs(
    pairs: Pairs,
    likeness: Scores,
    kind: npt.NDArray[np.int64],
    sessions: npt.NDArray[np.str_],
) -> Scores:
    """Return the columns COMPANY: the rank of each pair among the other pairs of its two claims and of its kind.

    The kind says whether the pair is from one session or two, and whether it is about everyday life.
    """
    _, session = np.unique(sessions, return_inverse=True)
    frame = pl.DataFrame(
        {
            "old": pairs[:, 0],
            "new": pairs[:, 1],
            "kind": kind,
            "alike": likeness.astype(np.float64),
            "session": session[pairs[:, 0]],
        }
    )
    ranked = frame.with_row_index("at")
    ranked = _add_ranks(ranked, "new", "old", "before")
    ranked = _add_ranks(ranked, "old", "new", "after")
    ranked = ranked.join(_count_similar_sessions(frame), on=["new", "kind"], how="left")
    ranked = ranked.sort("at").rename({"lead before": "lead"})
    return ranked.select(pl.col(COMPANY).cast(pl.Float64)).to_numpy()


def _add_ranks(
    ranked: pl.DataFrame,
    claim: str,
    other: str,
    side: str,
) -> pl.DataFrame:
    """Add the rank of each pair among those of `claim`, most alike first, and its distances from the best of them."""
    group = [claim, "kind"]
    alike = pl.col("alike")
    first = alike.first().over(group)
    second = alike.slice(1, 1).first().over(group)
    rank = pl.int_range(pl.len()).over(group)
    ranked = ranked.sort(*group, "alike", other, descending=[False, False, True, False])
    return ranked.with_columns(
        rank.clip(upper_bound=2 * LIKEST).alias(f"nearer {side}"),
        (first - alike).alias(f"behind {side}"),
        (alike - pl.when(rank > 0).then(first).otherwise(second.fill_null(0.0))).alias(
            f"lead {side}"
        ),
    )


def _count_similar_sessions(pairs: pl.DataFrame) -> pl.DataFrame:
    """Return for each later claim and kind the number of sessions whose best pair is about as alike as the best."""
    best = pairs.group_by("new", "kind", "session").agg(
        pl.col("alike").max().clip(lower_bound=0.0)
    )
    close = pl.col("alike") > pl.col("alike").max() - ABOUT
    return best.group_by("new", "kind").agg(
        close.sum().clip(upper_bound=5).alias("sessions about as like")
    )


def build_matrix(features: Sequence[dict[str, float]], names: Sequence[str]) -> Floats:
    """Return features as a matrix of shape (pairs, names).

    An unknown feature is NaN; a word that the later claim lacks is 0.
    """
    places = {name: at for at, name in enumerate(names)}
    missing = [0.0 if name.startswith(SAYS) else np.nan for name in names]
    matrix = np.full((len(features), len(names)), missing, np.float32)
    for row, values in zip(matrix, features, strict=True):
        for name in values.keys() & places.keys():
            row[places[name]] = values[name]
    return matrix


def list_grams(words: Sequence[str]) -> set[str]:
    """Return the words, and each two words in a row."""
    return {*words, *(f"{a} {b}" for a, b in pairwise(words))}
