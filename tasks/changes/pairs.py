"""Select the pairs of claims to judge: near by vector, by rare words or in one frame, in scope, an earlier and a later.

`CandidateClaims` are the claims that may change each other, and the decisions about them so far. `Evidence` has their
pairs, the likest of each claim, with what a model needs to know of them.
"""

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.tables import CLAIMS, TRUST
from slowwave.schemas.vocabulary import Status, is_foreign
from slowwave.tasks.changes.features import (
    READ,
    IdfTable,
    Surroundings,
    compute_features,
)
from slowwave.tasks.dedupe.candidates import (
    Floats,
    Pairs,
    compute_cosines,
    deduplicate_pairs,
    find_vector_pairs,
    find_word_pairs,
    group_rows,
)
from slowwave.tasks.dedupe.candidates import Rows as Places
from slowwave.tasks.dedupe.normalise import ClaimText, ClaimTexts, normalise_claim
from slowwave.tasks.dedupe.pairs import (
    SHARD_PAIRS,
    order_by_words,
    stack_unit_vectors,
    tell_pairs,
)
from slowwave.text.words import FIRST_PERSON, LATIN

ABOUT = 0.15
"""Another session counts as about as alike if its most similar claim is at most this much less similar than the best.
What comes up in many sessions is seldom a decision that a later claim changes."""
COMPANY = (
    "nearer before",
    "nearer after",
    "behind before",
    "behind after",
    "lead",
    "sessions about as like",
)
NEAREST = 20
"""Nearest claims by vector to compare with. More than for duplicates, since changes are reworded more often."""
LEAST_COSINE = 0.1
"""Least cosine of a pair; below it the vectors show nothing in common."""
LEAST_LIKENESS = 0.25
"""Least likeness of a pair to judge. Of the 9,452 pairs below it in 4,508 claims of labelled talk none would be
linked."""
NEXT = 2
"""Number of the earlier claims of other sessions, the likest of a later one, about which a language model is asked
however unlikely a change is: it reads two languages, and values told in other words."""
LIKEST = 4
"""A pair is judged if, for one of its claims, fewer than this many pairs are more alike. This keeps 618 of 624 labelled
changes and half of all pairs."""

REPLIED = 2
"""Claims of a model's turn, and of the person's turn after it, that are paired as a statement and its reply."""

Scores = npt.NDArray[np.floating]
Flags = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.integer]
Odds = npt.NDArray[np.float32]
ReadVectors = Callable[[Floats, Floats], Mapping[str, Odds]]
"""Returns the features of pairs, by name, that a model reads from the vectors of their two claims."""


@dataclass(frozen=True)
class CandidateClaims:
    """The claims that may change each other, and the decisions about them so far."""

    table: pa.Table
    """The active claims and those that another claim retired, in order of id."""
    times: list[datetime]
    """When each claim was first said."""
    last: list[datetime]
    """When each claim or a duplicate of it was last said."""
    retired: dict[int, int]
    """Row -> the row that retired it."""
    reopened: frozenset[int]
    """Retired rows whose successor no longer exists."""

    @cached_property
    def foreign(self) -> list[bool]:
        """Whether neither the person nor the own agent made each claim."""
        found: list[bool] = mask_foreign(self.table).to_pylist()
        return found

    @cached_property
    def sessions(self) -> list[str]:
        """The session of each claim."""
        found: list[str] = self.table["session_id"].to_pylist()
        return found

    @cached_property
    def by_model(self) -> list[bool | None]:
        """Whether a model said each claim; None if that is unknown."""
        if "by_model" not in self.table.schema.names:
            return [None] * self.table.num_rows
        said: list[bool | None] = self.table["by_model"].to_pylist()
        return said

    def get_text(self, row: int) -> ClaimText:
        """Return the normalised claim of a row."""
        claim = self.table.select(["summary", "speaker"]).slice(row, 1).to_pylist()[0]
        return normalise_claim(claim["summary"], claim["speaker"])

    def is_reported(self, old: int, new: int) -> bool:
        """Return True if a person said the earlier of two claims, and a model the later."""
        return self.by_model[old] is False and self.by_model[new] is True

    def find_successor(self, row: int) -> int:
        """Return the last row of the chain of retirements that begins at a row."""
        seen = {row}
        while row in self.retired and self.retired[row] not in seen:
            row = self.retired[row]
            seen.add(row)
        return row


