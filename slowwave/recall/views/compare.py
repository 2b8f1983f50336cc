"""The differences between two releases: claims added, removed and changed, and what replaced them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.tables import EXCLUSIONS, OBSERVATIONS
from slowwave.schemas.vocabulary import Status
from slowwave.store.releases import Snapshot

if TYPE_CHECKING:  # of a store there are only rows read
    from slowwave.store.store import Store

KINDS = ("added", "returned", "changed", "superseded", "merged", "withdrawn", "gone")
"""The possible fates of a claim, in the order in which they are listed."""
COLUMNS = [
    "observation_id",
    "session_id",
    "summary",
    "detail",
    "category",
    "quote",
    "workspace",
    "status",
]
COLUMNS += ["superseded_by", "canonical_id", "reason"]
TOLD = ("summary", "detail", "category")
"""Columns of which another value is a change; the rest is upkeep."""

Row = dict[str, Any]


class Difference(NamedTuple):
    """A claim that is not in both releases alike."""

    kind: str
    """One of `KINDS`."""
    claim_id: str
    summary: str
    """As the newer of the two that has it says."""
    quote: str
    workspace: str | None
    reason: str | None
    """Why it was withdrawn, or what it said before it was changed."""
    by: str | None
    """The claim that took its place."""
    by_summary: str | None


def read_decisions(store: "Store") -> dict[str, str]:
    """Return a person's reasons to leave claims, messages and sessions out, by the ids of claims and sessions."""
    rows = store.read(EXCLUSIONS, ["row_id", "kind", "why"]).to_pylist()
    how = {
        "session": "its session was left out",
        "message": "its message was left out",
        "claim": "left out",
    }
    decided = {row["row_id"]: f"{how[row['kind']]}: {row['why']}" for row in rows}
    if messages := {row["row_id"] for row in rows if row["kind"] == "message"}:
        for claim in store.read(
            OBSERVATIONS, ["observation_id", "message_ids"]
        ).to_pylist():
            if cited := messages.intersection(claim["message_ids"]):
                decided.setdefault(claim["observation_id"], decided[min(cited)])
    return decided


def compare_releases(
    old: Snapshot, new: Snapshot, decided: Mapping[str, str] | None = None
) -> list[Difference]:
    """Return the claims that hold in one of two releases and not in the other, or not in the same words.

    decided: from `read_decisions`, told of claims that were withdrawn.

    Raises:
        StoreUnreadable: a table is broken or gone.
    """
    return compare_claims(
        old.read(OBSERVATIONS, COLUMNS), new.read(OBSERVATIONS, COLUMNS), decided or {}
    )


def compare_claims(
    old: pa.Table, new: pa.Table, decided: Mapping[str, str]
) -> list[Difference]:
    """Compare observations, with `COLUMNS`, of two releases; by kind, then by id. What holds in neither is left out."""
    # rows that the other table does not have alike: most claims are those of the release before
    alike = ["observation_id", "status", *TOLD]
    frames = pl.DataFrame(old), pl.DataFrame(new)
    before, after = (
        {
            row["observation_id"]: row
            for row in rows.join(
                others, on=alike, how="anti", nulls_equal=True
            ).to_dicts()
        }
        for rows, others in (frames, frames[::-1])
    )
    # the texts of claims that took their place
    by = {
        row[name]
        for row in after.values()
        for name in ("superseded_by", "canonical_id")
        if row[name]
    }
    rows = new.filter(
        pc.is_in(new["observation_id"], pa.array(by, pa.string()))
    ).to_pylist()
    texts = {row["observation_id"]: row["summary"] for row in rows}
    # what became of each
    differences: list[Difference] = []
    for key in before.keys() | after.keys():
        was, row = before.get(key), after.get(key)
        held_before, holds_now = (
            version is not None and version["status"] == Status.ACTIVE
            for version in (was, row)
        )
        newest, reason, successor = row or was or {}, None, None
        if held_before and row is None:
            kind = "gone"
        elif row and holds_now and not held_before:
            kind = "returned" if was else "added"
        elif row and held_before and not holds_now:
            merged = row["status"] == Status.DUPLICATE
            successor = row["canonical_id"] if merged else row["superseded_by"]
            kind = "merged" if merged else "superseded" if successor else "withdrawn"
            why = (
                decided.get(key) or decided.get(row["session_id"])
                if not successor
                else None
            )
            reason = why or row["reason"]
        elif row and was and holds_now and any(was[name] != row[name] for name in TOLD):
            kind, reason = (
                "changed",
                f"was {was['category'] or 'a claim'}: {was['summary']}",
            )
        else:
            continue
        about = newest["summary"], newest["quote"], newest["workspace"]
        differences.append(
            Difference(kind, key, *about, reason, successor, texts.get(successor or ""))
        )
    return sorted(
        differences,
        key=lambda difference: (KINDS.index(difference.kind), difference.claim_id),
    )
