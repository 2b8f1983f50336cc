"""The claims that may change each other, and what of them is decided already."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.tables import OBSERVATIONS
from slowwave.schemas.vocabulary import Status


@dataclass(frozen=True)
class CandidateClaims:
    """The claims that may change each other, and what is decided of them already."""

    table: pa.Table
    """In order of id: the active claims, and those that another retired."""
    times: list[datetime]
    """When each was first said."""
    last: list[datetime]
    """When each was last said, by itself or by a duplicate."""
    retired: dict[int, int]
    """Row -> the row that retired it."""
    reopened: frozenset[int]
    """Retired rows whose successor is gone."""

    def find_successor(self, row: int) -> int:
        """Return the row at the end of the chain of those that retired one another."""
        seen = {row}
        while row in self.retired and self.retired[row] not in seen:
            row = self.retired[row]
            seen.add(row)
        return row


def build_candidate_claims(observations: pa.Table, affirmed: Mapping[str, datetime]) -> CandidateClaims:
    """Return the claims among the rows that are active, or retired by another that is still there."""
    amended = pc.and_(pc.equal(observations["status"], Status.SUPERSEDED), pc.is_valid(observations["superseded_by"]))
    ours = pc.or_(pc.equal(observations["status"], Status.ACTIVE), amended)
    table = OBSERVATIONS.sort_rows(observations, pc.and_(ours, pc.is_valid(observations["observed_at"])))
    # who retired whom; a duplicate stands for what it repeats
    ids, times = table["observation_id"].to_pylist(), table["observed_at"].to_pylist()
    row_of = {oid: row for row, oid in enumerate(ids)}
    names = observations.select(["observation_id", "canonical_id"])
    pairs = zip(*names.filter(pc.equal(observations["status"], Status.DUPLICATE)).to_pydict().values(), strict=True)
    row_of |= {oid: row_of[of] for oid, of in pairs if of in row_of and oid not in row_of}
    winners = [
        row["superseded_by"] if row["status"] == Status.SUPERSEDED else None
        for row in table.select(["superseded_by", "status"]).to_pylist()
    ]
    return CandidateClaims(
        table=table,
        times=times,
        last=[max(at, affirmed.get(oid, at)) for oid, at in zip(ids, times, strict=True)],
        retired={row: row_of[w] for row, w in enumerate(winners) if w is not None and w in row_of},
        reopened=frozenset(row for row, w in enumerate(winners) if w is not None and w not in row_of),
    )


def find_affirmed_times(observations: pa.Table) -> dict[str, datetime]:
    """Return observation_id -> when it was last said, for claims that duplicates repeat.

    observations: rows of OBSERVATIONS with status, canonical_id and observed_at; only duplicates count.
    """
    repeats = pc.and_(pc.equal(observations["status"], Status.DUPLICATE), pc.is_valid(observations["observed_at"]))
    last = observations.filter(repeats).group_by("canonical_id").aggregate([("observed_at", "max")])
    return dict(zip(last["canonical_id"].to_pylist(), last["observed_at_max"].to_pylist(), strict=True))
