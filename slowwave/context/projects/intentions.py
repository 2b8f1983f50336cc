"""What persons mean to do later, each with what it waits for: a day, a file, a version, somebody's name, or a topic.

An intention is a claim that a person said, and that is a plan by its kind, or likely holds and names a coming day: a
courtesy or an order of the moment may name one too. An intention holds until a later
claim changes it or a person leaves it out (`slowwave exclude ID --why done`). No words are looked for but dates,
versions and names: whether a sentence is a plan, the night's reader of kinds says, and which of its words tell a topic,
how rare they are in people's talk and in the project.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from itertools import pairwise
from pathlib import PurePosixPath
from weakref import WeakKeyDictionary

import pyarrow.compute as pc

from slowwave.context.projects.standing import (
    EARLIEST,
    StandingClaim,
    collect_standing_claims,
)
from slowwave.recall.hits import Shown
from slowwave.recall.release.view import View
from slowwave.schemas.ids import SHORT_ID
from slowwave.schemas.rows import MessageRow
from slowwave.schemas.tables import CLAIMS, MESSAGES, SESSIONS
from slowwave.schemas.vocabulary import Origin
from slowwave.text.fence import escape_line
from slowwave.text.foreign import cut_out, find_foreign_parts
from slowwave.text.rarity import weigh_word
from slowwave.text.times.coming_days import find_coming_day
from slowwave.text.times.days import format_day
from slowwave.text.words import TERM, WORD, extract_content_words, split_words, stem

PLAN = "plan"
"""The category of a claim that is meant to be done."""
OVERDUE = timedelta(days=14)
"""How long after its day an intention is told, at least."""
VERSION = re.compile(
    r"(?:(?P<before>[^\W\d_]\w+) )?\bv?(?P<number>\d+(?:\.\d+)+)\b"
    r"|\b(?P<name>[^\W\d_]\w+) (?P<whole>\d{1,3})\b(?!\.\d)"
)
MAJOR = re.compile(r"(?<![\w/.-])v(\d{1,3})\b(?!\.\d)")
"""A version by itself, as "v2" is."""
FILE = re.compile(
    r"(?<![\w/])[\w./-]*[^\W\d_]\w*\.[^\W\d_]\w{0,9}\b|(?<!\w)\.[^\W\d_][\w.-]+"
)
"""A name with an ending: a file's, where an edited file has it."""
BEFORE = re.compile(r"([^\W\d_][\w-]*)[\"'\s:=<>~^@]{1,6}v?$")
"""The word before a version: `"django": "^` or `django==`."""
DECIMAL = re.compile(r"[=:,(\[<>+*/-]\s*$")
"""What stands before a number in code that is no version, if the number has one point and no quotation marks."""
PART = re.compile(r"[^\n,;]+")
HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
"""Where a name in code has another word: NotificationShim."""
SENTENCE = re.compile(r"(?<=[.!?。！？])\s|\n")
"""What divides the sentences of a prompt."""
LONGEST = 300
"""Characters of an intention: a longer text is a report."""
FULL = 5
"""Content words from which a part of a sentence waits for something of its own."""
LEAST = 3.0
"""Rarity of a word that tells something of a topic, at least."""
ENOUGH = 6.5
"""Rarity of the words together that a prompt shares with a topic, at least: one rare word, or two less so."""
SURE = 0.3
"""Probability of being a plan from which words may tell its moment, a weekday or a part of a month: a plan of less
counts only where it names a date, a version or a file. It is that of two readings of .4 each."""
HOLDS = 0.5
"""Confidence from which what is no plan waits for the day that it names."""
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
    least: float = ENOUGH
    """Rarity of the words of its topic together that a sentence has, at least."""
    resumed: str | None = None
    """First day, in ISO format, from its day on for which a session of the project is known."""
    met: str | None = None
    """Day, in ISO format, on which a person first named what it waits for in a later session."""

    @property
    def mark(self) -> str:
        """Its id in brackets."""
        return f"[{self.id[:SHORT_ID]}]"

    @property
    def is_waiting(self) -> bool:
        """Return True if it waits for something: else no moment is known at which it is told."""
        return bool(self.due or self.files or self.versions or self.names or self.topic)

    @property
    def is_vague(self) -> bool:
        """Return True if it names no day, version, file or name that it waits for."""
        return not (self.due or self.files or self.versions or self.names)

    @property
    def moment(self) -> str:
        """When it is told, as a sentence for a person."""
        if self.due:
            return f"Due on {format_day(datetime.fromisoformat(self.due))}."
        versions = [" ".join(filter(None, version)) for version in self.versions]
        waits = [
            ("{} is edited", self.files),
            ("{} comes up", versions),
            ("{} is named", [self._spell(name) for name in self.names]),
            ("the talk is of {}", [self._spell(word) for word in self.topic]),
        ]
        told = [form.format(" or ".join(what)) for form, what in waits if what]
        if not told:
            return "Told at no fixed time."
        return f"To be told when {', or when '.join(told)}."

    def _spell(self, name: str) -> str:
        """Return a name as its text has it."""
        words = WORD.findall(self.text)
        return next((word for word in words if word.casefold() == name), name)

    @property
    def when(self) -> str:
        """Its day, or the day on which what it waits for came up, in brackets; else empty."""
        if self.due:
            return f" (due {format_day(datetime.fromisoformat(self.due))})"
        if self.met is None:
            return ""
        return f" (came up on {format_day(datetime.fromisoformat(self.met))})"

    def describe(self) -> str:
        """Return it in a line."""
        said = f" on {format_day(self.said_at)}" if self.said_at else ""
        return f"Intended{said}: {escape_line(self.text)}{self.when} {self.mark}"

    def is_due(
        self,
        today: date,
    ) -> bool:
        """Return True if its day has come, and is not long past; or if nobody has worked in the project since."""
        if self.due is None:
            return False
        day = date.fromisoformat(self.due)
        return day <= today and (
            today <= day + OVERDUE or self.resumed in (None, today.isoformat())
        )

    def comes(
        self,
        today: date,
    ) -> bool:
        """Return True if its day has come, and nobody has worked in the project between that day and today."""
        return self.is_due(today) and self.resumed in (None, today.isoformat())

    def is_open(
        self,
        today: date,
    ) -> bool:
        """Return True if its day has come, or a session not long ago had what it waits for."""
        is_met = (
            self.met is not None and today <= date.fromisoformat(self.met) + OVERDUE
        )
        return is_met or self.is_due(today)

    def is_named(
        self,
        prompt: str,
    ) -> bool:
        """Return True if a person typed a name, a file, a version or enough of the topic that it waits for.

        What is pasted or quoted names much that nobody means.
        """
        if not self._is_named_in(prompt):
            return False
        parts = find_foreign_parts(prompt)
        return not parts or self._is_named_in(cut_out(prompt, parts))

    def comes_up(
        self,
        prompt: str,
    ) -> bool:
        """Return True if a prompt names what it waits for, and no sentence that does says what is to be done then.

        Who says both remembers it, or says that it is done.
        """
        if not self.is_named(prompt):
            return False
        sentences = SENTENCE.split(prompt)
        naming = filter(self._is_named_in, sentences)
        return not any(map(self._is_told_in, naming))

    def _is_told_in(
        self,
        sentence: str,
    ) -> bool:
        """Return True if a sentence has a word of it that tells something, from another part than that which the
        sentence names most; or most words of that part, and two of them, unless it is one of several that tell a topic.
        Of a version's only part most words are enough: others go with the version ("3.2 is tagged").

        The product that a version is of tells nothing: who says "python 3.13" says no more than the plan waits for.
        """
        said = set(map(stem, split_words(_split_humps(sentence))))
        waits = [
            *self.names,
            *self._list_titles(),
            *self._list_products(),
        ]
        pattern = "|".join(map(re.escape, waits)) or "(?!)"
        named = re.compile(rf"(?<!\w)(?:{pattern})(?!\w)", re.IGNORECASE)
        parts = PART.findall(self.text) or [""]
        parts.sort(key=lambda part: _weigh_stems(extract_content_words(part), said))
        *others, last = [_list_telling(named.sub(" ", part)) for part in parts]
        if not (self.topic and others):
            shared = [word for word in last if stem(word) in said]
            weight = sum(map(weigh_word, shared))
            is_alone = bool(self.versions) and not others
            if 2 * weight > sum(map(weigh_word, last)) and (is_alone or shared[1:]):
                return True
            others = others or [last] * (not self.topic and not is_alone)
        return _weigh_stems({word for part in others for word in part}, said) >= LEAST

    def _is_named_in(
        self,
        text: str,
    ) -> bool:
        """Return True if a text names what it waits for: of a topic a sentence that has enough of it."""
        words = {word.casefold() for word in TERM.findall(text)}
        if not words.isdisjoint(self.names) or self.has_version(text):
            return True
        if self.is_about_file(FILE.findall(text)):
            return True
        if _weigh_shared(self.topic, words) < self.least:
            return False
        sentences = (TERM.findall(part.casefold()) for part in SENTENCE.split(text))
        return any(_weigh_shared(self.topic, one) >= self.least for one in sentences)

    def is_about(
        self,
        question: str,
        today: date,
    ) -> bool:
        """Return True if a question names what it waits for, or has its rare words while it is open."""
        if self.is_named(question):
            return True
        said = extract_content_words(self.text)
        return (
            self.is_open(today) and _weigh_shared(said, split_words(question)) >= ENOUGH
        )

    def has_version(
        self,
        text: str,
    ) -> bool:
        """Return True if a text has a version that it waits for: 2.4.1 is 2.4."""
        lower = text.casefold()
        return any(
            self._has_number(name, number, lower)
            if "." in number
            else re.search(
                rf"(?<!\w){re.escape(name)}(?:[\W_]|version){{{'0' if name == 'v' else '1'},12}}v?{number}(?!\d)",
                lower,
            )
            for name, number in self.versions
        )

    def _has_number(
        self,
        name: str,
        number: str,
        lower: str,
    ) -> bool:
        """Return True if a text has a version of what is called so, without a name one of nothing else."""
        found = re.finditer(
            rf"(?<![\d.]){re.escape(number)}(?!\d)(?:\.\d+)*(?![\w.%])", lower
        )
        if name:
            return name in lower and any(True for _ in found)
        return any(self._is_own(lower[: one.start()], one[0]) for one in found)

    def _is_own(
        self,
        before: str,
        number: str,
    ) -> bool:
        """Return True if a number behind a text is a version, and the word before it names no other product."""
        match = BEFORE.search(before)
        name = match[1] if match else ""
        if not self._list_products().isdisjoint(re.split("[-_]", name)):
            return True
        if number.count(".") == 1 and DECIMAL.search(before):
            return False
        return weigh_word(name) < ENOUGH or name in (self.workspace or "").casefold()

    def _list_titles(self) -> set[str]:
        """Return the words with a capital directly before its names, in lower case: of "Mr Okonjo" the first."""
        pairs = pairwise(WORD.findall(self.text))
        titles = set[str]()
        for title, name in pairs:
            is_named = name.casefold() in self.names
            if is_named and title[:1].isupper():
                titles.add(title.casefold())
        return titles

    def _list_products(self) -> set[str]:
        """Return the words before its versions, in lower case, however often persons say them."""
        found = VERSION.finditer(self.text)
        words = (one["before"] or one["name"] or "" for one in found)
        return {word.casefold() for word in words} - {""}

    def is_about_file(
        self,
        paths: Collection[str],
    ) -> bool:
        """Return True if it names one of some files, by the last part of its path, or one is named as its topic is."""
        names = {PurePosixPath(path).name.casefold() for path in paths}
        if any(PurePosixPath(file).name.casefold() in names for file in self.files):
            return True
        stems = {stem(name.lstrip(".").partition(".")[0]) for name in names}
        words = (*self.names, *self.topic)
        return any(_weigh_stems([word], stems) >= self.least for word in words)


