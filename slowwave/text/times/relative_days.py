"""Add the dates of "yesterday", "next Friday" and "in two weeks" beside these words when a text is shown.

Weeks later such words don't name a day. Stored texts and quotes are not changed. A date is added only if the calendar
decides it: "next Friday" said on a Wednesday may be one of two days, and both are named. A count from now may be part
of a rule ("due in 30 days"), so the note says from which day it is counted.
"""

import re
from calendar import monthrange
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import lru_cache, partial

from slowwave.text.foreign import Bounds
from slowwave.text.languages import LANGUAGES_OF
from slowwave.text.times.dates import (
    AGO,
    DAY_WORD,
    DAYS,
    LAST,
    NUMBER,
    NUMBERS,
    UNIT_DAYS,
    WEEKDAYS,
)
from slowwave.text.times.days import convert_to_local
from slowwave.text.times.foreign_dates import find_foreign_times, find_weekdays

COMING = re.compile(r"\b(?:the )?(?P<day>day after tomorrow|tomorrow)\b", re.I)
COMING_DAYS = {"tomorrow": 1, "day after tomorrow": 2}
UNITS = "|".join(UNIT_DAYS)
FROM_NOW = re.compile(rf"\bin {NUMBER} (?P<unit>{UNITS})s?\b(?! of\b)", re.I)
LATER = re.compile(
    rf"(?<!half )(?<![.,-])\b{NUMBER} (?P<unit>{UNITS})s? from (?:now|today)\b", re.I
)
THIS = re.compile(rf"\bthis (?P<day>{'|'.join(WEEKDAYS)})\b", re.I)
NEXT = re.compile(rf"\bnext (?P<unit>week|month|year|{'|'.join(WEEKDAYS)})\b", re.I)
AFTER_NEXT = re.compile(
    rf"\b(?:the )?(?P<unit>week|month|year|{'|'.join(WEEKDAYS)}) after next\b", re.I
)
WEEKDAY = re.compile(rf"\b(?:{'|'.join(WEEKDAYS)})\b", re.I)
BESIDE = re.compile(r",?\s+(?:(?P<between>[^\W\d_]+)\s+){0,2}")
"""What may stand between a week and its weekday."""
IN_WEEKS = re.compile(
    rf"\b(?P<day>today|tomorrow|{'|'.join(WEEKDAYS)}),? in {NUMBER} (?P<unit>week)s?\b"
    rf"|(?<!half )(?<![.,-])\b{NUMBER.replace('<n>', '<count>')} weeks? from (?P<from>tomorrow|{'|'.join(WEEKDAYS)})\b",
    re.I,
)
"""A number of weeks from a coming day on."""
CLITIC = re.compile(r"(?<=\w)['’]\w+")
"""What is written onto a word by an apostrophe: "yesterday's", "today'll"."""
WITH_DATE = re.compile(r"\s*\([^)]*\d")
"""A date in brackets that follows already."""
CODE = re.compile(r"`+[^`]*`+")
CLAUSE_END = re.compile(r"[.,;:!?](?=\s)|[\n。，、；：！？]")
ENDS = ".!?…:;\n\r\"'“”‘’(-*•>|。！？"
"""Characters after which a word with a capital may begin a sentence."""
FARTHEST = 4_000
"""Most days of a count: nobody means a later or earlier day."""


@dataclass(frozen=True)
class RelativeDay:
    """A time that a text names by its distance from the day on which it was said."""

    start: int
    end: int
    note: str
    """Its date, to be added in brackets; empty for the day itself, which is shown with every text."""
    is_count: bool = False
    """True if it counts days, weeks, months or years from then on: "in two weeks"."""
    first: date | None = None
    """Its first day; None for the day itself, and for a week, month or year that is over."""
    is_rough: bool = False
    """True if it is a coming month or year, so that its date has no day."""
    monday: date | None = None
    """The first day of the week that it names as a whole."""
    is_of_week: bool = False
    """True if it names a weekday beside its week: "Dienstag nächster Woche"."""


def add_days(text: str, said_at: datetime | None) -> str:
    """Return a text with the date added after each word that names a day by its distance from when it was said.

    Args:
        text: what was said.
        said_at: when it was said; the day is the speaker's (`convert_to_local`). None leaves the text unchanged.
    """
    if said_at is None:
        return text
    return _add_days(text, convert_to_local(said_at).date())


