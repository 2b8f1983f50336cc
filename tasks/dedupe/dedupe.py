"""Find claims that repeat another: CLAIMS in, the changed rows and MERGES rows out.

Exact words → candidates (vector neighbours, shared rare words) → rapidfuzz and guards → groups around a canonical
row. The cost is near-linear in rows; no matrix of all pairs is built. `unmerge` takes one merge back.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import CLAIMS, MERGES, TRUST
from slowwave.schemas.vocabulary import LedgerKind, Status, Trust, is_foreign
from slowwave.tasks.dedupe.decide import Rules
from slowwave.tasks.dedupe.pairs import (
    Found,
    Undone,
    find_duplicate_pairs,
    select_row,
    set_columns,
)
from slowwave.tasks.shards import HERE, Executor

VERSION = "dedupe/7"
MARKED = [
    "status",
    "reason",
    "canonical_id",
    "evidence_sessions",
    "valid_from",
    "dedupe_key",
]
"""Columns that dedupe sets."""
DECIDING = [
    "claim_id",
    "session_id",
    "observed_at",
    "observer",
    TRUST,
    *MARKED,
]


@dataclass(frozen=True)
class Deduped:
    """The outcome: changed rows of CLAIMS to merge, and rows of MERGES for the ledger."""

    claims: pa.Table
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

    Args:
        pending: rows of CLAIMS that were not compared yet. Only the columns that are compared are needed.
        settled: rows that were compared before and are active or superseded by another claim. They stay canonical. A
            claim that repeats a superseded one makes that one active again.
        rules: the thresholds.
        step_key: the step's key.
        undone: (from_id, into_id) of merges that were taken back; they are never made again.
        executor: where pairs are compared.

    Returns every pending row, and each settled row that gained evidence, with status, reason, canonical_id,
    evidence_sessions, valid_from and dedupe_key set and the other columns unchanged. A pending row that is not active
    only gets the key. Equal input in any order gives equal output.
    """
    if not pending.num_rows:
        return Deduped(CLAIMS.make_empty_table(), MERGES.make_empty_table())
    active = pc.equal(pending["status"], Status.ACTIVE)
    passed = set_columns(
        CLAIMS.sort_rows(pending, pc.invert(active)), dedupe_key=step_key
    )
    live = CLAIMS.sort_rows(pending, active)
    canonical = pc.is_in(settled["status"], pa.array(["active", "superseded"]))
    old = CLAIMS.sort_rows(settled, pc.and_(canonical, _mask_absent(settled, pending)))
    known_count = old.num_rows
    # Rows taken from several chunks are copied twice.
    table = pa.concat_tables([old, live]).combine_chunks()
    del pending, settled, old, live
    duplicates = find_duplicate_pairs(
        table=table, old=known_count, rules=rules, undone=undone, executor=executor
    )
    compared = _select_compared(table, duplicates, known_count)
    changed, merges = _apply_duplicates(table, compared, step_key)
    return Deduped(pa.concat_tables([changed, passed]), merges)


def _apply_duplicates(
    table: pa.Table, compared: "_Compared", step_key: str
) -> tuple[pa.Table, pa.Table]:
    """Return the new rows and the settled rows that gained a duplicate, and the ledger."""
    joined = compared.assign_canonical_rows()
    keep = sorted({*range(compared.known_count, len(compared.rows)), *joined.values()})
    marked = _mark_duplicates(
        table=compared.table, joined=joined, decisions=compared.pairs, step_key=step_key
    ).take(pa.array(keep, pa.int64()))
    chosen = table.take(pa.array([compared.rows[at] for at in keep], pa.int64()))
    chosen = set_columns(
        chosen, supersede_key=None, **{name: marked[name] for name in MARKED}
    )
    return chosen, _build_merges(
        table=compared.table, joined=joined, decisions=compared.pairs, step_key=step_key
    )


@dataclass(frozen=True)
class _Compared:
    """The rows that are new or have a duplicate, renumbered; the first `known_count` are settled."""

    rows: list[int]
    """The place of each row in the whole table."""
    table: pa.Table
    """The columns DECIDING of these rows."""
    pairs: Found
    known_count: int

    def assign_canonical_rows(self) -> dict[int, int]:
        """Return row -> the canonical row that it repeats; settled rows stay canonical."""
        order = _rank_rows(self.table, self.known_count)
        return assign_canonical_rows(
            order, self.pairs, frozenset(range(self.known_count))
        )


