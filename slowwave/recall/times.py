"""The times that a query names, held against when things were said.

Evidence among the rest: what was said then is worth more (`messages.DATED`), and of what is relevant anyhow it stands
above what was said at another time and does not name that time either: a question may be about a date, or of one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache

import numpy as np

from slowwave.recall.query import Query
from slowwave.recall.release.passages import NO_TIME, Layout
from slowwave.recall.release.view import Ints, Mask, View
from slowwave.recall.retrieve.pools import POOLS, Candidates, Scores
from slowwave.recall.sources import Found
from slowwave.text.dates import Date, Named, Span, named_dates, named_spans, time_words
from slowwave.text.terms import content_words

TIMELY = 0.01
"""What a row of the time that a query names has over another: of two reciprocal ranks, that is a hundred places."""

Calendar = tuple[Ints, Ints, Ints]
"""Years, months and days of the month, in UTC."""


@dataclass(frozen=True)
class AskedTime:
    """The times that a query names, and the words that name them."""

    named: Named
    spans: tuple[Span, ...]
    words: frozenset[str]
    about: frozenset[str]
    """What it is about beside."""

    def __bool__(self) -> bool:
        return bool(self.named.years or self.named.dates or self.spans)

    def alone(self, layout: Layout) -> bool:
        """Whether it asks for nothing but what was said then, by whomever and wherever: "What did Ann say in May?"."""
        return bool(self) and not self.about - layout.names.keys() - layout.places.keys()

    def masks(self, moment: Ints, calendar: Calendar) -> list[Mask]:
        """For each year, month, day, whole date and span the rows said in it."""
        named = self.named
        single: list[Date] = [(year, None, None) for year in sorted(named.years)]
        single += [(None, month, None) for month in sorted(named.months)]
        single += [(None, None, day) for day in sorted(named.days)]
        whole = [date for date in sorted(named.dates, key=repr) if date[0] is not None or date[2] is not None]
        dates = (_on(calendar, date) for date in (*single, *whole))
        return [mask & (moment != NO_TIME) for mask in (*self._within(moment), *dates)]

    def inside(self, first: Ints, last: Ints) -> Mask:
        """Which stretches, from first to last, lie in a time named; of a year beside a month only that month."""
        return self._at(first) & self._at(last)

    def named_in(self, text: str) -> bool:
        """Whether a text names a date that is asked for."""
        told = named_dates(text).dates if self.named.dates else ()
        return any(_agree(date, other) for date in self.named.dates for other in told)

    def _at(self, moment: Ints) -> Mask:
        dates = self.named.dates or {(year, None, None) for year in self.named.years}
        calendar = calendar_of(moment)
        on = (_on(calendar, date) for date in dates)
        either: Mask = np.any([*self._within(moment), *on], axis=0) & (moment != NO_TIME)
        return either

    def _within(self, moment: Ints) -> list[Mask]:
        return [(moment >= _micros(start)) & (moment < _micros(end)) for start, end in self.spans]


def asked_time(query: Query) -> AskedTime:
    """What times the query names; read once a query and day."""
    now = query.now or datetime.now().astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
    return _asked(query.text, now)


@lru_cache(maxsize=256)
def _asked(text: str, now: datetime) -> AskedTime:
    words = time_words(text, now)
    about = frozenset(content_words(text)) - words
    return AskedTime(named_dates(text), tuple(named_spans(text, now)), words, about)


def calendar_of(moment: Ints) -> Calendar:
    """Of moments in microseconds since 1970; those of no time are of 1970."""
    at = np.where(moment != NO_TIME, moment, 0).astype("datetime64[us]")
    month = at.astype("datetime64[M]")
    years: Ints = at.astype("datetime64[Y]").astype(np.int64) + 1970
    months: Ints = month.astype(np.int64) % 12 + 1
    days: Ints = (at.astype("datetime64[D]") - month).astype(np.int64) + 1
    return years, months, days


def date_masks(view: View, layout: Layout, query: Query) -> list[Mask]:
    """For each time that a query names the passages said in it."""
    asked = asked_time(query)
    if not asked:
        return []
    return asked.masks(layout.moment, view.once("calendar", lambda: calendar_of(layout.moment)))


def in_time(candidates: Candidates, query: Query) -> Mask | None:
    """Which rows of a pool lie in the time that the query names; None where it names none."""
    asked, pool = asked_time(query), candidates.pool
    if not asked:
        return None
    return asked.inside(*(_moments([row[name] for row in candidates.rows]) for name in (pool.first, pool.last)))


def timely_scores(candidates: Candidates, scores: Scores, relevance: Scores, least: float, query: Query) -> Scores:
    """Reciprocal ranks of a pool's rows; what is relevant and of the time that the query names has more."""
    inside = in_time(candidates, query)
    return scores if inside is None else scores + TIMELY * (inside & (relevance >= least))


def timely(found: Sequence[Found], least: float, query: Query) -> list[Found]:
    """What was found, best first; what is relevant and of the time that the query names, or names it, has more."""
    asked = asked_time(query)
    if not asked:
        return list(found)
    edges = [(one.row[POOLS[one.kind].first], one.row[POOLS[one.kind].last]) for one in found]
    inside = asked.inside(_moments([first for first, _ in edges]), _moments([last for _, last in edges])).tolist()
    lifted = [
        replace(one, score=one.score + TIMELY)
        if one.relevance >= least and (there or asked.named_in(str(one.row[POOLS[one.kind].text])))
        else one
        for one, there in zip(found, inside, strict=True)
    ]
    return sorted(lifted, key=lambda one: -one.score)


def _agree(one: Date, other: Date) -> bool:
    """Whether two dates may be one, as far as both tell the year, the month and the day."""
    return all(a is None or b is None or a == b for a, b in zip(one, other, strict=True))


def _on(calendar: Calendar, date: Date) -> Mask:
    """Which rows are of a date, as far as it is told."""
    mask: Mask = np.ones(len(calendar[0]), dtype=bool)
    for values, wanted in zip(calendar, date, strict=True):
        if wanted is not None:
            mask &= values == wanted
    return mask


def _moments(times: Sequence[object]) -> Ints:
    moments: Ints = np.array([_micros(at) if isinstance(at, datetime) else NO_TIME for at in times], dtype=np.int64)
    return moments


def _micros(moment: datetime) -> int:
    return round(moment.timestamp() * 1e6)
