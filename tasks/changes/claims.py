"""The claims that may change each other, and the decisions about them so far."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.tables import CLAIMS
from slowwave.schemas.vocabulary import Status


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

    def find_successor(self, row: int) -> int:
        """Return the last row of the chain of retirements that begins at a row."""
        seen = {row}
        while row in self.retired and self.retired[row] not in seen:
            row = self.retired[row]
            seen.add(row)
        return row


def build_candidate_claims(
    claims: pa.Table, affirmed: Mapping[str, datetime]
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
