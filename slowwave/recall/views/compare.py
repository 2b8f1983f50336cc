"""The differences between two releases: claims added, removed and changed, and what replaced them."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, cast

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.rows import ClaimRow
from slowwave.schemas.tables import CLAIMS, EXCLUSIONS, TRUST
from slowwave.schemas.vocabulary import Status, is_own
from slowwave.store.releases import Snapshot

if TYPE_CHECKING:  # of a store there are only rows read
    from slowwave.store.store import Store

KINDS = ("added", "returned", "changed", "superseded", "merged", "withdrawn", "gone")
"""The possible fates of a claim, in the order in which they are listed."""
COLUMNS = [
    "claim_id",
    "session_id",
    "summary",
    "detail",
    "category",
    "quote",
    "workspace",
    "status",
]
COLUMNS += ["superseded_by", "canonical_id", "reason", TRUST]
TOLD = ("summary", "detail", "category")
"""Columns of which another value is a change; the rest is upkeep."""


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
    trust: str | None
    """Whose words it rests on."""

    @property
    def marked_summary(self) -> str:
        """The summary behind the source of its words, unless they are the person's or the person's own agent's."""
        return self.summary if is_own(self.trust) else f"{self.trust}: {self.summary}"


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
        for claim in store.read(CLAIMS, ["claim_id", "message_ids"]).to_pylist():
            if cited := messages.intersection(claim["message_ids"]):
                decided.setdefault(claim["claim_id"], decided[min(cited)])
    return decided


def compare_releases(
    old: Snapshot,
    new: Snapshot,
    decided: Mapping[str, str] | None = None,
) -> list[Difference]:
    """Return the claims that hold in one of two releases and not in the other, or not in the same words.

    decided: from `read_decisions`, told of claims that were withdrawn.

    Raises:
        StoreUnreadable: a table is broken or gone.
    """
    return compare_claims(
        old.read(CLAIMS, COLUMNS), new.read(CLAIMS, COLUMNS), decided or {}
    )


def compare_claims(
    old: pa.Table,
    new: pa.Table,
    decided: Mapping[str, str],
) -> list[Difference]:
    """Compare claims, with `COLUMNS`, of two releases; by kind, then by id. What holds in neither is left out."""
    # Most claims are those of the release before: leave out rows that both tables have alike.
    alike = ["claim_id", "status", *TOLD]
    old_rows = pl.DataFrame(old)
    new_rows = pl.DataFrame(new)
    before = _index_rows(
        old_rows.join(new_rows, on=alike, how="anti", nulls_equal=True)
    )
    after = _index_rows(
        new_rows.join(
            old_rows,
            on=alike,
            how="anti",
            nulls_equal=True,
        )
    )
    texts = _read_successors(new, after.values())
    differences = [
        difference
        for key in before.keys() | after.keys()
        if (
            difference := _compare(
                was=before.get(key), row=after.get(key), decided=decided, texts=texts
            )
        )
    ]
    return sorted(
        differences,
        key=lambda difference: (KINDS.index(difference.kind), difference.claim_id),
    )


def _index_rows(rows: pl.DataFrame) -> dict[str, ClaimRow]:
    return {row["claim_id"]: cast(ClaimRow, row) for row in rows.to_dicts()}


def _read_successors(claims: pa.Table, rows: Iterable[ClaimRow]) -> dict[str, str]:
    """Return the texts, by id, of the claims that took the place of some."""
    ids = {key for row in rows for key in (row["superseded_by"], row["canonical_id"])}
    is_successor = pc.is_in(claims["claim_id"], pa.array(ids - {None}, pa.string()))
    found = claims.filter(is_successor).to_pylist()
    return {row["claim_id"]: row["summary"] for row in found}


def _compare(
    was: ClaimRow | None,
    row: ClaimRow | None,
    decided: Mapping[str, str],
    texts: Mapping[str, str],
) -> Difference | None:
    """Return the difference between two versions of a claim; None if nothing that is shown differs."""
    held_before = was is not None and was["status"] == Status.ACTIVE
    holds_now = row is not None and row["status"] == Status.ACTIVE
    reason = None
    successor = None
    if held_before and row is None:
        kind = "gone"
    elif row and holds_now and not held_before:
        kind = "returned" if was else "added"
    elif row and held_before and not holds_now:
        is_merged = row["status"] == Status.DUPLICATE
        successor = row["canonical_id"] if is_merged else row["superseded_by"]
        kind = _name_end(row, successor)
        reason = row["reason"]
        if not successor:
            key = row["claim_id"]
            session = row["session_id"]
            reason = decided.get(key) or decided.get(session) or reason
    elif row and was and holds_now and _differs(was, row):
        kind = "changed"
        reason = f"was {was['category'] or 'a claim'}: {was['summary']}"
    else:
        return None
    newest = row or was or {}
    return Difference(
        kind=kind,
        claim_id=newest["claim_id"],
        summary=newest["summary"],
        quote=newest["quote"],
        workspace=newest["workspace"],
        reason=reason,
        by=successor,
        by_summary=texts.get(successor or ""),
        trust=newest[TRUST],
    )


def _differs(was: ClaimRow, row: ClaimRow) -> bool:
    return any(was.get(name) != row.get(name) for name in TOLD)


def _name_end(row: ClaimRow, successor: str | None) -> str:
    """Return the kind of a claim's end: merged, superseded or withdrawn."""
    if row["status"] == Status.DUPLICATE:
        return "merged"
    return "superseded" if successor else "withdrawn"