def _split_humps(text: str) -> str:
    """Return a text whose names in code are words: of NotificationShim two."""
    return HUMP.sub(" ", text)


def _list_telling(part: str) -> list[str]:
    """Return the words of a part that tell something."""
    words = extract_content_words(_split_humps(part))
    return [word for word in words if weigh_word(word) >= LEAST and word.isalpha()]


def _weigh_shared(
    words: Iterable[str],
    others: Iterable[str],
) -> float:
    """Return the rarity of the words together that are among others, in whatever form."""
    return _weigh_stems(words, set(map(stem, others)))


def _weigh_stems(
    words: Iterable[str],
    stems: Collection[str],
) -> float:
    """Return the rarity of the words together whose stems are among some stems."""
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


def _read_intentions(
    view: View,
    places: tuple[str, ...],
) -> list[Intention]:
    """Return the intentions of some workspaces; see `list_intentions`."""
    claims = [
        claim
        for claim in collect_standing_claims(
            view, places, min_confidence=0.0, perhaps_changed=True
        )
        if claim.by_person and len(claim.text) <= LONGEST
    ]
    standing = collect_standing_claims(view, places, min_confidence=0.0)
    sure = {claim.id for claim in standing}
    said = [
        (claim, frozenset(map(stem, extract_content_words(claim.text))))
        for claim in claims
    ]
    waiting = [
        claim
        for claim in claims
        if (claim.category == PLAN or (claim.confidence >= HOLDS and _is_dated(claim)))
        and not any(
            _answers(later, stems, claim, is_sure=claim.id in sure)
            for later, stems in said
        )
    ]
    if not waiting:
        return []
    small = sum(claim.text[:1].islower() for claim in claims)
    talk = ProjectTalk(
        first=0 if 2 * small > len(claims) else 1,
        often=find_frequent([stems for _, stems in said]),
        days=list_days(view),
    )
    found = _read_waiting(view, waiting, talk)
    found.sort(key=lambda one: (str(one.said_at), one.id), reverse=True)
    return sorted(found, key=lambda one: one.due or "9999")


