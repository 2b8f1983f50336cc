"""Dates that a query names.

There are two kinds: parts of dates ("in May", "7 May 2023", "2023-05-07"), and spans counted back from the time of the
question ("yesterday", "two weeks ago", "last spring"). Recall uses them as evidence, never as a condition. Ambiguous
words are not dates: "May I …", "Windows Server 2019", version 2024.1, a person called April.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from slowwave.text.languages import ENGLISH, is_stop_word
from slowwave.text.times.foreign_dates import find_foreign_times
from slowwave.text.words import COUNTS, TERM, find_text_language, split_words

MONTH_NAMES = "january february march april may june july august september october november december".split()  # noqa: SIM905
MONTHS = {
    short: n for n, name in enumerate(MONTH_NAMES, 1) for short in (name, name[:3])
} | {"sept": 9}
"""Numbers of the months by name and short name, in English whatever the process's locale is."""
MONTH = r"\b(?P<month>" + "|".join(sorted(MONTHS, key=len, reverse=True)) + r")\b\.?"
DAY = r"(?P<day>[0-3]?\d)(?:st|nd|rd|th)?"
YEAR = r"(?P<year>(?:19|20)\d\d)\b(?![.\d]\d)"
ISO = re.compile(
    r"\b(?P<year>(?:19|20)\d\d)-(?P<month>[01]\d)(?:-(?P<day>[0-3]\d))?(?![\d-])"
)
NUMERIC = re.compile(
    r"\b(?P<day>[0-3]?\d)(?P<mark>[./])(?P<month>[0-3]?\d)(?P=mark)(?P<year>(?:19|20)\d\d)\b"
)
NEAR = 40
"""Characters before a date that are read."""
DOTTED = re.compile(
    r"(?<![\w.])(?P<day>[0-3]?\d)\.\s?(?P<month>[01]?\d)\.(?=\s+[^\W\d_A-Z]|,)"
)
"""A day and month without a year, each with a dot, and the sentence goes on: "3.12." at its end may be a version. So
may "python 3.12.", and so the word before it is a weekday or a stop word (`_leads_to_date`).
"""
WRITTEN = (
    re.compile(
        rf"\b(?:(?P<first>[0-3]?\d)(?:st|nd|rd|th)?\s*(?:-|–|to|and)\s*)?{DAY}\s+(?:of\s+)?{MONTH}(?:,?\s+{YEAR})?",
        re.I,
    ),
    re.compile(rf"{MONTH}\s+{DAY}\b(?!\d|[:.]\d)(?:,?\s+{YEAR})?", re.I),
    re.compile(
        rf"(?P<in>\b(?:in|of|since|during|until|till|before|after|from|by|last|this|next|early|late|mid)[\s-]+)?{MONTH}(?:,?\s+{YEAR})?",
        re.I,
    ),
)
ALONE = re.compile(
    rf"\b(?:in|since|during|of|until|till|before|after|from|by|year|spring|summer|autumn|fall|winter|early|late)\s+{YEAR}",
    re.I,
)
MODAL = frozenset(("may", "march", "mar", "dec", "jan"))
"""Words that are months in lower case only with a year or a preposition."""
CALLED = MODAL | {"april", "june", "august", "jun", "aug"}
"""Words that are months, without a day or year, only after a preposition ("in April"): they may be people's names."""