@lru_cache(maxsize=1024)
def _add_days(text: str, said_on: date) -> str:
    """Return a text with dates added; kept, since a block compares each line with all others."""
    pieces: list[str] = []
    at = 0
    for named in find_relative_days(text, said_on):
        if named.note:
            end = _find_word_end(text, named.end)
            pieces.append(f"{text[at:end]} ({named.note})")
            at = end
    return "".join([*pieces, text[at:]])


def find_relative_days(text: str, said_on: date) -> list[RelativeDay]:
    """Return the times that a text names by their distance from a day, in order.

    Of times that overlap or follow each other directly, only the first is returned. Times in code, and times with a
    date in brackets, are left out.
    """
    found = [*_find_english(text, said_on)]
    if len(text.lower()) == len(text):
        for time in find_foreign_times(text):
            end = time.start + len(time.words)
            for named in _find_english(time.english, said_on):
                found.append(replace(named, start=time.start, end=end))
        found += _name_days_of_weeks(text, found, find_weekdays)
    code = [match.span() for match in CODE.finditer(text)]
    kept: list[RelativeDay] = []
    dated = 0
    for named in sorted(
        found, key=lambda named: (named.start, -named.end, not named.is_of_week)
    ):
        before = kept[-1].end if kept else 0
        # of neighbouring words only the first counts: "heute morgen" is not tomorrow
        is_first = not kept or bool(text[before : named.start].strip())
        in_code = any(start <= named.start < end for start, end in code)
        if WITH_DATE.match(text, _find_word_end(text, named.end)):
            dated = max(dated, named.end)
        elif (
            named.start >= max(before, dated)
            and is_first
            and not in_code
            and not _is_measure(text, named)
            and _is_phrase(text, named)
        ):
            kept.append(named)
    return kept


def _is_phrase(text: str, named: RelativeDay) -> bool:
    """Return True unless the words may be a name: a capital within a sentence. Beside its week "Dienstag" is none."""
    before = text[: named.start].rstrip(" \t")
    may_be_name = text[named.start].isupper() and not named.is_of_week
    return not may_be_name or not before or before[-1] in ENDS


def _find_word_end(
    text: str,
    end: int,
) -> int:
    """Return the end of a word with what an apostrophe adds to it: of "yesterday's" behind the s."""
    clitic = CLITIC.match(text, end)
    return clitic.end() if clitic else end


def _find_english(text: str, said_on: date) -> Iterator[RelativeDay]:
    """Yield the days, counts, and last and next spans that an English text names."""
    yield from _find_counts(text, said_on)
    yield from _find_days(text, said_on)
    stretches = [*_find_stretches(text, said_on)]
    yield from stretches
    yield from _name_days_of_weeks(text, stretches, _find_english_weekdays)


def _find_english_weekdays(text: str) -> dict[Bounds, str]:
    """Return the weekdays that an English text names, by their place."""
    return {match.span(): match[0].lower() for match in WEEKDAY.finditer(text)}


def _name_days_of_weeks(
    text: str,
    found: Sequence[RelativeDay],
    find_days: Callable[[str], Mapping[Bounds, str]],
) -> Iterator[RelativeDay]:
    """Yield the day of each week beside which a weekday stands, before or behind it; of several weekdays none."""
    weeks = [named for named in found if named.monday and _is_phrase(text, named)]
    weekdays = find_days(text) if weeks else {}
    for named in weeks:
        week = (named.start, named.end)
        beside = [place for place in weekdays if _is_beside(text, week, place)]
        nearest = min(beside, key=partial(_measure_gap, week), default=None)
        if nearest is None or named.monday is None:
            continue
        others = [place for place in weekdays if place != nearest]
        if any(_is_beside(text, nearest, other) for other in others):
            continue
        day = named.monday + timedelta(days=WEEKDAYS[weekdays[nearest]])
        yield RelativeDay(
            start=min(nearest[0], named.start),
            end=max(nearest[1], named.end),
            note=_format(day),
            first=day,
            is_of_week=True,
        )


