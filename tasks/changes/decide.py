"""Retire claims that a later claim changes: CLAIMS in, the changed rows and MERGES rows out.

1. Find candidate pairs by vector and by shared rare words, within one workspace and one speaker's talk of themselves.
2. Compute the features of each pair and the probability that the later claim changes the earlier one
   (`slowwave.tasks.changes.model`).
3. Retire the earlier claim if the probability is high. Link the two if a change is likely: both stay active, and the
   ledger names the later one. A claim that was repeated since holds again: it then retires the other, or is linked to
   it as the later one. The rule in the ledger says whether the later claim has another value or takes the earlier back.

A retired claim stays retired until it is repeated or the newer one is withdrawn. `unsupersede` takes either decision
back. If a language model judges pairs (`slowwave.tasks.changes.verdicts`), its answer precedes the classifier's guess.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import CLAIMS, MERGES, TRUST
from slowwave.schemas.vocabulary import (
    CORRECTED,
    LEADS,
    PERHAPS_CHANGED,
    PERHAPS_RETRACTED,
    RETRACTED,
    LedgerKind,
    Status,
    is_foreign,
)
from slowwave.tasks.changes.claims import (
    CandidateClaims,
    build_candidate_claims,
    find_affirmed_times,
)
from slowwave.tasks.changes.evidence import Evidence
from slowwave.tasks.changes.features import IdfTable
from slowwave.tasks.changes.model import predict_changes
from slowwave.tasks.changes.reader import PairReader
from slowwave.tasks.changes.verdicts import (
    LEADING,
    Ids,
    Judge,
    JudgedPairs,
    Outcome,
    PairAnswer,
    PairVerdict,
    Rows,
    ask_judge,
    build_verdict_rows,
    find_outcome,
    reopen_misjudged,
)
from slowwave.tasks.dedupe.pairs import Undone, select_row, set_columns
from slowwave.tasks.shards import HERE, Executor

__all__ = ["KINDS", "VERSION", "Superseded", "supersede", "unsupersede"]

VERSION = "supersede/11"
QUOTED = 160
"""Characters of each quote in the ledger's reason."""
KINDS = ("supersession", "doubt")
"""The kinds of ledger rows that this step writes."""
Known = TypeVar("Known")
ACTIVE = {
    "status": Status.ACTIVE,
    "reason": None,
    "superseded_by": None,
    "valid_to": None,
    "supersede_key": None,
}

UNCONFIRMED = 0.5
"""Probability of a correction by an agent that no person has confirmed."""
CHANGED = "changed"
REAFFIRMED = "reaffirmed"
PERHAPS = "perhaps"
"""Rules of the ledger: the later claim changes the earlier; the earlier was repeated; the later may change it."""
REASONS = {
    CHANGED: "told anew",
    RETRACTED: "taken back",
    PERHAPS: "perhaps told anew",
    PERHAPS_RETRACTED: "perhaps taken back",
    LEADS: "perhaps told anew",
}
RESTORING = {
    CHANGED: REAFFIRMED,
    RETRACTED: REAFFIRMED,
    PERHAPS: PERHAPS,
    PERHAPS_RETRACTED: PERHAPS,
    LEADS: LEADS,
}
"""Rule of a pair -> the rule if the earlier claim was repeated after the later one."""


@dataclass(frozen=True)
class Change:
    """A decision about two rows: `later` retires `earlier` from a moment on, or is only linked to it."""

    earlier: int
    """The row that gives way; for a reaffirmation the row that had replaced the repeated one."""
    later: int
    at: datetime
    rule: str
    likely: float
    """Probability, 0 to 1."""
    reason: str
    key: str | None = None
    """The key under which a model decided, or None if the classifier did."""

    @property
    def is_doubt(self) -> bool:
        """Whether the earlier claim stays active."""
        return self.rule in (PERHAPS, PERHAPS_RETRACTED, LEADS)