def build_candidate_claims(
    claims: pa.Table,
    affirmed: Mapping[str, datetime],
) -> CandidateClaims:
    """Return the claims that are active or that another claim retired.

    affirmed: claim_id -> when a duplicate last repeated the claim.
    """
    superseded = pc.equal(claims["status"], Status.SUPERSEDED)
    retired_by_claim = pc.and_(superseded, pc.is_valid(claims["superseded_by"]))
    ours = pc.or_(pc.equal(claims["status"], Status.ACTIVE), retired_by_claim)
    table = CLAIMS.sort_rows(claims, pc.and_(ours, pc.is_valid(claims["observed_at"])))
    ids = table["claim_id"].to_pylist()
    times = table["observed_at"].to_pylist()
    row_of = _index_rows(ids, claims)
    retired: dict[int, int] = {}
    reopened: set[int] = set()
    for row, claim in enumerate(table.select(["superseded_by", "status"]).to_pylist()):
        successor = claim["superseded_by"]
        if claim["status"] != Status.SUPERSEDED or successor is None:
            continue
        if successor in row_of:
            retired[row] = row_of[successor]
        else:
            reopened.add(row)
    return CandidateClaims(
        table=table,
        times=times,
        last=[
            max(at, affirmed.get(oid, at)) for oid, at in zip(ids, times, strict=True)
        ],
        retired=retired,
        reopened=frozenset(reopened),
    )


def mask_foreign(claims: pa.Table) -> pa.Array:
    """Return a mask of the claims that neither the person nor the own agent made."""
    found = map(is_foreign, claims[TRUST].to_pylist(), claims["observer"].to_pylist())
    return pa.array(list(found), pa.bool_())


def _index_rows(ids: list[str], claims: pa.Table) -> dict[str, int]:
    """Return claim_id -> row; a duplicate has the row of the claim that it repeats."""
    row_of = {oid: row for row, oid in enumerate(ids)}
    duplicates = claims.select(["claim_id", "canonical_id"]).filter(
        pc.equal(claims["status"], Status.DUPLICATE)
    )
    by_duplicate: dict[str, int] = {}
    for duplicate in duplicates.to_pylist():
        oid = duplicate["claim_id"]
        canonical = duplicate["canonical_id"]
        if canonical in row_of and oid not in row_of:
            by_duplicate[oid] = row_of[canonical]
    return row_of | by_duplicate


def find_affirmed_times(claims: pa.Table) -> dict[str, datetime]:
    """Return claim_id -> when a duplicate last repeated the claim.

    claims: rows of CLAIMS with status, canonical_id and observed_at; only duplicates count.
    """
    repeats = pc.and_(
        pc.equal(claims["status"], Status.DUPLICATE),
        pc.is_valid(claims["observed_at"]),
    )
    last = (
        claims.filter(repeats)
        .group_by("canonical_id")
        .aggregate([("observed_at", "max")])
    )
    return dict(
        zip(
            last["canonical_id"].to_pylist(),
            last["observed_at_max"].to_pylist(),
            strict=True,
        )
    )


def find_candidate_pairs(
    table: pa.Table,
    claims: ClaimTexts,
    vectors: Floats,
    has: npt.NDArray[np.bool_],
    among: Places | None = None,
) -> Pairs:
    """Return the pairs of rows that are near and in scope; with `among`, those with a row in it.

    Args:
        table: rows of CLAIMS.
        claims: the normalised claims of the rows.
        vectors: unit vectors of the rows; shape (rows, dim).
        has: mask of the rows with a vector.
        among: places of some rows.
    """
    groups = group_rows(table)
    near = find_vector_pairs(
        vectors=vectors,
        has=has,
        nearest=NEAREST,
        min_cosine=LEAST_COSINE,
        among=among,
        groups=groups,
    )
    pairs = deduplicate_pairs([near, find_word_pairs(claims, groups, among)])
    candidates: Pairs = pairs[
        _mask_pairs_in_scope(
            pairs, ClaimScope.from_table(table, claims, np.unique(pairs))
        )
    ]
    return candidates


def find_reply_pairs(table: pa.Table, among: Places | None = None) -> Pairs:
    """Return the pairs of a model's last claims before a person's next words in a session, and the first of these.

    The words may refuse the claim in words that have nothing in common with it ("not now, wait with that"). With
    `among`, only pairs with a row in it. Claims of unknown origin have no such pairs.
    """
    none = np.zeros((0, 2), dtype=np.int64)
    if "by_model" not in table.schema.names:
        return none
    columns = ["session_id", "observed_at", "by_model"]
    turn = ["session_id", "observed_at"]
    said_by = pl.col("by_model")
    rows = pl.DataFrame(table.select(columns)).with_row_index("row")
    turns = (
        rows.group_by(turn)
        .agg(pl.col("row").sort(), said_by.max().alias("by_model"))
        .sort(turn)
        .with_columns(
            next_rows=pl.col("row").shift(-1).over("session_id"),
            next_by=said_by.shift(-1).over("session_id"),
        )
        .filter(said_by & ~pl.col("next_by"))
    )
    pairs = [
        (old, new)
        for model, person in turns.select("row", "next_rows").iter_rows()
        for old in model[-REPLIED:]
        for new in person[:REPLIED]
    ]
    found = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return found if among is None else found[np.isin(found, among).any(axis=1)]


