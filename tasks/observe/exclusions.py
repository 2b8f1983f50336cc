"""Claims that a person excluded. They are not made again, so the next run withdraws the stored ones."""

from collections.abc import Mapping
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.ids import hash_words

SESSION = "session"
MESSAGE = "message"
CLAIM = "claim"
"""The kinds of rows in EXCLUSIONS."""


def remove_excluded_claims(claims: pa.Table, exclusions: pa.Table) -> pa.Table:
    """Return the claims (`claim_id`, `workspace`, `summary`, `detail`) that are not excluded, by id or by their words.

    A detail is not shown if its words are an excluded claim: a decision then stands without its reason.

    exclusions: rows of EXCLUSIONS.
    """
    excluded = exclusions.filter(pc.equal(exclusions["kind"], CLAIM))
    if not excluded.num_rows:
        return claims
    left_out = excluded["words"].combine_chunks()
    by_id = pc.is_in(claims["claim_id"], excluded["row_id"].combine_chunks())
    by_words = pc.is_in(_hash_column(claims, "summary"), left_out)
    kept = claims.filter(pc.invert(pc.or_(by_id, by_words)))
    is_left_out = pc.is_in(_hash_column(kept, "detail"), left_out)
    details = pc.if_else(is_left_out, pa.scalar(None, pa.string()), kept["detail"])
    at = kept.schema.get_field_index("detail")
    return kept.set_column(at, kept.schema.field(at), details)


def list_left_out_with_claims(exclusions: pa.Table) -> set[str]:
    """Return the ids of the messages that are left out since they tell nothing but an excluded claim."""
    of_claims = exclusions.filter(pc.equal(exclusions["kind"], CLAIM))
    return set(chain.from_iterable(of_claims["inactive"].to_pylist()))


def _hash_column(claims: pa.Table, name: str) -> pa.Array:
    """Return the hashes of a column's words, as exclusions have them."""
    rows = zip(claims["workspace"].to_pylist(), claims[name].to_pylist(), strict=True)
    return pa.array(
        [hash_words(place, text or "") for place, text in rows], pa.string()
    )


def add_exclusions(also: Mapping[str, str], exclusions: pa.Table) -> dict[str, str]:
    """Return the texts besides its messages that each session's claims depend on: the text in `also`, and the ids of
    excluded claims.
    """
    given = dict(also)
    for row in (
        exclusions.filter(pc.equal(exclusions["kind"], CLAIM))
        .sort_by("row_id")
        .to_pylist()
    ):
        given[row["session_id"]] = f"{given.get(row['session_id'], '')} {row['row_id']}"
    return given
