"""Retires claims that a later claim changes: OBSERVATIONS in, the rows that changed and MERGES rows out.

Candidates (vector neighbours, shared rare words) within one workspace and one speaker's talk of themselves → features
of each pair → how likely the later changes the earlier (`slowwave.tasks.supersede.model`) → retired where that is sure,
unless it was said again since; linked where it is likely: both stand, and the ledger tells of the later one. What is
retired stays so until it is said again or the newer is withdrawn. `unsupersede` takes either back. Where a language
model judges (`slowwave.tasks.supersede.judge`) its answer counts before the classifier's guess.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import MERGES, OBSERVATIONS
from slowwave.schemas.vocabulary import LEADS, LedgerKind, Status, is_shared
from slowwave.tasks.dedupe.pairs import Undone, select_row, set_columns
from slowwave.tasks.shards import HERE, Executor
from slowwave.tasks.supersede.claims import CandidateClaims, build_candidate_claims, find_affirmed_times
from slowwave.tasks.supersede.evidence import Evidence
from slowwave.tasks.supersede.features import IdfTable
from slowwave.tasks.supersede.judge import (
    LEADING,
    Answer,
    Asked,
    Ids,
    Judge,
    Outcome,
    Rows,
    Verdict,
    ask_judge,
    build_verdict_rows,
    find_outcome,
    reopen_misjudged,
)
from slowwave.tasks.supersede.model import predict_changes

__all__ = ["KINDS", "VERSION", "Superseded", "supersede", "unsupersede"]

VERSION = "supersede/10"
QUOTED = 160
"""Characters of each quote in the ledger's reason."""
KINDS = ("supersession", "doubt")
"""The kinds of the ledger's rows that this step writes."""
Known = TypeVar("Known")
ACTIVE = {"status": Status.ACTIVE, "reason": None, "superseded_by": None, "valid_to": None, "supersede_key": None}

CHANGED, REAFFIRMED, PERHAPS = "changed", "reaffirmed", "perhaps"
"""Rules of the ledger: the later changes the earlier; the earlier was said again; the later may change it."""


@dataclass(frozen=True)
class Change:
    """The row `loser` is retired by the row `winner` from a moment on, or only linked to it."""

    loser: int
    winner: int
    at: datetime
    rule: str
    likely: float
    """Probability, 0 to 1."""
    reason: str
    key: str | None = None
    """Under which a model decided; None where the classifier did."""

    @property
    def is_doubt(self) -> bool:
        """Whether the loser stands all the same."""
        return self.rule in (PERHAPS, LEADS)


@dataclass(frozen=True)
class Superseded:
    """What changed: rows of OBSERVATIONS to merge in, and rows of MERGES for the ledger."""

    observations: pa.Table
    merges: pa.Table
    waiting: int = 0
    """Pairs that a judge is still to be asked about: of these the classifier's outcome stands."""
    unsettled: Set[str] = frozenset()
    """Ids of the claims in them that were to be judged."""


