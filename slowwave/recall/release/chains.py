"""The chains of claims that the night wrote (`tasks/supersede/chains.py`): which holds, and since when."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import cast

import pyarrow.compute as pc

from slowwave.recall.release.tables import Row, Tables
from slowwave.schemas.tables import CHAIN, OBSERVATIONS
from slowwave.schemas.vocabulary import LINKED, Status

COLUMNS = ["observation_id", "session_id", "workspace", "topic_id", "summary", "quote", "message_ids", "speaker"]
COLUMNS += ["status", "observed_at", *CHAIN]


@dataclass(frozen=True)
class Chains:
    """The claims of a release that changed one another, or perhaps did."""

    claims: dict[str, Row] = field(default_factory=dict)
    """By id, with the columns COLUMNS."""
    by_chain: Mapping[str, list[Row]] = field(default_factory=dict)
    """Without those that repeat another, in the order they were said."""

    @property
    def linked(self) -> dict[str, Row]:
        """Those that stand and that a later one likely changed, the likeliest first."""
        rows = [row for row in self.claims.values() if row["status"] == Status.ACTIVE and is_linked(row)]
        rows.sort(key=lambda row: (-cast(float, row["chain_likely"]), str(row["observation_id"])))
        return {str(row["observation_id"]): row for row in rows}

    def find_successor(self, row: Row, as_of: datetime | None = None) -> Row | None:
        """Return the claim that holds, or perhaps holds, in place of a row by then: the first of its chain since the
        change that is not superseded itself, else the one at the end.
        """
        later = (
            one
            for one in self.by_chain.get(str(row["chain_id"]), ())
            if one["chain_at"] != row["chain_at"]
            and cast(datetime, one["observed_at"]) >= cast(datetime, row["chain_at"])
            and not is_superseded(one, as_of)
        )
        return next(later, self.claims.get(str(row["chain_id"])))


def is_changed(row: Row, as_of: datetime | None = None, likely: float = 0.0) -> bool:
    """Return whether a later claim had by then changed what a row says, that likely at least."""
    at = cast(datetime | None, row["chain_at"])
    return at is not None and (as_of is None or at <= as_of) and cast(float, row["chain_likely"]) >= likely


def is_superseded(row: Row, as_of: datetime | None = None) -> bool:
    """Return whether it surely had."""
    return is_changed(row, as_of, 1.0)


def is_linked(row: Row, as_of: datetime | None = None) -> bool:
    """Return whether it likely had, but the row stands."""
    return is_changed(row, as_of, LINKED) and not is_superseded(row, as_of)


def read_chains(view: Tables) -> Chains:
    """Return a release's."""
    rows = view.read(OBSERVATIONS, COLUMNS, pc.field("chain_id").is_valid()) if view.count(OBSERVATIONS) else None
    claims = {str(row["observation_id"]): row for row in (rows.to_pylist() if rows else ())}
    by_chain = defaultdict[str, list[Row]](list)
    for row in sorted(claims.values(), key=lambda row: (str(row["observed_at"]), str(row["observation_id"]))):
        if row["status"] != Status.DUPLICATE and row["observed_at"] is not None:
            by_chain[str(row["chain_id"])].append(row)
    return Chains(claims, by_chain)