def _measure_gap(one: Bounds, other: Bounds) -> int:
    """Return the number of characters between two parts of a text; less than 0 if they overlap."""
    return max(one[0], other[0]) - min(one[1], other[1])


def _is_beside(
    text: str,
    one: Bounds,
    other: Bounds,
) -> bool:
    """Return True if two parts of a text overlap, or only words without a meaning stand between them."""
    first, second = sorted((one, other))
    if second[0] < first[1]:
        return True
    between = text[first[1] : second[0]]
    words = between.replace(",", " ").lower().split()
    return bool(BESIDE.fullmatch(between)) and LANGUAGES_OF.keys() >= {*words}


def _find_days(text: str, said_on: date) -> Iterator[RelativeDay]:
    for match in DAY_WORD.finditer(text):
        days = DAYS[match[1].lower()]
        day = said_on - timedelta(days=days)
        yield _note_day(match, day) if days else _note(match, "")
    for match in COMING.finditer(text):
        days = COMING_DAYS[match["day"].lower()]
        yield _note_day(match, said_on + timedelta(days=days))


def _find_counts(text: str, said_on: date) -> Iterator[RelativeDay]:
    for match in AGO.finditer(text):
        if day := _count(match, said_on, -1):
            note = _format_count(match, day, is_past=True)
            yield _note(match, note, first=day)
    for match in IN_WEEKS.finditer(text):
        if day := _count_weeks(match, said_on):
            yield _note_day(match, day)
    for match in (*FROM_NOW.finditer(text), *LATER.finditer(text)):
        if day := _count(match, said_on, 1):
            note = (
                f"{_format_count(match, day)}, counted from {said_on.day} {said_on:%b}"
            )
            is_rough = match["unit"].lower() in ("month", "year")
            yield _note(match, note, is_count=True, first=day, is_rough=is_rough)


def _count_weeks(match: re.Match[str], said_on: date) -> date | None:
    """Return the day that is a number of weeks after a coming one; None if that may be today, or is too far away."""
    name = (match["day"] or match["from"]).lower()
    number = (match["n"] or match["count"]).lower()
    weeks = NUMBERS.get(number) or (int(number) if number.isdigit() else 0)
    ahead = {"today": 0, "tomorrow": 1}.get(name)
    if ahead is None:
        ahead = (WEEKDAYS[name] - said_on.weekday()) % 7
        weeks *= ahead > 0
    days = ahead + 7 * weeks
    return said_on + timedelta(days=days) if weeks and days <= FARTHEST else None


def _is_measure(text: str, named: RelativeDay) -> bool:
    """Return True for a count after a figure in its clause: "61 pages in a week" is a rate, and no date."""
    clause = CLAUSE_END.split(text[: named.start])[-1]
    return named.is_count and any(character.isdigit() for character in clause)


def _find_stretches(text: str, said_on: date) -> Iterator[RelativeDay]:
    for match in THIS.finditer(text):
        ahead = WEEKDAYS[match["day"].lower()] - said_on.weekday()
        # on Saturday "this Friday" may be the day before or the next one
        if ahead > 0:
            yield _note_day(match, said_on + timedelta(days=ahead))
    for match in LAST.finditer(text):
        note = _format_last(match["unit"].lower(), said_on)
        if match["which"].lower() == "last" and note and not _is_told(match):
            monday = said_on - timedelta(days=said_on.weekday() + 7)
            is_week = match["unit"].lower() == "week"
            yield _note(match, note, monday=monday if is_week else None)
    for match in NEXT.finditer(text):
        if not _is_told(match):
            yield _note_next(match, said_on)
    for match in AFTER_NEXT.finditer(text):
        yield _note_next(match, _find_next(match["unit"].lower(), said_on))


def _is_told(match: re.Match[str]) -> bool:
    """Return True for "the next week" and "last week of May", which don't count from the day of the text."""
    text = match.string.lower()
    has_article = text[: match.start()].rstrip().endswith(" the")
    return has_article or text[match.end() :].startswith(" of ")


def _note(
    match: re.Match[str],
    note: str,
    *,
    is_count: bool = False,
    first: date | None = None,
    is_rough: bool = False,
    monday: date | None = None,
) -> RelativeDay:
    """Return the matched words with their date."""
    return RelativeDay(
        start=match.start(),
        end=match.end(),
        note=note,
        is_count=is_count,
        first=first,
        is_rough=is_rough,
        monday=monday,
    )


