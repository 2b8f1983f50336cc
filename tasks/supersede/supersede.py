"""Retires claims that a later claim changes: OBSERVATIONS in, the rows that changed and MERGES rows out. No model.

Candidates (vector neighbours, shared rare words) within one workspace and one speaker's talk of themselves → features
of each pair → how likely the later changes the earlier (`slowwave.tasks.supersede.model`) → retired where that is sure,
unless it was said again since; linked where it is likely: both stand, and the ledger tells of the later one. What is
retired stays so until it is said again or the newer is withdrawn. `unsupersede` takes either back.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.ids import compute_content_id
from slowwave.schemas.tables import MERGES, OBSERVATIONS
from slowwave.schemas.vocabulary import LedgerKind, Status
from slowwave.tasks.dedupe.pairs import Undone, select_row, set_columns
from slowwave.tasks.supersede.changes import Change, find_changes, find_reaffirmations, select_changes, select_doubts
from slowwave.tasks.supersede.claims import build_candidate_claims, find_affirmed_times

__all__ = ["KINDS", "VERSION", "Superseded", "supersede", "unsupersede"]

VERSION = "supersede/8"
QUOTED = 160
"""Characters of each quote in the ledger's reason."""
KINDS = ("supersession", "doubt")
"""Of the ledger's rows, those that this step writes."""
ACTIVE = {"status": Status.ACTIVE, "reason": None, "superseded_by": None, "valid_to": None}


@dataclass(frozen=True)
class Superseded:
    """What changed: rows of OBSERVATIONS to merge in, and rows of MERGES for the ledger."""

    observations: pa.Table
    merges: pa.Table


def supersede(
    observations: pa.Table,
    step_key: str,
    *,
    affirmed: Mapping[str, datetime] | None = None,
    undone: Undone = frozenset(),
) -> Superseded:
    """Mark each active claim that a later one changes, and free those whose change no longer stands.

    observations: rows of OBSERVATIONS; those neither active nor retired by another are left alone, and so are those
    without `observed_at`, for which no order is known. affirmed: observation_id -> when it was last said, by default
    from the duplicates among the rows (`find_affirmed_times`); undone: (loser_id, winner_id) taken back, never made
    again. Returns the rows that changed, with status, reason, superseded_by and valid_to set, and the other columns as
    they came. Rows of the ledger bear both quotes. Equal input in any order gives equal output, its own output nothing
    but the doubts (kind `doubt`), whose claims stand as they are.
    """
    held = build_candidate_claims(observations, find_affirmed_times(observations) if affirmed is None else affirmed)
    if held.table.num_rows < 2 and not held.reopened:
        return Superseded(OBSERVATIONS.make_empty_table(), MERGES.make_empty_table())
    back = {frozenset(pair) for pair in undone}
    again = find_reaffirmations(held, back)
    freed = held.reopened | {change.winner for change in again}
    found = [*again, *find_changes(held, freed, back)]
    changes = select_changes(found)
    gone = {c.loser for c in changes} | (held.retired.keys() - freed)
    ledger = _build_ledger(held.table, [*changes, *select_doubts(found, gone)], step_key)
    return Superseded(_build_changed_rows(held.table, changes, freed), ledger)


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
    if merge["kind"][0].as_py() == "doubt":
        return Superseded(OBSERVATIONS.make_empty_table(), set_columns(merge, undone=True))
    loser = select_row(observations, merge["loser_id"][0].as_py())
    return Superseded(set_columns(loser, **ACTIVE), set_columns(merge, undone=True))


def _build_changed_rows(table: pa.Table, changes: list[Change], freed: Set[int]) -> pa.Table:
    """Return the rows that are retired, and those that are active again."""
    ids = table["observation_id"].to_pylist()
    rows = [
        set_columns(
            table.slice(c.loser, 1),
            status=Status.SUPERSEDED,
            reason=f"changed by a later claim: {c.reason}",
            superseded_by=ids[c.winner],
            valid_to=c.at,
        )
        for c in changes
    ]
    again = sorted(freed - {c.loser for c in changes})
    opened = set_columns(table.take(pa.array(again, pa.int64())), **ACTIVE)
    return pa.concat_tables([*rows, opened])


def _build_ledger(table: pa.Table, changes: list[Change], step_key: str) -> pa.Table:
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
            "step_key": step_key,
        }
        for c in changes
    ]
    return pa.Table.from_pylist(rows, schema=MERGES.schema)