def supersede(
    observations: pa.Table,
    step_key: str,
    *,
    undone: Undone = frozenset(),
    verdicts: Mapping[Ids, Verdict] | None = None,
    judge: Judge | None = None,
    fresh: Set[str] | None = None,
    doubts: Mapping[Ids, float] | None = None,
    idf: IdfTable | None = None,
    executor: Executor = HERE,
) -> Superseded:
    """Mark each active claim that a later one changes, and free those whose change no longer stands.

    Args:
        observations: rows of OBSERVATIONS; those neither active nor retired by another are left alone, and so are
            those without `observed_at`, for which no order is known.
        step_key: of the rows of the ledger.
        undone: (loser_id, winner_id) taken back, never made again.
        verdicts: what a model said in earlier nights, which stands.
        judge: whom to ask about the other likely pairs.
        fresh: observation_ids that are to be judged, with whatever is near them; by default all.
        doubts: how likely the pairs are that earlier nights linked, which stands of those without a fresh claim.
        idf: of the words of all claims, where the observations are some of them.
        executor: where pairs are judged.

    Returns the rows that changed, with status, reason, superseded_by and valid_to set, and the other columns as
    they came. Rows of the ledger bear both quotes; what the judge says now is among them (kind `judgement`). Equal
    input in any order gives equal output, its own output nothing but the doubts (kind `doubt`), whose claims stand as
    they are.
    """
    states = observations.select(["status", "canonical_id", "observed_at"])  # without vectors, which filtering copies
    affirmed = find_affirmed_times(states.filter(pc.invert(_mask_shared(observations))))
    candidates = build_candidate_claims(observations, affirmed)
    if candidates.table.num_rows < 2 and not candidates.reopened:
        return Superseded(OBSERVATIONS.make_empty_table(), MERGES.make_empty_table())
    row_of = {oid: row for row, oid in enumerate(candidates.table["observation_id"].to_pylist())}
    back = {frozenset((row_of.get(a, -1), row_of.get(b, -1))) for a, b in undone}

    def find_rows(of: Mapping[Ids, Known]) -> dict[Rows, Known]:
        rows = {(row_of.get(a, -1), row_of.get(b, -1)): value for (a, b), value in of.items()}
        return {pair: value for pair, value in rows.items() if -1 not in pair and frozenset(pair) not in back}

    among = frozenset(row_of.values() if fresh is None else (row_of[key] for key in fresh if key in row_of))
    among |= candidates.reopened
    among |= {row for row, by in candidates.retired.items() if by in among}
    evidence, linked = Evidence.from_candidates(candidates, among, idf), find_rows(doubts or {})
    guesses = {pair: likely for pair, likely in linked.items() if among.isdisjoint(pair)}
    guesses |= {
        (old, new): float(likely)
        for (old, new), likely in zip(evidence.pairs.tolist(), predict_changes(evidence, executor), strict=True)
        if frozenset((old, new)) not in back
    }
    settled = find_rows(verdicts or {})
    judged = ask_judge(candidates, guesses, settled, judge) if judge else Asked({}, set())
    settled = {pair: v for pair, v in {**settled, **judged.answers}.items() if v.answer is not Answer.UNANSWERED}
    candidates = reopen_misjudged(candidates, settled)
    given = _mask_shared(candidates.table).to_pylist()
    again = [c for c in find_reaffirmations(candidates, back) if given[c.loser] or not given[c.winner]]
    freed = candidates.reopened | {change.winner for change in again}
    # What another memory says changes nothing that was said here.
    changed = [c for c in find_changes(candidates, guesses, settled, freed) if given[c.loser] or not given[c.winner]]
    made = [*again, *changed]
    changes = select_changes(made)
    gone = {c.loser for c in changes} | (candidates.retired.keys() - freed)
    linking = select_doubts(made, gone)
    ids = candidates.table["observation_id"].to_pylist()
    if lost := {old for old, _ in linked} - {c.loser for c in linking} - gone - among:
        # What they were linked to is retired: they may be linked to another, which was not looked at.
        answers = {(ids[old], ids[new]): verdict for (old, new), verdict in judged.answers.items()}
        more = supersede(
            observations,
            step_key,
            undone=undone,
            verdicts={**(verdicts or {}), **answers},
            judge=judge,
            fresh={ids[row] for row in among | lost},
            doubts=doubts,
            idf=idf,
            executor=executor,
        )
        return replace(
            more, merges=pa.concat_tables([_build_ledger(candidates.table, [], judged.answers, step_key), more.merges])
        )
    ledger = _build_ledger(candidates.table, [*changes, *linking], judged.answers, step_key)
    unsettled = {ids[row] for pair in judged.waiting for row in among.intersection(pair)}
    return Superseded(_build_changed_rows(candidates.table, changes, freed), ledger, len(judged.waiting), unsettled)


def _mask_shared(rows: pa.Table) -> pa.Array:
    return pa.array(list(map(is_shared, rows["observer"].to_pylist())), pa.bool_())


def unsupersede(observations: pa.Table, merges: pa.Table, merge_id: str) -> Superseded:
    """Take a supersession back: the loser is active again, and its time has no end. Of a doubt only the ledger knows.

    observations: the loser at least. Returns it and the merge with `undone` set, no rows where it is set already;
    raises KeyError where there is no such supersession or doubt.
    """
    ours = pc.is_in(merges["kind"], pa.array(KINDS))
    merge = merges.filter(pc.and_(pc.equal(merges["merge_id"], merge_id), ours))
    if not merge.num_rows:
        raise KeyError(f"no supersession {merge_id!r}: `slowwave inspect merges` lists them")
    if merge["undone"][0].as_py():
        return Superseded(OBSERVATIONS.make_empty_table(), MERGES.make_empty_table())
    loser = select_row(observations, merge["loser_id"][0].as_py())
    if merge["kind"][0].as_py() == "doubt":
        return Superseded(set_columns(loser, supersede_key=None), set_columns(merge, undone=True))
    return Superseded(set_columns(loser, **ACTIVE), set_columns(merge, undone=True))


