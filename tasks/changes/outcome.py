"""Retire claims that a later claim changes: CLAIMS in, the changed rows and MERGES rows out.

1. Find candidate pairs by vector and by shared rare words, within one workspace and one speaker's talk of themselves
   (`pairs.py`).
2. Compute the features of each pair and the probability that the later claim changes the earlier one (`features.py`,
   `model.py`), and ask a language model about the likely pairs, if one judges them (`verdicts.py`).
3. Decide what happens to the claims of each pair (`decide.py`), and make the rows that say so.

A retired claim stays retired until it is repeated or the newer one is withdrawn. `unsupersede` takes either decision
back.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.engines.encoders.pair_reader import PairReader
from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import CLAIMS, MERGES
from slowwave.schemas.vocabulary import (
    EXTRACTIVE,
    NARROWED,
    RETRACTED,
    LedgerKind,
    Status,
)
from slowwave.tasks.changes.decide import (
    ChangeDecision,
    ChangeGuesses,
    Decisions,
    IsOfKind,
    decide,
    find_pairs_of_moment,
    find_retracting_pairs,
)
from slowwave.tasks.changes.features import IdfTable
from slowwave.tasks.changes.model import predict_changes
from slowwave.tasks.changes.pairs import (
    CandidateClaims,
    Evidence,
    build_candidate_claims,
    find_affirmed_times,
    mask_foreign,
)
from slowwave.tasks.changes.verdicts import (
    Ids,
    Judge,
    JudgedPairs,
    PairAnswer,
    PairVerdict,
    Rows,
    ask_judge,
    build_verdict_rows,
    reopen_misjudged,
)
from slowwave.tasks.dedupe.pairs import Undone, select_row, set_columns
from slowwave.tasks.shards import HERE, Executor

VERSION = "supersede/15"
QUOTED = 160
"""Characters of each quote in the ledger's reason."""
KINDS = (LedgerKind.SUPERSESSION, LedgerKind.DOUBT, LedgerKind.AGREEMENT)
"""The kinds of ledger rows that this step writes of pairs that it decides."""
ACTIVE = {
    "status": Status.ACTIVE,
    "reason": None,
    "superseded_by": None,
    "valid_to": None,
    "supersede_key": None,
}
Value = TypeVar("Value")


@dataclass(frozen=True)
class Superseded:
    """The outcome: changed rows of CLAIMS to merge, and rows of MERGES for the ledger."""

    claims: pa.Table = field(default_factory=CLAIMS.make_empty_table)
    merges: pa.Table = field(default_factory=MERGES.make_empty_table)
    waiting: int = 0
    """Pairs that the judge has not answered yet; until then the classifier's outcome applies to them."""
    unsettled: Set[str] = frozenset()
    """Ids of the claims to judge that are in such pairs."""


@dataclass(frozen=True)
class Known:
    """What is known beside the claims."""

    step_key: str
    """The key of the ledger rows."""
    undone: Undone = frozenset()
    """(from_id, into_id) of changes that were taken back; they are never made again."""
    verdicts: Mapping[Ids, PairVerdict] = field(default_factory=dict)
    """A model's verdicts of earlier nights, which are kept."""
    judge: Judge | None = None
    """The model to ask about other likely pairs."""
    fresh: Set[str] | None = None
    """Ids of the claims to judge, each against the claims near it; None for all."""
    idf: IdfTable | None = None
    """Word weights over all claims, if the claims are only some of them."""
    reader: PairReader | None = None
    """The reader of the claims' vectors, if it was fitted to their encoder."""
    is_of_moment: IsOfKind | None = None
    """Tells by the reader of persons' sentences whether one is of the moment."""
    is_retraction: IsOfKind | None = None
    """Tells by the same reader whether one is a retraction."""
    executor: Executor = HERE
    """Computes the pairs' probabilities."""
    corrections: Mapping[Ids, bool] = field(default_factory=dict)
    """(corrected claim, correcting claim) -> whether that is certain. A certain one retires the claim, another one
    links the two."""
    unheard: Set[str] = frozenset()
    """Ids of duplicates that are not a reason to make a corrected claim active again."""


