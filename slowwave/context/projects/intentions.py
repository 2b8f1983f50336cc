"""What persons mean to do later, each with what it waits for: a day, a file, a version, somebody's name, or a topic.

An intention is a claim that a person said, and that is a plan by its kind or names a coming day. It holds until a later
claim changes it or a person leaves it out (`slowwave exclude ID --why done`). No words are looked for but dates,
versions and names: whether a sentence is a plan, the night's reader of kinds says, and which of its words tell a topic,
how rare they are in people's talk and in the project.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta
from pathlib import PurePosixPath
from weakref import WeakKeyDictionary

import pyarrow.compute as pc

from slowwave.context.projects.standing import (
    EARLIEST,
    StandingClaim,
    collect_standing_claims,
)
from slowwave.recall.hits import Shown
from slowwave.recall.release.tables import Row
from slowwave.recall.release.view import View
from slowwave.schemas.ids import SHORT_ID
from slowwave.schemas.tables import CLAIMS, MESSAGES, SESSIONS
from slowwave.schemas.vocabulary import Origin
from slowwave.text.fence import escape_line
from slowwave.text.rarity import weigh_word
from slowwave.text.times.coming_days import find_coming_day
from slowwave.text.times.days import format_day
from slowwave.text.words import TERM, WORD, extract_content_words, split_words, stem

PLAN = "plan"
"""The category of a claim that is meant to be done."""
OVERDUE = timedelta(days=14)
"""How long after its day an intention is told, at least."""
VERSION = re.compile(
    r"\bv?(?P<number>\d+(?:\.\d+)+)\b|\b(?P<name>[^\W\d_]\w+) (?P<whole>\d{1,3})\b(?!\.\d)"
)
MAJOR = re.compile(r"(?<![\w/.-])v(\d{1,3})\b(?!\.\d)")
"""A version by itself, as "v2" is."""
FILE = re.compile(
    r"(?<![\w/])[\w./-]*[^\W\d_]\w*\.[^\W\d_]\w{0,9}\b|(?<!\w)\.[^\W\d_][\w.-]+"
)
"""A name with an ending: a file's, where an edited file has it."""
PART = re.compile(r"[^\n,;]+")
LONGEST = 300
"""Characters of an intention: a longer text is a report."""
FULL = 5
"""Content words from which a part of a sentence waits for something of its own."""
LEAST = 3.0
"""Rarity of a word that tells something of a topic, at least."""
ENOUGH = 6.5
"""Rarity of the words together that a prompt shares with a topic, at least: one rare word, or two less so."""
ANSWERED = 10.0
"""Rarity of the words together that a later statement shares with a plan, at least, to say what came of it."""
OFTEN = 0.1
"""Share of a project's claims from which a word that they have tells nothing."""
FEW = 3
"""Claims that may have a word whatever their share is."""


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
    topic: tuple[str, ...] = ()
    """Other words that it waits for, in lower case."""
    resumed: date | None = None
    """First day from its day on for which a session of the project is known."""
    met: date | None = None
    """Day on which a person first named what it waits for in a later session."""

    @property
    def mark(self) -> str:
        """Its id in brackets."""
        return f"[{self.id[:SHORT_ID]}]"

    @property
    def is_waiting(self) -> bool:
        """Return True if it waits for something: else no moment is known at which it is told."""
        return bool(self.due or self.files or self.versions or self.names or self.topic)

    @property
    def when(self) -> str:
        """Its day, or the day on which what it waits for came up, in brackets; else empty."""
        if self.due:
            return f" (due {format_day(datetime.fromisoformat(self.due))})"
        if self.met is None:
            return ""
        return f" (came up on {format_day(datetime.combine(self.met, time()))})"

    def describe(self) -> str:
        """Return it in a line."""
        said = f" on {format_day(self.said_at)}" if self.said_at else ""
        return f"Intended{said}: {escape_line(self.text)}{self.when} {self.mark}"

    def is_due(self, today: date) -> bool:
        """Return True if its day has come, and is not long past; or if nobody has worked in the project since."""
        if self.due is None:
            return False
        day = date.fromisoformat(self.due)
        return day <= today and (
            today <= day + OVERDUE or self.resumed in (None, today)
        )

    def comes(self, today: date) -> bool:
        """Return True if its day has come, and nobody has worked in the project between that day and today."""
        return self.is_due(today) and self.resumed in (None, today)

    def is_open(self, today: date) -> bool:
        """Return True if its day has come, or a session not long ago had what it waits for."""
        is_met = self.met is not None and today <= self.met + OVERDUE
        return is_met or self.is_due(today)

    def is_named(self, prompt: str) -> bool:
        """Return True if a prompt has a name, a file, a version or enough of the topic that it waits for."""
        words = {word.casefold() for word in TERM.findall(prompt)}
        if not words.isdisjoint(self.names) or self.has_version(prompt):
            return True
        if self.is_about_file(FILE.findall(prompt)):
            return True
        return _weigh_shared(self.topic, words) >= ENOUGH

    def is_about(self, question: str, today: date) -> bool:
        """Return True if a question names what it waits for, or has its rare words while it is open."""
        if self.is_named(question):
            return True
        said = extract_content_words(self.text)
        return (
            self.is_open(today) and _weigh_shared(said, split_words(question)) >= ENOUGH
        )

    def has_version(self, text: str) -> bool:
        """Return True if a text has a version that it waits for: 2.4.1 is 2.4."""
        lower = text.casefold()
        return any(
            re.search(
                rf"(?<!\w){re.escape(name)}(?:[\W_]|version){{{'0' if name == 'v' else '1'},12}}v?{number}(?!\d)"
                if name
                else rf"(?<![\d.]){re.escape(number)}(?!\d)(?:\.\d+)*(?![\w.])",
                lower,
            )
            for name, number in self.versions
        )

    def is_about_file(self, paths: Collection[str]) -> bool:
        """Return True if it names one of some files, by the last part of its path, or one is named as its topic is."""
        names = {PurePosixPath(path).name.casefold() for path in paths}
        if any(PurePosixPath(file).name.casefold() in names for file in self.files):
            return True
        stems = {stem(name.lstrip(".").partition(".")[0]) for name in names}
        return any(stem(word) in stems for word in (*self.names, *self.topic))


