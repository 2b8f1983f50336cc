"""Dead ends of a release: what agents tried and left, how it failed, and what was done instead."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from slowwave.recall.hits import Shown
from slowwave.recall.query import Query, is_of_session
from slowwave.recall.release.view import View
from slowwave.schemas.ids import SHORT_ID
from slowwave.schemas.rows import DeadEndRow
from slowwave.schemas.tables import MESSAGES
from slowwave.schemas.vocabulary import PROPOSED
from slowwave.text.fence import escape_line
from slowwave.text.times.days import format_day
from slowwave.text.words import TERM
from slowwave.text.workspaces import require_workspaces

TOUCHED = 0.5
"""Share of a dead end's own words that a question has, at least, to be about it."""


@dataclass(frozen=True, slots=True)
class Tried(Shown):
    """A dead end."""

    id: str
    """The id of the message that tried it, as `slowwave show` takes it."""
    session: str
    """The session's id, as the transcript has it."""
    workspace: str | None
    kind: str
    """edit, run, check, or words: what was only proposed."""
    path: str | None
    """The edited file; None for another kind."""
    attempt: str
    """The command, the first line that the edit brought in, or the proposal."""
    error: str
    """The line that tells most of what failed, or the person's words."""
    by_person: bool
    instead: str | None
    at: datetime | None

    @property
    def name(self) -> str:
        """What was tried."""
        return f"{self.path}: {self.attempt}" if self.path else self.attempt

    @property
    def mark(self) -> str:
        """Its id in brackets, as its description ends."""
        return f"[{self.id[:SHORT_ID]}]"

    def describe(self) -> str:
        """Return it in two lines."""
        how = "Proposed" if self.kind == PROPOSED else "Tried"
        day = f"{how} on {format_day(self.at)}" if self.at else how
        how = "refused" if self.by_person else "failed"
        after = f"done instead: {self.instead}" if self.instead else "it was left"
        first = escape_line(f"{day}: {self.name}; {how}: {self.error}")
        return f"{first}\n  {escape_line(after)} {self.mark}"


def list_dead_ends(view: View, workspace: str | None = None) -> list[Tried]:
    """Return a release's dead ends that did not work in a later session, the latest first.

    Args:
        view: the release.
        workspace: whose; None for all.

    Raises:
        UsageError: the workspace is not known.
    """
    places: Collection[str] | None = None
    if workspace is not None:
        places = require_workspaces(workspace, view.workspaces)
    rows = [
        row for row in view.dead_ends if places is None or row["workspace"] in places
    ]
    return [build_tried(view, row) for row in rows]


def list_of_others(
    view: View,
    places: Collection[str],
    own_sessions: Collection[str],
) -> list[DeadEndRow]:
    """Return the rows of some workspaces' dead ends, without those of the running session."""
    return [
        row
        for row in view.dead_ends
        if row["workspace"] in places
        and not is_of_session(view.native_sessions.get(row["session_id"]), own_sessions)
    ]


def build_tried(view: View, row: DeadEndRow) -> Tried:
    """Return a row of DEAD_ENDS as it is shown."""
    return Tried(
        id=row["attempt_id"],
        session=view.native_sessions.get(row["session_id"], ""),
        workspace=row["workspace"],
        kind=row["kind"],
        path=row["path"],
        attempt=row["attempt"],
        error=row["error"],
        by_person=row["by_person"],
        instead=row["instead"],
        at=row["at"],
    )


def find_touched(
    view: View,
    query: Query,
    limit: int,
) -> list[tuple[Tried, str]]:
    """Return the dead ends that a question names by most of their words, or by their file, the latest first; each with
    its message's own id.
    """
    if query.since or query.until or query.as_of or query.speaker or query.tag:
        return []
    asked = {word.casefold() for word in TERM.findall(query.text)}
    rows = [
        row
        for row in view.dead_ends
        if (not query.places or row["workspace"] in query.places)
        and view.native_sessions.get(row["session_id"]) not in query.own_sessions
        and is_touched(row, asked)
    ][:limit]
    ids = [row["attempt_id"] for row in rows]
    messages = view.read_by_id(MESSAGES, ids, ["native_id"])
    return [
        (build_tried(view, row), messages[row["attempt_id"]]["native_id"])
        for row in rows
        if row["attempt_id"] in messages
    ]


def is_touched(row: DeadEndRow, asked: Collection[str]) -> bool:
    """Return True if words of a question name a dead end."""
    own = {
        term.casefold()
        for word in row["words"]
        if not word.startswith("-")
        for term in TERM.findall(word)
    }
    file = {
        word.casefold() for word in TERM.findall((row["path"] or "").rpartition("/")[2])
    }
    named = bool(file) and file <= set(asked)
    return named or (bool(own) and len(own.intersection(asked)) / len(own) >= TOUCHED)
