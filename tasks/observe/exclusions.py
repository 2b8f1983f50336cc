"""Claims that a person excluded. They are not made again, so the next run withdraws the stored ones."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.ids import hash_words
from slowwave.schemas.vocabulary import EXCLUDED

SESSION = "session"
MESSAGE = "message"
CLAIM = "claim"
"""The kinds of rows in EXCLUSIONS."""


def remove_excluded_claims(claims: pa.Table, exclusions: pa.Table) -> pa.Table:
    """Return the claims (`claim_id`, `workspace`, `summary`) that are not excluded, by id or by their words.

    exclusions: rows of EXCLUSIONS.
    """
    return claims.filter(pc.invert(_mask_excluded(claims, exclusions)))


def explain_exclusions(claims: pa.Table, exclusions: pa.Table) -> dict[str, str]:
    """Return the reason why claims that are excluded, by id or by their words, do not hold; by id."""
    excluded = claims.filter(_mask_excluded(claims, exclusions))
    return dict.fromkeys(excluded["claim_id"].to_pylist(), EXCLUDED)


def _mask_excluded(claims: pa.Table, exclusions: pa.Table) -> pa.ChunkedArray:
    """Return which claims are excluded."""
    excluded = exclusions.filter(pc.equal(exclusions["kind"], CLAIM))
    words = pa.array(
        list(
            map(
                hash_words,
                claims["workspace"].to_pylist(),
                claims["summary"].to_pylist(),
            )
        ),
        pa.string(),
    )
    by_id = pc.is_in(claims["claim_id"], excluded["row_id"].combine_chunks())
    return pc.or_(by_id, pc.is_in(words, excluded["words"].combine_chunks()))


def add_exclusions(also: Mapping[str, str], exclusions: pa.Table) -> dict[str, str]:
    """Return what each session's claims depend on besides its messages: the text in `also`, and the ids of excluded
    claims.
    """
    given = dict(also)
    for row in (
        exclusions.filter(pc.equal(exclusions["kind"], CLAIM))
        .sort_by("row_id")
        .to_pylist()
    ):
        given[row["session_id"]] = f"{given.get(row['session_id'], '')} {row['row_id']}"
    return given