def _build_changed_rows(table: pa.Table, changes: list[Change], freed: Set[int]) -> pa.Table:
    """Return the rows that are retired, and those that are active again."""
    # by columns: rows that are cut out one by one each keep, once cast, all vectors of the table
    ids = table["observation_id"].to_pylist()
    losers = table.take(pa.array([c.loser for c in changes], pa.int64()))
    retired = set_columns(
        losers,
        status=Status.SUPERSEDED,
        reason=pa.array([f"changed by a later claim: {c.reason}" for c in changes], pa.string()),
        superseded_by=pa.array([ids[c.winner] for c in changes], pa.string()),
        valid_to=pa.array([c.at for c in changes], table.schema.field("valid_to").type),
    )
    again = sorted(freed - {c.loser for c in changes})
    opened = set_columns(table.take(pa.array(again, pa.int64())), **ACTIVE)
    return pa.concat_tables([retired, opened])


def _build_ledger(table: pa.Table, changes: list[Change], verdicts: Mapping[Rows, Verdict], step_key: str) -> pa.Table:
    ids, quotes = table["observation_id"].to_pylist(), table["quote"].to_pylist()
    rows = [
        {
            "merge_id": compute_content_id(ids[c.loser], ids[c.winner], c.rule),
            "kind": LedgerKind.DOUBT if c.is_doubt else LedgerKind.SUPERSESSION,
            "loser_id": ids[c.loser],
            "winner_id": ids[c.winner],
            "rule": c.rule,
            "scores": [("likely", c.likely)],
            "reason": f"{c.reason} | “{quotes[c.loser][:QUOTED]}” → “{quotes[c.winner][:QUOTED]}”",
            "undone": False,
            "step_key": c.key or step_key,
        }
        for c in changes
    ]
    judged = build_verdict_rows({(ids[old], ids[new]): verdict for (old, new), verdict in verdicts.items()})
    return pa.Table.from_pylist([*rows, *judged], schema=MERGES.schema)


def find_reaffirmations(claims: CandidateClaims, back: Set[frozenset[int]]) -> list[Change]:
    """Return a change for each retired claim that was said again since: it retires what had taken its place."""
    changes = []
    for row in claims.retired:
        now = claims.find_successor(row)
        if claims.last[row] > claims.last[now] and frozenset((row, now)) not in back:
            changes.append(Change(now, row, claims.last[row], REAFFIRMED, 1.0, "the earlier was said again"))
    return changes


def find_changes(
    claims: CandidateClaims, guesses: Mapping[Rows, float], verdicts: Mapping[Rows, Verdict], freed: Set[int]
) -> list[Change]:
    """Return every pair of which the later changes the earlier or may do so, among the claims not retired already.

    Args:
        claims: the claims.
        guesses: pair -> how likely the classifier finds a change.
        verdicts: pair -> what a model said of it, which counts before the guess.
        freed: rows that are retired, and no longer by anything that stands.
    """
    changes = []
    for (old, new), likely in {**guesses, **{pair: verdict.likely for pair, verdict in verdicts.items()}}.items():
        verdict = verdicts.get((old, new))
        outcome = verdict.outcome if verdict else find_outcome(likely)
        if outcome is Outcome.NOTHING and (verdict or likely < LEADING):
            continue
        if outcome is not Outcome.RETIRE and claims.last[old] > claims.last[new]:
            continue  # a guess speaks against nothing that was said again since
        # of the two the one last said stands
        sure, key = f"({likely:.0%})", None
        if verdict is not None:
            words = f": “{verdict.quote}”" if verdict.quote else ""
            sure, key = f"({likely:.0%}; a model says {verdict.answer}{words})", verdict.key
        if outcome is not Outcome.RETIRE:
            rule = PERHAPS if outcome is Outcome.LINK else LEADS
            change = Change(old, new, claims.times[new], rule, likely, f"perhaps told anew {sure}", key)
        elif claims.last[old] > claims.last[new]:
            why = f"the earlier was said again {sure}"
            change = Change(new, old, claims.last[old], REAFFIRMED, likely, why, key)
        else:
            change = Change(old, new, claims.times[new], CHANGED, likely, f"told anew {sure}", key)
        if change.loser not in claims.retired or change.loser in freed:
            changes.append(change)
    return changes


def select_changes(changes: list[Change]) -> list[Change]:
    """Return one change a loser: the first, and the likest of those."""
    first: dict[int, Change] = {}
    for change in sorted((c for c in changes if not c.is_doubt), key=lambda c: (c.at, -c.likely, c.winner)):
        first.setdefault(change.loser, change)
    return [first[loser] for loser in sorted(first)]


def select_doubts(changes: list[Change], gone: Set[int]) -> list[Change]:
    """Return one doubt a loser, the likeliest, where neither it nor what it would give way to is gone."""
    best: dict[int, Change] = {}
    for change in sorted((c for c in changes if c.is_doubt), key=lambda c: (-c.likely, c.winner)):
        if gone.isdisjoint((change.loser, change.winner)):
            best.setdefault(change.loser, change)
    return [best[loser] for loser in sorted(best)]