@dataclass(frozen=True)
class ClaimScope:
    """What decides whether two claims can change each other; an entry a row, -1 if the value is missing."""

    workspace: Codes
    folder: Codes
    """The folder of the project that each is from."""
    at_top: Flags
    """Claims from a project's top, or without a column `folder`."""
    speaker: Codes
    session: Codes
    personal: Flags
    """Claims of everyday life (the personal pack)."""
    preference: Flags
    of_self: Flags
    """Claims in which the speaker talks of themselves; computed for the rows of some pairs only."""

    @classmethod
    def from_table(
        cls,
        table: pa.Table,
        claims: ClaimTexts,
        rows: Codes,
    ) -> "ClaimScope":
        """Read the scope of the claims; `of_self` for some rows, since reading every claim whole is slow."""
        personal = np.asarray(pc.equal(table["pack"], "personal"), dtype=bool)
        of_self = np.zeros(len(personal), dtype=bool)
        for row in rows.tolist():
            is_first_person = not FIRST_PERSON.isdisjoint(
                LATIN.findall(claims.texts[row].casefold())
            )
            of_self[row] = is_first_person and claims[row].first_person
        folders = pa.chunked_array([pa.nulls(len(personal), pa.string())])
        if "folder" in table.schema.names:
            folders = table["folder"]
        return cls(
            workspace=_encode_column(table["workspace"]),
            folder=_encode_column(folders),
            at_top=np.asarray(pc.equal(folders.fill_null(""), ""), dtype=bool),
            speaker=_encode_column(table["speaker"]),
            session=_encode_column(table["session_id"]),
            personal=personal,
            preference=np.asarray(
                pc.equal(table["category"], "preference"), dtype=bool
            ),
            of_self=of_self,
        )

    def find_speakers_together(self) -> Flags:
        """Return for each two speakers whether one session has claims of both; the last index means no speaker."""
        shape = (
            int(self.session.max(initial=-1)) + 1,
            int(self.speaker.max(initial=-1)) + 2,
        )
        talks = np.zeros(shape, dtype=np.float32)
        talks[self.session, self.speaker] = 1.0
        together: Flags = talks.T @ talks > 0.0
        return together


def _encode_column(column: pa.ChunkedArray) -> Codes:
    """Return an integer a value, -1 for null."""
    encoded = column.combine_chunks().dictionary_encode()
    codes: Codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return codes


def _mask_pairs_in_scope(
    pairs: Pairs,
    scope: ClaimScope,
) -> Flags:
    """Return a mask of the pairs whose claims can change each other.

    They are of one project, and of one folder of it or one of them of its top: two packages of a repository may differ.
    Claims of two people about themselves cannot. One person's claims about themselves can, also across workspaces.
    A claim without a speaker comes from the assistant or the only person there, so its echo of a claim belongs to that
    claim. In everyday life two named people can change each other's claims if they talk with each other, except their
    preferences.
    """
    a = pairs[:, 0]
    b = pairs[:, 1]
    speaker = scope.speaker
    of_self = scope.of_self
    personal = scope.personal
    preference = scope.preference
    one_folder = scope.folder[a] == scope.folder[b]
    one_folder = one_folder | scope.at_top[a]
    one_folder = one_folder | scope.at_top[b]
    one_space = (scope.workspace[a] == scope.workspace[b]) & one_folder
    one_speaker = speaker[a] == speaker[b]
    both_personal = personal[a] & personal[b]
    both_of_self = of_self[a] & of_self[b]
    echo = ((speaker[a] < 0) | (speaker[b] < 0)) & ~both_of_self
    work = ~both_personal & ~both_of_self
    agreed = scope.find_speakers_together()[speaker[a], speaker[b]]
    agreed = agreed & ~(of_self[a] | of_self[b] | preference[a] | preference[b])
    in_scope: Flags = (both_personal & both_of_self & one_speaker) | (
        one_space & (one_speaker | echo | work | agreed)
    )
    return in_scope


