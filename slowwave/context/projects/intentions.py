"""What persons mean to do later, each with what it waits for: a day, a file, a version, somebody's name, or a topic.

An intention is a claim that a person said, and that is a plan by its kind, or likely holds and names a coming day: a
courtesy or an order of the moment may name one too. An intention holds until a later
claim changes it or a person leaves it out (`slowwave exclude ID --why done`). No words are looked for but dates,
versions and names: whether a sentence is a plan, the night's reader of kinds says, and which of its words tell a topic,
how rare they are in people's talk and in the project.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from itertools import pairwise
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slowwave.context.projects.nearness import (
    measure_nearness,
    read_claim_vectors,
    read_passage_vectors,
)
from slowwave.context.projects.standing import (
    EARLIEST,
    StandingClaim,
    add_question,
    collect_standing_claims,
)
from slowwave.recall.hits import Shown
from slowwave.recall.query import is_question
from slowwave.recall.release.view import View
from slowwave.schemas.ids import SHORT_ID, compute_tags_id
from slowwave.schemas.rows import MessageRow
from slowwave.schemas.tables import CLAIMS, MESSAGES, SESSIONS
from slowwave.schemas.tool_calls import (
    EDITS,
    NEW,
    OLD,
    list_patched_files,
    list_paths,
    list_scripts,
    list_texts,
    parse_arguments,
)
from slowwave.schemas.vocabulary import LONGEST, Origin
from slowwave.store.notes import cut_subject
from slowwave.text.fence import escape_line
from slowwave.text.foreign import cut_out, find_foreign_parts
from slowwave.text.rarity import ENGLISH_LEXICON, Lexicon, get_lexicon, weigh_word
from slowwave.text.sentences import split_sentences
from slowwave.text.times.coming_days import find_coming_day
from slowwave.text.times.days import format_day
from slowwave.text.words import (
    STOP,
    TERM,
    UNITS,
    WORD,
    extract_content_words,
    find_text_language,
    split_words,
)

PLAN = "plan"
"""The category of a claim that is meant to be done."""
OVERDUE = timedelta(days=14)
"""How long an intention is shown after its day, at least."""
VERSION = re.compile(
    r"(?:(?P<before>[^\W\d_]\w+) )?\bv?(?P<number>\d+(?:\.\d+)+)\b"
    r"|\b(?P<name>[^\W\d_]\w+) (?P<whole>\d{1,3})\b(?!\.\d)"
)
MAJOR = re.compile(r"(?<![\w/.-])v(\d{1,3})\b(?!\.\d)")
"""A version by itself, as "v2" is."""
FILE = re.compile(
    r"(?<![\w/])[\w./-]*[^\W\d_]\w*\.[^\W\d_]\w{0,9}\b|(?<!\w)\.[^\W\d_][\w.-]+"
)
"""A name with an ending: a file's, if an edited file has it."""
FROM = r"(?:v?\d[\d.]*\W{0,8}(?:→|->|=>|\bto\b)\W{0,8})?"
"""The version before the new one: `^5.14.1 → ^6.0.2`."""
BEFORE = re.compile(r"([^\W\d_][\w-]*)[\"'\s:=<>~^@]{1,6}v?$")
"""The word before a version: `"django": "^` or `django==`."""
NEAR_BEFORE = 48
"""Characters before a version that are read."""
EDGE = 6 * 1024
"""Characters of each end of a long text in which a version is looked for."""
DECIMAL = re.compile(r"[=:,(\[<>+*/-]\s*$")
"""What stands before a decimal number in code, if the number has one point and no quotation marks: it isn't a
version."""
MEASURE = re.compile(r"(?<![\w.])\d+\.\d+ ?([^\W\d_]+)\b")
"""A number with a word behind it."""
PART = re.compile(r"[^\n,;]+")
HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
"""Where a name in code has another word: NotificationShim."""
SENTENCE = re.compile(r"(?<=[.!?。！？])\s|\n")
"""What divides the sentences of a prompt."""
FULL = 5
"""Content words from which a part of a sentence waits for something of its own."""
LEAST = 3.0
"""Rarity of a word that tells something of a topic, at least."""
ENOUGH = 6.5
"""Rarity of the words together that a prompt shares with a topic, at least: one rare word, or two less so."""
SURE = 0.3
"""Probability of being a plan from which words may tell its moment, a weekday or a part of a month: a plan of less
counts only if it names a date, a version or a file. It is that of two readings of .4 each."""
HOLDS = 0.5
"""Least confidence of a claim other than a plan to wait for the day that it names."""
NEAR = 2.0
LEAST_NEAR = 3.5
"""Rarity that a shared word lacks at most for each standard deviation by which a prompt is nearer to a topic than the
project's claims are; and the rarity of that word, at least."""
NEAREST = 100.0
"""Nearness with which one word that both have is enough."""
ANSWERED = 10.0
"""Rarity of the words together that a later statement shares with a plan, at least, to say what came of it."""
MOST_CALLS = 5_000
"""Messages of agents that are looked through for what intentions wait for."""
WRITING = (*OLD, *NEW, EDITS)
"""How the arguments begin that only a call which edits a file has."""
GIVES_VERSION = re.compile(
    r"(?:^|[;&|\n]\s*)(?:git tag|gh release create|(?:npm|pnpm|yarn|bun|uv|poetry|hatch|pdm|cargo) version)\b"
)
"""Commands that give the project its versions."""
SETS = re.compile(r"[=:@^~\"']|version")
"""What stands between a product and the version that it gets."""
TAGGED = re.compile(r"(?:(?P<name>.+)[-_/@])?v?(?P<number>\d+(?:\.\d+)*)")
"""A tag of a version: v2.4.0, harbor@2.4.0, release/2.4."""
ARROW = re.compile("→|->|=>")
UNSIGNED = frozenset(word.replace("'", "") for word in STOP if word.endswith("'t"))
"""Negations that are typed without their sign: "cant". They tell no topic. Only English writes a sign in one: in other
languages they are words of their own, and stop words."""
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
    """Day, in ISO format, on which what it waits for first came up in a later session."""
    language: str | None = None
    answers: str = ""
    """The question that it answers, if its text does not have that."""

    @property
    def told(self) -> str:
        """The text with the question that it answers."""
        return add_question(self.text, self.answers)

    @property
    def lexicon(self) -> Lexicon:
        """The counts of its language."""
        return get_lexicon(self.language)

    @property
    def mark(self) -> str:
        """Its id in brackets."""
        return f"[{self.id[:SHORT_ID]}]"

    @property
    def is_waiting(self) -> bool:
        """Return True if it waits for something; if not, no moment is known at which to show it."""
        return bool(self.due or self.files or self.versions or self.names or self.topic)

    @property
    def is_vague(self) -> bool:
        """Return True if it names no day, version, file or name that it waits for."""
        return not (self.due or self.files or self.versions or self.names)

    @property
    def moment(self) -> str:
        """The moment at which it is shown, as a sentence for a person."""
        if self.due:
            return f"Due on {format_day(datetime.fromisoformat(self.due))}."
        versions = [" ".join(filter(None, version)) for version in self.versions]
        topic = [self._spell(word) for word in self.topic]
        # the others are only enough together
        telling = [self._spell(word) for word in self._list_enough()]
        if not telling:
            several = "enough of " if len(topic) > 1 else ""
            telling = [f"{several}{', '.join(topic)}"] if topic else []
        waits = [
            ("{} is edited", self.files),
            ("{} comes up", versions),
            ("{} is named", [self._spell(name) for name in self.names]),
            ("the conversation mentions {}", telling),
        ]
        waits_for = [form.format(" or ".join(what)) for form, what in waits if what]
        if not waits_for:
            return "Not tied to a time or an event."
        return f"Shown when {', or when '.join(waits_for)}."

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
        return f"Intended{said}: {escape_line(self.told)}{self.when} {self.mark}"

    def is_due(self, today: date) -> bool:
        """Return True if its day has come, and is not long past; or if nobody has worked in the project since."""
        if self.due is None:
            return False
        day = date.fromisoformat(self.due)
        return day <= today and (
            today <= day + OVERDUE or self.resumed in (None, today.isoformat())
        )

    def comes(self, today: date) -> bool:
        """Return True if its day has come, and nobody has worked in the project between that day and today."""
        return self.is_due(today) and self.resumed in (None, today.isoformat())

    def is_open(self, today: date) -> bool:
        """Return True if its day has come, or a session not long ago had what it waits for."""
        is_met = (
            self.met is not None and today <= date.fromisoformat(self.met) + OVERDUE
        )
        return is_met or self.is_due(today)

    def is_named(self, prompt: str, near: float | None = None) -> bool:
        """Return True if a person typed a name, a file, a version or enough of the topic that it waits for.

        What is pasted or quoted names much that nobody means.

        Args:
            prompt: what was typed.
            near: how much nearer in meaning the prompt is than what the project mostly says, in standard deviations;
                None if that is not known.
        """
        if not self._is_named_in(prompt, near):
            return False
        parts = find_foreign_parts(prompt)
        return not parts or self._is_named_in(cut_out(prompt, parts), near)

    def comes_up(self, prompt: str, near: float | None = None) -> bool:
        """Return True if a prompt names what it waits for, and no sentence that does says what is to be done then.

        Who says both remembers it, or says that it is done. The arguments are those of `is_named`.
        """
        if not self.is_named(prompt, near):
            return False
        sentences = SENTENCE.split(prompt)
        naming = (one for one in sentences if self._is_named_in(one, near))
        return not any(map(self._is_told_in, naming))

    def _is_told_in(self, sentence: str) -> bool:
        """Return True if a sentence has a word of it that tells something, from another part than that which the
        sentence names most; or most words of that part, and two of them, unless it is one of several that tell a topic.
        Of a version's only part most words are enough: others go with the version ("3.2 is tagged").

        The product that a version is of tells nothing: who says "python 3.13" says no more than the plan waits for. Nor
        does a word that is enough by itself to name the topic, as a name in lower case is.
        """
        lexicon = self.lexicon
        said = set(map(lexicon.stem, split_words(_split_humps(sentence))))
        parts = PART.findall(self.text) or [""]
        parts.sort(
            key=lambda part: _weigh_stems(extract_content_words(part), said, lexicon)
        )
        named = self._compile_named()
        *others, last = [_list_content(named.sub(" ", part), lexicon) for part in parts]
        if not (self.topic and others):
            is_alone = bool(self.versions) and not others
            if self._has_most(last, said, 1 if is_alone else 2):
                return True
            others = others or [last] * (not self.topic and not is_alone)
        content = {word for part in others for word in part}
        return _weigh_stems(content, said, lexicon) >= LEAST

    def _compile_named(self) -> re.Pattern[str]:
        """Return the pattern of what it waits for: names, titles, products, and words that name its topic by
        themselves.
        """
        waits = [
            *self.names,
            *self._list_titles(),
            *self._list_products(),
            *self._list_enough(),
        ]
        pattern = "|".join(map(re.escape, waits)) or "(?!)"
        return re.compile(rf"(?<!\w)(?:{pattern})(?!\w)", re.IGNORECASE)

    def _list_enough(self) -> list[str]:
        """Return the words that name its topic by themselves."""
        return [word for word in self.topic if self.lexicon.weigh(word) >= self.least]

    def _has_most(self, words: Sequence[str], stems: Set[str], least: int) -> bool:
        """Return True if the stems have more than half of the words' rarity, and at least so many of the words."""
        lexicon = self.lexicon
        shared = [word for word in words if lexicon.stem(word) in stems]
        weight = sum(map(lexicon.weigh, shared))
        return 2 * weight > sum(map(lexicon.weigh, words)) and len(shared) >= least

    def _is_named_in(self, text: str, near: float | None = None) -> bool:
        """Return True if a text names what it waits for: of a topic a sentence that has enough of it, or less of its
        first part if the text is near in meaning.
        """
        words = {word.casefold() for word in TERM.findall(text)}
        if not words.isdisjoint(self.names) or self.has_version(text):
            return True
        if self.is_about_file(FILE.findall(text)):
            return True
        sentences = [TERM.findall(part.casefold()) for part in SENTENCE.split(text)]
        if self._has_shared(self.topic, sentences, self.least):
            return True
        least = max(LEAST_NEAR, self.least - NEAR * (near or 0.0))
        first = set(extract_content_words(next(iter(PART.findall(self.text)), "")))
        return self._has_shared(first.intersection(self.topic), sentences, least)

    def _has_shared(
        self, words: Collection[str], sentences: Iterable[Sequence[str]], least: float
    ) -> bool:
        """Return True if a sentence shares so much with some words."""
        return any(self._weigh_shared(words, one) >= least for one in sentences)

    def _weigh_shared(self, words: Iterable[str], others: Iterable[str]) -> float:
        """Return the rarity of the words together that are among others, in whatever form."""
        lexicon = self.lexicon
        return _weigh_stems(words, set(map(lexicon.stem, others)), lexicon)

    def is_about(self, question: str, today: date) -> bool:
        """Return True if a question names what it waits for, or has its rare words while it is open."""
        if self.is_named(question):
            return True
        said = extract_content_words(self.text)
        return (
            self.is_open(today)
            and self._weigh_shared(said, split_words(question)) >= ENOUGH
        )

    def is_met_by(self, done: "Done") -> bool:
        """Return True if a tool call edits a file that it waits for, or has a version that it waits for."""
        names = {PurePosixPath(path).name for path in done.paths}
        return (
            any(_ends_with(path, file) for path in done.paths for file in self.files)
            or self._is_about_topic(names)
            or any(self._is_set(done, *version) for version in self.versions)
        )

    def is_met_by_tag(self, tag: str) -> bool:
        """Return True if a tag of its project is of a version that it waits for, or if it waits for the tag's name.

        A word before the number names another product if it is rare in talk, as in lerna@2.4.
        """
        tag = tag.casefold()
        place = (self.workspace or "").casefold()
        match = TAGGED.fullmatch(tag)
        if match is None:
            words = rf"(?<![\w-]){re.escape(tag)}(?![\w-])"
            waits = bool(self.names or self.topic) and weigh_word(tag) >= ENOUGH
            return waits and re.search(words, self.text.casefold()) is not None
        before = {*re.split("[-_/@]", match["name"] or "")} - {""}
        is_own = all(weigh_word(word) < ENOUGH or word in place for word in before)
        return any(
            f"{match['number']}.".startswith(f"{number}.")
            and (name in before or (is_own and (name in ("", "v") or name in place)))
            for name, number in self.versions
        )

    def _is_set(self, done: "Done", name: str, number: str) -> bool:
        """Return True if a call puts a version in place: of a product by its name and a sign before the number, in what
        was written or what a command showed; else by a command that gives versions. A number in a word, a path or a
        sentence is none.
        """
        number = re.escape(number)
        if name in ("", "v"):
            given = _cut_middle(f"{done.run}\n{done.shown}")
            pattern = rf"(?<![^\s\"'])v?{number}(?:\.\d+)*(?![^\s\"';&])"
            return bool(GIVES_VERSION.search(done.run) and re.search(pattern, given))
        pattern = rf"(?<![^\W_]){re.escape(name)}(?P<mark>(?:[^\w\n]|[_-]version){{1,12}}{FROM})v?{number}(?![\w%-])"
        texts = (done.written, False), (done.shown, True)
        return any(
            _is_setting(found["mark"], is_shown=is_shown)
            for text, is_shown in texts
            for found in re.finditer(pattern, _cut_middle(text).casefold())
        )

    def has_version(self, text: str) -> bool:
        """Return True if a text has a version that it waits for: 2.4.1 is 2.4."""
        lower = _drop_measures(_cut_middle(text), self.lexicon).casefold()
        return any(
            self._has_number(name, number, lower)
            if "." in number
            else _has_whole(name, number, lower)
            for name, number in self.versions
        )

    def _has_number(self, name: str, number: str, lower: str) -> bool:
        """Return True if a text has a version of what is called so, without a name one of nothing else."""
        pattern = rf"(?<![\d.]){re.escape(number)}(?!\d)(?:\.\d+)*(?![\w.%])"
        found = [*re.finditer(pattern, lower)]
        if name:
            return name in lower and bool(found)
        return any(
            self._is_own(lower[max(0, one.start() - NEAR_BEFORE) : one.start()], one[0])
            for one in found
        )

    def _is_own(self, before: str, number: str) -> bool:
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

    def is_about_file(self, paths: Collection[str]) -> bool:
        """Return True if it names one of some files, or one is named as its topic is. Of a path the end is enough."""
        is_named = any(
            _ends_with(path, file) or _ends_with(file, path)
            for path in paths
            for file in self.files
        )
        return is_named or self._is_about_topic(
            {PurePosixPath(path).name for path in paths}
        )

    def _is_about_topic(self, names: Collection[str]) -> bool:
        """Return True if a file is named as its topic is."""
        lexicon = self.lexicon
        stems = {
            lexicon.stem(name.casefold().lstrip(".").partition(".")[0])
            for name in names
        }
        words = (*self.names, *self.topic)
        return any(_weigh_stems([word], stems, lexicon) >= self.least for word in words)


