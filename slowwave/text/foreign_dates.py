"""Times that a text in another language than English names, put in English, so that one place reads them.

"letzten Dienstag" is "last tuesday", "5 de marzo de 2026" is "5 March 2026", "3月5日" is "5 March", "vor 3 Tagen" is "3
day ago". The names are Unicode's (`foreign_dates.toml`). "Last" beside a weekday is what says so beside "week".
"""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from slowwave.text.languages import ENGLISH, is_stop_word, stem_in
from slowwave.text.words import JOINED, TERM, find_text_language

Names = Mapping[str, Sequence[str]]
"""In English -> the names in a language."""
LISTS: Mapping[str, Names] = tomllib.loads(
    files("slowwave.text").joinpath("foreign_dates.toml").read_text(encoding="utf-8")
)
MONTHS = "January February March April May June July August September October November December".split()  # noqa: SIM905
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
NUMBERED = re.compile(
    r"(?:(?P<year>(?:19|20)\d\d)\s?[年년]\s?)?(?<!\d)(?P<month>1[0-2]|0?[1-9])\s?[月월]\s?"
    r"(?:(?P<day>[12]\d|3[01]|0?[1-9])\s?[日号號일])?"
)
"""A date of Chinese, Japanese or Korean, whose months have numbers."""


@dataclass(frozen=True)
class TimeExpressions:
    """The expressions of a language."""

    dates: re.Pattern[str] | None
    months: Mapping[str, str]
    """Names of months -> in English."""
    phrases: re.Pattern[str]
    relative: Mapping[str, str]
    """Phrases -> in English."""
    ago: tuple[tuple[re.Pattern[str], str], ...]
    last_days: tuple[tuple[re.Pattern[str], str], ...]
    """A weekday that something beside it says to be the last one -> in English."""


def find_foreign_times(text: str) -> Iterator[tuple[str, str]]:
    """Yield each time that a text in another language names, in English, with the words that name it."""
    language = find_text_language(text)
    if language in (None, ENGLISH) or language not in LISTS:
        return
    expressions, lowered = _get_expressions(language), text.lower()
    for match in NUMBERED.finditer(text) if JOINED.search(text) else ():
        month = MONTHS[int(match["month"]) - 1]
        yield (
            " ".join(filter(None, (match["day"] or "in", month, match["year"]))),
            match[0],
        )
    for match in expressions.dates.finditer(lowered) if expressions.dates else ():
        month = expressions.months[match["month"]]
        yield (
            " ".join(filter(None, (match["day"] or "in", month, match["year"]))),
            match[0],
        )
    for match in expressions.phrases.finditer(lowered):
        yield expressions.relative[match[0]], match[0]
    for pattern, english in expressions.ago:
        yield from (
            (f"{match['n']} {english}", match[0]) for match in pattern.finditer(lowered)
        )
    for pattern, english in expressions.last_days:
        yield from ((english, match[0]) for match in pattern.finditer(lowered))


@cache
def _get_expressions(language: str) -> TimeExpressions:
    names = LISTS[language]
    months = {form: month for month in MONTHS for form in names.get(month.lower(), ())}
    relative = {
        form: english
        for english, forms in names.items()
        if not english.endswith(" ago")
        for form in forms
    }
    relative = {
        form: english
        for form, english in relative.items()
        if english not in {*map(str.lower, MONTHS), *DAYS}
    }
    dates = None
    if months:
        dates = re.compile(
            rf"(?<!\w)(?:(?P<day>3[01]|[12]\d|0?[1-9])(?:\.|º|er)?\s+(?:\w{{2}}\s+)?)?(?P<month>{_join(months)})(?!\w)"
            rf"(?:\s+(?:\w{{2}}\s+)?(?P<year>(?:19|20)\d\d)(?!\w))?"
        )
    ago = tuple(
        (_bound(re.escape(form).replace(r"\#", r"(?P<n>\d{1,4})")), english)
        for english, forms in names.items()
        if english.endswith(" ago")
        for form in forms
    )
    return TimeExpressions(
        dates,
        months,
        _bound(f"(?:{_join(relative)})"),
        relative,
        ago,
        tuple(_list_last_days(language)),
    )


def _list_last_days(language: str) -> Iterator[tuple[re.Pattern[str], str]]:
    """Yield for each weekday what says that the last one is meant: by what "last week" has and "this week" lacks."""
    names = LISTS[language]
    last, this = (
        " ".join(names.get("last week", ())),
        " ".join(names.get("this week", ())),
    )
    if JOINED.search(last):
        return  # there the day of the last week is meant, and "last week" is found
    stems = {
        stem_in(word, language)
        for word in TERM.findall(last)
        if not is_stop_word(word, language)
    }
    stems -= {stem_in(word, language) for word in TERM.findall(this)}
    marked = f"(?:{_join(stems)})\\w{{0,3}}"
    beside = (rf"{marked}\s+DAY", rf"DAY\s+{marked}") if stems else ()
    for day in DAYS:
        for form in names.get(day, ()):
            yield from (
                (_bound(pattern.replace("DAY", re.escape(form))), f"last {day}")
                for pattern in beside
            )


def _bound(pattern: str) -> re.Pattern[str]:
    """Return a pattern of whole words; in scripts without spaces of what stands anywhere."""
    return re.compile(pattern if JOINED.search(pattern) else rf"(?<!\w){pattern}(?!\w)")


def _join(forms: Mapping[str, object] | set[str]) -> str:
    return "|".join(map(re.escape, sorted(forms, key=lambda form: (-len(form), form))))