NUMBERS = COUNTS | {"a": 1, "an": 1, "one": 1, "couple of": 2, "a couple of": 2}
UNIT_DAYS = {
    "day": 1,
    "night": 1,
    "week": 7,
    "fortnight": 14,
    "month": 30,
    "year": 365,
}
SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
WEEKDAYS = {
    name: n
    for n, name in enumerate(
        ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
    )
}
DAYS = {"today": 0, "tonight": 0, "yesterday": 1, "day before yesterday": 2}
DAY_WORD = re.compile(
    r"(?<!ago )\b(day before yesterday|today|tonight|yesterday)\b", re.I
)
NUMBER = rf"(?P<n>\d{{1,4}}|{'|'.join(sorted(NUMBERS, key=len, reverse=True))})"
AGO = re.compile(
    rf"(?<!half )(?<![.,-])\b{NUMBER}\s+(?P<unit>{'|'.join(UNIT_DAYS)})s?\s+ago\b", re.I
)
"""Not the end of another number: "half a year ago", "2.5 weeks ago", "twenty-one days ago"."""
RECENT = re.compile(
    rf"\b(?:last|past)\s+{NUMBER}\s+(?P<unit>{'|'.join(UNIT_DAYS)})s\b", re.I
)
ON = re.compile(rf"\b(?P<which>on|since)\s+(?P<unit>{'|'.join(WEEKDAYS)})\b", re.I)
LAST = re.compile(
    r"\b(?P<which>last|this|past)\s+"
    rf"(?P<unit>weekend|week|month|year|night|{'|'.join(SEASONS)}|{'|'.join(WEEKDAYS)})\b",
    re.I,
)
LAST_ALONE = re.compile(rf"{LAST.pattern}(?! (?:{'|'.join(WEEKDAYS)})\b)", re.I)
OF_WEEK = re.compile(
    rf"\b(?P<which>last|next) week (?P<day>{'|'.join(WEEKDAYS)})\b", re.I
)

Span = tuple[datetime, datetime]
"""The first moment, and the end (excluded)."""
Date = tuple[int | None, int | None, int | None]
"""The year, month and day of the month; None for each that is not named."""


@dataclass(frozen=True)
class DateMentions:
    """Parts of dates that a query names."""

    years: frozenset[int] = frozenset()
    dates: frozenset[Date] = frozenset()
    """The months, each with its day and year if they are named with it."""

    @property
    def months(self) -> frozenset[int]:
        """The months of all dates."""
        return frozenset(month for _, month, _ in self.dates if month is not None)

    @property
    def days(self) -> frozenset[int]:
        """The days of the month of all dates."""
        return frozenset(day for *_, day in self.dates if day is not None)


def extract_dates(text: str) -> DateMentions:
    """Return the years, months and days of the month that a text names. A day counts only with its month."""
    dates = {date for date, _ in _find_dates(text)}
    with_days = {month for _, month, day in dates if day is not None}
    years = {int(match["year"]) for match in ALONE.finditer(text)} | {
        date[0] for date in dates if date[0] is not None
    }
    return DateMentions(
        frozenset(years),
        frozenset(
            each for each in dates if each[2] is not None or each[1] not in with_days
        ),
    )


def _find_dates(text: str) -> Iterator[tuple[Date, str]]:
    """Yield each date with the words that name it, in any language that `foreign_dates` reads."""
    yield from _find_english_dates(text)
    for time in find_foreign_times(text):
        for date, _ in _find_english_dates(time.english):
            yield date, time.words


def _find_english_dates(text: str) -> Iterator[tuple[Date, str]]:
    """Yield each date in figures or in English with the words that name it."""
    yield from _find_dates_in_figures(text)
    read = bytearray(len(text))  # 1 where a date was read
    for pattern in WRITTEN:
        for match in pattern.finditer(text):
            if read[match.start("month")]:
                continue
            read[match.start() : match.end()] = b"\1" * len(match[0])
            for date in _parse_written_dates(text, match):
                yield date, match[0]


def _find_dates_in_figures(text: str) -> Iterator[tuple[Date, str]]:
    """Yield each date in figures with its words."""
    for match in (*ISO.finditer(text), *NUMERIC.finditer(text)):
        # in figures the day is before the month, unless only the other order is possible
        parts = match.groupdict()
        year = int(parts["year"])
        month = int(parts["month"])
        day = int(parts["day"]) if parts.get("day") else None
        if parts.get("mark") == "/" and day is not None and month > len(MONTH_NAMES):
            month, day = day, month
        elif parts.get("mark") == "/" and day is not None and day <= len(MONTH_NAMES):
            continue  # 3/4/2026 is read in two ways
        if _is_date(month, day):
            yield (year, month, day), match[0]
    for match in DOTTED.finditer(text):
        month = int(match["month"])
        day = int(match["day"])
        if _is_date(month, day) and _leads_to_date(text, match.start()):
            yield (None, month, day), match[0]


