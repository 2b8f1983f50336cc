"""What is known of the claims that may change each other: pairs of an earlier and a later one, with their features."""

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.tasks.dedupe.candidates import Floats, Pairs, compute_cosines
from slowwave.tasks.dedupe.candidates import Rows as Places
from slowwave.tasks.dedupe.normalise import Claims, normalise_claim
from slowwave.tasks.dedupe.pairs import stack_unit_vectors, tell_pairs
from slowwave.tasks.supersede.candidates import LEAST_LIKENESS, LIKEST, Scores, compute_likeness, find_candidate_pairs
from slowwave.tasks.supersede.claims import CandidateClaims
from slowwave.tasks.supersede.features import IdfTable, Surroundings, compute_pair_features

ABOUT = 0.15
"""Likeness that another session's likest claim may be behind the likest of all, and still count as about as like: what
comes up all the time is no decision to be changed."""
SAYS = "says "
"""Begins the names of words, and of two in a row, that the later claim has; a model knows those it was fitted with."""
Flags = npt.NDArray[np.bool_]
COMPANY = ("nearer before", "nearer after", "behind before", "behind after", "lead", "sessions about as like")
READ = ("summary", "speaker", "category", "pack")


@dataclass(frozen=True)
class Evidence:
    """Pairs of claims in order of time, places in the order of the claims' ids."""

    pairs: Pairs
    """Shape (pairs, 2): the one said earlier, the one said later."""
    likeness: Scores
    """0 to 2, how much the two are about one thing."""
    apart: Flags
    """Whether they are of two sessions."""
    describe: Callable[[slice], pa.Table]
    """Makes of some pairs the rows that their features are worked out from, which may be done elsewhere."""
    idf: IdfTable
    """Of the claims' words."""

    @cached_property
    def features(self) -> list[dict[str, float]]:
        """Of each pair name -> value; those of a big store do not fit into memory at once."""
        return compute_features(self.describe(slice(None)), self.idf)

    @classmethod
    def from_candidates(
        cls, candidates: CandidateClaims, among: Set[int] | None = None, idf: IdfTable | None = None
    ) -> "Evidence":
        """Read the claims that are held, and what each pair of them (of a row in `among`, if any) is to each other.
        Without `idf` it is that of their words.
        """
        claims = Claims(candidates.table)
        (vectors, has), idf = stack_unit_vectors(candidates.table), idf or IdfTable.from_stems(claims.stems)
        everyday = np.asarray(pc.equal(candidates.table["pack"], "personal"), dtype=bool)
        sessions = np.array(candidates.table["session_id"].to_pylist())
        times = candidates.table["observed_at"].to_numpy()

        def find_pairs(of: Places | None) -> tuple[Pairs, Scores, Scores, npt.NDArray[np.bool_], Scores]:
            near = find_candidate_pairs(candidates.table, claims, vectors, has, of)
            pairs = np.where((times[near[:, 0]] <= times[near[:, 1]])[:, None], near, near[:, ::-1])
            pairs = pairs[times[pairs[:, 0]] != times[pairs[:, 1]]]
            cosines, (old, new) = compute_cosines(pairs, vectors, has), pairs.T
            likeness, apart = compute_likeness(pairs, cosines, claims, idf), sessions[old] != sessions[new]
            kind = apart + 2 * everyday[pairs].all(axis=1)
            return pairs, cosines, likeness, apart, _rank_pairs(pairs, likeness, kind, sessions)

        chosen = None if among is None or len(among) == len(claims) else np.array(sorted(among), dtype=np.int64)
        if chosen is None:
            pairs, cosines, likeness, apart, company = find_pairs(None)
            judged: Flags = np.ones(len(pairs), dtype=bool)
        else:
            # Whom a claim is likest to, and what else these are like.
            near, *_, ranks = find_pairs(chosen)
            near = near[((ranks[:, [1, 0]] < 2 * LIKEST) & np.isin(near, chosen)).any(axis=1)]
            pairs, cosines, likeness, apart, company = find_pairs(np.union1d(chosen, near))
            judged = np.asarray(
                np.isin(pairs, chosen).any(axis=1) & np.isin(pairs, np.union1d(chosen, near)).all(axis=1)
            )
        judged &= (company[:, :2].min(axis=1) < LIKEST) & (likeness >= LEAST_LIKENESS)
        places = np.flatnonzero(judged).tolist()
        around = Surroundings(candidates, claims, vectors, idf, np.unique(sessions[pairs[places]]).tolist())

        def find_known(at: int) -> dict[str, float | None]:
            cosine = None if np.isnan(cosines[at]) else float(cosines[at])
            if not apart[at]:
                return {"cosine": cosine}
            values = around.compute_features(*pairs[at].tolist(), vectors=cosine is not None)
            return {"cosine": cosine, **dict(zip(COMPANY, company[at].tolist(), strict=True)), **values}

        def describe(part: slice) -> pa.Table:
            features = pa.array([find_known(at) for at in places[part]])
            return tell_pairs(candidates.table, pairs[places[part]], READ, known=features)

        return cls(pairs[places], likeness[places], apart[places], describe, idf)


