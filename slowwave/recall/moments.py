"""Dates that a query names, matched with when things were said."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import cast

import numpy as np

from slowwave.recall.dates import Date, named_dates, named_spans, time_words
from slowwave.recall.layout import NO_TIME, Layout
from slowwave.recall.query import Query
from slowwave.recall.search import POOLS, Candidates, Scores
from slowwave.recall.sources import Found
from slowwave.recall.terms import content_words
from slowwave.recall.view import Ints, Mask

TIMELY = 0.01
"""What a row of the time that a query names has over another: of two reciprocal ranks, that is a hundred places."""


def date_masks(text: str, moment: Ints, now: datetime) -> list[Mask]:
    """For each year, month, day, whole date and span that a text names the passages said in it."""
    named, spans = named_dates(text), named_spans(text, now)
    if not (named.years or named.months or spans):
        return []
    at = _parts(moment)
    single: list[Date] = [(year, None, None) for year in sorted(named.years)]
    single += [(None, month, None) for month in sorted(named.months)] + [
        (None, None, day) for day in sorted(named.days)
    ]
    whole = [date for date in sorted(named.dates, key=repr) if date[0] is not None or date[2] is not None]
    within = [(moment >= _micros(start)) & (moment < _micros(end)) for start, end in spans]
    return [mask & (moment != NO_TIME) for mask in (*within, *map(at.on, (*single, *whole)))]


@dataclass(frozen=True)
class _Parts:
    """Year, month and day of the month of many moments."""

    parts: tuple[Ints, Ints, Ints]

    def on(self, date: Date) -> Mask:
        """Which of them are of a date, as far as it is told."""
        mask: Mask = np.ones(len(self.parts[0]), dtype=bool)
        for values, wanted in zip(self.parts, date, strict=True):
            if wanted is not None:
                mask &= values == wanted
        return mask


def _parts(moment: Ints) -> _Parts:
    at = np.where(moment != NO_TIME, moment, 0).astype("datetime64[us]")
    month = at.astype("datetime64[M]")
    years: Ints = at.astype("datetime64[Y]").astype(np.int64) + 1970
    months: Ints = month.astype(np.int64) % 12 + 1
    days: Ints = (at.astype("datetime64[D]") - month).astype(np.int64) + 1
    return _Parts((years, months, days))


def _micros(moment: datetime) -> int:
    return round(moment.timestamp() * 1e6)


def asked_times(text: str, moment: Ints, now: datetime) -> Mask | None:
    """Which moments (microseconds since 1970, UTC) lie in a time that a text names; None where it names none.

    Of a year that is named beside a month only that month counts.
    """
    named, spans = named_dates(text), named_spans(text, now)
    if not (named.years or named.dates or spans):
        return None
    at = _parts(moment)
    dates = named.dates or {(year, None, None) for year in named.years}
    within = [(moment >= _micros(start)) & (moment < _micros(end)) for start, end in spans]
    either: Mask = np.any([*within, *(at.on(date) for date in sorted(dates, key=repr))], axis=0)
    known: Mask = either & (moment != NO_TIME)
    return known


def timely_scores(candidates: Candidates, scores: Scores, query: Query) -> Scores:
    """Reciprocal ranks of a pool's rows, with what those of the time that the query names have over others."""
    inside = in_time(candidates, query)
    return scores if inside is None else scores + TIMELY * inside


def in_time(candidates: Candidates, query: Query) -> Mask | None:
    """Which rows of a pool lie in the time that the query names; None where it names none."""
    return _inside(candidates.rows, candidates.pool.first, candidates.pool.last, query)


def asks_of_time_alone(layout: Layout, query: Query) -> bool:
    """Whether a query names a time and, beside it, at most speakers and workspaces: "What did Ann say last week?"."""
    of_time = time_words(query.text)
    about = set(content_words(query.text)) - of_time - layout.names.keys() - layout.places.keys()
    return bool(of_time) and not about


def timely(found: Sequence[Found], query: Query) -> list[Found]:
    """What was found, best first, with what those of the time that the query names have over others."""
    edges = [(one.row[POOLS[one.kind].first], one.row[POOLS[one.kind].last]) for one in found]
    inside = _inside([{"first": first, "last": last} for first, last in edges], "first", "last", query)
    if inside is None:
        return list(found)
    lifted = [replace(one, score=one.score + TIMELY * float(there)) for one, there in zip(found, inside, strict=True)]
    return sorted(lifted, key=lambda one: -one.score)


def _inside(rows: Sequence[dict[str, object]], first: str, last: str, query: Query) -> Mask | None:
    """Which rows lie in the time that a query names from first to last; None where it names none."""
    now = query.now or datetime.now().astimezone()
    masks = [
        asked_times(query.text, np.array([_moment(row[name]) for row in rows], dtype=np.int64), now)
        for name in (first, last)
    ]
    return None if masks[0] is None or masks[1] is None else masks[0] & masks[1]


def _moment(at: object) -> int:
    return NO_TIME if at is None else _micros(cast(datetime, at))
