"""What is true now, or was then: hits that a later claim has changed are marked, and give up their place to it.

A claim carries who superseded it and when. A message is stale where it is what such a claim was said in, repeats it, or
echoes it in the next breath ("Noted, port 7070"); a summary where it tells the old and not the new. Whoever finds the
old is led to the new: the successor takes the stale hit's place, brought in if need be, and the stale hits stand below
it, marked; of those shown, below all others. Read once a release; costs nothing where nothing was ever changed.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from slowwave.recall.filters import is_claim_allowed
from slowwave.recall.hits import Successor
from slowwave.recall.query import Query
from slowwave.recall.release.passages import Layout
from slowwave.recall.release.view import View
from slowwave.recall.sources import Row, ScoredRow
from slowwave.schemas.tables import MESSAGES, OBSERVATIONS
from slowwave.text.cues import QUESTION
from slowwave.text.words import extract_content_words, singularise

COLUMNS = [
    *("observation_id", "session_id", "workspace", "category", "summary", "quote", "message_ids", "status"),
    *("observed_at", "canonical_id", "superseded_by", "valid_to", "speaker", "files"),
]
NEXT_TO = (-1, 1, 2, 3)
"""Messages before and after the one that a claim was made in, where its echo is looked for: others may speak first."""
SAME = 0.75
"""Share of a claim's words that a message elsewhere has to have to make the same claim."""
TOLD = 0.6
"""The same for a summary, which tells in fewer words."""
VALUE = re.compile(r"\b(?:[A-Z]|\w*\d)\w*")
MIN_STATED = 4
"""Words beside its questions from which a message says something of its own."""

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
        """Return whether a text makes the old claim in much the same words."""
        return len(text & self.words) >= share * len(self.words) and len(text & self.gone) * 2 >= len(self.gone)

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

    @classmethod
    def from_view(cls, view: View) -> "SupersessionIndex":
        """Return the release's, read by the first who asks."""
        return view.get_or_build("truth", lambda: cls._read(view))

    @classmethod
    def _read(cls, view: View) -> "SupersessionIndex":
        if not view.count(OBSERVATIONS):
            return cls({}, {}, {})
        changed = (pc.field("status") == pa.scalar("superseded")) & pc.field("superseded_by").is_valid()
        rows = _index_by_id(view.read(OBSERVATIONS, COLUMNS, changed).to_pylist())
        if not rows:
            return cls({}, {}, {})
        said_in = {key: list(_list_ids(row["message_ids"])) for key, row in rows.items()}
        repeats = (pc.field("status") == pa.scalar("duplicate")) & pc.field("canonical_id").isin(sorted(rows))
        for row in view.read(OBSERVATIONS, ["canonical_id", "message_ids"], repeats).to_pylist():
            said_in[row["canonical_id"]] += row["message_ids"]
        messages = view.read_by_id(MESSAGES, [m for some in said_in.values() for m in some], ["seq"])
        return cls(_add_successors(view, rows), said_in, {k: cast(int, row["seq"]) for k, row in messages.items()})

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
            if row is not None and row["status"] == "duplicate" and row["canonical_id"] is not None:
                now = str(row["canonical_id"])
            elif after is not None and self.is_in_force(after, as_of):
                now = after.by
        return now


def mark_superseded(view: View, found: Sequence[ScoredRow], query: Query) -> list[ScoredRow]:
    """Return what was found, stale rows marked (`status`, `superseded_by`) and below what holds in their stead.

    More than was found by the successors brought in. Scores fall with the place as before.
    """
    truth = SupersessionIndex.from_view(view)
    marked = list(found)
    if truth.changes:
        changes = _find_superseded(view, truth, found, query)
        heirs = {at: truth.find_successor(change, query.as_of) for at, change in changes.items()}
        marked = [_mark_row(one, heirs.get(at), truth) for at, one in enumerate(found)]
        wanted = {heir for heir in heirs.values() if _is_successor_allowed(view, truth.rows.get(heir), query)}
        marked = _order_by_successors(truth, marked, changes, heirs, wanted, query)
    return _reassign_scores(_move_statement_first(marked))


