"""The next day that a text names: by a date, by its distance from when it was said, or, of a plan, by a weekday, a day
of the month, a month, a part of one ("mid July", "the end of the quarter"), or a weekend.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta

from slowwave.text.foreign import Bounds, cut_out
from slowwave.text.rarity import get_lexicon
from slowwave.text.times.dates import (
    MODAL,
    MONTH,
    MONTHS,
    WEEKDAYS,
    extract_dates,
)
from slowwave.text.times.foreign_dates import (
    TimeName,
    find_foreign_times,
    list_part_words,
)
from slowwave.text.times.recurring_days import find_recurring
from slowwave.text.times.relative_days import (
    COMING,
    COMING_DAYS,
    RelativeDay,
    find_relative_days,
)

WEEKDAY = re.compile(
    rf"\b(?P<day>{'|'.join(WEEKDAYS)})\b(?:,? (?:the )?(?P<number>[0-3]?\d)(?:st|nd|rd|th)\b)?",
    re.I,
)
WEEKS = 10
"""Weeks in which "Friday 15th" is looked for."""
FARTHEST = timedelta(days=180)
"""A date without a year counts as a future one only if it is at most this far away."""


ALONE = re.compile(
    r"\b(?:on|by|until|till|before|after|from|to) (?:the )?(?P<day>[0-3]?\d)(?:st|nd|rd|th)\b(?! of\b)(?! \d)",
    re.I,
)
"""A day of the month by itself."""
PART = r"(?P<part>early|mid|late|(?:start|beginning|middle|end|first \w+|last \w+) of)"
OF_MONTH = re.compile(rf"(?:\b{PART}[\s-]+)?{MONTH}(?![\s,]*\d)", re.I)
OF_SPAN = re.compile(
    rf"\b{PART} (?:the |this )?(?P<span>week|month|quarter|year)\b", re.I
)
WEEKEND = re.compile(r"\bweekend\b(?! of\b)", re.I)
QUARTER = re.compile(r"\bQ(?P<number>[1-4])\b")
OF_NEXT = re.compile(rf"\b{PART} (?:the )?next (?P<span>week|month)\b", re.I)
IN_MONTH = re.compile(
    r"\b(?:on|by|until|till|before|after|from) (?:the )?(?P<day>[0-3]?\d)(?:st|nd|rd|th)\b",
    re.I,
)
"""A day of the month beside "next month"."""
PARTS_OF_OTHERS = list_part_words()
"""What says the beginning, middle or end in other languages."""
PASSED = {
    "early": 0.0,
    "first": 0.0,
    "start": 0.0,
    "beginning": 0.0,
    "mid": 0.48,
    "middle": 0.48,
    "late": 0.67,
    "last": 0.77,
    "end": 1.0,
}
"""How much of a span of months has passed when a part of it begins."""
QUARTER_MONTHS = 3
SATURDAY = WEEKDAYS["saturday"]


def find_coming_day(
    text: str,
    said_at: datetime,
    *,
    of_plan: bool = False,
    counted: bool = True,
) -> date | None:
    """Return the earliest day that a text names and that is later than when it was said; None if it names none.

    Args:
        text: what was said.
        said_at: when it was said; the day is that of this machine's zone.
        of_plan: count the name of a weekday as the next such day (it may as well be the last one), a day of the month
            by itself, and of a month or quarter its first day, or that of the part that is named; where no date is. A
            weekend begins on Saturday.
        counted: count days from then on ("in 14 days"). What always holds may have them as a term.
    """
    said_on = said_at.astimezone().date()
    days = [*_list_dates(text, said_on)]
    foreign = find_foreign_times(text, of_plan=True)
    relative = [
        named
        for named in find_relative_days(text, said_on)
        if named.first is not None and (counted or not named.is_count)
    ]
    for named in relative:
        if not named.is_rough:
            days += _find_in_week(text, named, foreign)
    rough = [named for named in relative if named.is_rough]
    if of_plan and rough and not days:
        days += _list_rough(text, rough[0], foreign)
    elif of_plan and not relative and not any(day > said_on for day in days):
        recurring = find_recurring(text)
        english = (
            time.english
            for time in foreign
            if time.is_bare and not _is_name(time) and not _is_in(time, recurring)
        )
        for words in (cut_out(text, recurring), *english):
            days += _list_of_plan(words, said_on)
    return min((day for day in days if day > said_on), default=None)


def _is_in(time: TimeName, bounds: Sequence[Bounds]) -> bool:
    """Return True if a time begins within one of some parts of its text."""
    return any(start <= time.start < end for start, end in bounds)


def _is_name(time: TimeName) -> bool:
    """Return True for a capital inside a sentence of a language whose nouns have none: Domingo."""
    called_in = time.called_in
    return called_in is not None and not get_lexicon(called_in).has_capital_nouns


def _find_in_week(
    text: str,
    named: RelativeDay,
    foreign: Sequence[TimeName],
) -> list[date]:
    """Return the day that a text names by its distance; of the next week the weekday that is named beside it, and none
    of several.
    """
    first = named.first
    if first is None:
        return []
    if named.monday is None:
        return [first]
    rest = f"{text[: named.start]} {text[named.end :]}"
    said = {WEEKDAYS[match["day"].lower()] for match in WEEKDAY.finditer(rest)}
    said |= {WEEKDAYS[one.english] for one in foreign if one.english in WEEKDAYS}
    if len(said) > 1:
        return []
    if part := OF_NEXT.search(text) if not said else None:
        # of a week's working days
        passed = PASSED[part["part"].lower().split()[0]]
        return [first + timedelta(days=round(4 * passed))]
    if not said and PARTS_OF_OTHERS.search(rest):
        return []
    return [first + timedelta(days=day) for day in said or {first.weekday()}]


def _list_rough(
    text: str,
    named: RelativeDay,
    foreign: Sequence[TimeName],
) -> Iterator[date]:
    """Yield the day of a month or year that is named by its distance.

    It is the first of the month or year, the day on which a part of the next month begins, or a day of the month by its
    number. Nothing is yielded beside another number, month or part.
    """
    first = named.first
    if first is None:
        return
    english = " ".join(one.english for one in foreign if one.start == named.start)
    if part := OF_NEXT.search(text) or OF_NEXT.search(english):
        yield _find_part(first, 1, part["part"])
        return
    others = [
        one for one in foreign if one.start >= named.end or one.start < named.start
    ]
    rest = f"{text[: named.start]} {text[named.end :]}"
    numbers = [
        int(match["day"])
        for words in (rest, *(one.english for one in others))
        for match in IN_MONTH.finditer(words)
    ]
    is_other = others or re.search(rf"\d|{MONTH}|\b{PART}\b", rest, re.I)
    if len(numbers) == 1 and _is_month(text, named, foreign):
        with suppress(ValueError):  # 31 in a shorter month
            yield first.replace(day=numbers[0])
    elif not is_other and not PARTS_OF_OTHERS.search(rest):
        yield first


def _is_month(text: str, named: RelativeDay, foreign: Sequence[TimeName]) -> bool:
    """Return True if a time is a month's distance, not a year's."""
    own = [one.english for one in foreign if one.start == named.start]
    return any(
        "month" in words for words in (text[named.start : named.end].lower(), *own)
    )


def _list_of_plan(text: str, said_on: date) -> Iterator[date]:
    """Yield the days that a plan names by less than a date; see `find_coming_day`."""
    yield from _list_weekdays(text, said_on)
    yield from _list_months(text, said_on)
    yield from _list_days_alone(text, said_on)
    yield from _list_span_ends(text, said_on)
    for _ in WEEKEND.finditer(text):
        yield said_on + timedelta(days=(SATURDAY - said_on.weekday() - 1) % 7 + 1)
    for named in COMING.finditer(text):
        yield said_on + timedelta(days=COMING_DAYS[named["day"].lower()])


def _list_weekdays(text: str, said_on: date) -> Iterator[date]:
    """Yield the next of each weekday that a text names; with a number the next that falls on it."""
    for match in WEEKDAY.finditer(text):
        ahead = (WEEKDAYS[match["day"].lower()] - said_on.weekday() - 1) % 7
        first = said_on + timedelta(days=ahead + 1)
        coming = (first + timedelta(weeks=n) for n in range(WEEKS))
        number = int(match["number"] or 0)
        yield from [day for day in coming if number in (0, day.day)][:1]


def _list_days_alone(text: str, said_on: date) -> Iterator[date]:
    """Yield the next of each day of the month that a text names without its month."""
    for match in ALONE.finditer(text):
        number = int(match["day"])
        coming = (said_on + timedelta(days=n) for n in range(1, 62))
        yield from [day for day in coming if day.day == number][:1]


def _list_months(text: str, said_on: date) -> Iterator[date]:
    """Yield the day that each month without a day, and each quarter, begins; of a part of a month the part."""
    named = [
        (MONTHS[match["month"].lower()], match["part"])
        for match in OF_MONTH.finditer(text)
        if match["part"] or match["month"].lower() not in MODAL
    ]
    named += [
        (QUARTER_MONTHS * int(match["number"]) - 2, None)
        for match in QUARTER.finditer(text)
    ]
    for month, part in named:
        for year in (said_on.year, said_on.year + 1):
            day = _find_part(date(year, month, 1), 1, part or "start")
            if said_on < day <= said_on + FARTHEST:
                yield day


def _list_span_ends(text: str, said_on: date) -> Iterator[date]:
    """Yield the days of "the end of the month" and the like."""
    for match in OF_SPAN.finditer(text):
        span = match["span"].lower()
        if span == "week":
            yield said_on + timedelta(days=(4 - said_on.weekday()) % 7)
            continue
        months = {"month": 1, "quarter": QUARTER_MONTHS, "year": 12}[span]
        first = (said_on.month - 1) // months * months + 1
        yield _find_part(date(said_on.year, first, 1), months, match["part"])


def _find_part(
    first: date,
    months: int,
    part: str,
) -> date:
    """Return the day on which a part of a span of months begins; of its end the last day."""
    past = first.month - 1 + months
    after = date(first.year + past // 12, past % 12 + 1, 1)
    passed = PASSED[part.lower().split()[0]]
    return first + timedelta(days=round(passed * ((after - first).days - 1)))


def _list_dates(text: str, said_on: date) -> Iterator[date]:
    """Yield the days that a text names by month and day. Without a year, it is the next such day within FARTHEST."""
    for year, month, day in extract_dates(text).dates:
        if month is None or day is None:
            continue
        for guess in (year,) if year else (said_on.year, said_on.year + 1):
            with suppress(ValueError):  # 29 February
                found = date(guess, month, day)
                if year or said_on < found <= said_on + FARTHEST:
                    yield found