def _read_waiting(
    view: View,
    claims: Sequence[StandingClaim],
    talk: "ProjectTalk",
) -> list[Intention]:
    """Return claims as intentions, each with the day on which what it waits for came up."""
    ids = [claim.id for claim in claims]
    rows = view.read_by_id(CLAIMS, ids, ["quote", "session_id"])
    found = [
        one
        for claim in claims
        for one in _make_intentions(claim, str(rows[claim.id]["quote"]), talk)
    ]
    said_since = list_said(view, found)
    return [
        replace(one, met=_find_met(one, str(rows[one.id]["session_id"]), said_since))
        for one in found
    ]


def find_frequent(texts: Sequence[frozenset[str]]) -> frozenset[str]:
    """Return the stems that so many of some texts have that they tell no topic."""
    counts = Counter(word for stems in texts for word in stems)
    most = max(FEW, OFTEN * len(texts))
    return frozenset(word for word, count in counts.items() if count > most)


def _answers(
    later: StandingClaim,
    stems: frozenset[str],
    plan: StandingClaim,
    *,
    is_sure: bool,
) -> bool:
    """Return True if a later claim that is no plan has so many of a plan's rare words that it says what came of it.

    A plan that is perhaps changed is so by any later claim that has enough of its words: by others it was a guess.
    """
    if (later.category == PLAN and is_sure) or later.workspace != plan.workspace:
        return False
    if (later.source.at or EARLIEST) <= (plan.source.at or EARLIEST):
        return False
    words = extract_content_words(plan.text)
    if is_sure:
        return _weigh_stems(words, stems) >= ANSWERED
    words = [word for word in words if not word.isdigit()]
    return _weigh_stems(words, stems) >= ENOUGH


