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
from slowwave.recall.sources import ScoredRow
from slowwave.text.dates import Date, DateMentions, Span, extract_dates, extract_spans, extract_time_words
from slowwave.text.words import extract_content_words

TIMELY = 0.01
"""What a row of the time that a query names has over another: of two reciprocal ranks, that is a hundred places."""

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

    def __bool__(self) -> bool:
        return bool(self.named.years or self.named.dates or self.spans)

    def is_time_only(self, layout: Layout) -> bool:
        """Return whether it asks for nothing but what was said then, by whomever and wherever: "What did Ann say in
        May?".
        """
        return bool(self) and not self.about - layout.speaker_words.keys() - layout.workspace_words.keys()

    def build_masks(self, moment: Ints, calendar: Calendar) -> list[Mask]:
        """For each year, month, day, whole date and span the rows said in it."""
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


def parse_query_times(query: Query) -> QueryTimes:
    """Return what times the query names; read once a query and day."""
    now = query.now or datetime.now().astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
    return _parse_times(query.text, now)


@lru_cache(maxsize=256)
def _parse_times(text: str, now: datetime) -> QueryTimes:
    words = extract_time_words(text, now)
    about = frozenset(extract_content_words(text)) - words
    return QueryTimes(extract_dates(text), tuple(extract_spans(text, now)), words, about)


def compute_calendar(moment: Ints) -> Calendar:
    """Of moments in microseconds since 1970; those of no time are of 1970."""
    at = np.where(moment != NO_TIME, moment, 0).astype("datetime64[us]")
    month = at.astype("datetime64[M]")
    years: Ints = at.astype("datetime64[Y]").astype(np.int64) + 1970
    months: Ints = month.astype(np.int64) % 12 + 1
    days: Ints = (at.astype("datetime64[D]") - month).astype(np.int64) + 1
    return years, months, days


def build_date_masks(view: View, layout: Layout, query: Query) -> list[Mask]:
    """For each time that a query names the passages said in it."""
    asked = parse_query_times(query)
    if not asked:
        return []
    return asked.build_masks(layout.moment, view.get_or_build("calendar", lambda: compute_calendar(layout.moment)))


def mask_candidates_in_time(candidates: Candidates, query: Query) -> Mask | None:
    """Return which rows of a pool lie in the time that the query names; None where it names none."""
    asked, pool = parse_query_times(query), candidates.pool
    if not asked:
        return None
    return asked.mask_inside(
        *(_convert_datetimes([row[name] for row in candidates.rows]) for name in (pool.first, pool.last))
    )


def boost_scores_by_date(
    candidates: Candidates, scores: Scores, relevance: Scores, least: float, query: Query
) -> Scores:
    """Return reciprocal ranks of a pool's rows; what is relevant and of the time that the query names has more."""
    inside = mask_candidates_in_time(candidates, query)
    return scores if inside is None else scores + TIMELY * (inside & (relevance >= least))


def boost_matching_dates(found: Sequence[ScoredRow], least: float, query: Query) -> list[ScoredRow]:
    """Return what was found, best first.

    What is relevant and of the time that the query names, or names it, has more.
    """
    asked = parse_query_times(query)
    if not asked:
        return list(found)
    edges = [(one.row[POOLS[one.kind].first], one.row[POOLS[one.kind].last]) for one in found]
    inside = asked.mask_inside(
        _convert_datetimes([first for first, _ in edges]), _convert_datetimes([last for _, last in edges])
    ).tolist()
    lifted = [
        replace(one, score=one.score + TIMELY)
        if one.relevance >= least and (there or asked.is_named_in(str(one.row[POOLS[one.kind].text])))
        else one
        for one, there in zip(found, inside, strict=True)
    ]
    return sorted(lifted, key=lambda one: -one.score)


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


def _convert_datetimes(times: Sequence[object]) -> Ints:
    moments: Ints = np.array(
        [_convert_to_micros(at) if isinstance(at, datetime) else NO_TIME for at in times], dtype=np.int64
    )
    return moments


def _convert_to_micros(moment: datetime) -> int:
    return round(moment.timestamp() * 1e6)