@dataclass(frozen=True)
class ClaimRows:
    """The rows of the candidate claims by id, and the pairs of rows whose change the user took back."""

    row_of: Mapping[str, int]
    undone: Set[frozenset[int]]

    @classmethod
    def from_table(cls, table: pa.Table, undone: Undone) -> "ClaimRows":
        """Index the claims of a table."""
        row_of = {oid: row for row, oid in enumerate(table["claim_id"].to_pylist())}
        return cls(
            row_of,
            {frozenset((row_of.get(a, -1), row_of.get(b, -1))) for a, b in undone},
        )

    def find_rows(
        self,
        by_ids: Mapping[Ids, Value],
        without: Iterable[Rows] = (),
    ) -> dict[Rows, Value]:
        """Return the values by pair of rows; omit undone pairs, pairs with an unknown claim, and those of `without`."""
        omitted = self.undone | {frozenset(pair) for pair in without}
        by_rows: dict[Rows, Value] = {}
        for (old, new), value in by_ids.items():
            pair = (self.row_of.get(old, -1), self.row_of.get(new, -1))
            if -1 not in pair and frozenset(pair) not in omitted:
                by_rows[pair] = value
        return by_rows


def supersede(claims: pa.Table, known: Known) -> Superseded:
    """Mark each active claim that a later one changes, and reactivate claims whose change no longer holds.

    Rows of `claims` (CLAIMS) that are neither active nor retired by another row are left alone, and so are rows without
    `observed_at`, since their order is unknown.

    Returns the changed rows with status, reason, superseded_by and valid_to set and the other columns unchanged.
    Ledger rows contain both quotes, and the judge's new answers (kind `judgement`). Equal input in any order gives
    equal output. Given its own output, it returns only doubts and agreements, whose claims are unchanged.
    """
    candidates = _read_candidates(claims, known)
    if candidates.table.num_rows < 2 and not candidates.reopened:
        return Superseded()
    index = ClaimRows.from_table(candidates.table, known.undone)
    among = _find_rows_to_judge(candidates, index, known.fresh)
    corrections = index.find_rows(known.corrections)
    candidates = _reopen_corrected(candidates, corrections)
    read = known.reader.describe if known.reader else None
    evidence = Evidence.from_candidates(
        candidates=candidates, among=among, idf=known.idf, read=read
    )
    apart = index.undone | {frozenset(pair) for pair in corrections}
    apart |= _find_pairs_of_one_answer(candidates.table, evidence)
    guesses = _guess_changes(evidence, apart, known.executor)
    guesses = _spare_from_moments(candidates, guesses, known.is_of_moment)
    guesses = _add_retractions(candidates, guesses, known.is_retraction)
    settled = index.find_rows(known.verdicts, without=corrections)
    judged = (
        ask_judge(
            claims=candidates,
            guesses=guesses.likely,
            likest=guesses.likest,
            verdicts=settled,
            judge=known.judge,
        )
        if known.judge
        else JudgedPairs({}, set())
    )
    answered = {
        pair: verdict
        for pair, verdict in {**settled, **judged.answers}.items()
        if verdict.answer is not PairAnswer.UNANSWERED
    }
    candidates = reopen_misjudged(candidates, answered)
    decisions = decide(
        claims=candidates,
        guesses=guesses,
        verdicts=answered,
        corrections=corrections,
        undone=index.undone,
    )
    return _build_outcome(
        table=candidates.table,
        decisions=decisions,
        judged=judged,
        among=among,
        step_key=known.step_key,
    )


def _find_rows_to_judge(
    candidates: CandidateClaims,
    index: ClaimRows,
    fresh: Set[str] | None,
) -> frozenset[int]:
    """Return the rows of fresh claims (all if None), of reopened ones, and of claims that one of these retired."""
    ids = index.row_of if fresh is None else index.row_of.keys() & fresh
    among = frozenset(index.row_of[oid] for oid in ids) | candidates.reopened
    return among | {row for row, by in candidates.retired.items() if by in among}