@dataclass(frozen=True)
class Done:
    """What a tool call did."""

    paths: tuple[str, ...] = ()
    """The files that it edited."""
    run: str = ""
    """The command."""
    written: str = ""
    """What it wrote into files."""
    shown: str = ""
    """What the command printed."""


def _ends_with(path: str, end: str) -> bool:
    """Return True if a path ends with another one, in whole names."""
    parts = PurePosixPath(path.casefold()).parts
    last = PurePosixPath(end.casefold()).parts
    return bool(last) and parts[-len(last) :] == last


def _has_whole(name: str, number: str, lower: str) -> bool:
    """Return True if a text in lower case has a version that is a whole number; `v2` in a path is none."""
    before, least = (r"[\w/.@=-]", 0) if name == "v" else (r"\w", 1)
    between = rf"(?:[\W_]|version){{{least},12}}{FROM}v?"
    pattern = rf"(?<!{before}){re.escape(name)}{between}{number}(?!\d)"
    return re.search(pattern, lower) is not None


def _is_setting(mark: str, *, is_shown: bool) -> bool:
    """Return True if what stands between a name and a number sets it; what is shown may only be asked for (`>=`)."""
    bare = ARROW.sub("=", mark)
    is_asked = "<" in bare or ">" in bare
    return bool(SETS.search(bare)) and not (is_asked and is_shown)


