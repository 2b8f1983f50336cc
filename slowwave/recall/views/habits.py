"""Habits of a release: files that change together, steps that follow each other, commands that recur."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import Any

from slowwave.recall.hits import Shown
from slowwave.recall.query import normalise_path
from slowwave.recall.release.view import View
from slowwave.recall.retrieve.rows import build_path_variants
from slowwave.schemas.errors import UsageError
from slowwave.schemas.rows import PatternRow
from slowwave.schemas.tables import MESSAGES, PATTERNS
from slowwave.schemas.vocabulary import ActionKind, HabitKind
from slowwave.text.words import count_noun
from slowwave.text.workspaces import require_workspaces

COLUMNS = [field.name for field in PATTERNS.fields if field.name != "step_key"]

LOOKS = (ActionKind.READ, ActionKind.SEARCH, ActionKind.EDIT)
"""Steps of a sequence other than commands."""


@dataclass(frozen=True, slots=True)
class HabitSource:
    """A message that shows a habit: its session's and its own id, as the transcript has them."""

    session: str
    message: str
    id: str
    """The message's in the store, as `slowwave show` takes it."""


@dataclass(frozen=True, slots=True)
class Habit(Shown):
    """A recurring action of agents."""

    id: str
    kind: str
    workspace: str
    items: tuple[str, ...]
    """Two files, the one asked for first; steps in order; or one command."""
    line: str | None
    """A command's line, as it is mostly typed."""
    role: str | None
    """A command's role: test, build, lint, format, run or vcs; None if unknown."""
    support: int
    """Turns that have it: a turn is all that is done between one thing that a person says and the next."""
    turns: tuple[int, ...]
    """Turns that have each item."""
    times: int
    sessions: int
    share: float | None
    """Support by the turns of the rarer file, or of the one asked for; by those of the first step; of a command the
    runs that went well, if most runs tell."""
    lift: float | None
    first_at: datetime | None
    last_at: datetime | None
    sources: tuple[HabitSource, ...]
    """The latest, at most three."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        shares = {"share": self.share, "lift": self.lift}
        rounded = {
            name: None if share is None else round(share, 3)
            for name, share in shares.items()
        }
        return {**Shown.as_dict(self), **rounded, "text": self.describe()}

    def describe(self) -> str:
        """Return it as a sentence."""
        if self.kind == HabitKind.SEQUENCE:
            return f"{self.name} ({self.count})"
        return f"{self.name}: {self.count}"

    @property
    def name(self) -> str:
        """The action: `a.py and b.py`, `make check` follows `edit`, `make check (test)`."""
        if self.kind == HabitKind.CO_EDIT:
            return " and ".join(self.items)
        if self.kind == HabitKind.SEQUENCE:
            *first, last = [one if one in LOOKS else f"`{one}`" for one in self.items]
            return f"{last} follows {' → '.join(first)}"
        return f"{self.line or self.items[0]}{f' ({self.role})' if self.role else ''}"

    @property
    def count(self) -> str:
        """The number of times."""
        sessions = f" of {self.sessions} sessions" if self.sessions > 1 else ""
        if self.kind == HabitKind.CO_EDIT:
            both = f"the one changes in {self.turns[0]}, the other in {self.turns[1]}"
            return f"together in {self.support} turns{sessions}; {both}"
        if self.kind == HabitKind.SEQUENCE:
            times = count_noun(self.turns[0], "time")
            more = f", {self.sessions} sessions" if self.sessions > 1 else ""
            return f"{self.support} of {times}{more}"
        went = f", {self.share:.0%} went well" if self.share is not None else ""
        return f"{self.times} times in {self.support} turns{sessions}{went}"


def build_habit(row: PatternRow, sources: tuple[HabitSource, ...] = ()) -> Habit:
    """Return a row of PATTERNS as a habit."""
    named: dict[str, Any] = {
        name: value
        for name, value in row.items()
        if name not in ("pattern_id", "items", "turns", "examples")
    }
    return Habit(
        id=row["pattern_id"],
        items=tuple(row["items"]),
        turns=tuple(row["turns"]),
        sources=sources,
        **named,
    )


def find_habits(
    view: View,
    workspace: str | None = None,
    kind: str | None = None,
    files: Sequence[str] = (),
) -> list[Habit]:
    """Return a release's habits, by kind, the most frequent first.

    Args:
        view: the release.
        workspace: whose; None for all.
        kind: a HabitKind; None for all.
        files: for files that change together with one of these, and are none of them; the likeliest first.

    Raises:
        UsageError: an unknown kind or workspace, or files and a kind that has none.
    """
    if kind is not None and kind not in tuple(HabitKind):
        raise UsageError(f"kind is {kind!r}; it is one of {', '.join(HabitKind)}")
    if files and kind not in (None, HabitKind.CO_EDIT):
        raise UsageError(
            f"files select what changes together: they can't be combined with the kind {kind}"
        )
    rows = view.read_rows(PATTERNS, COLUMNS)
    if workspace is not None:
        known = {*view.workspaces, *(row["workspace"] for row in rows)}
        places = require_workspaces(workspace, known)
        rows = [row for row in rows if row["workspace"] in places]
    if kind is not None:
        rows = [row for row in rows if row["kind"] == kind]
    habits = _build_habits(view, rows)
    return _find_beside(habits, files) if files else habits


def _build_habits(view: View, rows: list[PatternRow]) -> list[Habit]:
    """Return rows of PATTERNS as habits with their sources: by kind, the most frequent first."""
    ids = [*chain.from_iterable(row["examples"] for row in rows)]
    messages = view.read_by_id(MESSAGES, ids, ["session_id", "native_id"])
    habits: list[Habit] = []
    for row in rows:
        examples = [(key, messages.get(key)) for key in row.pop("examples")]
        sources = tuple(
            HabitSource(
                view.native_sessions.get(message["session_id"], ""),
                message["native_id"],
                key,
            )
            for key, message in examples
            if message
        )
        habits.append(build_habit(row, sources))
    order = list(HabitKind)
    habits.sort(
        key=lambda habit: (
            order.index(HabitKind(habit.kind)),
            -habit.support,
            -habit.times,
            habit.workspace,
            habit.items,
        )
    )
    return habits


def _find_beside(habits: list[Habit], files: Sequence[str]) -> list[Habit]:
    """Return the pairs of files of which one is asked for, that one first, with their share by its turns.

    The likeliest come first. A pair is left out if neither or both are asked for.
    """
    asked = [normalise_path(file) for file in files]
    beside: list[Habit] = []
    for habit in habits:
        ways = build_path_variants(asked, [habit.workspace])
        is_asked = [any(way.is_match(path) for way in ways) for path in habit.items]
        if habit.kind == HabitKind.CO_EDIT and is_asked.count(True) == 1:
            step = 1 if is_asked[0] else -1
            items = habit.items[::step]
            turns = habit.turns[::step]
            share = habit.support / turns[0]
            beside.append(
                replace(
                    habit,
                    items=items,
                    turns=turns,
                    share=share,
                )
            )
    return sorted(
        beside, key=lambda habit: (-(habit.share or 0), -habit.support, habit.items)
    )
