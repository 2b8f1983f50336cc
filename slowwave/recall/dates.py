"""Dates that a query names.

Two kinds: parts of dates ("in May", "7 May 2023", "2023-05-07") and spans counted back from when the question is asked
("yesterday", "two weeks ago", "last spring"). Each is evidence among the rest and never a condition.
"""

import calendar
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

MONTHS = {name.lower(): n for names in (calendar.month_name, calendar.month_abbr) for n, name in enumerate(names) if n}
MONTHS["sept"] = 9
MONTH = r"(?P<month>" + "|".join(sorted(MONTHS, key=len, reverse=True)) + r")\b\.?"
DAY = r"\b(?P<day>[0-3]?\d)(?:st|nd|rd|th)?"
ISO = re.compile(r"\b(?P<year>(?:19|20)\d\d)-(?P<month>[01]?\d)(?:-(?P<day>[0-3]?\d))?\b")
WRITTEN = (
    re.compile(rf"{DAY}\s+(?:of\s+)?{MONTH}", re.I),
    re.compile(rf"\b{MONTH}\s+{DAY}\b", re.I),
    re.compile(rf"\b{MONTH}", re.I),
)
YEAR = re.compile(r"\b(?:19|20)\d\d\b")
MODAL = re.compile(r"\b(?:may|march|mar|sun|dec|jan)\b")
"""Words that are months only with a capital."""