def _cut_middle(text: str) -> str:
    """Return a text without what is farther from its ends than EDGE."""
    return text if len(text) <= 2 * EDGE else f"{text[:EDGE]}\n{text[-EDGE:]}"


def _split_humps(text: str) -> str:
    """Return a text whose names in code are words: of NotificationShim two."""
    return HUMP.sub(" ", text)


def _drop_measures(text: str, lexicon: Lexicon) -> str:
    """Return a text without the numbers that a unit of measure follows, or a noun if the language's nouns have a
    capital.
    """

    def is_measure(match: re.Match[str]) -> bool:
        is_noun = lexicon.has_capital_nouns and match[1][0].isupper()
        return is_noun or match[1] in UNITS

    return MEASURE.sub(lambda match: "" if is_measure(match) else match[0], text)


def _list_content(part: str, lexicon: Lexicon) -> list[str]:
    """Return the content words of a part that are rare enough, without names with digits or signs."""
    words = extract_content_words(_split_humps(part))
    return [word for word in words if lexicon.weigh(word) >= LEAST and word.isalpha()]


def _weigh_stems(
    words: Iterable[str], stems: Collection[str], lexicon: Lexicon
) -> float:
    """Return the rarity of the words together whose stems are among some stems."""
    return sum(lexicon.weigh(word) for word in words if lexicon.stem(word) in stems)


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
    language = find_main_language([claim.text for claim in claims])
    said = [
        _SaidClaim(
            claim=claim,
            stems=list_stems(claim.text, language),
            is_sure=claim.id in sure,
        )
        for claim in claims
    ]
    waiting = [
        one.claim
        for one in said
        if _may_wait(one.claim)
        and not any(later.answers(one, language) for later in said)
    ]
    if not waiting:
        return []
    small = sum(claim.text[:1].islower() for claim in claims)
    talk = ProjectTalk(
        first=0 if 2 * small > len(claims) else 1,
        often=find_frequent([one.stems for one in said]),
        days=list_days(view),
        language=language,
    )
    found = _read_waiting(view, waiting, talk)
    found.sort(key=lambda one: (str(one.said_at), one.id), reverse=True)
    return sorted(found, key=lambda one: one.due or "9999")


