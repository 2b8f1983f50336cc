"""What persons mean to do later, each with what it waits for: a day, a file, a version, or somebody's name.

An intention is a claim that a person said, and that is a plan by its kind or names a coming day. It holds until a later
claim changes it or a person leaves it out (`slowwave exclude ID --why done`). No words are looked for but dates,
versions and names: whether a sentence is a plan, the night's reader of kinds says.
"""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import PurePosixPath
from weakref import WeakKeyDictionary

from slowwave.context.projects.standing import StandingClaim, collect_standing_claims
from slowwave.recall.hits import Shown
from slowwave.recall.release.view import View
from slowwave.schemas.ids import SHORT_ID
from slowwave.schemas.tables import CLAIMS
from slowwave.text.fence import escape_line
from slowwave.text.times.coming_days import find_coming_day
from slowwave.text.times.days import format_day
from slowwave.text.words import TERM, WORD, extract_content_words

PLAN = "plan"
"""The category of a claim that is meant to be done."""
OVERDUE = timedelta(days=14)
"""How long after its day an intention is told."""
VERSION = re.compile(
    r"\bv?(?P<number>\d+(?:\.\d+)+)\b|\b(?P<name>[^\W\d_]\w+) (?P<whole>\d{1,3})\b(?!\.\d)"
)
LONGEST = 300
"""Characters of an intention: a longer text is a report."""


@dataclass(frozen=True, slots=True)
class Intention(Shown):
    """What a person means to do, and when it is due."""

    id: str
    """The claim's."""
    text: str
    workspace: str | None
    session: str | None
    """The session's id, as the transcript has it."""
    said_at: datetime | None
    due: str | None
    """The day, in ISO format."""
    files: tuple[str, ...]
    versions: tuple[tuple[str, str], ...]
    """Name, in lower case or empty, and number."""
    names: tuple[str, ...]
    """Names, in lower case."""

    @property
    def mark(self) -> str:
        """Its id in brackets."""
        return f"[{self.id[:SHORT_ID]}]"

    def describe(self) -> str:
        """Return it in a line."""
        said = f" on {format_day(self.said_at)}" if self.said_at else ""
        due = f" (due {self.due})" if self.due else ""
        return f"Intended{said}: {escape_line(self.text)}{due} {self.mark}"

    def is_due(self, today: date) -> bool:
        """Return True if its day has come, and is not long past."""
        if self.due is None:
            return False
        day = date.fromisoformat(self.due)
        return day <= today <= day + OVERDUE

    def is_named(self, prompt: str) -> bool:
        """Return True if a prompt has a name or a version that it waits for."""
        words = {word.casefold() for word in TERM.findall(prompt)}
        return not words.isdisjoint(self.names) or self.has_version(prompt)

    def has_version(self, text: str) -> bool:
        """Return True if a text has a version that it waits for: 2.4.1 is 2.4."""
        lower = text.casefold()
        return any(
            re.search(
                rf"(?<!\w){re.escape(name)}\W{{1,3}}v?{number}(?!\d)"
                if name
                else rf"(?<![\d.]){re.escape(number)}(?!\d)(?:\.\d+)*(?![\w.])",
                lower,
            )
            for name, number in self.versions
        )

    def is_about_file(self, paths: Collection[str]) -> bool:
        """Return True if it names one of some files, by the last part of its path."""
        touched = {PurePosixPath(path).name for path in paths}
        return any(PurePosixPath(file).name in touched for file in self.files)


_KEPT: WeakKeyDictionary[View, dict[tuple[str, ...], list[Intention]]] = (
    WeakKeyDictionary()
)


def list_intentions(view: View, places: Sequence[str] = ()) -> list[Intention]:
    """Return the intentions of some workspaces, of all without one: by day, then the latest first.

    They are kept as long as the release is open.
    """
    kept = _KEPT.setdefault(view, {})
    key = tuple(sorted(places))
    if key not in kept:
        kept[key] = _read_intentions(view, key)
    return kept[key]


def _read_intentions(view: View, places: tuple[str, ...]) -> list[Intention]:
    claims = [
        claim
        for claim in collect_standing_claims(view, places, min_confidence=0.0)
        if claim.by_person and len(claim.text) <= LONGEST
    ]
    small = sum(claim.text[:1].islower() for claim in claims)
    first = 0 if 2 * small > len(claims) else 1
    counts = Counter(
        word for claim in claims for word in {*extract_content_words(claim.text)}
    )
    rare = frozenset(word for word, count in counts.items() if count == 1)
    waiting = [
        (claim, due)
        for claim in claims
        for due in [_find_due(claim)]
        if due or claim.category == PLAN
    ]
    ids = [claim.id for claim, _ in waiting]
    rows = view.read_by_id(CLAIMS, ids, ["files"])
    found = [
        _make_intention(claim, due, rows[claim.id]["files"], first, rare)
        for claim, due in waiting
    ]
    found.sort(key=lambda one: (str(one.said_at), one.id), reverse=True)
    return sorted(found, key=lambda one: one.due or "9999")


def _find_due(claim: StandingClaim) -> date | None:
    at = claim.source.at
    is_plan = claim.category == PLAN
    return find_coming_day(claim.text, at, weekdays=is_plan) if at else None


def _make_intention(
    claim: StandingClaim,
    due: date | None,
    files: Sequence[str],
    first: int,
    rare: frozenset[str],
) -> Intention:
    """Return a claim as an intention. What is no plan waits for its day alone.

    Args:
        claim: what was said.
        due: its day.
        files: that it names.
        first: place of the first word whose capital tells a name: 0 where persons begin sentences without one.
        rare: words that no other claim has. One that waits for nothing else waits for these.
    """
    is_plan = claim.category == PLAN
    own = tuple(file for file in files if PurePosixPath(file).name in claim.text)
    versions = () if due else list_versions(claim.text)
    plain = claim.text
    for file in own:
        plain = plain.replace(PurePosixPath(file).name, "")
    names = list_names(plain, first)
    if not (due or own or versions or names):
        names = tuple(word for word in extract_content_words(plain) if word in rare)
    return Intention(
        id=claim.id,
        text=claim.text,
        workspace=claim.workspace,
        session=claim.source.session,
        said_at=claim.source.at,
        due=due.isoformat() if due else None,
        files=own if is_plan else (),
        versions=versions if is_plan else (),
        names=names if is_plan else (),
    )


def list_versions(text: str) -> tuple[tuple[str, str], ...]:
    """Return the versions that a text names: `2.4` by itself, `node 22` with its name."""
    return tuple(
        ((match["name"] or "").casefold(), match["number"] or match["whole"])
        for match in VERSION.finditer(text)
        if match["number"] or extract_content_words(match["name"])
    )


def list_names(text: str, first: int = 1) -> tuple[str, ...]:
    """Return the words of a text with a capital, from the `first` on, in lower case."""
    words = [match[0] for match in WORD.finditer(text)][first:]
    return tuple(
        dict.fromkeys(
            word.casefold()
            for word in words
            if len(word) > 2 and word[0].isupper() and word[1:].islower()
        )
    )