def list_said(
    view: View,
    intentions: Sequence[Intention],
) -> list[MessageRow]:
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


def _find_met(
    one: Intention,
    session: str,
    said: Sequence[MessageRow],
) -> str | None:
    """Return the day on which a person first named what an intention waits for in another session."""
    for row in said:
        at = row["ts"]
        if at is None or one.said_at is None or at <= one.said_at:
            continue
        is_here = row["workspace"] == one.workspace and row["session_id"] != session
        if is_here and one.is_named(row["text"]):
            return _find_day(at).isoformat()
    return None


def list_days(view: View) -> dict[str | None, list[date]]:
    """Return the days on which sessions began, by workspace, the earliest first."""
    days: dict[str | None, list[date]] = {}
    for row in view.read(SESSIONS, ["workspace", "started_at"]).to_pylist():
        if row["started_at"]:
            day = _find_day(row["started_at"])
            days.setdefault(row["workspace"], []).append(day)
    return {place: sorted(found) for place, found in days.items()}


def _is_dated(claim: StandingClaim) -> bool:
    """Return True if a claim names a coming day."""
    return bool(claim.source.at and find_coming_day(claim.text, claim.source.at))


@dataclass(frozen=True)
class ProjectTalk:
    """What is known of a store's talk, to read one plan."""

    first: int
    """Place of the first word whose capital tells a name: 0 where persons begin sentences without one."""
    often: frozenset[str]
    """Stems that tell no topic."""
    days: Mapping[str | None, Sequence[date]]
    """On which sessions began, by workspace."""