def _note_day(match: re.Match[str], day: date) -> RelativeDay:
    return _note(match, _format(day), first=day)


def _note_next(match: re.Match[str], said_on: date) -> RelativeDay:
    """Return the day or span after the one that a day is in."""
    unit = match["unit"].lower()
    first = _find_next(unit, said_on)
    return _note(
        match,
        _format_next(unit, said_on),
        first=first,
        is_rough=unit in ("month", "year"),
        monday=first if unit == "week" else None,
    )


def _count(
    match: re.Match[str],
    said_on: date,
    sign: int,
) -> date | None:
    """Return the day that is a number of units away in the direction of `sign`; None if it is 0 or over FARTHEST."""
    number = match["n"].lower()
    unit = match["unit"].lower()
    count = NUMBERS.get(number) or (int(number) if number.isdigit() else 0)
    days = count * UNIT_DAYS[unit]
    if not 0 < days <= FARTHEST:
        return None
    months = {"month": 1, "year": 12}.get(unit)
    if months:
        return _shift_months(said_on, sign * count * months)
    return said_on + timedelta(days=sign * days)


def _format_count(
    match: re.Match[str],
    day: date,
    *,
    is_past: bool = False,
) -> str:
    """Return the date of a counted day.

    Months, and weeks ago, are given as "about", since people round; of years only the year is given.
    """
    unit = match["unit"].lower()
    if unit == "year":
        return str(day.year)
    if unit == "month":
        return f"about {day:%b %Y}"
    about = "about " if is_past and unit == "week" else ""
    return about + _format(day)


def _format_last(unit: str, said_on: date) -> str | None:
    """Return the day or span before the one that a day is in; None for a season or a night."""
    if unit in WEEKDAYS:
        ago = (said_on.weekday() - WEEKDAYS[unit] - 1) % 7 + 1
        return _format(said_on - timedelta(days=ago))
    monday = said_on - timedelta(days=said_on.weekday())
    if unit == "week":
        return _format_stretch(monday - timedelta(days=7), 7)
    if unit == "weekend":
        return _format_stretch(monday - timedelta(days=2), 2)
    if unit == "month":
        return f"{_shift_months(said_on, -1):%b %Y}"
    return str(said_on.year - 1) if unit == "year" else None


def _find_next(unit: str, said_on: date) -> date:
    """Return the first day of the span after the one that a day is in; of a weekday the next one."""
    if unit in WEEKDAYS:
        ahead = (WEEKDAYS[unit] - said_on.weekday() - 1) % 7 + 1
        return said_on + timedelta(days=ahead)
    if unit == "week":
        return said_on + timedelta(days=7 - said_on.weekday())
    if unit == "month":
        return _shift_months(said_on.replace(day=1), 1)
    return date(said_on.year + 1, 1, 1)


def _format_next(unit: str, said_on: date) -> str:
    """Return the day or span after the one that a day is in; for a weekday, both days that people mean by it."""
    monday = said_on - timedelta(days=said_on.weekday())
    if unit in WEEKDAYS:
        coming = _find_next(unit, said_on)
        of_next_week = monday + timedelta(days=7 + WEEKDAYS[unit])
        if coming == of_next_week:
            return _format(coming)
        shared = (coming.year, coming.month) == (of_next_week.year, of_next_week.month)
        first = str(coming.day) if shared else _format(coming)
        return f"{first} or {_format(of_next_week)}"
    if unit == "week":
        return _format_stretch(monday + timedelta(days=7), 7)
    if unit == "month":
        return f"{_shift_months(said_on, 1):%b %Y}"
    return str(said_on.year + 1)


def _shift_months(day: date, count: int) -> date:
    """Return the same day of the month `count` months away, or the last day of that month if it is shorter."""
    year, month = divmod(day.year * 12 + day.month - 1 + count, 12)
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))


def _format_stretch(start: date, days: int) -> str:
    end = start + timedelta(days=days - 1)
    first = str(start.day) if start.month == end.month else f"{start.day} {start:%b}"
    return f"{first} to {_format(end)}"


def _format(day: date) -> str:
    return f"{day.day} {day:%b %Y}"
