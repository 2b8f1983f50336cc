"""What one release says otherwise than another: claims that came, went, changed, and what took their place."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.schemas.tables import EXCLUSIONS, OBSERVATIONS
from slowwave.schemas.vocabulary import Status
from slowwave.store.snapshot import Snapshot

if TYPE_CHECKING:  # of a store there are only rows read
    from slowwave.store.store import Store

KINDS = ("added", "returned", "changed", "superseded", "merged", "withdrawn", "gone")
"""What may have become of a claim, in the order in which it is told."""
COLUMNS = ["observation_id", "session_id", "summary", "detail", "category", "quote", "workspace", "status"]
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
    """Return why a person left claims and sessions out, by the ids of these."""
    rows = store.read(EXCLUSIONS, ["row_id", "kind", "why"]).to_pylist()
    how = {"session": "its session was left out", "claim": "left out"}
    return {row["row_id"]: f"{how[row['kind']]}: {row['why']}" for row in rows}


def compare_releases(old: Snapshot, new: Snapshot, decided: Mapping[str, str] | None = None) -> list[Difference]:
    """Return the claims that hold in one of two releases and not in the other, or not in the same words.

    decided: from `read_decisions`, told of claims that were withdrawn.

    Raises:
        StoreUnreadable: a table is broken or gone.
    """
    return compare_claims(old.read(OBSERVATIONS, COLUMNS), new.read(OBSERVATIONS, COLUMNS), decided or {})


def compare_claims(old: pa.Table, new: pa.Table, decided: Mapping[str, str]) -> list[Difference]:
    """Compare observations, with `COLUMNS`, of two releases; by kind, then by id. What holds in neither is left out."""
    before, after = (_index_claims(_leave_out_alike(*pair).to_dicts()) for pair in ((old, new), (new, old)))
    by = {row[name] for row in after.values() for name in ("superseded_by", "canonical_id") if row[name]}
    later = _index_claims(new.filter(pc.is_in(new["observation_id"], pa.array(by, pa.string()))).to_pylist())
    keys = before.keys() | after.keys()
    found = [one for key in keys for one in _compare(before.get(key), after.get(key), later, decided)]
    return sorted(found, key=lambda one: (KINDS.index(one.kind), one.claim_id))


def _leave_out_alike(rows: pa.Table, others: pa.Table) -> pl.DataFrame:
    """Return the rows that the other table does not have alike: most claims are those of the release before."""
    alike = ["observation_id", "status", *TOLD]
    return pl.DataFrame(rows).join(pl.DataFrame(others), on=alike, how="anti", nulls_equal=True)


def _index_claims(rows: Iterable[Row]) -> dict[str, Row]:
    return {row["observation_id"]: row for row in rows}


def _compare(
    before: Row | None, after: Row | None, later: dict[str, Row], decided: Mapping[str, str]
) -> Iterator[Difference]:
    held, holds = _is_active(before), _is_active(after)
    if after is None:
        if before and held:
            yield _tell("gone", before)
    elif holds and not held:
        yield _tell("returned" if before else "added", after)
    elif held and not holds:
        merged = after["status"] == Status.DUPLICATE
        by = after["canonical_id"] if merged else after["superseded_by"]
        kind = "merged" if merged else "superseded" if by else "withdrawn"
        why = decided.get(after["observation_id"]) or decided.get(after["session_id"]) if not by else None
        yield _tell(kind, after, why or after["reason"], by, later.get(by, {}).get("summary") if by else None)
    elif before and holds and any(before[name] != after[name] for name in TOLD):
        yield _tell("changed", after, f"was {before['category'] or 'a claim'}: {before['summary']}")


def _is_active(row: Row | None) -> bool:
    return row is not None and row["status"] == Status.ACTIVE


def _tell(
    kind: str, row: Row, reason: str | None = None, by: str | None = None, by_summary: str | None = None
) -> Difference:
    return Difference(
        kind, row["observation_id"], row["summary"], row["quote"], row["workspace"], reason, by, by_summary
    )