def _read_waiting(
    view: View, claims: Sequence[StandingClaim], talk: "ProjectTalk"
) -> list[Intention]:
    """Return claims as intentions, each with the day on which what it waits for came up."""
    ids = [claim.id for claim in claims]
    rows = view.read_by_id(CLAIMS, ids, ["quote", "session_id"])
    quotes = {key: str(row["quote"]) for key, row in rows.items()}
    found = [
        one
        for claim in claims
        if not _only_asks(claim, quotes[claim.id])
        for one in _make_intentions(claim, quotes[claim.id], talk)
    ]
    said_since = list_said(view, found)
    done_since = _list_done_since(view, found)
    met: list[Intention] = []
    for one in found:
        session = str(rows[one.id]["session_id"])
        near = _find_nearness(view, one, said_since) if one.topic else {}
        days = [
            _find_met(one=one, session=session, said=said_since, near=near),
            _find_done(one, session, done_since),
            _find_tagged(view, one),
        ]
        met.append(replace(one, met=min(filter(None, days), default=None)))
    return met


def find_main_language(texts: Sequence[str]) -> str | None:
    """Return the language that most of some texts are in, of those whose language is known."""
    languages = Counter(filter(None, map(find_text_language, texts)))
    return next((language for language, _ in languages.most_common(1)), None)


