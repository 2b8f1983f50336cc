"""Find the clauses that name a day which comes again and again: "every Sunday", "am 1. jedes Monats", 每周五.

Such a clause names no single day. The words for "every" are those of `foreign_dates.toml`, beside a weekday, a week, a
month or a year; in French, Italian and Spanish an article directly before a weekday says it too ("le lundi").
"""

import re
from collections.abc import Iterator
from functools import cache

from slowwave.text.foreign import Bounds
from slowwave.text.times.dates import WEEKDAYS
from slowwave.text.times.foreign_dates import (
    DAYS,
    LATIN,
    LISTS,
    UNITS,
    WHICH,
    Names,
    join_forms,
    name_units,
)
from slowwave.text.times.relative_days import CLAUSE_END
from slowwave.text.words import JOINED

ENGLISH = rf"(?:every|each)\s+(?:[\w-]+\s+)?(?:week|weekend|month|quarter|year|{'|'.join(WEEKDAYS)})s?"


def find_recurring(text: str) -> list[Bounds]:
    """Return the bounds of the clauses of a text that name a recurring day."""
    lowered = text.lower()
    if len(lowered) != len(text):
        return []
    pattern = _get_joined() if JOINED.search(text) else _get_spaced()
    return [
        (start, end)
        for start, end in _split_clauses(lowered)
        if pattern.search(lowered, start, end)
    ]


def _split_clauses(text: str) -> Iterator[Bounds]:
    """Yield the bounds of each clause."""
    start = 0
    for match in CLAUSE_END.finditer(text):
        yield start, match.start()
        start = match.end()
    yield start, len(text)


@cache
def _get_spaced() -> re.Pattern[str]:
    """Return a pattern of recurring days in English and all languages with spaces, but Korean."""
    spaced = [
        language
        for language, names in LISTS.items()
        if not JOINED.search("".join(names["next week"]))
    ]
    patterns = [ENGLISH, *map(_spell_every, spaced)]
    return re.compile(rf"(?<!\w)(?:{'|'.join(patterns)})(?!\w)")


def _spell_every(language: str) -> str:
    """Return a pattern of the recurring days of a language: of its units also those with an ending or an adjective."""
    names = LISTS[language]
    days = {form for day in (*DAYS, "weekend") for form in names.get(day, ())}
    units = name_units(language) if language in LATIN else {}
    every = join_forms(set(names.get("every", ())))
    article = join_forms(set(names.get("on every", ())))
    spans = rf"(?:{join_forms({*days, *units})})\w?"
    return rf"(?:{every})\s+(?:[\w.]+\s+)?{spans}|(?:{article})\s+(?:{join_forms(days)})(?!\s+\d)"


@cache
def _get_joined() -> re.Pattern[str]:
    """Return a pattern of recurring days in Chinese, Japanese and Korean."""
    joined = [names for names in LISTS.values() if JOINED.search(names["next week"][0])]
    every = {form for names in joined for form in names.get("every", ())}
    spans = {form for names in joined for day in DAYS for form in names[day]}
    spans |= {unit for names in joined for unit in _list_units(names)}
    return re.compile(f"(?:{join_forms(every)}).{{0,2}}(?:{join_forms(spans)})")


def _list_units(names: Names) -> Iterator[str]:
    """Yield the words for a week, a month and a year: the end that the last, this and the next one share."""
    for unit in UNITS:
        forms = [names[f"{which} {unit}"][0] for which in WHICH]
        shared = {form[-1] for form in forms}
        yield from shared if len(shared) == 1 else ()
