"""Finds the claims that say the same again: OBSERVATIONS in, the rows that changed and MERGES rows out.

Exact words → candidates (vector neighbours, shared rare words) → rapidfuzz and guards → groups around a canonical
row. Near-linear in rows; no matrix of all pairs. `unmerge` takes one merge back.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import MERGES, OBSERVATIONS
from slowwave.schemas.vocabulary import LedgerKind, Status, is_shared
from slowwave.tasks.dedupe.decide import Decision, Rules
from slowwave.tasks.dedupe.pairs import Found, Undone, find_duplicate_pairs, select_row, set_columns
from slowwave.tasks.shards import HERE, Executor

VERSION = "dedupe/5"
MARKED = ["status", "reason", "canonical_id", "evidence_sessions", "valid_from", "dedupe_key"]
"""Columns that dedupe decides."""
DECIDING = ["observation_id", "session_id", "observed_at", "observer", *MARKED]


@dataclass(frozen=True)
class Deduped:
    """What changed: rows of OBSERVATIONS to merge in, and rows of MERGES for the ledger."""

    observations: pa.Table
    merges: pa.Table


def dedupe(
    pending: pa.Table,
    settled: pa.Table,
    rules: Rules,
    step_key: str,
    undone: Undone = frozenset(),
    executor: Executor = HERE,
) -> Deduped:
    """Mark each pending claim that repeats another.

    pending: OBSERVATIONS rows not looked at yet; settled: rows looked at before, active or superseded by another claim,
    which stay canonical: who says again what was changed takes it up again. Of columns only those compared are needed.
    undone: (loser_id, winner_id) of merges taken back, which are never made again.
    executor: where pairs are compared.
    Returns every pending row, and each known row whose evidence grew, with status, reason, canonical_id,
    evidence_sessions, valid_from and dedupe_key set; the other columns as they came. A pending row that is not
    active is passed on, looked at. Equal input in any order gives equal output.
    """
    if not pending.num_rows:
        return Deduped(OBSERVATIONS.make_empty_table(), MERGES.make_empty_table())
    active = pc.equal(pending["status"], Status.ACTIVE)
    passed = set_columns(OBSERVATIONS.sort_rows(pending, pc.invert(active)), dedupe_key=step_key)
    live = OBSERVATIONS.sort_rows(pending, active)
    standing = pc.is_in(settled["status"], pa.array(["active", "superseded"]))
    old = OBSERVATIONS.sort_rows(settled, pc.and_(standing, _mask_absent(settled, pending)))
    known_count = old.num_rows
    table = pa.concat_tables([old, live]).combine_chunks()  # what is taken from several chunks is copied twice
    del pending, settled, old, live
    duplicates = find_duplicate_pairs(table, known_count, rules, undone, executor)
    rows = sorted({*duplicates, *range(known_count, table.num_rows)})
    index = {row: at for at, row in enumerate(rows)}
    pairs = {index[row]: {index[other]: why for other, why in near.items()} for row, near in duplicates.items()}
    part, known_rows = table.select(DECIDING).take(pa.array(rows, pa.int64())), sum(row < known_count for row in rows)
    joined = assign_canonical_rows(_rank_rows(part, known_rows), pairs, frozenset(range(known_rows)))
    keep = sorted({*range(known_rows, len(rows)), *joined.values()})
    marked = _mark_duplicates(part, joined, pairs, step_key).take(pa.array(keep, pa.int64()))
    chosen = table.take(pa.array([rows[at] for at in keep], pa.int64()))
    chosen = set_columns(chosen, supersede_key=None, **{name: marked[name] for name in MARKED})
    return Deduped(pa.concat_tables([chosen, passed]), _build_merges(part, joined, pairs, step_key))


def unmerge(observations: pa.Table, merges: pa.Table, merge_id: str) -> Deduped:
    """Take a merge back: the loser is active again, and the winner keeps no evidence it had from the loser alone.

    observations: the loser, the winner, and every other row whose canonical_id is the winner's.
    Returns the two rows and the merge with `undone` set, no rows where it is set already; raises KeyError where
    there is no such merge of duplicates.
    """
    merge = merges.filter(
        pc.and_(pc.equal(merges["merge_id"], merge_id), pc.equal(merges["kind"], LedgerKind.DUPLICATE))
    )
    if not merge.num_rows:
        raise KeyError(f"no merge of duplicates {merge_id!r}: `slowwave inspect merges` lists them")
    if merge["undone"][0].as_py():
        return Deduped(OBSERVATIONS.make_empty_table(), MERGES.make_empty_table())
    # the loser is active again
    loser = select_row(observations, merge["loser_id"][0].as_py())
    winner = select_row(observations, merge["winner_id"][0].as_py())
    others = observations.filter(
        pc.and_(
            pc.equal(observations["canonical_id"], winner["observation_id"][0]),
            pc.not_equal(observations["observation_id"], loser["observation_id"][0]),
        )
    )
    loser = set_columns(loser, status=Status.ACTIVE, reason=None, canonical_id=None, supersede_key=None)
    # the winner keeps the evidence of itself and the other members
    members = pa.concat_tables([winner, others]).select(["session_id", "evidence_sessions", "observed_at"]).to_pylist()
    sessions = sorted({s for m in members[1:] for s in m["evidence_sessions"]} | {m["session_id"] for m in members})
    winner = set_columns(
        winner,
        evidence_sessions=sessions,
        valid_from=_find_earliest(m["observed_at"] for m in members),
        supersede_key=None,
    )
    return Deduped(pa.concat_tables([loser, winner]), set_columns(merge, undone=True))


def _mask_absent(table: pa.Table, other: pa.Table) -> pa.ChunkedArray:
    return pc.invert(pc.is_in(table["observation_id"], value_set=other["observation_id"].combine_chunks()))


def _rank_rows(table: pa.Table, old: int) -> list[int]:
    """Return rows by who may be canonical first: known ones, then those said here, the earliest, by id."""
    times, ids = table["observed_at"].to_pylist(), table["observation_id"].to_pylist()
    given = list(map(is_shared, table["observer"].to_pylist()))

    def rank(row: int) -> tuple[bool, bool, bool, float, str]:
        at = times[row]
        return row >= old, given[row], at is None, at.timestamp() if at else 0.0, ids[row]

    return sorted(range(table.num_rows), key=rank)


def _mark_duplicates(table: pa.Table, joined: dict[int, int], decisions: Found, step_key: str) -> pa.Table:
    """Return the table (columns DECIDING) with what dedupe decides: MARKED."""
    ids, sessions = table["observation_id"].to_pylist(), table["session_id"].to_pylist()
    columns = {name: table[name].to_pylist() for name in MARKED}
    observed = table["observed_at"].to_pylist()
    given = list(map(is_shared, table["observer"].to_pylist()))
    evidence = [{*others, own} for others, own in zip(columns["evidence_sessions"], sessions, strict=True)]
    columns["dedupe_key"] = [key or step_key for key in columns["dedupe_key"]]
    columns["valid_from"] = [a or b for a, b in zip(columns["valid_from"], observed, strict=True)]
    for row, canonical in joined.items():
        columns["status"][row], columns["canonical_id"][row] = "duplicate", ids[canonical]
        columns["reason"][row] = decisions[row][canonical].reason
        if given[row] and not given[canonical]:
            continue  # what another memory says is no further session that says it
        evidence[canonical] |= evidence[row]
        columns["valid_from"][canonical] = _find_earliest(
            [columns["valid_from"][canonical], columns["valid_from"][row]]
        )
    columns["evidence_sessions"] = [sorted(sessions) for sessions in evidence]
    types = table.schema
    return set_columns(table, **{name: pa.array(some, types.field(name).type) for name, some in columns.items()})


def _find_earliest(times: Iterable[datetime | None]) -> datetime | None:
    return min((t for t in times if t is not None), default=None)


def _build_merges(table: pa.Table, joined: dict[int, int], decisions: Found, step_key: str) -> pa.Table:
    ids, rows = table["observation_id"].to_pylist(), list[dict[str, Any]]()
    for row, canonical in sorted(joined.items()):
        why = decisions[row][canonical]
        merge = {"rule": why.rule, "scores": sorted(why.scores.items()), "reason": why.reason, "undone": False}
        merge |= {"kind": LedgerKind.DUPLICATE, "loser_id": ids[row], "winner_id": ids[canonical], "step_key": step_key}
        rows.append(merge | {"merge_id": compute_content_id(ids[row], ids[canonical], why.rule)})
    return pa.Table.from_pylist(rows, schema=MERGES.schema)


MAX_MEMBERS = 500
"""Rows that may join one canonical row by likeness; those of the very same words are not counted."""


def assign_canonical_rows(
    order: Sequence[int], decisions: Mapping[int, dict[int, Decision]], fixed: frozenset[int]
) -> dict[int, int]:
    """Return row -> the canonical row it repeats, for the rows that repeat one.

    Greedy in a fixed order: a row joins the best canonical row that it was itself found one with, or becomes canonical.
    No chaining: union-find over fuzzy pairs once put 2,575 of 2,787 items into one group at a threshold of .70.

    order: all rows, the first to be canonical first; decisions: row -> row -> decision, both ways; fixed: rows that
    stay canonical whatever they are like.
    """
    joined: dict[int, int] = {}
    members: dict[int, int] = {}
    rank = {row: at for at, row in enumerate(order)}

    def is_open(row: int, other: int) -> bool:
        if rank[other] > rank[row] or other in joined:
            return False
        return decisions[row][other].rule == "exact" or members.get(other, 0) < MAX_MEMBERS

    # the nearest that is open takes it
    for row in order:
        near = [other for other in decisions.get(row, {}) if is_open(row, other)] if row not in fixed else []
        if near:
            best = min(near, key=lambda other: (-decisions[row][other].score, rank[other]))
            joined[row] = best
            members[best] = members.get(best, 0) + (decisions[row][best].rule != "exact")
    return joined