def _read_candidates(claims: pa.Table, known: Known) -> CandidateClaims:
    """Return the claims that may change each other, with the time of their last local repetition."""
    # Without vectors, which filtering copies.
    states = claims.select(["status", "canonical_id", "observed_at"])
    unheard = pc.is_in(claims["claim_id"], pa.array(sorted(known.unheard), pa.string()))
    ignored = pc.or_(mask_foreign(claims), unheard)
    affirmed = find_affirmed_times(states.filter(pc.invert(ignored)))
    dated = _date_corrected(claims, known.corrections)
    return build_candidate_claims(dated, affirmed)


def _date_corrected(claims: pa.Table, corrections: Mapping[Ids, bool]) -> pa.Table:
    """Return the claims, those without a time that a later one corrects with that one's time."""
    ids = claims["claim_id"].to_pylist()
    times = dict(zip(ids, claims["observed_at"].to_pylist(), strict=True))
    undated = {old: times.get(new) for old, new in corrections if not times.get(old)}
    if not undated.keys() & times.keys():
        return claims
    filled = [times[key] or undated.get(key) for key in ids]
    return set_columns(
        claims,
        observed_at=pa.array(filled, claims.schema.field("observed_at").type),
    )


def _reopen_corrected(
    candidates: CandidateClaims,
    corrections: Mapping[Rows, bool],
) -> CandidateClaims:
    """Return the claims without the retirements of corrected claims by other claims than the correcting ones."""
    opened = {
        old
        for (old, new), certain in corrections.items()
        if certain and candidates.retired.get(old, new) != new
    }
    left = {row: by for row, by in candidates.retired.items() if row not in opened}
    return replace(
        candidates, retired=left, reopened=candidates.reopened | frozenset(opened)
    )


def _guess_changes(
    evidence: Evidence,
    without: Set[frozenset[int]],
    executor: Executor,
) -> ChangeGuesses:
    """Return the classifier's guesses for the other pairs."""
    likely: dict[Rows, float] = {}
    taken_back: set[Rows] = set()
    plain: dict[Rows, str] = {}
    found = predict_changes(evidence, executor)
    pairs = evidence.pairs.tolist()
    for (old, new), change, back, kind in zip(pairs, *found, strict=True):
        if frozenset((old, new)) in without:
            continue
        likely[old, new] = float(change)
        if back > change - back:  # likelier than another value
            taken_back.add((old, new))
        if kind:
            plain[old, new] = kind
    likest = evidence.find_likest() & likely.keys()
    return ChangeGuesses(
        likely=likely, taken_back=taken_back, plain=plain, likest=likest
    )


def _spare_from_moments(
    candidates: CandidateClaims,
    guesses: ChangeGuesses,
    is_of_moment: IsOfKind | None,
) -> ChangeGuesses:
    """Return the guesses in which claims of the moment are narrowed; a plain retraction in a session stays."""
    if is_of_moment is None:
        return guesses
    sessions = candidates.sessions
    narrowed = {
        (old, new): NARROWED
        for old, new in find_pairs_of_moment(candidates, guesses, is_of_moment)
        if sessions[old] != sessions[new] or guesses.plain.get((old, new)) != RETRACTED
    }
    return replace(guesses, plain={**guesses.plain, **narrowed})


def _add_retractions(
    candidates: CandidateClaims,
    guesses: ChangeGuesses,
    is_retraction: IsOfKind | None,
) -> ChangeGuesses:
    """Return the guesses with the pairs that two readers find to be retractions."""
    if is_retraction is None:
        return guesses
    found = find_retracting_pairs(candidates, guesses, is_retraction)
    return replace(guesses, retracting=found)


def _find_pairs_of_one_answer(
    table: pa.Table, evidence: Evidence
) -> set[frozenset[int]]:
    """Return the pairs of one session whose claims a model made: it has left there what holds at the session's end."""
    by_model = pc.not_equal(table["observer"], EXTRACTIVE).to_numpy()
    together = evidence.pairs[~evidence.apart]
    return {
        frozenset(pair) for pair in together[by_model[together].all(axis=1)].tolist()
    }