COUNTS = ("a", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
NUMBERS = {word: n for n, word in enumerate(COUNTS, 1)}
NUMBERS |= {"an": 1, "one": 1, "couple of": 2, "a couple of": 2}
UNIT_DAYS = {"day": 1, "night": 1, "week": 7, "month": 30, "year": 365}
MAX_DAYS_BACK = 40_000
SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
WEEKDAYS = [name.lower() for name in calendar.day_name]
DAYS = {"today": 0, "tonight": 0, "yesterday": 1}
DAY_WORD = re.compile(r"\b(today|tonight|yesterday)\b", re.I)
AGO = re.compile(
    rf"\b(?P<n>\d{{1,4}}|{'|'.join(sorted(NUMBERS, key=len, reverse=True))})\s+"
    rf"(?P<unit>{'|'.join(UNIT_DAYS)})s?\s+ago\b",
    re.I,
)
LAST = re.compile(
    r"\b(?P<which>last|this|past)\s+"
    rf"(?P<unit>weekend|week|month|year|night|{'|'.join(SEASONS)}|{'|'.join(WEEKDAYS)})\b",
    re.I,
)


ASKS_WHAT = frozenset("happen happened discuss discussed talk talked say said mention mentioned news".split())  # noqa: SIM905
"""Words that beside a time ask for whatever there is."""

Span = tuple[datetime, datetime]
"""First and last moment (excluded)."""
Date = tuple[int | None, int | None, int | None]
"""Year, month and day of the month, as far as they are told together."""


@dataclass(frozen=True)
class Named:
    """Parts of dates that a query names."""

    years: frozenset[int] = frozenset()
    dates: frozenset[Date] = frozenset()
    """The months, each with the day and the year that it is named with."""

    @property
    def months(self) -> frozenset[int]:
        """Of all dates."""
        return frozenset(month for _, month, _ in self.dates if month is not None)

    @property
    def days(self) -> frozenset[int]:
        """Of all dates."""
        return frozenset(day for *_, day in self.dates if day is not None)


def named_dates(text: str) -> Named:
    """The years, months and days of the month that a text names; a day counts only beside its month."""
    years = {int(year) for year in YEAR.findall(text)}
    dates = set[Date]()
    for pattern in (ISO, *WRITTEN):
        for found in pattern.finditer(text):
            said = found.groupdict()
            if MODAL.fullmatch(said["month"]):
                continue
            month = MONTHS.get(said["month"].lower()) or int(said["month"])
            year = said.get("year") or (str(*years) if len(years) == 1 else None)
            dates.add((int(year) if year else None, month, int(said["day"]) if said.get("day") else None))
    with_days = {month for _, month, day in dates if day is not None}
    return Named(frozenset(years), frozenset(one for one in dates if one[2] is not None or one[1] not in with_days))


def named_spans(text: str, now: datetime) -> list[tuple[datetime, datetime]]:
    """First and last moment (excluded) of each stretch of time that a text counts back from `now`.

    "two months ago" is the month around that day, since people round. Seasons are the northern hemisphere's.
    """
    day = now.replace(hour=0, minute=0, second=0, microsecond=0)
    spans = [_counted(_ago, day, found["n"].lower(), found["unit"].lower()) for found in AGO.finditer(text)]
    spans += [_counted(_last, day, found["which"].lower(), found["unit"].lower()) for found in LAST.finditer(text)]
    spans += [_counted(_day_back, day, found.lower()) for found in DAY_WORD.findall(text)]
    return [span for span in spans if span]


def _counted(count: Callable[..., Span | None], day: datetime, *words: str) -> Span | None:
    """A stretch counted back from a day; None where it leaves the years 1 to 9999."""
    try:
        return count(day, *words)
    except (OverflowError, ValueError):  # timedelta's and replace's words for it
        return None


def _day_back(day: datetime, word: str) -> Span:
    start = day - timedelta(days=DAYS[word])
    return start, start + timedelta(days=1)


def _ago(day: datetime, number: str, unit: str) -> tuple[datetime, datetime] | None:
    n = NUMBERS.get(number) or (int(number) if number.isdigit() else 0)
    if not 0 < n * UNIT_DAYS[unit] < MAX_DAYS_BACK:
        return None
    middle, half = day - timedelta(days=n * UNIT_DAYS[unit]), UNIT_DAYS[unit] // 2
    return middle - timedelta(days=half), middle + timedelta(days=half + 1)


def _last(day: datetime, which: str, unit: str) -> tuple[datetime, datetime]:
    """The stretch before the one that `day` stands in ("last month"), or that one so far ("this month")."""
    if unit in SEASONS:
        return _season(day, SEASONS[unit], this=which == "this")
    if unit in WEEKDAYS:
        start = day - timedelta(days=(day.weekday() - WEEKDAYS.index(unit) - 1) % 7 + 1)
        return start, start + timedelta(days=1)
    starts = {
        "week": day - timedelta(days=day.weekday()),
        "weekend": day - timedelta(days=(day.weekday() - 5) % 7),
        "month": day.replace(day=1),
        "year": day.replace(month=1, day=1),
        "night": day,
    }
    start, tomorrow = starts[unit], day + timedelta(days=1)
    if which in ("this", "past"):
        return (start if which == "this" else day - timedelta(days=UNIT_DAYS.get(unit, 7))), tomorrow
    if unit == "weekend":
        return (start, start + timedelta(days=2)) if day.weekday() < 5 else (start - timedelta(days=7), start)
    before = start - timedelta(days=1)
    first = {"month": before.replace(day=1), "year": before.replace(month=1, day=1), "night": before}
    return first.get(unit, start - timedelta(days=7)), start


def _season(day: datetime, month: int, *, this: bool) -> tuple[datetime, datetime]:
    """Three months from `month`: the latest that began ("this"), or that is over ("last")."""
    start = day.replace(month=month, day=1)
    start = start if start <= day else start.replace(year=start.year - 1)
    end = (start + timedelta(days=95)).replace(day=1)
    if not this and end > day:
        start, end = start.replace(year=start.year - 1), end.replace(year=end.year - 1)
    return start, end


def time_words(text: str) -> frozenset[str]:
    """The words of a text, in lower case, that tell of a time, and what asks for whatever there was then."""
    named = [found[0] for pattern in (ISO, *WRITTEN, YEAR, AGO, LAST, DAY_WORD) for found in pattern.finditer(text)]
    words = {word.lower() for one in named for word in re.findall(r"\w+", one) if not MODAL.fullmatch(word)}
    return frozenset(words | ASKS_WHAT) if words else frozenset()
