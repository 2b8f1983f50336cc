"""The changes that a release knows: which claim took whose place, since when, and by which words a text tells it."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.recall.release.tables import Row, Tables
from slowwave.schemas.tables import MESSAGES, OBSERVATIONS
from slowwave.schemas.vocabulary import Status
from slowwave.text.words import extract_stems

COLUMNS = [
    *("observation_id", "session_id", "workspace", "category", "summary", "quote", "message_ids", "status"),
    *("observed_at", "canonical_id", "superseded_by", "valid_to", "speaker", "files"),
]
NEXT_TO = (-1, 1, 2, 3)
"""Messages before and after the one that a claim was made in, where its echo is looked for: others may speak first."""
VALUE = re.compile(r"\b(?:[A-Z]|\w*\d)\w*")

Words = frozenset[str]


@dataclass(frozen=True)
class Supersession:
    """A claim that another has superseded."""

    claim: str
    by: str
    at: datetime | None
    """From when on; None: always."""
    session: str
    workspace: str | None
    words: Words
    gone: Words
    """Words of the old claim that the new one lacks, mostly the value that was given up; all, where it lacks none."""
    come: Words
    """Words of the new claim that the old one lacks."""
    values: Words
    """Names and numbers of the old claim."""

    def is_restated_in(self, text: Words, share: float) -> bool:
        """Return whether a text makes the old claim in much the same words, one of its names and numbers among them."""
        told = len(text & self.words) >= share * len(self.words) and len(text & self.gone) * 2 >= len(self.gone)
        return told and (not self.values or bool(text & self.values))

    def is_corrected_in(self, text: Words) -> bool:
        """Return whether a text makes the new claim too."""
        return len(text & self.come) * 2 >= len(self.come) > 0

    def is_echoed_in(self, text: Words) -> bool:
        """Return whether a text, said next to the old claim, takes up what it says."""
        shared = len(text & self.words)
        return bool(text & self.values) or (shared > 1 and (bool(text & self.gone) or shared * 2 >= len(self.words)))


class SupersessionIndex:
    """The changes that a release knows, by claim, by message and by word."""

    def __init__(self, rows: Mapping[str, Row], said_in: Mapping[str, Iterable[str]], seqs: Mapping[str, int]) -> None:
        """Set up from rows.

        Args:
            rows: superseded claims and what superseded them, by id; columns COLUMNS.
            said_in: superseded claim -> the messages that it and its duplicates were said in.
            seqs: message -> its place in its session.
        """
        self.rows = rows
        self.changes = {
            key: one for key, row in rows.items() if (one := _build_supersession(key, row, rows)) is not None
        }
        self.by_message: dict[str, list[Supersession]] = defaultdict(list)
        self.by_word: dict[str, list[Supersession]] = defaultdict(list)
        self.by_place: dict[tuple[str, int], list[Supersession]] = defaultdict(list)
        for key, change in sorted(self.changes.items()):
            for message in said_in.get(key, ()):
                self.by_message[message].append(change)
                for step in NEXT_TO if message in seqs else ():
                    self.by_place[change.session, seqs[message] + step].append(change)
            for word in change.gone:
                self.by_word[word].append(change)

    def find_restated(self, text: Words, share: float) -> list[Supersession]:
        """Return the changes of claims that a text makes in much the same words."""
        again = {change.claim: change for word in text for change in self.by_word.get(word, ())}
        return [change for change in again.values() if change.is_restated_in(text, share)]

    def is_in_force(self, change: Supersession, as_of: datetime | None) -> bool:
        """Return whether it had happened by then; by now, where no moment is given."""
        return as_of is None or change.at is None or change.at <= as_of

    def find_successor(self, change: Supersession, as_of: datetime | None) -> str:
        """Return the claim that holds at that moment in place of the one that was changed."""
        seen = {change.claim}
        now = change.by
        while now not in seen:
            seen.add(now)
            row, after = self.rows.get(now), self.changes.get(now)
            if row is not None and row["status"] == Status.DUPLICATE and row["canonical_id"] is not None:
                now = str(row["canonical_id"])
            elif after is not None and self.is_in_force(after, as_of):
                now = after.by
        return now


def read_supersessions(view: Tables) -> SupersessionIndex:
    """Return the changes of a release."""
    if not view.count(OBSERVATIONS):
        return SupersessionIndex({}, {}, {})
    changed = (pc.field("status") == pa.scalar(Status.SUPERSEDED)) & pc.field("superseded_by").is_valid()
    rows = _index_by_id(view.read(OBSERVATIONS, COLUMNS, changed).to_pylist())
    if not rows:
        return SupersessionIndex({}, {}, {})
    said_in = {key: list(cast(list[str], row["message_ids"] or [])) for key, row in rows.items()}
    repeats = (pc.field("status") == pa.scalar(Status.DUPLICATE)) & pc.field("canonical_id").isin(sorted(rows))
    for row in view.read(OBSERVATIONS, ["canonical_id", "message_ids"], repeats).to_pylist():
        said_in[row["canonical_id"]] += row["message_ids"]
    messages = view.read_by_id(MESSAGES, [m for some in said_in.values() for m in some], ["seq"])
    return SupersessionIndex(
        _add_successors(view, rows), said_in, {k: cast(int, row["seq"]) for k, row in messages.items()}
    )


def _build_supersession(key: str, row: Row, rows: Mapping[str, Row]) -> Supersession | None:
    if row["status"] != Status.SUPERSEDED or row["superseded_by"] is None:
        return None
    by = str(row["superseded_by"])
    old, new = _extract_claim_words(row), _extract_claim_words(rows[by]) if by in rows else frozenset()
    at, workspace = cast(datetime | None, row["valid_to"]), cast(str | None, row["workspace"])
    gone = old - new or old
    return Supersession(
        key, by, at, str(row["session_id"]), workspace, old, gone, new - old, old & _extract_values(row)
    )


def _add_successors(view: Tables, rows: dict[str, Row]) -> dict[str, Row]:
    """Return the rows, and those that they point to, and so on: chains end at a claim that is active."""
    while missing := {str(to) for row in rows.values() if (to := _get_replacement_id(row)) is not None} - rows.keys():
        more = view.read_by_id(OBSERVATIONS, sorted(missing), COLUMNS)
        if not more:
            break
        rows = {**rows, **more}
    return rows


def _get_replacement_id(row: Row) -> object:
    return {"superseded": row["superseded_by"], "duplicate": row["canonical_id"]}.get(str(row["status"]))


def _extract_values(row: Row) -> Words:
    """Return names and numbers: words with a capital or a digit; a capital that opens the sentence tells nothing."""
    text = str(row["summary"])
    return extract_stems(" ".join(VALUE.findall(text[:1].lower() + text[1:])))


def _extract_claim_words(row: Row) -> Words:
    return extract_stems(str(row["summary"]))


def _index_by_id(rows: Iterable[Row]) -> dict[str, Row]:
    return {str(row["observation_id"]): row for row in rows}