def compute_likeness(
    pairs: Pairs,
    cosines: Scores,
    claims: ClaimTexts,
    idf: IdfTable,
) -> Scores:
    """Return the likeness of the two claims of each pair, 0 to 2: the share of common words plus the cosine.

    The share of words counts twice for a pair without vectors.
    """
    words = {row: frozenset(claims.stems[row]) for row in np.unique(pairs).tolist()}
    weights = {row: idf.sum_idf(stems) for row, stems in words.items()}
    common = np.array(
        [idf.sum_idf(words[a] & words[b]) for a, b in pairs.tolist()], dtype=np.float64
    )
    lighter = np.array(
        [min(weights[a], weights[b]) for a, b in pairs.tolist()], dtype=np.float64
    )
    shared = np.divide(common, lighter, out=np.zeros(len(pairs)), where=lighter > 0)
    return shared + np.where(np.isnan(cosines), shared, cosines)


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

    def find_likest(self) -> set[tuple[int, int]]:
        """Return the pairs of two sessions whose earlier claim is among the NEXT likest of the later one."""
        old, new = self.pairs[self.apart].T
        alike = self.likeness[self.apart]
        frame = pl.DataFrame({"old": old, "new": new, "alike": alike})
        ranked = frame.sort("alike", "old", descending=[True, False])
        return {*ranked.group_by("new").head(NEXT).select("old", "new").iter_rows()}

    @classmethod
    def from_candidates(
        cls,
        candidates: CandidateClaims,
        among: Set[int] | None = None,
        idf: IdfTable | None = None,
        read: ReadVectors | None = None,
    ) -> "Evidence":
        """Return the pairs of claims to judge; with `among`, those with a row in it.

        Without `idf`, words are weighted by the candidates alone. `read` reads the vectors of each pair.
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
            reads=ranker.read_pairs(chosen.pairs, read),
        )
        return cls(
            pairs=chosen.pairs,
            likeness=chosen.likeness,
            apart=chosen.apart,
            describe=describe,
            idf=ranker.idf,
        )


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
        cls,
        candidates: CandidateClaims,
        idf: IdfTable | None,
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
            table=table,
            claims=self.claims,
            vectors=self.vectors,
            has=self.has_vector,
            among=among,
        )
        replies = find_reply_pairs(table, among)
        near = deduplicate_pairs([near, replies])
        pairs = np.where(
            (times[near[:, 0]] <= times[near[:, 1]])[:, None], near, near[:, ::-1]
        )
        pairs = pairs[times[pairs[:, 0]] != times[pairs[:, 1]]]
        old, new = pairs.T
        cosines = compute_cosines(pairs, self.vectors, self.has_vector)
        likeness = compute_likeness(
            pairs=pairs, cosines=cosines, claims=self.claims, idf=self.idf
        )
        apart = self.sessions[old] != self.sessions[new]
        everyday = np.asarray(pc.equal(table["pack"], "personal"), dtype=bool)
        kind = apart + 2 * everyday[pairs].all(axis=1)
        company = _rank_pairs(
            pairs=pairs, likeness=likeness, kind=kind, sessions=self.sessions
        )
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

    def read_pairs(self, pairs: Pairs, read: ReadVectors | None) -> Mapping[str, Odds]:
        """Return the odds that a model reads for each pair, by the feature's name; empty without a model.

        The model's input takes some 25 kB a pair, so few pairs are read at once.
        """
        if read is None:
            return {}
        shards = [
            pairs[start : start + SHARD_PAIRS]
            for start in range(0, max(len(pairs), 1), SHARD_PAIRS)
        ]
        odds = [
            read(self.vectors[shard[:, 0]], self.vectors[shard[:, 1]])
            for shard in shards
        ]
        return {name: np.concatenate([one[name] for one in odds]) for name in odds[0]}

    def build_around(self, ranked: RankedPairs) -> Surroundings:
        """Return the surroundings of the claims in some pairs."""
        sessions = np.unique(self.sessions[ranked.pairs]).tolist()
        return Surroundings(
            table=self.candidates.table,
            claims=self.claims,
            vectors=self.vectors,
            idf=self.idf,
            sessions=sessions,
        )


def _describe_pairs(
    part: slice,
    *,
    ranked: RankedPairs,
    table: pa.Table,
    around: Surroundings,
    reads: Mapping[str, Odds],
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
    ranked = _add_ranks(ranked=ranked, claim="new", other="old", side="before")
    ranked = _add_ranks(ranked=ranked, claim="old", other="new", side="after")
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