def _select_compared(table: pa.Table, duplicates: Found, known_count: int) -> _Compared:
    """Return the new rows of a table, and those of the first `known_count` rows that have a duplicate."""
    rows = sorted({*duplicates, *range(known_count, table.num_rows)})
    index = {row: at for at, row in enumerate(rows)}
    return _Compared(
        rows=rows,
        table=table.select(DECIDING).take(pa.array(rows, pa.int64())),
        pairs={
            index[row]: {index[other]: why for other, why in near.items()}
            for row, near in duplicates.items()
        },
        known_count=sum(row < known_count for row in rows),
    )


def unmerge(claims: pa.Table, merges: pa.Table, merge_id: str) -> Deduped:
    """Take a merge back: the duplicate is active again, and the canonical claim loses the evidence that only it gave.

    claims: the two claims, and every other duplicate of the canonical claim.
    Returns the two rows and the merge with `undone` set, or no rows if it was set already. Raises KeyError if there is
    no such merge of duplicates.
    """
    merge = _find_merge(merges, merge_id)
    if merge["undone"][0].as_py():
        return Deduped(CLAIMS.make_empty_table(), MERGES.make_empty_table())
    duplicate = select_row(claims, merge["from_id"][0].as_py())
    canonical = select_row(claims, merge["into_id"][0].as_py())
    others = claims.filter(
        pc.and_(
            pc.equal(claims["canonical_id"], canonical["claim_id"][0]),
            pc.not_equal(claims["claim_id"], duplicate["claim_id"][0]),
        )
    )
    duplicate = set_columns(
        duplicate,
        status=Status.ACTIVE,
        reason=None,
        canonical_id=None,
        supersede_key=None,
    )
    canonical = _count_evidence_again(canonical, others)
    return Deduped(
        pa.concat_tables([duplicate, canonical]), set_columns(merge, undone=True)
    )


def _find_merge(merges: pa.Table, merge_id: str) -> pa.Table:
    """Return the row of a merge of duplicates.

    Raises:
        KeyError: there is no such merge.
    """
    merge = merges.filter(
        pc.and_(
            pc.equal(merges["merge_id"], merge_id),
            pc.equal(merges["kind"], LedgerKind.DUPLICATE),
        )
    )
    if not merge.num_rows:
        raise KeyError(
            f"no merge of duplicates {merge_id!r}: `slowwave inspect merges` lists them"
        )
    return merge


def _count_evidence_again(canonical: pa.Table, others: pa.Table) -> pa.Table:
    """Return a canonical claim with its own evidence and that of its other duplicates."""
    columns = ["session_id", "evidence_sessions", "observed_at"]
    members = pa.concat_tables([canonical, others]).select(columns).to_pylist()
    sessions = {member["session_id"] for member in members}
    for member in members[1:]:
        sessions.update(member["evidence_sessions"])
    return set_columns(
        canonical,
        evidence_sessions=sorted(sessions),
        valid_from=_find_earliest(member["observed_at"] for member in members),
        supersede_key=None,
    )


def _mask_absent(table: pa.Table, other: pa.Table) -> pa.ChunkedArray:
    return pc.invert(
        pc.is_in(table["claim_id"], value_set=other["claim_id"].combine_chunks())
    )


def _rank_rows(table: pa.Table, old: int) -> list[int]:
    """Return rows in the order in which they may be canonical.

    Settled rows come first, then claims of the person and the own agent before those of others, then what the person
    typed before what the agent said, then the earliest, then by id.
    """
    times = table["observed_at"].to_pylist()
    ids = table["claim_id"].to_pylist()
    foreign = _find_foreign(table)
    typed = [trust == Trust.TYPED for trust in table[TRUST].to_pylist()]

    def rank(row: int) -> tuple[bool, bool, bool, bool, float, str]:
        at = times[row]
        return (
            row >= old,
            foreign[row],
            not typed[row],
            at is None,
            at.timestamp() if at else 0.0,
            ids[row],
        )

    return sorted(range(table.num_rows), key=rank)