def _leads_to_date(text: str, at: int) -> bool:
    """Return True if the word before an offset of a text is a weekday or a stop word, or if there is none."""
    words = TERM.findall(text[max(0, at - NEAR) : at].lower())
    if not words or words[-1] in WEEKDAYS:
        return True
    return is_stop_word(words[-1], find_text_language(text) or ENGLISH)


def _parse_written_dates(text: str, match: re.Match[str]) -> Iterator[Date]:
    """Yield the dates that a match of `WRITTEN` names, such as three for "3 to 5 May"; none if it names none."""
    parts = match.groupdict()
    name = parts["month"]
    year = int(parts["year"]) if parts["year"] else None
    day = int(parts["day"]) if parts.get("day") else None
    bare = "day" not in parts
    if name.islower() and name in MODAL and year is None and not parts.get("in"):
        return
    if bare and year is None and not parts["in"] and name.lower() in CALLED:
        return
    if (
        bare
        and re.match(r"\s+(?:I|we|you|he|she|it|they|of)\b", text[match.end() :])
        and not parts["in"]
    ):
        return
    first = int(parts["first"]) if parts.get("first") else day
    for each_day in (
        range(first or 0, (day or 0) + 1)
        if first is not None and day is not None and first <= day
        else (day,)
    ):
        if _is_date(MONTHS[name.lower()], each_day):
            yield year, MONTHS[name.lower()], each_day


def _is_date(month: int, day: int | None) -> bool:
    if month == 2:
        longest = 29
    elif month in (4, 6, 9, 11):
        longest = 30
    else:
        longest = 31
    return 1 <= month <= len(MONTH_NAMES) and (day is None or 1 <= day <= longest)


def extract_spans(text: str, now: datetime) -> list[Span]:
    """Return each span of time that a text counts back from `now`.

    "two months ago" is the month around that day, since people round. Seasons are those of the northern hemisphere.
    """
    return [span for span, _ in _find_spans(text, now)]


def _find_spans(text: str, now: datetime) -> Iterator[tuple[Span, str]]:
    """Yield each span with the words that name it, in any language that `foreign_dates` reads."""
    yield from _find_english_spans(text, now)
    for time in find_foreign_times(text):
        for span, _ in _find_english_spans(time.english, now):
            yield span, time.words


def _find_english_spans(text: str, now: datetime) -> Iterator[tuple[Span, str]]:
    day = now.replace(hour=0, minute=0, second=0, microsecond=0)
    counts: tuple[
        tuple[re.Pattern[str], Callable[..., Span | None], tuple[str | int, ...]], ...
    ] = (
        (AGO, _resolve_ago, ("n", "unit")),
        (RECENT, _resolve_recent, ("n", "unit")),
        (OF_WEEK, _resolve_day_of_week, ("which", "day")),
        (LAST_ALONE, _resolve_last, ("which", "unit")),
        (ON, _resolve_last, ("which", "unit")),
        (DAY_WORD, _resolve_day_word, (0,)),
    )
    for pattern, count, parts in counts:
        for match in pattern.finditer(text):
            with suppress(OverflowError, ValueError):  # outside the years 1 to 9999
                if (
                    span := count(day, *(match[part].lower() for part in parts))
                ) is not None:
                    yield span, match[0]


def _resolve_day_word(day: datetime, word: str) -> Span:
    start = day - timedelta(days=DAYS[word])
    return start, start + timedelta(days=1)


def _resolve_ago(
    day: datetime,
    number: str,
    unit: str,
) -> Span | None:
    """Return the unit of time around the day that is `number` units ago; None as `_subtract_units`."""
    middle = _subtract_units(day, number, unit)
    half = UNIT_DAYS[unit] // 2
    return (
        None
        if middle is None
        else (middle - timedelta(days=half), middle + timedelta(days=half + 1))
    )


