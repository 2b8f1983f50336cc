"""What may no longer hold: claims of which the night could not tell whether a later one changes them.

Both claims stand (`tasks.supersede` writes such a doubt into the ledger of merges, `slowwave unmerge` takes it back).
Where a query finds both, the later comes first, since it may be what is true now; and whoever is told the earlier is
told of the later. Read once a release.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from schemas.observations import MERGES, OBSERVATIONS
from slowwave.recall.query import Query
from slowwave.recall.sources import Found
from slowwave.recall.view import View

COLUMNS = ["observation_id", "status", "message_ids", "observed_at"]
AS_NEAR = 0.2
"""How much further from the query, by cosine, the later may be and still come first: both must answer it."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """A claim, and the later one that perhaps changes it."""

    claim: str
    by: str
    since: datetime | None
    """When the later was said."""


@dataclass
class Doubts:
    """Those of a release that are in force: nobody took them back, and both claims stand."""

    of_claim: dict[str, Doubt] = field(default_factory=dict)
    of_message: dict[str, list[Doubt]] = field(default_factory=lambda: defaultdict(list))
    """By the messages that the earlier claim was made in."""
    said_in: dict[str, frozenset[str]] = field(default_factory=dict)
    """Of each later claim, the messages that it was made in."""

    @classmethod
    def of(cls, view: View) -> "Doubts":
        """The release's, read by the first who asks."""
        return view.once("doubts", lambda: cls._read(view))

    @classmethod
    def _read(cls, view: View) -> "Doubts":
        found = cls()
        if not view.count(MERGES):
            return found
        open_ones = (pc.field("kind") == pa.scalar("doubt")) & ~pc.field("undone")
        pairs = view.read(MERGES, ["loser_id", "winner_id"], open_ones).to_pylist()
        claims = view.by_id(OBSERVATIONS, [key for pair in pairs for key in pair.values()], COLUMNS)
        for pair in sorted(pairs, key=lambda one: (one["loser_id"], one["winner_id"])):
            old, new = claims.get(pair["loser_id"]), claims.get(pair["winner_id"])
            if old is not None and new is not None and old["status"] == new["status"] == "active":
                found._add(
                    Doubt(pair["loser_id"], pair["winner_id"], cast(datetime | None, new["observed_at"])), claims
                )
        return found

    def _add(self, doubt: Doubt, claims: Mapping[str, Mapping[str, object]]) -> None:
        self.of_claim[doubt.claim] = doubt
        for message in _ids(claims[doubt.claim])[:1]:
            self.of_message[message].append(doubt)
        self.said_in[doubt.by] = frozenset(_ids(claims[doubt.by])[:1])

    def about(self, one: Found, as_of: datetime | None) -> list[Doubt]:
        """The doubts about a hit that had been raised by then; by now, where no moment is given."""
        if one.kind == "observation":
            some: Iterable[Doubt] = [self.of_claim[one.id]] if one.id in self.of_claim else []
        else:
            some = self.of_message.get(one.id, ()) if one.kind == "message" else ()
        return [doubt for doubt in some if as_of is None or doubt.since is None or doubt.since <= as_of]

    def tells(self, one: Found, doubt: Doubt) -> bool:
        """Whether a hit is the later claim, or the message that it was made in."""
        return one.id == doubt.by or (one.kind == "message" and one.id in self.said_in[doubt.by])


def doubted(view: View, found: Sequence[Found], query: Query) -> list[Found]:
    """What was found, with the doubts about it (`perhaps_superseded_by`), and the later above what it doubts.

    Only among the first `query.k` is the order changed; scores fall with the place as before.
    """
    known = Doubts.of(view)
    if not known.of_claim:
        return list(found)
    about = [known.about(one, query.as_of) if one.row.get("superseded_by") is None else [] for one in found]
    place = {at: float(at) for at in range(len(found))}
    for at, doubts in enumerate(about[: query.k]):
        for doubt in doubts:
            telling = (n for n, one in enumerate(found[: query.k]) if known.tells(one, doubt))
            later = next((n for n in telling if _as_near(found[n], found[at])), None)
            if later is not None:
                place[later] = min(place[later], at - 0.5)
    ids = {one.id for one in found}
    marked = [_marked(one, doubts, ids) for one, doubts in zip(found, about, strict=True)]
    order = sorted(place, key=lambda at: (place[at], at))
    return [replace(marked[at], score=one.score) for at, one in zip(order, found, strict=True)]


def _as_near(later: Found, earlier: Found) -> bool:
    return not later.cosine < earlier.cosine - AS_NEAR


def _marked(one: Found, doubts: Sequence[Doubt], found: Set[str]) -> Found:
    """The hit with the doubt about it; a message has other claims too, so the doubted one must be found with it."""
    meant = [doubt for doubt in doubts if one.kind == "observation" or doubt.claim in found]
    return replace(one, row={**one.row, "perhaps_superseded_by": meant[0].by}) if meant else one


def _ids(row: Mapping[str, object]) -> list[str]:
    return cast(list[str], row["message_ids"])