@dataclass(frozen=True)
class Superseded:
    """The outcome: changed rows of CLAIMS to merge, and rows of MERGES for the ledger."""

    claims: pa.Table
    merges: pa.Table
    waiting: int = 0
    """Pairs that the judge has not answered yet; until then the classifier's outcome applies to them."""
    unsettled: Set[str] = frozenset()
    """Ids of the claims to judge that are in such pairs."""


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

    def find_rows(self, by_ids: Mapping[Ids, Known]) -> dict[Rows, Known]:
        """Return the values by pair of rows; omit undone pairs and pairs with an unknown claim."""
        by_rows: dict[Rows, Known] = {}
        for (old, new), value in by_ids.items():
            pair = (self.row_of.get(old, -1), self.row_of.get(new, -1))
            if -1 not in pair and frozenset(pair) not in self.undone:
                by_rows[pair] = value
        return by_rows


@dataclass(frozen=True)
class Inputs:
    """The inputs of `supersede` beside the claims; see there."""

    step_key: str
    undone: Undone
    verdicts: Mapping[Ids, PairVerdict]
    judge: Judge | None
    doubts: Mapping[Ids, float]
    taken_back: Set[Ids]
    idf: IdfTable | None
    reader: PairReader | None
    executor: Executor
    corrections: Mapping[Ids, bool]
    unheard: Set[str]


@dataclass(frozen=True)
class ChangeGuesses:
    """What the classifier finds of pairs."""

    likely: dict[Rows, float]
    """Probability of a change."""
    taken_back: Set[Rows]
    """Pairs whose later claim, if it changes the earlier, takes it back without a new value."""


@dataclass(frozen=True)
class Decisions:
    """The changes and doubts of one pass over the pairs."""

    changes: list[Change]
    doubts: list[Change]
    freed: Set[int]
    """Retired rows that nothing active retires any more."""
    gone: Set[int]
    """Rows that are retired, by this pass or an earlier one."""


def supersede(
    claims: pa.Table,
    step_key: str,
    *,
    undone: Undone = frozenset(),
    verdicts: Mapping[Ids, PairVerdict] | None = None,
    judge: Judge | None = None,
    fresh: Set[str] | None = None,
    doubts: Mapping[Ids, float] | None = None,
    taken_back: Set[Ids] = frozenset(),
    idf: IdfTable | None = None,
    reader: PairReader | None = None,
    executor: Executor = HERE,
    corrections: Mapping[Ids, bool] | None = None,
    unheard: Set[str] = frozenset(),
) -> Superseded:
    """Mark each active claim that a later one changes, and reactivate claims whose change no longer holds.

    Args:
        claims: rows of CLAIMS. Rows that are neither active nor retired by another row are left alone, and
            so are rows without `observed_at`, since their order is unknown.
        step_key: the key of the ledger rows.
        undone: (from_id, into_id) of changes that were taken back; they are never made again.
        verdicts: a model's verdicts of earlier nights, which are kept.
        judge: the model to ask about other likely pairs.
        fresh: claim_ids to judge, each against the claims near it; by default all.
        doubts: probability of the pairs that earlier nights linked; kept for pairs without a fresh claim.
        taken_back: those of them whose later claim takes the earlier back.
        idf: word weights over all claims, if the claims are only some of them.
        reader: the reader of the claims' vectors, if it was fitted to their encoder.
        executor: computes the pairs' probabilities.
        corrections: (corrected claim, correcting claim) -> whether that is certain. A certain one retires the claim,
            another one links the two.
        unheard: ids of duplicates that are no reason to make a corrected claim active again.

    Returns the changed rows with status, reason, superseded_by and valid_to set and the other columns unchanged.
    Ledger rows contain both quotes, and the judge's new answers (kind `judgement`). Equal input in any order gives
    equal output. Given its own output, it returns only the doubts (kind `doubt`), whose claims are unchanged.
    """
    inputs = Inputs(
        step_key=step_key,
        undone=undone,
        verdicts=verdicts or {},
        judge=judge,
        doubts=doubts or {},
        taken_back=taken_back,
        idf=idf,
        reader=reader,
        executor=executor,
        corrections=corrections or {},
        unheard=unheard,
    )
    return _judge_claims(claims, inputs, fresh)