def _make_intentions(
    claim: StandingClaim,
    quote: str,
    talk: ProjectTalk,
) -> list[Intention]:
    """Return a claim as an intention, or as several where its parts wait for different things. What is no plan waits
    for its day alone.

    Args:
        claim: what was said.
        quote: the claim's words, with line breaks.
        talk: of the store.
    """
    whole = Intention(
        id=claim.id,
        text=claim.text,
        workspace=claim.workspace,
        session=claim.source.session,
        said_at=claim.source.at,
        due=None,
        files=(),
        versions=(),
        names=(),
    )
    if claim.category != PLAN:
        due = find_coming_day(claim.text, whole.said_at) if whole.said_at else None
        found = [_set_due(whole, due, talk)]
    else:
        is_sure = claim.confidence >= SURE
        lines = [
            read_line(whole, line, talk, is_sure=is_sure) for line in quote.splitlines()
        ]
        found = [part for parts in lines for part in parts if part.is_waiting]
    if len(found) < 2:
        return [replace(one, text=claim.text) for one in (found or [whole])]
    return found


def _set_due(
    one: Intention,
    due: date | None,
    talk: ProjectTalk,
) -> Intention:
    """Return an intention with its day, and the first day since then on which somebody worked in its project."""
    if due is None:
        return one
    since = [day for day in talk.days.get(one.workspace, ()) if day >= due]
    resumed = min(since).isoformat() if since else None
    return replace(one, due=due.isoformat(), resumed=resumed)