def list_stems(text: str, language: str | None) -> frozenset[str]:
    """Return the stems of a text's content words, in its own language if that is known, else in another one."""
    lexicon = get_lexicon(find_text_language(text) or language)
    return frozenset(map(lexicon.stem, extract_content_words(text)))


def find_frequent(texts: Sequence[frozenset[str]]) -> frozenset[str]:
    """Return the stems that so many of some texts have that they tell no topic."""
    counts = Counter(word for stems in texts for word in stems)
    most = max(FEW, OFTEN * len(texts))
    return frozenset(word for word, count in counts.items() if count > most)


@dataclass(frozen=True)
class _SaidClaim:
    """A person's claim: a plan, or what says what came of one."""

    claim: StandingClaim
    stems: frozenset[str]
    is_sure: bool
    """False if a later claim perhaps changed it already."""

    def answers(self, plan: "_SaidClaim", language: str | None) -> bool:
        """Return True if it has so many of an earlier plan's rare words that it says what came of the plan.

        Another plan answers only a plan that a later claim perhaps changed already. Of that plan fewer words suffice.
        """
        own = self.claim
        earlier = plan.claim
        is_other_plan = own.category == PLAN and plan.is_sure
        if is_other_plan or own.workspace != earlier.workspace:
            return False
        if (own.source.at or EARLIEST) <= (earlier.source.at or EARLIEST):
            return False
        # who names the file or the version that a plan waits for says nothing of what came of it
        words = [
            word
            for word in extract_content_words(FILE.sub(" ", earlier.text))
            if not word.isdigit()
        ]
        lexicon = get_lexicon(find_text_language(earlier.text) or language)
        least = ANSWERED if plan.is_sure else ENOUGH
        return _weigh_stems(words, self.stems, lexicon) >= least


def list_said(view: View, intentions: Sequence[Intention]) -> list[MessageRow]:
    """Return the messages that persons wrote in the intentions' projects since the first of these, in order."""
    waiting = [one for one in intentions if one.is_waiting and one.said_at]
    if not waiting:
        return []
    here = pc.field("workspace").isin(sorted({one.workspace or "" for one in waiting}))
    since = min(one.said_at for one in waiting if one.said_at)
    said = here & (pc.field("origin") == Origin.HUMAN) & (pc.field("ts") > since)
    columns = ["message_id", "session_id", "workspace", "text", "ts"]
    rows = view.read_rows(MESSAGES, columns, said)
    return sorted(rows, key=lambda row: str(row["ts"]))


def _list_done_since(
    view: View, intentions: Sequence[Intention]
) -> list[tuple[MessageRow, list[Done]]]:
    """Return by message, in order, the calls of agents in the projects of intentions that wait for a file or version.

    Only the latest MOST_CALLS messages since the first of these intentions are read. The output of a command is read if
    it has a version's number and name.
    """
    waiting = [one for one in intentions if one.said_at and (one.versions or one.files)]
    if not waiting:
        return []
    here = pc.field("workspace").isin(sorted({one.workspace or "" for one in waiting}))
    since = min(one.said_at for one in waiting if one.said_at)
    versions = {version for one in waiting for version in one.versions}
    columns = ["session_id", "workspace", "blocks", "ts", "origin"]
    wanted = [Origin.MODEL, Origin.TOOL] if versions else [Origin.MODEL]
    written = pc.field("origin").isin(wanted)
    found = view.read(MESSAGES, columns, here & written & (pc.field("ts") > since))
    calls = _read_newest(found.filter(pc.equal(found["origin"], Origin.MODEL)))
    shown = read_shown(found, calls, versions)
    return [
        (row, read_done(row["blocks"], shown.get(row["session_id"], {})))
        for row in reversed(calls)
    ]