def _ask_judge(
    candidates: CandidateClaims,
    likely: Mapping[Rows, float],
    settled: Mapping[Rows, PairVerdict],
    inputs: Inputs,
) -> JudgedPairs:
    """Return what a language model says of the likely pairs; nothing without a model."""
    if not inputs.judge:
        return JudgedPairs({}, set())
    return ask_judge(candidates, likely, settled, inputs.judge)


def _judge_claims(
    claims: pa.Table, inputs: Inputs, fresh: Set[str] | None
) -> Superseded:
    """Judge the fresh claims (all if None), and judge again those whose link target this retired."""
    candidates = _read_candidates(claims, inputs)
    if candidates.table.num_rows < 2 and not candidates.reopened:
        return Superseded(CLAIMS.make_empty_table(), MERGES.make_empty_table())
    index = ClaimRows.from_table(candidates.table, inputs.undone)
    among = _find_rows_to_judge(candidates, index, fresh)
    corrections = index.find_rows(inputs.corrections)
    candidates = _reopen_corrected(candidates, corrections)
    linked = index.find_rows(inputs.doubts)
    evidence = Evidence.from_candidates(candidates, among, inputs.idf, inputs.reader)
    found = _guess_changes(evidence, index, inputs.executor)
    guesses = _add_kept(found, linked, inputs.taken_back, index, among)
    guesses = replace(guesses, likely=_drop_pairs(guesses.likely, corrections))
    settled = index.find_rows(inputs.verdicts)
    judged = _ask_judge(candidates, guesses.likely, settled, inputs)
    answers = {**settled, **judged.answers}
    answered = _drop_pairs(_select_answered(answers), corrections)
    candidates = reopen_misjudged(candidates, answered)
    corrected = find_corrections(candidates, corrections)
    decisions = _decide_changes(candidates, guesses, answered, index.undone, corrected)
    if unlinked := _find_unlinked(linked, decisions) - among:
        return _judge_again(claims, inputs, candidates, judged, among | unlinked)
    return _build_outcome(candidates, decisions, judged, among, inputs.step_key)


def _drop_pairs(
    by_rows: Mapping[Rows, Known], pairs: Iterable[Rows]
) -> dict[Rows, Known]:
    """Return the values of the other pairs, in whatever order the two rows of a pair are."""
    dropped = {frozenset(pair) for pair in pairs}
    return {
        pair: value for pair, value in by_rows.items() if frozenset(pair) not in dropped
    }


def _build_outcome(
    candidates: CandidateClaims,
    decisions: Decisions,
    judged: JudgedPairs,
    among: frozenset[int],
    step_key: str,
) -> Superseded:
    """Return the rows that the decisions change, and the ledger."""
    waiting_rows = {row for pair in judged.waiting for row in among.intersection(pair)}
    changes = [*decisions.changes, *decisions.doubts]
    return Superseded(
        claims=_build_changed_rows(
            candidates.table, decisions.changes, decisions.freed
        ),
        merges=_build_ledger(candidates.table, changes, judged.answers, step_key),
        waiting=len(judged.waiting),
        unsettled={candidates.table["claim_id"][row].as_py() for row in waiting_rows},
    )


def _find_unlinked(linked: Iterable[Rows], decisions: Decisions) -> set[int]:
    """Return the earlier claims of former doubts that are active and have no doubt now."""
    still_linked = {change.earlier for change in decisions.doubts}
    return {old for old, _ in linked} - still_linked - decisions.gone


def _judge_again(
    claims: pa.Table,
    inputs: Inputs,
    candidates: CandidateClaims,
    judged: JudgedPairs,
    rows: Set[int],
) -> Superseded:
    """Judge some rows with the verdicts given so far, since the link target of some was retired.

    They may now be linked to another claim, which the first pass did not consider.
    """
    ids = candidates.table["claim_id"].to_pylist()
    answers = {
        (ids[old], ids[new]): verdict for (old, new), verdict in judged.answers.items()
    }
    known = replace(inputs, verdicts={**inputs.verdicts, **answers})
    again = _judge_claims(claims, known, {ids[row] for row in rows})
    ledger = _build_ledger(candidates.table, [], judged.answers, inputs.step_key)
    return replace(again, merges=pa.concat_tables([ledger, again.merges]))


