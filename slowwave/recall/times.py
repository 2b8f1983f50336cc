"""The times that a query names, held against when things were said.

Evidence among the rest: what was said then is worth more (`DATED`), and of what is relevant anyhow it stands
above what was said at another time and does not name that time either: a question may be about a date, or of one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from slowwave.recall.release.columns import NO_TIME, Ints, Mask
from slowwave.text.dates import Date, DateMentions, Span, extract_dates, extract_spans, extract_time_words
from slowwave.text.words import extract_content_words

MOST_TIMES = 32
"""Times of each kind that a query is held against; a person names one or two, and each is a look at all rows."""

Calendar = tuple[Ints, Ints, Ints]
"""Years, months and days of the month, in UTC."""


@dataclass(frozen=True)
class QueryTimes:
    """The times that a query names, and the words that name them."""

    named: DateMentions
    spans: tuple[Span, ...]
    words: frozenset[str]
    about: frozenset[str]
    """What it is about beside."""

    def build_masks(self, moment: Ints, calendar: Calendar) -> list[Mask]:
        """Return for each year, month, day, whole date and span the rows said in it."""
        named = self.named
        single: list[Date] = [(year, None, None) for year in sorted(named.years)]
        single += [(None, month, None) for month in sorted(named.months)]
        single += [(None, None, day) for day in sorted(named.days)]
        whole = [date for date in sorted(named.dates, key=repr) if date[0] is not None or date[2] is not None]
        dates = (_mask_date(calendar, date) for date in (*single, *whole))
        return [mask & (moment != NO_TIME) for mask in (*self._mask_spans(moment), *dates)]

    def mask_inside(self, first: Ints, last: Ints) -> Mask:
        """Return which stretches, from first to last, lie in a time named; of a year beside a month only that month."""
        return self._mask_moments(first) & self._mask_moments(last)

    def is_named_in(self, text: str) -> bool:
        """Return whether a text names a date that is asked for."""
        told = extract_dates(text).dates if self.named.dates else ()
        return any(_is_same_date(date, other) for date in self.named.dates for other in told)

    def _mask_moments(self, moment: Ints) -> Mask:
        dates = self.named.dates or {(year, None, None) for year in self.named.years}
        calendar = compute_calendar(moment)
        on = (_mask_date(calendar, date) for date in dates)
        either: Mask = np.any([*self._mask_spans(moment), *on], axis=0) & (moment != NO_TIME)
        return either

    def _mask_spans(self, moment: Ints) -> list[Mask]:
        return [(moment >= _convert_to_micros(start)) & (moment < _convert_to_micros(end)) for start, end in self.spans]


def parse_times(text: str, now: datetime | None) -> QueryTimes | None:
    """Return the times that a query names, counted back from `now` (today, where None); None where it names none."""
    now = now or datetime.now().astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
    named = extract_dates(text)
    named = DateMentions(
        frozenset(sorted(named.years)[-MOST_TIMES:]), frozenset(sorted(named.dates, key=repr)[-MOST_TIMES:])
    )
    spans = tuple(dict.fromkeys(extract_spans(text, now)))[:MOST_TIMES]
    if not (named.years or named.dates or spans):
        return None
    words = extract_time_words(text, now)
    return QueryTimes(named, spans, words, frozenset(extract_content_words(text)) - words)


def compute_calendar(moment: Ints) -> Calendar:
    """Return the calendar of moments in microseconds since 1970; those of no time are of 1970."""
    at = np.where(moment != NO_TIME, moment, 0).astype("datetime64[us]")
    month = at.astype("datetime64[M]")
    years: Ints = at.astype("datetime64[Y]").astype(np.int64) + 1970
    months: Ints = month.astype(np.int64) % 12 + 1
    days: Ints = (at.astype("datetime64[D]") - month).astype(np.int64) + 1
    return years, months, days


def _is_same_date(one: Date, other: Date) -> bool:
    """Return whether two dates may be one, as far as both tell the year, the month and the day."""
    return all(a is None or b is None or a == b for a, b in zip(one, other, strict=True))


def _mask_date(calendar: Calendar, date: Date) -> Mask:
    """Return which rows are of a date, as far as it is told."""
    mask: Mask = np.ones(len(calendar[0]), dtype=bool)
    for values, wanted in zip(calendar, date, strict=True):
        if wanted is not None:
            mask &= values == wanted
    return mask


def convert_datetimes(times: Sequence[object]) -> Ints:
    """Return microseconds since 1970, UTC; NO_TIME for null."""
    moments: Ints = np.array(
        [_convert_to_micros(at) if isinstance(at, datetime) else NO_TIME for at in times], dtype=np.int64
    )
    return moments


def _convert_to_micros(moment: datetime) -> int:
    return round(moment.timestamp() * 1e6)
