"""What may no longer hold: claims of which the night could not tell whether a later one changes them.

Both claims stand (`tasks.supersede` writes such a doubt into the ledger of merges, `slowwave unmerge` takes it back).
Whoever is told the earlier is told of the later; a doubt neither hides nor moves anything. Read once a release.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from schemas.observations import MERGES, OBSERVATIONS
from slowwave.recall.hits import Kind, Successor
from slowwave.recall.query import Query
from slowwave.recall.sources import Found
from slowwave.recall.terms import content_words
from slowwave.recall.view import View

COLUMNS = ["observation_id", "status", "message_ids", "observed_at", "summary"]


@dataclass(frozen=True, slots=True)
class Doubt:
    """A claim, and the later one that perhaps changes it."""

    claim: str
    by: str
    successor: Successor
    """What the later one says."""

    def raised_by(self, query: Query) -> bool:
        """Whether the later had been said by the query's `as_of`."""
        said = self.successor.observed_at
        return query.as_of is None or said is None or said <= query.as_of

    def bears_on(self, query: Query) -> bool:
        """Whether the later has a word of the query."""
        return not set(content_words(query.text)).isdisjoint(content_words(self.successor.text))


@dataclass
class Doubts:
    """Those of a release that are in force: nobody took them back, and both claims stand."""

    of_claim: dict[str, Doubt] = field(default_factory=dict)
    of_message: dict[str, list[Doubt]] = field(default_factory=lambda: defaultdict(list))
    """By the messages that the earlier claim was made in."""

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
                doubt = Doubt(pair["loser_id"], pair["winner_id"], Successor.of_claim(new))
                found.of_claim[doubt.claim] = doubt
                for message in cast(list[str], old["message_ids"])[:1]:
                    found.of_message[message].append(doubt)
        return found

    def about(self, kind: Kind, id: str, query: Query) -> list[Doubt]:
        """The doubts about a hit; a message makes other claims too, so about one those alone that bear on the query."""
        some = [self.of_claim[id]] if kind == "observation" and id in self.of_claim else []
        if kind == "message":
            some = [doubt for doubt in self.of_message.get(id, ()) if doubt.bears_on(query)]
        return [doubt for doubt in some if doubt.raised_by(query)]


def doubted(view: View, found: Sequence[Found], query: Query) -> list[Found]:
    """What was found, with the doubts about it (`perhaps_superseded_by`, and what the later says in `successor`)."""
    known = Doubts.of(view)
    return [_marked(one, known.about(one.kind, one.id, query)) for one in found]


def _marked(one: Found, doubts: Sequence[Doubt]) -> Found:
    if not doubts or one.row.get("superseded_by") is not None:
        return one
    return replace(one, row={**one.row, "perhaps_superseded_by": doubts[0].by, "successor": doubts[0].successor})