def _read_newest(messages: pa.Table) -> list[MessageRow]:
    """Return the newest MOST_CALLS of some messages, the newest first.

    The rows are chosen by their times alone: those of a large store are copied no second time.
    """
    order = pc.sort_indices(messages["ts"], sort_keys=[("", "descending")])
    is_kept = np.zeros(messages.num_rows, bool)
    is_kept[order[:MOST_CALLS].to_numpy()] = True
    kept = messages.filter(pa.array(is_kept))
    rows: list[MessageRow] = kept.sort_by([("ts", "descending")]).to_pylist()
    return rows


def read_shown(
    messages: pa.Table,
    calls: Sequence[MessageRow],
    versions: Collection[tuple[str, str]],
) -> dict[str, dict[str, str]]:
    """Return by session what some tool calls printed that may have one of some versions, by the call's id."""
    shown = defaultdict[str, dict[str, str]](dict)
    if not versions or not messages.num_rows:
        return shown
    ids = {str(block["call_id"]) for row in calls for block in row["blocks"]}
    outputs = pa.concat_tables(
        _filter_outputs(batch, pa.array(sorted(ids), pa.string()), versions)
        for batch in messages.to_batches()
    )
    for row in outputs.sort_by([("ts", "descending")]).to_pylist():
        shown[row["session_id"]][row["call_id"]] = row["text"]
    return shown


def _filter_outputs(
    messages: pa.RecordBatch, ids: pa.Array, versions: Collection[tuple[str, str]]
) -> pa.Table:
    """Return the outputs of some calls that may have one of some versions, without what is far from their ends."""
    of_message = pc.list_parent_indices(messages["blocks"])
    blocks = pa.Table.from_struct_array(messages["blocks"].flatten())
    outputs = pa.table(
        {
            "session_id": messages["session_id"].take(of_message),
            "ts": messages["ts"].take(of_message),
            "call_id": blocks["call_id"].fill_null("None"),
            "text": blocks["text"],
        }
    )
    is_output = pc.and_not(
        pc.equal(blocks["type"], "tool_result"), blocks["is_error"].fill_null(False)
    )
    of_calls = pc.is_in(outputs["call_id"], ids)
    outputs = outputs.filter(pc.and_(is_output, of_calls))
    for name_or_number in zip(*versions, strict=True):
        outputs = outputs.filter(_has_any(outputs["text"], {*name_or_number}))
    return outputs.set_column(3, "text", _cut_middles(outputs["text"]))


def _has_any(texts: pa.ChunkedArray, parts: Collection[str]) -> pa.ChunkedArray:
    """Return for each text whether it may have one of some names or numbers. A version without a name has "" or "v"."""
    if any(part in ("", "v") or not part.isascii() for part in parts):
        return pc.is_valid(texts)
    pattern = "|".join(map(re.escape, sorted(parts)))
    return pc.match_substring_regex(texts, pattern, ignore_case=True)


