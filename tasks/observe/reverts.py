"""Claims that a person took back: left out of what is observed, so the night withdraws them as not said any more."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.ids import compute_content_id


def leave_out_reverted(claims: pa.Table, reverts: pa.Table) -> pa.Table:
    """Return the claims (`observation_id`, `workspace`, `summary`) but for those taken back, by id or in their words.

    reverts: rows of REVERTS.
    """
    if not reverts.num_rows:
        return claims
    said = pa.array(list(map(hash_said, claims["workspace"].to_pylist(), claims["summary"].to_pylist())), pa.string())
    by_id = pc.is_in(claims["observation_id"], reverts["observation_id"].combine_chunks())
    return claims.filter(pc.invert(pc.or_(by_id, pc.is_in(said, reverts["said"].combine_chunks()))))


def add_reverts(also: Mapping[str, str], reverts: pa.Table) -> dict[str, str]:
    """Return by session what else its claims depend on: `also`, and which of them are taken back."""
    given = dict(also)
    for row in reverts.sort_by("observation_id").to_pylist():
        given[row["session_id"]] = f"{given.get(row['session_id'], '')} {row['observation_id']}"
    return given


def hash_said(workspace: str | None, summary: str) -> str:
    """Return what a claim says and where, whatever its case and spaces, as a hash."""
    return compute_content_id(workspace or "", " ".join(summary.casefold().split()))