def compute_features(pairs: pa.Table, idf: IdfTable) -> list[dict[str, float]]:
    """Return features of pairs as `Evidence.describe` makes them, without what can't be known of each."""
    computed = []
    for pair in pairs.to_pylist():
        old, new = pair["left"], pair["right"]
        earlier, later = (normalise_claim(claim["summary"], claim["speaker"]) for claim in (old, new))
        named = old["speaker"] is not None and new["speaker"] is not None
        features = compute_pair_features(earlier, later, idf) | {
            "one speaker": old["speaker"] == new["speaker"],
            "two speakers": named and old["speaker"] != new["speaker"],
            "everyday": new["pack"] == "personal",
            "one category": old["category"] == new["category"],
            "event": new["category"] == "event",
            "was an event": old["category"] == "event",
        }
        features |= dict.fromkeys((SAYS + gram for gram in list_grams(later.words)), 1.0)
        computed.append(features | {name: value for name, value in pair["known"].items() if value is not None})
    return computed


def _rank_pairs(pairs: Pairs, likeness: Scores, kind: npt.NDArray[np.int64], sessions: npt.NDArray[np.str_]) -> Scores:
    """Return the rank of each pair among the other pairs of its two claims and of its `kind` (of two sessions or one,
    of everyday life or not): COMPANY.
    """
    (old, new), (_, session) = pairs.T, np.unique(sessions, return_inverse=True)
    likely = likeness.astype(np.float64)
    frame = pl.DataFrame({"old": old, "new": new, "kind": kind, "alike": likely, "session": session[old]})
    ranked = frame.with_row_index("at")
    # among the pairs of the one claim with earlier ones, and of the other with later ones, the likest first
    for claim, other, side in (("new", "old", "before"), ("old", "new", "after")):
        group, alike = [claim, "kind"], pl.col("alike")
        first, second = alike.first().over(group), alike.slice(1, 1).first().over(group)
        rank = pl.int_range(pl.len()).over(group)
        ranked = ranked.sort(*group, "alike", other, descending=[False, False, True, False]).with_columns(
            rank.clip(upper_bound=2 * LIKEST).alias(f"nearer {side}"),
            (first - alike).alias(f"behind {side}"),
            (alike - pl.when(rank > 0).then(first).otherwise(second.fill_null(0.0))).alias(f"lead {side}"),
        )
    # sessions whose likest claim is about as like as the likest of all
    likest = frame.group_by("new", "kind", "session").agg(pl.col("alike").max().clip(lower_bound=0.0))
    close = pl.col("alike") > pl.col("alike").max() - ABOUT
    as_like = likest.group_by("new", "kind").agg(close.sum().clip(upper_bound=5).alias("sessions about as like"))
    ranked = ranked.join(as_like, on=["new", "kind"], how="left").sort("at").rename({"lead before": "lead"})
    return ranked.select(pl.col(COMPANY).cast(pl.Float64)).to_numpy()


def build_matrix(features: Sequence[dict[str, float]], names: Sequence[str]) -> Floats:
    """Return features as shape (pairs, names); NaN where one is not known, 0 for what the later claim does not say."""
    places = {name: at for at, name in enumerate(names)}
    missing = [0.0 if name.startswith(SAYS) else np.nan for name in names]
    matrix = np.full((len(features), len(names)), missing, np.float32)
    for row, values in zip(matrix, features, strict=True):
        for name in values.keys() & places.keys():
            row[places[name]] = values[name]
    return matrix


def list_grams(words: Sequence[str]) -> set[str]:
    """Return words, and each two in a row."""
    return {*words, *(f"{a} {b}" for a, b in pairwise(words))}