def _cut_middles(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return texts as `_cut_middle` does."""
    first = pc.utf8_slice_codeunits(texts, 0, EDGE)
    last = pc.utf8_slice_codeunits(texts, -EDGE)
    is_long = pc.greater(pc.utf8_length(texts), 2 * EDGE)
    return pc.if_else(is_long, pc.binary_join_element_wise(first, last, "\n"), texts)


def read_done(
    blocks: Sequence[Mapping[str, Any]], shown: Mapping[str, str] = MappingProxyType({})
) -> list[Done]:
    """Return the files, command, text and output of each tool call among a message's blocks.

    Args:
        blocks: the message's.
        shown: what the calls printed, by their ids.
    """
    return [
        _read_call(block["text"] or "", shown.get(str(block.get("call_id")), ""))
        for block in blocks
        if block["type"] == "tool_call"
    ]


def _read_call(given: str, shown: str) -> Done:
    """Return the files, command and text of a tool call, from its arguments, and the output of a command."""
    arguments = parse_arguments(given)
    if not arguments:
        return Done(tuple(list_patched_files(given)))
    written = list_texts(arguments, (*NEW, EDITS))
    is_edit = any(name.startswith(WRITING) for name in arguments)
    paths = list_paths(arguments)
    run = list_scripts(arguments)
    return Done(
        tuple(paths) if is_edit else (),
        run="" if is_edit else "\n".join(run),
        written="\n".join(written) if is_edit and paths else "",
        shown=shown if run and not is_edit else "",
    )


def _find_done(
    one: Intention, session: str, calls: Sequence[tuple[MessageRow, Sequence[Done]]]
) -> str | None:
    """Return the day on which a call in another session first did what an intention waits for."""
    if one.said_at is None or not (one.versions or one.files):
        return None
    for row, done in calls:
        at = row["ts"]
        is_other = row["session_id"] != session and row["workspace"] == one.workspace
        is_later = at is not None and at > one.said_at
        if at and is_other and is_later and any(map(one.is_met_by, done)):
            return _find_day(at).isoformat()
    return None


def _find_tagged(view: View, one: Intention) -> str | None:
    """Return the day of the night that first saw a tag that an intention waits for."""
    tags = view.new_tags.get(compute_tags_id(one.workspace or ""), [])
    days = [
        at
        for tag, at in tags
        if one.said_at and at > one.said_at and one.is_met_by_tag(tag)
    ]
    return _find_day(min(days)).isoformat() if days else None


def _find_day(at: datetime) -> date:
    """Return the day of a moment, in this machine's zone."""
    return at.astimezone().date()


def _find_nearness(
    view: View, one: Intention, said: Sequence[MessageRow]
) -> dict[str, float]:
    """Return the nearness in meaning, by message id, of messages that share a word with an intention's topic."""
    sharing = [
        row["message_id"]
        for row in said
        if row["workspace"] == one.workspace and one.is_named(row["text"], NEAREST)
    ]
    if not sharing:
        return {}
    claim = view.read_by_id(CLAIMS, [one.id], ["vector"])[one.id]["vector"]
    if claim is None:
        return {}
    own = np.asarray([claim], dtype=np.float32)
    usual = read_claim_vectors(view, one.workspace or "")
    passages = read_passage_vectors(view, sharing)
    near = {
        message: measure_nearness(own, vectors, usual)
        for message, vectors in passages.items()
    }
    return {message: value for message, value in near.items() if value is not None}


def _find_met(
    one: Intention, session: str, said: Sequence[MessageRow], near: Mapping[str, float]
) -> str | None:
    """Return the day on which a person first named what an intention waits for in another session.

    Args:
        one: the intention.
        session: the one that said it.
        said: what persons said since, in order.
        near: see `_find_nearness`.
    """
    for row in said:
        at = row["ts"]
        if at is None or one.said_at is None or at <= one.said_at:
            continue
        is_here = row["workspace"] == one.workspace and row["session_id"] != session
        if is_here and one.is_named(row["text"], near.get(row["message_id"])):
            return _find_day(at).isoformat()
    return None


def list_days(view: View) -> dict[str | None, list[date]]:
    """Return the days on which sessions began, by workspace, the earliest first."""
    days: dict[str | None, list[date]] = {}
    for row in view.read_rows(SESSIONS, ["workspace", "started_at"]):
        if row["started_at"]:
            day = _find_day(row["started_at"])
            days.setdefault(row["workspace"], []).append(day)
    return {place: sorted(found) for place, found in days.items()}


def _may_wait(claim: StandingClaim) -> bool:
    """Return True for a plan, and for a claim that likely holds and names a coming day."""
    if claim.category == PLAN:
        return True
    return claim.confidence >= HOLDS and _find_due(claim) is not None


def _find_due(claim: StandingClaim) -> date | None:
    """Return the coming day that a claim names, but for a day of what it corrects.

    Only a plan's days are counted from when it was said: "payment is due in 14 days" is a term.
    """
    at = claim.source.at
    is_plan = claim.category == PLAN
    text = cut_subject(claim.text)
    return find_coming_day(text, at, counted=is_plan) if at else None


def _only_asks(claim: StandingClaim, quote: str) -> bool:
    """Return True if a claim other than a plan names its day in a question alone, in the person's own words.

    A question that a person accepted is not in their words.
    """
    if claim.category == PLAN or claim.text != " ".join(quote.split()):
        return False
    stated = replace(claim, text=_cut_questions(claim.text))
    return _find_due(stated) is None


def _cut_questions(text: str) -> str:
    """Return the sentences of a text that are not questions."""
    spans = split_sentences(text)
    ends = [*(span.start for span in spans[1:]), len(text)]
    stated = (
        text[span.start : end].strip() for span, end in zip(spans, ends, strict=True)
    )
    return " ".join(sentence for sentence in stated if not is_question(sentence))


@dataclass(frozen=True)
class ProjectTalk:
    """What is known of a store's talk, to read one plan."""

    first: int
    """Place of the first word whose capital tells a name: 0 if persons begin sentences without one."""
    often: frozenset[str]
    """Stems that tell no topic."""
    days: Mapping[str | None, Sequence[date]]
    """On which sessions began, by workspace."""
    language: str | None = None
    """That most of it is in."""


def _make_intentions(
    claim: StandingClaim, quote: str, talk: ProjectTalk
) -> list[Intention]:
    """Return a claim as an intention, or as several if its parts wait for different things. A claim other than a
    plan waits for its day alone.

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
        language=find_text_language(claim.text) or talk.language,
        answers=claim.answers,
    )
    if claim.category != PLAN:
        found = [_set_due(whole, _find_due(claim), talk)]
    else:
        is_sure = claim.confidence >= SURE
        lines = [
            read_line(whole, line, talk, is_sure=is_sure) for line in quote.splitlines()
        ]
        found = [part for parts in lines for part in parts if part.is_waiting]
    if len(found) < 2:
        return [replace(one, text=claim.text) for one in (found or [whole])]
    return found


def _set_due(one: Intention, due: date | None, talk: ProjectTalk) -> Intention:
    """Return an intention with its day, and the first day since then on which somebody worked in its project."""
    if due is None:
        return one
    since = [day for day in talk.days.get(one.workspace, ()) if day >= due]
    resumed = min(since).isoformat() if since else None
    return replace(one, due=due.isoformat(), resumed=resumed)


def read_line(
    one: Intention, line: str, talk: ProjectTalk, *, is_sure: bool = True
) -> list[Intention]:
    """Return a line of a plan as an intention, or as several if its parts wait for different things.

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
    found: list[Intention] = []
    named: date | None = None
    for part in parts:
        waits = _set_month(read_waits(one, part, talk, is_sure=is_sure), named, talk)
        named = date.fromisoformat(waits.due) if waits.due else named
        found.append(waits)
    return found


def _set_month(one: Intention, named: date | None, talk: ProjectTalk) -> Intention:
    """Return a part that names a day of the month ("the 9th") with its day in the month that a part before it named.

    Of other days, a count from that month gives another day of the month.

    Args:
        one: the part.
        named: the day that a part before it named.
        talk: of the store.
    """
    if named is None or one.due is None or one.said_at is None:
        return one
    at = datetime.combine(named, one.said_at.timetz())
    due = find_coming_day(one.text, at, of_plan=True)
    day = date.fromisoformat(one.due).day
    is_same = due is not None and (due.month, due.day) == (named.month, day)
    return _set_due(one, due, talk) if is_same else one


def read_waits(
    one: Intention, part: str, talk: ProjectTalk, *, is_sure: bool = True
) -> Intention:
    """Return a part of a plan with what it waits for: its day, else its versions, files, names, or else words that tell
    a topic.

    A file beside a day or a version is what is to be changed then: touching it earlier tells nothing. A whole number
    behind a file ("in fold.go the constant 16") isn't a version.

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


def _comes_first(file: str, version: tuple[str, str], part: str) -> bool:
    """Return True if a file stands before a version that is a whole number with a name."""
    name, number = version
    return "." not in number and part.find(file) < part.casefold().find(f"{name} ")


def read_words(one: Intention, part: str, talk: ProjectTalk) -> Intention:
    """Return a part of a plan with the names that it waits for, else with the words that tell a topic.

    Where most words are in no conversation, as in a language that was not counted, no word is rare: two are needed.
    There a word with a capital is a name if it is the only one. In a language that writes all nouns with a capital, the
    nouns tell the topic.
    """
    lexicon = one.lexicon
    said = [word for word in extract_content_words(part) if not word.isdigit()]
    unseen = lexicon.weigh("")
    words = [
        word
        for word in said
        if lexicon.stem(word) not in talk.often
        and lexicon.weigh(word) >= LEAST
        and word not in UNSIGNED
    ]
    rare = {word for word in words if lexicon.weigh(word) >= ENOUGH}
    is_counted = lexicon.is_counted or (
        2 * sum(weigh_word(word) == unseen for word in said) <= len(said)
    )
    found = list_names(part, talk.first, lexicon)
    # if all nouns have a capital, the words before it tell a name
    certain = set(words) if lexicon.has_capital_nouns else rare
    names = tuple(name for name in found if name in certain)
    if names and (is_counted or len(names) == 1):
        return replace(one, names=names)
    if lexicon.has_capital_nouns:
        inside = TERM.findall(part)[1:]
        capitals = {word.casefold() for word in inside if word[0].isupper()}
        words = [word for word in words if word in capitals] or words
    least = ENOUGH if is_counted else 2 * unseen
    return replace(one, topic=tuple(words), least=least)


def split_parts(text: str) -> list[str]:
    """Return the lines of a text; of a line the parts between commas, if both sides have words enough."""
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
    text: str, first: int = 1, lexicon: Lexicon = ENGLISH_LEXICON
) -> tuple[str, ...]:
    """Return the words of a text with a capital that may be names, from the `first` on, in lower case.

    If all nouns of the language have a capital, a name is recognised by the word before it: an article is seldom before
    a name. A word behind a title is a name if the title may be one.
    """
    names: list[str] = []
    before = ""
    is_bare = True
    for place, match in enumerate(WORD.finditer(text)):
        word = match[0]
        has_capital = word[0].isupper() and word[1:].islower() and len(word) > 2
        is_behind_capital = place > 1 and before[:1].isupper()
        is_bare = (
            is_bare if is_behind_capital else lexicon.may_precede_name(before.lower())
        )
        is_first = place == 0 and lexicon.has_capital_nouns
        if place >= first and has_capital and word.isalpha() and is_bare:
            names += [word.casefold()] * (not is_first)
        before = word
    rare = (name for name in names if lexicon.weigh(name) >= LEAST)
    return tuple(dict.fromkeys(rare))
