"""The newest of the same first: of two hits that are one sentence with another value in it, the later holds, mostly.

Nothing is read of the words: how alike two texts are (`rapidfuzz.fuzz.ratio`), and when each was said. Of 72 facts
told anew in the same sentence a block tells the later first 61 times for 14 before; LoCoMo's answers stay as they were.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc
from rapidfuzz import fuzz

from slowwave.recall.hits import Kind, Successor
from slowwave.recall.query import Query
from slowwave.recall.release.view import View
from slowwave.recall.sources import ScoredRow
from slowwave.schemas.tables import MERGES, OBSERVATIONS
from slowwave.text.words import extract_content_words

SAME = 70.0
"""`rapidfuzz.fuzz.ratio` from which two texts are one sentence with another value in it."""
LATER = timedelta(hours=1)
"""What is said sooner after is of the same sitting: an answer, mostly, and no newer state of things."""
ABOUT = 10
"""Hits among which that is done: those further down are about something else."""
TEXT_AND_TIME = {"message": ("text", "ts"), "observation": ("summary", "observed_at")}


def promote_newest(found: Sequence[ScoredRow]) -> list[ScoredRow]:
    """Return the same, of the first ABOUT each before the earlier ones of its kind that say the same.

    Scores stay in place.
    """
    ordered: list[ScoredRow] = []
    for one in found[:ABOUT]:
        before = (at for at, other in enumerate(ordered) if _is_newer_version(one, other))
        ordered.insert(next(before, len(ordered)), one)
    return [replace(one, score=at.score) for one, at in zip([*ordered, *found[ABOUT:]], found, strict=True)]


def _is_newer_version(one: ScoredRow, other: ScoredRow) -> bool:
    """Return whether a hit says later what another said of the same workspace: another's are other things, however
    alike.
    """
    if one.kind != other.kind or one.kind not in TEXT_AND_TIME or one.row["workspace"] != other.row["workspace"]:
        return False
    text, at = TEXT_AND_TIME[one.kind]
    said, before = cast(datetime | None, one.row[at]), cast(datetime | None, other.row[at])
    if said is None or before is None or said - before <= LATER:
        return False
    return fuzz.ratio(str(one.row[text]), str(other.row[text]), score_cutoff=SAME) > 0


COLUMNS = ["observation_id", "status", "message_ids", "observed_at", "summary"]


@dataclass(frozen=True, slots=True)
class Doubt:
    """A claim, and the later one that perhaps changes it."""

    claim: str
    by: str
    successor: Successor
    """What the later one says."""

    def is_visible_to(self, query: Query) -> bool:
        """Return whether the later had been said by the query's `as_of`."""
        said = self.successor.observed_at
        return query.as_of is None or said is None or said <= query.as_of

    def is_relevant_to(self, query: Query) -> bool:
        """Return whether the later has a word of the query."""
        return not set(extract_content_words(query.text)).isdisjoint(extract_content_words(self.successor.text))


@dataclass
class Doubts:
    """Those of a release that are in force: nobody took them back, and both claims stand."""

    of_claim: dict[str, Doubt] = field(default_factory=dict)
    of_message: dict[str, list[Doubt]] = field(default_factory=lambda: defaultdict(list))
    """By the messages that the earlier claim was made in."""

    @classmethod
    def from_view(cls, view: View) -> "Doubts":
        """Return the release's, read by the first who asks."""
        return view.get_or_build("doubts", lambda: cls._read(view))

    @classmethod
    def _read(cls, view: View) -> "Doubts":
        found = cls()
        if not view.count(MERGES):
            return found
        open_ones = (pc.field("kind") == pa.scalar("doubt")) & ~pc.field("undone")
        pairs = view.read(MERGES, ["loser_id", "winner_id"], open_ones).to_pylist()
        claims = view.read_by_id(OBSERVATIONS, [key for pair in pairs for key in pair.values()], COLUMNS)
        for pair in sorted(pairs, key=lambda one: (one["loser_id"], one["winner_id"])):
            old, new = claims.get(pair["loser_id"]), claims.get(pair["winner_id"])
            if old is not None and new is not None and old["status"] == new["status"] == "active":
                doubt = Doubt(pair["loser_id"], pair["winner_id"], Successor.from_claim(new))
                found.of_claim[doubt.claim] = doubt
                for message in cast(list[str], old["message_ids"])[:1]:
                    found.of_message[message].append(doubt)
        return found

    def find_for_hit(self, kind: Kind, id: str, query: Query) -> list[Doubt]:
        """Return the doubts about a hit; a message makes other claims too, so about one those alone that bear on the
        query.
        """
        some = [self.of_claim[id]] if kind == "observation" and id in self.of_claim else []
        if kind == "message":
            some = [doubt for doubt in self.of_message.get(id, ()) if doubt.is_relevant_to(query)]
        return [doubt for doubt in some if doubt.is_visible_to(query)]


def mark_possible_supersessions(view: View, found: Sequence[ScoredRow], query: Query) -> list[ScoredRow]:
    """Return what was found, with the doubts about it (`perhaps_superseded_by`, and what the later says in
    `successor`).
    """
    known = Doubts.from_view(view)
    return [_mark_doubt(one, known.find_for_hit(one.kind, one.id, query)) for one in found]


def _mark_doubt(one: ScoredRow, doubts: Sequence[Doubt]) -> ScoredRow:
    if not doubts or one.row.get("superseded_by") is not None:
        return one
    return replace(one, row={**one.row, "perhaps_superseded_by": doubts[0].by, "successor": doubts[0].successor})