def _read_candidates(claims: pa.Table, inputs: Inputs) -> CandidateClaims:
    """Return the claims that may change each other, with the time of their last local repetition."""
    # Without vectors, which filtering copies.
    states = claims.select(["status", "canonical_id", "observed_at"])
    unheard = pc.is_in(
        claims["claim_id"], pa.array(sorted(inputs.unheard), pa.string())
    )
    ignored = pc.or_(_mask_foreign(claims), unheard)
    affirmed = find_affirmed_times(states.filter(pc.invert(ignored)))
    dated = _date_corrected(claims, inputs.corrections)
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
    candidates: CandidateClaims, corrections: Mapping[Rows, bool]
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


def _find_rows_to_judge(
    candidates: CandidateClaims, index: ClaimRows, fresh: Set[str] | None
) -> frozenset[int]:
    """Return the rows of fresh claims (all if None), of reopened ones, and of claims that one of these retired."""
    ids = index.row_of if fresh is None else index.row_of.keys() & fresh
    among = frozenset(index.row_of[oid] for oid in ids) | candidates.reopened
    return among | {row for row, by in candidates.retired.items() if by in among}


def _guess_changes(
    evidence: Evidence, index: ClaimRows, executor: Executor
) -> ChangeGuesses:
    """Return what the classifier finds of the pairs; omit undone pairs."""
    likely: dict[Rows, float] = {}
    taken_back: set[Rows] = set()
    found = predict_changes(evidence, executor)
    for (old, new), change, back in zip(evidence.pairs.tolist(), *found, strict=True):
        if frozenset((old, new)) not in index.undone:
            likely[old, new] = float(change)
            if back > change - back:  # likelier than another value
                taken_back.add((old, new))
    return ChangeGuesses(likely, taken_back)


def _add_kept(
    found: ChangeGuesses,
    linked: Mapping[Rows, float],
    taken_back: Set[Ids],
    index: ClaimRows,
    among: Set[int],
) -> ChangeGuesses:
    """Return the guesses with those of earlier nights about linked pairs without a row in `among`."""
    kept = {pair: likely for pair, likely in linked.items() if among.isdisjoint(pair)}
    back = index.find_rows(dict.fromkeys(taken_back, True))
    return ChangeGuesses(
        kept | found.likely, found.taken_back | (back.keys() & kept.keys())
    )


def _select_answered(verdicts: Mapping[Rows, PairVerdict]) -> dict[Rows, PairVerdict]:
    return {
        pair: verdict
        for pair, verdict in verdicts.items()
        if verdict.answer is not PairAnswer.UNANSWERED
    }


def _decide_changes(
    candidates: CandidateClaims,
    guesses: ChangeGuesses,
    verdicts: Mapping[Rows, PairVerdict],
    undone: Set[frozenset[int]],
    corrected: list[Change],
) -> Decisions:
    """Return the changes and doubts that follow from guesses and verdicts."""
    foreign = _mask_foreign(candidates.table).to_pylist()

    def select_applicable(changes: list[Change]) -> list[Change]:
        # What others say does not change what the person or the own agent said.
        return [
            change
            for change in changes
            if foreign[change.earlier] or not foreign[change.later]
        ]

    reaffirmed = select_applicable(find_reaffirmations(candidates, undone))
    freed = candidates.reopened | {change.later for change in reaffirmed}
    found = [
        *corrected,
        *reaffirmed,
        *select_applicable(find_changes(candidates, guesses, verdicts, freed)),
    ]
    changes = select_changes(found)
    gone = {change.earlier for change in changes} | (candidates.retired.keys() - freed)
    return Decisions(changes, select_doubts(found, gone), freed, gone)


def _mask_foreign(rows: pa.Table) -> pa.Array:
    """Return a mask of the claims that neither the person nor the own agent made."""
    found = map(is_foreign, rows[TRUST].to_pylist(), rows["observer"].to_pylist())
    return pa.array(list(found), pa.bool_())