def _weigh_shared(words: Iterable[str], others: Iterable[str]) -> float:
    """Return the rarity of the words together that are among others, in whatever form."""
    stems = set(map(stem, others))
    return sum(weigh_word(word) for word in words if stem(word) in stems)


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
    said = [
        (claim, frozenset(map(stem, extract_content_words(claim.text))))
        for claim in claims
    ]
    often = find_frequent([stems for _, stems in said])
    waiting = [
        (claim, due)
        for claim in claims
        for due in [_find_due(claim)]
        if due or claim.category == PLAN
    ]
    ids = [claim.id for claim, _ in waiting]
    rows = view.read_by_id(CLAIMS, ids, ["quote", "session_id"])
    days = list_days(view) if waiting else {}
    found = [
        _make_intention(claim, due, str(rows[claim.id]["quote"]), first, often, days)
        for claim, due in waiting
        if not any(_answers(later, stems, claim) for later, stems in said)
    ]
    said_since = list_said(view, found)
    found = [
        replace(one, met=_find_met(one, str(rows[one.id]["session_id"]), said_since))
        for one in found
    ]
    found.sort(key=lambda one: (str(one.said_at), one.id), reverse=True)
    return sorted(found, key=lambda one: one.due or "9999")


def find_frequent(texts: Sequence[frozenset[str]]) -> frozenset[str]:
    """Return the stems that so many of some texts have that they tell no topic."""
    counts = Counter(word for stems in texts for word in stems)
    most = max(FEW, OFTEN * len(texts))
    return frozenset(word for word, count in counts.items() if count > most)


def _answers(later: StandingClaim, stems: frozenset[str], plan: StandingClaim) -> bool:
    """Return True if a later claim that is no plan has so many of a plan's rare words that it says what came of it."""
    if later.category == PLAN or later.workspace != plan.workspace:
        return False
    if (later.source.at or EARLIEST) <= (plan.source.at or EARLIEST):
        return False
    words = extract_content_words(plan.text)
    return sum(weigh_word(word) for word in words if stem(word) in stems) >= ANSWERED


def list_said(view: View, intentions: Sequence[Intention]) -> list[Row]:
    """Return what persons said in the projects of some intentions since the first of them, in order."""
    waiting = [one for one in intentions if one.is_waiting and one.said_at]
    if not waiting:
        return []
    here = pc.field("workspace").isin(sorted({one.workspace or "" for one in waiting}))
    since = min(one.said_at for one in waiting if one.said_at)
    said = here & (pc.field("origin") == Origin.HUMAN) & (pc.field("ts") > since)
    columns = ["session_id", "workspace", "text", "ts"]
    rows = view.read(MESSAGES, columns, said).to_pylist()
    return sorted(rows, key=lambda row: str(row["ts"]))