def sort_superseded_last(found: Sequence[ScoredRow]) -> list[ScoredRow]:
    """Return what is stale after everything that is not, each in its order."""
    return _reassign_scores(sorted(found, key=lambda one: one.row.get("status") == "superseded"))


def _find_superseded(
    view: View, truth: SupersessionIndex, found: Sequence[ScoredRow], query: Query
) -> dict[int, Supersession]:
    """Place among the found -> the change that made it stale."""
    asked, ids = _extract_words(query.text), {one.id for one in found}
    told = _read_other_claims(view, truth, found)
    stale: dict[int, Supersession] = {}
    for at, one in enumerate(found):
        known = {"observation": _find_for_claim, "message": _find_for_message, "summary": _find_for_summary}[one.kind]
        some = [c for c in known(view, truth, one) if truth.is_in_force(c, query.as_of)]
        meant = [c for c in some if asked & (c.words | c.come) or ids & {c.claim, truth.find_successor(c, query.as_of)}]
        best = max(
            some if one.kind != "summary" else meant,
            key=lambda c: (c in meant, len(asked & (c.words | c.come)), c.claim),
            default=None,
        )
        if best is None:
            continue
        rivals = [len(asked & words) for words in told.get(one.id, ())]
        if one.kind != "message" or len(asked & (best.words | best.come)) >= max(rivals, default=0):
            stale[at] = best
    return stale


def _find_for_claim(view: View, truth: SupersessionIndex, one: ScoredRow) -> list[Supersession]:
    return [truth.changes[one.id]] if one.id in truth.changes else []


def _find_for_message(view: View, truth: SupersessionIndex, one: ScoredRow) -> list[Supersession]:
    """Return changes of the claims that a message made, or else of those that it repeats or echoes."""
    if one.id in truth.by_message:
        return truth.by_message[one.id]
    row, layout = one.row, Layout.from_view(view)
    text, at = _extract_words(str(row["text"])), cast(datetime | None, row["ts"])
    workspace = layout.workspaces[code] if (code := int(layout.workspace[cast(int, row["position"])])) >= 0 else None
    near = truth.by_place.get((str(row["session_id"]), cast(int, row["seq"])), [])
    echoes = [c for c in near if c.is_echoed_in(text)]
    again = {c.claim: c for word in text for c in truth.by_word.get(word, ())}
    same = [c for c in again.values() if c.workspace == workspace and c.is_restated_in(text, SAME)]
    return [c for c in (*echoes, *same) if at is None or c.at is None or at < c.at]


def _find_for_summary(view: View, truth: SupersessionIndex, one: ScoredRow) -> list[Supersession]:
    text = _extract_words(str(one.row["text"]))
    again = {c.claim: c for word in text for c in truth.by_word.get(word, ())}
    return [c for c in again.values() if c.is_restated_in(text, TOLD) and not c.is_corrected_in(text)]


def _read_other_claims(view: View, truth: SupersessionIndex, found: Sequence[ScoredRow]) -> dict[str, list[Words]]:
    """Return words of the active claims of messages that made a stale one too: one may be asked for, not the other."""
    both = {one.id: str(one.row["session_id"]) for one in found if one.kind == "message" and one.id in truth.by_message}
    if not both:
        return {}
    where = (pc.field("status") == pa.scalar("active")) & pc.field("session_id").isin(sorted(set(both.values())))
    told: dict[str, list[Words]] = defaultdict(list)
    for row in view.read(OBSERVATIONS, ["message_ids", "summary"], where).to_pylist():
        for message in row["message_ids"]:
            told[message].append(_extract_words(row["summary"]))
    return told


def _mark_row(one: ScoredRow, heir: str | None, truth: SupersessionIndex) -> ScoredRow:
    status = "active" if heir is None else "superseded"
    row = truth.rows.get(heir) if heir is not None else None
    successor = Successor.from_claim(row) if row is not None else None
    return replace(one, row={**one.row, "status": status, "superseded_by": heir, "successor": successor})