def unsupersede(claims: pa.Table, merges: pa.Table, merge_id: str) -> Superseded:
    """Take a change back: reactivate the earlier claim. A doubt changes only the ledger and the claim's key.

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
        return Superseded(CLAIMS.make_empty_table(), MERGES.make_empty_table())
    earlier = select_row(claims, merge["from_id"][0].as_py())
    if merge["kind"][0].as_py() == "doubt":
        return Superseded(
            set_columns(earlier, supersede_key=None), set_columns(merge, undone=True)
        )
    return Superseded(set_columns(earlier, **ACTIVE), set_columns(merge, undone=True))


def _build_changed_rows(
    table: pa.Table, changes: list[Change], freed: Set[int]
) -> pa.Table:
    """Return the rows that are retired, and those that are active again."""
    # Take rows by column: a slice of one row, once cast, would keep all vectors of the table.
    ids = table["claim_id"].to_pylist()
    retired = set_columns(
        table.take(pa.array([c.earlier for c in changes], pa.int64())),
        status=Status.SUPERSEDED,
        reason=pa.array(
            [f"changed by a later claim: {c.reason}" for c in changes], pa.string()
        ),
        superseded_by=pa.array([ids[c.later] for c in changes], pa.string()),
        valid_to=pa.array([c.at for c in changes], table.schema.field("valid_to").type),
    )
    again = sorted(freed - {c.earlier for c in changes})
    reopened = set_columns(table.take(pa.array(again, pa.int64())), **ACTIVE)
    return pa.concat_tables([retired, reopened])


def _build_ledger(
    table: pa.Table,
    changes: list[Change],
    verdicts: Mapping[Rows, PairVerdict],
    step_key: str,
) -> pa.Table:
    """Return rows of MERGES: one a change, one a verdict."""
    ids = table["claim_id"].to_pylist()
    quotes = table["quote"].to_pylist()
    rows = [
        {
            "merge_id": compute_content_id(ids[c.earlier], ids[c.later], c.rule),
            "kind": LedgerKind.DOUBT if c.is_doubt else LedgerKind.SUPERSESSION,
            "from_id": ids[c.earlier],
            "into_id": ids[c.later],
            "rule": c.rule,
            "scores": [("likely", c.likely)],
            "reason": f"{c.reason} | “{quotes[c.earlier][:QUOTED]}” → “{quotes[c.later][:QUOTED]}”",
            "undone": False,
            "step_key": c.key or step_key,
        }
        for c in changes
    ]
    judged = build_verdict_rows(
        {(ids[old], ids[new]): verdict for (old, new), verdict in verdicts.items()}
    )
    return pa.Table.from_pylist([*rows, *judged], schema=MERGES.schema)


def find_reaffirmations(
    claims: CandidateClaims, undone: Set[frozenset[int]]
) -> list[Change]:
    """Return a change for each retired claim that was repeated since: it retires the claim that had replaced it."""
    changes = []
    for row in claims.retired:
        successor = claims.find_successor(row)
        if (
            claims.last[row] > claims.last[successor]
            and frozenset((row, successor)) not in undone
        ):
            changes.append(
                Change(
                    earlier=successor,
                    later=row,
                    at=claims.last[row],
                    rule=REAFFIRMED,
                    likely=1.0,
                    reason="the earlier was said again",
                )
            )
    return changes


def find_corrections(
    claims: CandidateClaims, corrections: Mapping[Rows, bool]
) -> list[Change]:
    """Return the change of each correction: a retirement if it is certain, else a doubt.

    If a person repeated the corrected claim since, that claim retires the correcting one, as with any change.
    """
    changes = []
    for (old, new), certain in corrections.items():
        if claims.retired.get(old) == new or old == new:
            continue
        since = claims.last[old] > max(claims.last[new], claims.times[old])
        if since and not certain:
            continue
        earlier, later = (new, old) if since else (old, new)
        rule = CORRECTED if certain else PERHAPS
        changes.append(
            Change(
                earlier=earlier,
                later=later,
                at=claims.last[later],
                rule=REAFFIRMED if since else rule,
                likely=1.0 if certain else UNCONFIRMED,
                reason=_explain_correction(certain, since),
            )
        )
    return changes


def _explain_correction(certain: bool, since: bool) -> str:
    """Return the reason of a change that a correction made."""
    if since:
        return "the earlier was said again"
    return "a person corrected it" if certain else "an agent corrected it, unconfirmed"


def find_changes(
    claims: CandidateClaims,
    guesses: ChangeGuesses,
    verdicts: Mapping[Rows, PairVerdict],
    freed: Set[int],
) -> list[Change]:
    """Return a change for every pair in which the later claim changes the earlier or may do so.

    Args:
        claims: the claims; those retired already are skipped.
        guesses: what the classifier finds of the pairs.
        verdicts: pair -> a model's verdict, which precedes the guess.
        freed: retired rows that nothing active retires any more.
    """
    changes = []
    sessions = claims.table["session_id"].to_pylist()
    judged = {pair: verdict.likely for pair, verdict in verdicts.items()}
    for pair, likely in {**guesses.likely, **judged}.items():
        verdict = verdicts.get(pair)
        outcome = verdict.outcome if verdict else find_outcome(likely)
        least = PERHAPS_CHANGED if sessions[pair[0]] == sessions[pair[1]] else LEADING
        if outcome is Outcome.NOTHING and (verdict or likely < least):
            # What is said in one session mostly stands together.
            continue
        rule = _choose_rule(outcome, taken_back=pair in guesses.taken_back)
        change = _build_change(claims, pair, rule, likely, verdict)
        if change.earlier not in claims.retired or change.earlier in freed:
            changes.append(change)
    return changes


def _choose_rule(outcome: Outcome, *, taken_back: bool) -> str:
    """Return the ledger's rule for an outcome."""
    if outcome is Outcome.RETIRE:
        return RETRACTED if taken_back else CHANGED
    if outcome is Outcome.LINK:
        return PERHAPS_RETRACTED if taken_back else PERHAPS
    return LEADS