def _find_foreign(table: pa.Table) -> list[bool]:
    """Return for each claim True if neither the person nor the own agent made it."""
    return list(
        map(is_foreign, table[TRUST].to_pylist(), table["observer"].to_pylist())
    )


def _mark_duplicates(
    table: pa.Table,
    joined: dict[int, int],
    decisions: Found,
    step_key: str,
) -> pa.Table:
    """Return the table (columns DECIDING) with the columns MARKED set."""
    columns = {name: table[name].to_pylist() for name in MARKED}
    sessions = zip(
        columns["evidence_sessions"], table["session_id"].to_pylist(), strict=True
    )
    evidence = [{*known, own} for known, own in sessions]
    times = zip(columns["valid_from"], table["observed_at"].to_pylist(), strict=True)
    columns["valid_from"] = [begin or observed for begin, observed in times]
    columns["dedupe_key"] = [key or step_key for key in columns["dedupe_key"]]
    ids = table["claim_id"].to_pylist()
    foreign = _find_foreign(table)
    for row, canonical in joined.items():
        columns["status"][row] = "duplicate"
        columns["canonical_id"][row] = ids[canonical]
        columns["reason"][row] = decisions[row][canonical].reason
        if foreign[row] and not foreign[canonical]:
            continue  # others' words are not evidence for a claim made here
        evidence[canonical] |= evidence[row]
        _keep_earliest(columns["valid_from"], canonical, row)
    columns["evidence_sessions"] = list(map(sorted, evidence))
    arrays = {
        name: pa.array(values, table.schema.field(name).type)
        for name, values in columns.items()
    }
    return set_columns(table, **arrays)


def _keep_earliest(times: list[datetime | None], row: int, other: int) -> None:
    times[row] = _find_earliest([times[row], times[other]])


def _find_earliest(times: Iterable[datetime | None]) -> datetime | None:
    return min((t for t in times if t is not None), default=None)


def _build_merges(
    table: pa.Table,
    joined: dict[int, int],
    decisions: Found,
    step_key: str,
) -> pa.Table:
    """Return a row of MERGES for each duplicate."""
    ids = table["claim_id"].to_pylist()
    rows = list[dict[str, Any]]()
    for row, canonical in sorted(joined.items()):
        decision = decisions[row][canonical]
        rows.append(
            {
                "merge_id": compute_content_id(ids[row], ids[canonical], decision.rule),
                "kind": LedgerKind.DUPLICATE,
                "from_id": ids[row],
                "into_id": ids[canonical],
                "rule": decision.rule,
                "scores": sorted(decision.scores.items()),
                "reason": decision.reason,
                "undone": False,
                "step_key": step_key,
            }
        )
    return pa.Table.from_pylist(rows, schema=MERGES.schema)


MAX_MEMBERS = 500
"""Most rows that join one canonical row by likeness; rows with the same words are not counted."""


def assign_canonical_rows(
    order: Sequence[int], decisions: Found, fixed: frozenset[int]
) -> dict[int, int]:
    """Return row -> the canonical row that it repeats, for the rows that repeat one.

    Greedy in a fixed order: a row joins the best canonical row that it has itself a decision with, or becomes
    canonical. There is no chaining: union-find over fuzzy pairs once put 2,575 of 2,787 items into one group at a
    threshold of .70.

    order: all rows, the first to be canonical first. decisions: row -> row -> decision, both ways. fixed: rows that
        stay canonical in any case.
    """
    joined: dict[int, int] = {}
    members: dict[int, int] = {}
    rank = {row: at for at, row in enumerate(order)}

    def is_open(row: int, other: int) -> bool:
        if rank[other] > rank[row] or other in joined:
            return False
        return (
            decisions[row][other].rule == "exact" or members.get(other, 0) < MAX_MEMBERS
        )

    for row in order:
        near = (
            [other for other in decisions.get(row, {}) if is_open(row, other)]
            if row not in fixed
            else []
        )
        if near:
            best = min(
                near, key=lambda other: (-decisions[row][other].score, rank[other])
            )
            joined[row] = best
            members[best] = members.get(best, 0) + (
                decisions[row][best].rule != "exact"
            )
    return joined