def _order_by_successors(
    truth: SupersessionIndex,
    found: list[ScoredRow],
    changes: Mapping[int, Supersession],
    heirs: Mapping[int, str],
    wanted: Set[str],
    query: Query,
) -> list[ScoredRow]:
    """Return each successor in the place of the best that it succeeds, or above; each stale one below what holds
    instead.

    Args:
        wanted: the successors that the query's conditions let through.
    """
    place: dict[int, float] = {at: float(at) for at in range(len(found))}
    everything = list(found)
    for heir in dict.fromkeys(heirs.values()):
        losers = [at for at, of in heirs.items() if of == heir]
        claims = [at for at, one in enumerate(found) if one.id == heir]
        row = truth.rows.get(heir)
        leads = [at for at in losers if _is_match_for_old_claim(found[at], changes[at], query)]
        if leads and not claims and row is not None and heir in wanted:
            claims = [len(everything)]
            everything.append(replace(found[leads[0]], kind="observation", id=heir, row={**row, "superseded_by": None}))
        for at in claims:
            place[at] = min([place.get(at, len(found)), *(lead - 0.5 for lead in leads)])
        messages = _list_ids(row["message_ids"]) if row is not None else ()
        holding = claims + [at for at, one in enumerate(found) if one.kind == "message" and one.id in messages]
        for at in losers:
            place[at] = max([place[at], *(place[other] + 0.25 for other in holding if other not in heirs)])
    return [everything[at] for at in sorted(place, key=lambda at: (place[at], at))]


def _is_match_for_old_claim(one: ScoredRow, change: Supersession, query: Query) -> bool:
    """Return whether a stale hit was found for what is stale in it: then the query means its successor."""
    if one.kind == "message":
        return not _extract_words(query.text).isdisjoint(change.words)
    return one.kind == "observation"


def _is_successor_allowed(view: View, row: Row | None, query: Query) -> bool:
    """Return whether the query's conditions let a claim through."""
    if row is None:
        return False
    at = cast(datetime | None, row["observed_at"])
    return (
        "observation" in query.kinds
        and row["status"] != "duplicate"
        and query.workspace in (None, row["workspace"])
        and query.category in (None, row["category"])
        and (query.since is None or (at is not None and at >= query.since))
        and (query.until is None or (at is not None and at <= query.until))
        and is_claim_allowed(view, row, query)
    )


def _move_statement_first(found: list[ScoredRow]) -> list[ScoredRow]:
    """Return what was stated leads: neither the same question, asked before, nor a summary, which tells of many
    things.
    """
    first = next((at for at, one in enumerate(found) if one.kind != "summary" and not _is_only_question(one)), 0)
    return [found[first], *found[:first], *found[first + 1 :]] if first else found


def _is_only_question(one: ScoredRow) -> bool:
    text = str(one.row["text"]) if one.kind == "message" else ""
    return "?" in text and len(QUESTION.sub(" ", text).split()) < MIN_STATED


def _reassign_scores(found: list[ScoredRow]) -> list[ScoredRow]:
    """Return the same places, with the scores that were given, the highest first."""
    scores = sorted((one.score for one in found), reverse=True)
    return [replace(one, score=score) for one, score in zip(found, scores, strict=True)]


def _build_supersession(key: str, row: Row, rows: Mapping[str, Row]) -> Supersession | None:
    if row["status"] != "superseded" or row["superseded_by"] is None:
        return None
    by = str(row["superseded_by"])
    old, new = _extract_claim_words(row), _extract_claim_words(rows[by]) if by in rows else frozenset()
    at, workspace = cast(datetime | None, row["valid_to"]), cast(str | None, row["workspace"])
    gone = old - new or old
    return Supersession(
        key, by, at, str(row["session_id"]), workspace, old, gone, new - old, old & _extract_values(row)
    )


def _add_successors(view: View, rows: dict[str, Row]) -> dict[str, Row]:
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
    return _extract_words(" ".join(VALUE.findall(text[:1].lower() + text[1:])))


def _extract_claim_words(row: Row) -> Words:
    return _extract_words(str(row["summary"]))


def _extract_words(text: str) -> Words:
    return frozenset(map(singularise, extract_content_words(text)))


def _index_by_id(rows: Iterable[Row]) -> dict[str, Row]:
    return {str(row["observation_id"]): row for row in rows}


def _list_ids(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []
