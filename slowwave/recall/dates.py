"""Dates that a query names ("in May", "7 May 2023", "2023-05-07"), matched with when things were said."""

import calendar
import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slowwave.recall.layout import NO_TIME, Ints, Mask

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


@dataclass(frozen=True)
class Named:
    """Parts of dates that a query names."""

    years: frozenset[int] = frozenset()
    months: frozenset[int] = frozenset()
    days: frozenset[int] = frozenset()


def named_dates(text: str) -> Named:
    """The years, months and days of the month that a text names; a day counts only beside its month."""
    years, months, days = {int(year) for year in YEAR.findall(text)}, set[int](), set[int]()
    for pattern in (ISO, *WRITTEN):
        for found in pattern.finditer(text):
            said = found.groupdict()
            if MODAL.fullmatch(said["month"]):
                continue
            months.add(MONTHS.get(said["month"].lower()) or int(said["month"]))
            days.update({int(said["day"])} if said.get("day") else ())
    return Named(frozenset(years), frozenset(months), frozenset(days))


def date_masks(named: Named, moment: Ints) -> list[Mask]:
    """For each named year, month and day the passages said in it."""
    if not (named.years or named.months):
        return []
    known = moment != NO_TIME
    at = np.where(known, moment, 0).astype("datetime64[us]")
    month = at.astype("datetime64[M]")
    parts: list[tuple[npt.NDArray[np.int64], frozenset[int]]] = [
        (at.astype("datetime64[Y]").astype(np.int64) + 1970, named.years),
        (month.astype(np.int64) % 12 + 1, named.months),
        ((at.astype("datetime64[D]") - month).astype(np.int64) + 1, named.days),
    ]
    return [known & (values == wanted) for values, some in parts for wanted in sorted(some)]