def _build_change(
    claims: CandidateClaims,
    pair: Rows,
    rule: str,
    likely: float,
    verdict: PairVerdict | None,
) -> Change:
    """Return the change of one pair. If the earlier claim was repeated last, it changes the later one."""
    old, new = pair
    is_restored = claims.last[old] > claims.last[new]
    if is_restored:
        old, new = new, old
        rule = RESTORING[rule]
    words = "the earlier was said again" if is_restored else REASONS[rule]
    return Change(
        earlier=old,
        later=new,
        at=claims.last[new] if is_restored else claims.times[new],
        rule=rule,
        likely=likely,
        reason=f"{words} {_explain_change(likely, verdict)}",
        key=verdict.key if verdict else None,
    )


def _explain_change(likely: float, verdict: PairVerdict | None) -> str:
    """Return the probability, and the model's answer and quote if it has judged the pair."""
    if verdict is None:
        return f"({likely:.0%})"
    words = f": “{verdict.quote}”" if verdict.quote else ""
    return f"({likely:.0%}; a model says {verdict.answer}{words})"


def select_changes(changes: list[Change]) -> list[Change]:
    """Return at most one change for each earlier claim: a correction, else the first in time, and the likeliest."""
    first: dict[int, Change] = {}
    certain = [change for change in changes if not change.is_doubt]
    for change in sorted(
        certain, key=lambda c: (c.rule != CORRECTED, c.at, -c.likely, c.later)
    ):
        first.setdefault(change.earlier, change)
    return [first[row] for row in sorted(first)]


def select_doubts(changes: list[Change], gone: Set[int]) -> list[Change]:
    """Return at most one doubt for each earlier claim: the likeliest whose two claims are both not in `gone`."""
    best: dict[int, Change] = {}
    doubts = [change for change in changes if change.is_doubt]
    for change in sorted(doubts, key=lambda c: (-c.likely, c.later)):
        if gone.isdisjoint((change.earlier, change.later)):
            best.setdefault(change.earlier, change)
    return [best[row] for row in sorted(best)]