def _build_outcome(
    table: pa.Table,
    decisions: Decisions,
    judged: JudgedPairs,
    among: Set[int],
    step_key: str,
) -> Superseded:
    """Return the rows that the decisions change, and the ledger."""
    waiting_rows = sorted({row for pair in judged.waiting for row in pair} & among)
    made = [*decisions.changes, *decisions.doubts, *decisions.agreements]
    return Superseded(
        claims=_build_changed_rows(table, decisions.changes, decisions.freed),
        merges=_build_ledger(
            table=table, decisions=made, verdicts=judged.answers, step_key=step_key
        ),
        waiting=len(judged.waiting),
        unsettled=frozenset(
            table["claim_id"].take(pa.array(waiting_rows, pa.int64())).to_pylist()
        ),
    )


def _build_changed_rows(
    table: pa.Table,
    changes: Sequence[ChangeDecision],
    freed: Set[int],
) -> pa.Table:
    """Return the rows that are retired, and those that are active again."""
    # Take rows by column: a slice of one row, once cast, would keep all vectors of the table.
    ids = table["claim_id"].to_pylist()
    retired = set_columns(
        table.take(pa.array([c.earlier for c in changes], pa.int64())),
        status=Status.SUPERSEDED,
        reason=pa.array(
            [f"changed by a later claim: {c.why}" for c in changes], pa.string()
        ),
        superseded_by=pa.array([ids[c.later] for c in changes], pa.string()),
        valid_to=pa.array([c.at for c in changes], table.schema.field("valid_to").type),
    )
    again = sorted(freed - {c.earlier for c in changes})
    reopened = set_columns(table.take(pa.array(again, pa.int64())), **ACTIVE)
    return pa.concat_tables([retired, reopened])


def _build_ledger(
    table: pa.Table,
    decisions: Sequence[ChangeDecision],
    verdicts: Mapping[Rows, PairVerdict],
    step_key: str,
) -> pa.Table:
    """Return rows of MERGES: one a decision, one a verdict."""
    ids = table["claim_id"].to_pylist()
    quotes = table["quote"].to_pylist()
    rows = [
        {
            "merge_id": compute_content_id(ids[c.earlier], ids[c.later], c.kind),
            "kind": c.ledger_kind,
            "from_id": ids[c.earlier],
            "into_id": ids[c.later],
            "rule": c.kind,
            "scores": [("likely", c.p)],
            "reason": f"{c.why} | “{quotes[c.earlier][:QUOTED]}” → “{quotes[c.later][:QUOTED]}”",
            "undone": False,
            "step_key": c.key or step_key,
        }
        for c in decisions
    ]
    judged = build_verdict_rows(
        {(ids[old], ids[new]): verdict for (old, new), verdict in verdicts.items()}
    )
    return pa.Table.from_pylist([*rows, *judged], schema=MERGES.schema)


def unsupersede(claims: pa.Table, merges: pa.Table, merge_id: str) -> Superseded:
    """Take a change back: reactivate the earlier claim. Of a doubt or an agreement only the ledger and the claim's key
    change.

    `claims` must contain the earlier claim. Returns it and the merge with `undone` set, or no rows if it was set
    already. Raises KeyError if the ledger has no such supersession or doubt.
    """
    ours = pc.is_in(merges["kind"], pa.array(KINDS))
    merge = merges.filter(pc.and_(pc.equal(merges["merge_id"], merge_id), ours))
    if not merge.num_rows:
        raise KeyError(
            f"no supersession {merge_id!r}: `slowwave inspect merges` lists them"
        )
    if merge["undone"][0].as_py():
        return Superseded()
    earlier = select_row(claims, merge["from_id"][0].as_py())
    if merge["kind"][0].as_py() != LedgerKind.SUPERSESSION:
        return Superseded(
            set_columns(earlier, supersede_key=None), set_columns(merge, undone=True)
        )
    return Superseded(set_columns(earlier, **ACTIVE), set_columns(merge, undone=True))
