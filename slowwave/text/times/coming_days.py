"""Find the next day that a text names: by a date, by its distance from when it was said, or by a weekday's name."""

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import date, datetime, timedelta

from slowwave.text.times.dates import WEEKDAYS, extract_dates
from slowwave.text.times.foreign_dates import find_foreign_times
from slowwave.text.times.relative_days import find_relative_days

WEEKDAY = re.compile(
    rf"\b(?P<day>{'|'.join(WEEKDAYS)})\b(?:,? (?:the )?(?P<number>[0-3]?\d)(?:st|nd|rd|th)\b)?",
    re.I,
)
WEEKS = 10
"""Weeks in which "Friday 15th" is looked for."""
FARTHEST = timedelta(days=180)
"""A date without a year counts as a future one only if it is at most this far away."""


def find_coming_day(
    text: str, said_at: datetime, *, weekdays: bool = False
) -> date | None:
    """Return the earliest day that a text names and that is later than when it was said; None if it names none.

    Args:
        text: what was said.
        said_at: when it was said; the day is that of this machine's zone.
        weekdays: count the name of a weekday as the next such day, although it may mean the last one.
    """
    said_on = said_at.astimezone().date()
    days = [*_list_dates(text, said_on)]
    for named in find_relative_days(text, said_on):
        days += _list_dates(named.note, said_on)
    if weekdays:
        english = (time.english for time in find_foreign_times(text))
        for words in (text, *english):
            for match in WEEKDAY.finditer(words):
                ahead = (WEEKDAYS[match["day"].lower()] - said_on.weekday() - 1) % 7
                first = said_on + timedelta(days=ahead + 1)
                coming = (first + timedelta(weeks=n) for n in range(WEEKS))
                number = int(match["number"] or 0)
                days += [day for day in coming if number in (0, day.day)][:1]
    return min((day for day in days if day > said_on), default=None)


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
