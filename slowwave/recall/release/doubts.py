"""The claims of which the night could not tell whether a later one changes them."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.recall.hits import Kind, Successor
from slowwave.recall.query import Query
from slowwave.recall.release.tables import Tables
from slowwave.schemas.tables import MERGES, OBSERVATIONS
from slowwave.schemas.vocabulary import LEADS, LedgerKind, Status
from slowwave.text.words import extract_content_words

EVEN = 0.5
"""How likely a change is of which a store of before does not say it."""
COLUMNS = ["observation_id", "status", "message_ids", "observed_at", "summary"]


@dataclass(frozen=True, slots=True)
class Doubt:
    """A claim, and the later one that perhaps changes it."""

    claim: str
    by: str
    successor: Successor
    """What the later one says."""
    likely: float
    """Probability that it does."""
    told_in: frozenset[str]
    """The later claim's id, and those of the messages it was made in."""

    def is_visible_to(self, query: Query) -> bool:
        """Return whether the later had been said by the query's `as_of`."""
        said = self.successor.observed_at
        return query.as_of is None or said is None or said <= query.as_of

    def is_relevant_to(self, query: Query) -> bool:
        """Return whether the later has a word of the query."""
        return not set(query.content_words).isdisjoint(extract_content_words(self.successor.text))


@dataclass
class Doubts:
    """Those of a release that are in force: nobody took them back, and both claims stand."""

    of_claim: dict[str, Doubt] = field(default_factory=dict)
    of_message: dict[str, list[Doubt]] = field(default_factory=lambda: defaultdict(list))
    """By the messages that the earlier claim was made in."""

    def find_for_hit(self, kind: Kind, id: str, query: Query, claim: str | None = None) -> list[Doubt]:
        """Return the doubts about a hit; a message makes other claims too, so about one those alone that bear on the
        query, or on the claim that was found with it.
        """
        some = [self.of_claim[id]] if kind == "observation" and id in self.of_claim else []
        if kind == "message":
            some = [
                doubt for doubt in self.of_message.get(id, ()) if doubt.claim == claim or doubt.is_relevant_to(query)
            ]
        return [doubt for doubt in some if doubt.is_visible_to(query)]


def read_doubts(view: Tables) -> Doubts:
    """Return a release's."""
    found = Doubts()
    if not view.count(MERGES):
        return found
    open_ones = (pc.field("kind") == pa.scalar(LedgerKind.DOUBT)) & ~pc.field("undone") & (pc.field("rule") != LEADS)
    pairs = view.read(MERGES, ["loser_id", "winner_id", "scores"], open_ones).to_pylist()
    claims = view.read_by_id(
        OBSERVATIONS, [pair[side] for pair in pairs for side in ("loser_id", "winner_id")], COLUMNS
    )
    for pair in sorted(pairs, key=lambda one: (one["loser_id"], one["winner_id"])):
        old, new = claims.get(pair["loser_id"]), claims.get(pair["winner_id"])
        if old is not None and new is not None and old["status"] == new["status"] == Status.ACTIVE:
            told_in = frozenset((pair["winner_id"], *cast(list[str], new["message_ids"])[:1]))
            likely = dict(pair["scores"] or ()).get("likely", EVEN)
            doubt = Doubt(pair["loser_id"], pair["winner_id"], Successor.from_claim(new), likely, told_in)
            found.of_claim[doubt.claim] = doubt
            for message in cast(list[str], old["message_ids"])[:1]:
                found.of_message[message].append(doubt)
    return found