def read_line(
    one: Intention,
    line: str,
    talk: ProjectTalk,
    *,
    is_sure: bool = True,
) -> list[Intention]:
    """Return a line of a plan as an intention, or as several where its parts wait for different things.

    A part that names no day, version, file or name belongs to the part before it, else to the one behind: it is mostly
    a reason. Where no part does, the words of all parts tell the topic.
    """
    groups: list[list[str]] = [[]]
    is_certain = False
    for part in split_parts(line):
        names_it = not read_waits(one, part, talk, is_sure=is_sure).is_vague
        if names_it and is_certain:
            groups.append([])
        groups[-1].append(part)
        is_certain = is_certain or names_it
    parts = [",".join(group) for group in groups]
    return [read_waits(one, part, talk, is_sure=is_sure) for part in parts]


def read_waits(
    one: Intention,
    part: str,
    talk: ProjectTalk,
    *,
    is_sure: bool = True,
) -> Intention:
    """Return a part of a plan with what it waits for: its day, else its versions, files, names, or else words that tell
    a topic.

    A file beside a day or a version is what is to be changed then: touching it earlier tells nothing. A whole number
    behind a file ("in fold.go the constant 16") is no version.

    Args:
        one: the plan.
        part: a part of its words.
        talk: of the store.
        is_sure: it is surely a plan: else weekdays, parts of months, names and topics tell nothing.
    """
    one = replace(one, text=" ".join(part.split()))
    due = one.said_at and find_coming_day(part, one.said_at, of_plan=is_sure)
    if due:
        return _set_due(one, due, talk)
    versions = list_versions(part)
    files = tuple(FILE.findall(part))
    if versions and not (files and _comes_first(files[0], versions[0], part)):
        return replace(one, versions=versions)
    if files:
        return replace(one, files=files)
    return read_words(one, part, talk) if is_sure else one


def _comes_first(
    file: str,
    version: tuple[str, str],
    part: str,
) -> bool:
    """Return True if a file stands before a version that is a whole number with a name."""
    name, number = version
    return "." not in number and part.find(file) < part.casefold().find(f"{name} ")


def read_words(
    one: Intention,
    part: str,
    talk: ProjectTalk,
) -> Intention:
    """Return a part of a plan with the names that it waits for, else with the words that tell a topic.

    Where most words are in no conversation, as in a language that was not counted, no word is rare: two are needed.
    There a word with a capital is a name if it is the only one: in German all nouns have one.
    """
    said = [word for word in extract_content_words(part) if not word.isdigit()]
    unseen = weigh_word("")
    words = [
        word
        for word in said
        if stem(word) not in talk.often and weigh_word(word) >= LEAST
    ]
    rare = {word for word in words if weigh_word(word) >= ENOUGH}
    is_counted = 2 * sum(weigh_word(word) == unseen for word in said) <= len(said)
    names = tuple(name for name in list_names(part, talk.first) if name in rare)
    if names and (is_counted or len(names) == 1):
        return replace(one, names=names)
    least = ENOUGH if is_counted else 2 * unseen
    return replace(one, topic=tuple(words), least=least)


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


def list_versions(text: str) -> tuple[tuple[str, str], ...]:
    """Return the versions that a text names: `2.4` by itself, `node 22` with its name, else `v2`."""
    found = tuple(
        (_find_name(match), match["number"] or match["whole"])
        for match in VERSION.finditer(text)
        if match["number"] or weigh_word(match["name"].casefold()) >= LEAST
    )
    return found or tuple(("v", number) for number in MAJOR.findall(text))


def _find_name(version: re.Match[str]) -> str:
    """Return the name before a version; empty for a word that persons often say."""
    name = (version["name"] or version["before"] or "").casefold()
    return name if version["name"] or weigh_word(name) >= ENOUGH else ""


def list_names(
    text: str,
    first: int = 1,
) -> tuple[str, ...]:
    """Return the words of a text with a capital, from the `first` on, in lower case."""
    words = [match[0] for match in WORD.finditer(text)][first:]
    return tuple(
        dict.fromkeys(
            word.casefold()
            for word in words
            if len(word) > 2
            and word.isalpha()
            and word[0].isupper()
            and word[1:].islower()
            and weigh_word(word.casefold()) >= LEAST
        )
    )