def _resolve_recent(
    day: datetime,
    number: str,
    unit: str,
) -> Span | None:
    """Return the last `number` units up to the end of the day; None as `_subtract_units`."""
    start = _subtract_units(day, number, unit)
    return None if start is None else (start, day + timedelta(days=1))


def _subtract_units(
    day: datetime,
    number: str,
    unit: str,
) -> datetime | None:
    """Return the day `number` units before; None if the number is 0 or unknown, or the day too long ago."""
    days = UNIT_DAYS[unit] * (
        NUMBERS.get(number) or (int(number) if number.isdigit() else 0)
    )
    # at most about a hundred years back: nobody means an earlier day
    return day - timedelta(days=days) if 0 < days < 40_000 else None


def _resolve_day_of_week(
    day: datetime,
    which: str,
    weekday: str,
) -> Span | None:
    """Return a day of the last week; none of the next one, which is not over."""
    if which != "last":
        return None
    start = day - timedelta(days=day.weekday() + 7 - WEEKDAYS[weekday])
    return start, start + timedelta(days=1)


def _resolve_last(
    day: datetime,
    which: str,
    unit: str,
) -> Span:
    """Return the span before the one that `day` is in ("last month"), or that one so far ("this month").

    "last weekend" is the latest Saturday and Sunday that are over: on a weekend, those of the week before. A weekday
    is the last such day before `day`; after "since", the span from it to now.
    """
    tomorrow = day + timedelta(days=1)
    if unit in SEASONS:
        return _resolve_season(day, which, unit)
    if unit in WEEKDAYS:
        start = day - timedelta(days=(day.weekday() - WEEKDAYS[unit] - 1) % 7 + 1)
        return start, tomorrow if which == "since" else start + timedelta(days=1)
    start = _find_start(day, unit)
    if which == "this":
        return start, tomorrow
    if which == "past":
        return day - timedelta(days=UNIT_DAYS.get(unit, 7)), tomorrow
    if unit == "weekend":
        saturday = start if day.weekday() < 5 else start - timedelta(days=7)
        return saturday, saturday + timedelta(days=2)
    if unit == "week":
        return start - timedelta(days=7), start
    return _find_start(start - timedelta(days=1), unit), start


def _find_start(day: datetime, unit: str) -> datetime:
    """Return the first day of the week, month, year or night that a day is in, or of the latest weekend that began."""
    starts = {
        "week": day - timedelta(days=day.weekday()),
        "weekend": day - timedelta(days=(day.weekday() - 5) % 7),
        "month": day.replace(day=1),
        "year": day.replace(month=1, day=1),
        "night": day,
    }
    return starts[unit]


def _resolve_season(
    day: datetime,
    which: str,
    unit: str,
) -> Span:
    """Return the three months of the latest season of this name: for "this" one that began, else one that is over."""
    start = day.replace(month=SEASONS[unit], day=1)
    start = start if start <= day else start.replace(year=start.year - 1)
    end = (start + timedelta(days=95)).replace(day=1)
    if which != "this" and end > day:
        return start.replace(year=start.year - 1), end.replace(year=end.year - 1)
    return start, end


ASKS_WHAT = frozenset(
    """anything everything something show list tell told summarize summarise happen happened discuss discussed talk
    talked say said mention mentioned decide decided agree agreed settle settled change changed work worked plan planned
    learn learned go going new news recent recently""".split()  # noqa: SIM905
)
"""Words that, with a time, ask for everything of that time."""


def extract_time_words(text: str, now: datetime) -> frozenset[str]:
    """Return the lower-case words of a text that name a time, with ASKS_WHAT; an empty set if it names no time."""
    named = [words for _, words in (*_find_dates(text), *_find_spans(text, now))] + [
        match[0] for match in ALONE.finditer(text)
    ]
    words = {word for phrase in named for word in split_words(phrase)}
    return frozenset(words | ASKS_WHAT) if words else frozenset()


def convert_to_utc(moment: datetime) -> datetime:
    """Return a moment in UTC. A moment without a zone counts as UTC."""
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