def _find_day(at: datetime) -> date:
    """Return the day of a moment, in this machine's zone."""
    return at.astimezone().date()


def _find_met(one: Intention, session: str, said: Sequence[Row]) -> date | None:
    """Return the day on which a person first named what an intention waits for in another session."""
    for row in said:
        is_later = one.said_at is not None and row["ts"] > one.said_at
        is_here = row["workspace"] == one.workspace and row["session_id"] != session
        if is_later and is_here and one.is_named(row["text"]):
            return _find_day(row["ts"])
    return None


def list_days(view: View) -> dict[str | None, list[date]]:
    """Return the days on which sessions began, by workspace, the earliest first."""
    days: dict[str | None, list[date]] = {}
    for row in view.read(SESSIONS, ["workspace", "started_at"]).to_pylist():
        if row["started_at"]:
            day = _find_day(row["started_at"])
            days.setdefault(row["workspace"], []).append(day)
    return {place: sorted(found) for place, found in days.items()}


def _find_due(claim: StandingClaim) -> date | None:
    at = claim.source.at
    is_plan = claim.category == PLAN
    return find_coming_day(claim.text, at, of_plan=is_plan) if at else None


def _make_intention(
    claim: StandingClaim,
    due: date | None,
    quote: str,
    first: int,
    often: frozenset[str],
    days: Mapping[str | None, Sequence[date]],
) -> Intention:
    """Return a claim as an intention. What is no plan waits for its day alone.

    Args:
        claim: what was said.
        due: its day.
        quote: the claim's words, with line breaks.
        first: place of the first word whose capital tells a name: 0 where persons begin sentences without one.
        often: stems that tell no topic.
        days: on which sessions began, by workspace.
    """
    waits = Waits()
    if claim.category == PLAN:
        at = claim.source.at or EARLIEST
        for part in split_parts(claim.text if quote == claim.text else quote):
            waits.add(part, at, first, often)
    since = [day for day in days.get(claim.workspace, ()) if due and day >= due]
    return Intention(
        id=claim.id,
        text=claim.text,
        workspace=claim.workspace,
        session=claim.source.session,
        said_at=claim.source.at,
        due=due.isoformat() if due else None,
        files=tuple(waits.files),
        versions=tuple(waits.versions),
        names=tuple(waits.names),
        topic=tuple(waits.topic),
        resumed=min(since, default=None),
    )


def split_parts(text: str) -> list[str]:
    """Return the lines of a text; of a line the parts between commas, where both sides have words enough."""
    parts: list[str] = []
    for line in text.splitlines():
        begun = len(parts)
        for match in PART.finditer(line):
            is_own = len(extract_content_words(match[0])) >= FULL
            before = parts[-1] if len(parts) > begun else ""
            if before and not (is_own and len(extract_content_words(before)) >= FULL):
                parts[-1] = f"{before},{match[0]}"
            else:
                parts.append(match[0])
    return parts


@dataclass
class Waits:
    """What a plan waits for, read part by part: a part with a day waits for it, else for its files, else …"""

    files: list[str] = field(default_factory=list)
    versions: list[tuple[str, str]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    topic: list[str] = field(default_factory=list)

    def add(
        self, part: str, said_at: datetime, first: int, often: frozenset[str]
    ) -> None:
        """Add what a part waits for."""
        if find_coming_day(part, said_at, of_plan=True):
            return
        files = FILE.findall(part)
        versions = list_versions(part)
        if files or versions:
            self.files += files
            self.versions += versions
            return
        names = [name for name in list_names(part, first) if stem(name) not in often]
        if names:
            self.names += names
            return
        self.topic += [
            word
            for word in extract_content_words(part)
            if stem(word) not in often
            and not word.isdigit()
            and weigh_word(word) >= LEAST
        ]


def list_versions(text: str) -> tuple[tuple[str, str], ...]:
    """Return the versions that a text names: `2.4` by itself, `node 22` with its name, else `v2`."""
    found = tuple(
        ((match["name"] or "").casefold(), match["number"] or match["whole"])
        for match in VERSION.finditer(text)
        if match["number"] or extract_content_words(match["name"])
    )
    return found or tuple(("v", number) for number in MAJOR.findall(text))


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
