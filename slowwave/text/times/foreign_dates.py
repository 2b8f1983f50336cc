"""Find times in texts of other languages, and translate them to English, so that one module parses them.

"letzten Dienstag" is "last tuesday", "5 de marzo de 2026" is "5 March 2026", "3月5日" is "5 March", "vor drei Tagen" is
"3 day ago", "vendredi prochain" is "next friday". The names come from dateparser and Unicode (`foreign_dates.toml`).
The words for "last" and "next" with a weekday are taken from those with "week"; 下周五 is "next week friday".
"""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from unicodedata import numeric

from slowwave.text.languages import ENGLISH, is_stop_word, stem_in
from slowwave.text.words import JOINED, TERM, find_text_language

Names = Mapping[str, Sequence[str]]
"""The English name -> the names in a language."""
LISTS: Mapping[str, Names] = tomllib.loads(
    files("slowwave.text.times")
    .joinpath("foreign_dates.toml")
    .read_text(encoding="utf-8")
)
MONTHS = "January February March April May June July August September October November December".split()  # noqa: SIM905
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
RELATIVE = frozenset(
    ("today", "yesterday", "day before yesterday", "tomorrow", "day after tomorrow")
) | {
    f"{which} {unit}"
    for which in ("this", "last", "next")
    for unit in ("week", "month", "year")
}
"""Names of times without a number."""
NUMBERED = re.compile(
    r"(?:(?P<year>(?:19|20)\d\d)\s?[年년]\s?)?(?<!\d)(?P<month>1[0-2]|0?[1-9])\s?[月월]\s?"
    r"(?:(?P<day>[12]\d|3[01]|0?[1-9])\s?[日号號일])?"
)
"""A date in Chinese, Japanese or Korean, whose months have numbers."""


@dataclass(frozen=True)
class TimeExpressions:
    """The expressions of a language."""

    dates: re.Pattern[str] | None
    months: Mapping[str, str]
    """Names of months -> their English names."""
    phrases: re.Pattern[str]
    relative: Mapping[str, str]
    """Phrases -> their English names."""
    counted: tuple[tuple[re.Pattern[str], str], ...]
    """Patterns with a number -> the English phrase, with `#` for the number."""
    numbers: Mapping[str, str]
    """Words for numbers -> their digits."""
    weekdays: tuple[tuple[re.Pattern[str], str], ...]
    """Patterns of the last or the next weekday -> the English phrase."""


@dataclass(frozen=True)
class TimeName:
    """A time that a text names."""

    english: str
    words: str
    """The text's own words, in lower case."""
    start: int
    """Its offset in the lower-case text."""


def find_foreign_times(text: str) -> list[TimeName]:
    """Return the times that a text in another language names, in order. A time within a longer one is left out.

    Return an empty list for English, and for a language without a list of names.
    """
    names = sorted(_find_times(text), key=lambda time: (time.start, -len(time.words)))
    found: list[TimeName] = []
    for time in names:
        end = found[-1].start + len(found[-1].words) if found else 0
        if time.start + len(time.words) > end:
            found.append(time)
    return found


def _find_times(text: str) -> Iterator[TimeName]:
    language = find_text_language(text)
    if language in (None, ENGLISH) or language not in LISTS:
        return
    expressions = _get_expressions(language)
    lowered = text.lower()
    for match in NUMBERED.finditer(lowered) if JOINED.search(text) else ():
        yield _name_date(match, MONTHS[int(match["month"]) - 1])
    for match in expressions.dates.finditer(lowered) if expressions.dates else ():
        yield _name_date(match, expressions.months[match["month"]])
    for match in expressions.phrases.finditer(lowered):
        yield TimeName(expressions.relative[match[0]], match[0], match.start())
    for pattern, english in expressions.counted:
        for match in pattern.finditer(lowered):
            number = expressions.numbers.get(match["n"], match["n"])
            yield TimeName(english.replace("#", number), match[0], match.start())
    for pattern, english in expressions.weekdays:
        for match in pattern.finditer(lowered):
            yield TimeName(english, match[0], match.start())


def _name_date(match: re.Match[str], month: str) -> TimeName:
    parts = (match["day"] or "in", month, match["year"])
    return TimeName(" ".join(filter(None, parts)), match[0], match.start())


@cache
def _get_expressions(language: str) -> TimeExpressions:
    names = LISTS[language]
    months = {form: month for month in MONTHS for form in names.get(month.lower(), ())}
    dates = None
    if months:
        dates = re.compile(
            rf"(?<!\w)(?:(?P<day>3[01]|[12]\d|0?[1-9])(?:\.|º|er)?\s+(?:\w{{2}}\s+)?)?(?P<month>{_join(months)})(?!\w)"
            rf"(?:\s+(?:\w{{2}}\s+)?(?P<year>(?:19|20)\d\d)(?!\w))?"
        )
    numbers = {
        form: english
        for english, forms in names.items()
        if english.isdigit()
        for form in forms
    }
    if any(JOINED.search(form) for form in names.get("today", ())):
        numbers |= _list_han_numbers()
    relative = {
        form: english
        for english, forms in names.items()
        if english in RELATIVE
        for form in forms
    }
    return TimeExpressions(
        dates=dates,
        months=months,
        phrases=_bound(f"(?:{_join(relative)})"),
        relative=relative,
        counted=tuple(_list_counted(names, numbers)),
        numbers=numbers,
        weekdays=(
            *_list_weekdays(language, "last", without=("this week", "next week")),
            *_list_weekdays(language, "next", without=("this week", "last week")),
        ),
    )


def _list_han_numbers() -> dict[str, str]:
    """Return the Chinese and Japanese characters for the numbers from 1 to 12, by Unicode, with their digits."""
    return {
        chr(code): str(int(number))
        for code in range(0x4E00, 0xA000)
        if (number := numeric(chr(code), 0)) in range(1, 13)
    }


def _list_counted(
    names: Names, numbers: Mapping[str, str]
) -> Iterator[tuple[re.Pattern[str], str]]:
    """Yield patterns of a number of days, weeks, months or years ago or from now, each with the English phrase."""
    number = r"(?P<n>\d{1,4}" + (f"|{_join(numbers)})" if numbers else ")")
    for english, forms in names.items():
        way, _, unit = english.partition(" ")
        if way == "in":
            counted = f"in # {unit}"
        elif unit == "ago":
            counted = f"# {english}"
        else:
            continue
        for form in forms:
            yield _bound(re.escape(form).replace(r"\#", number)), counted


def _list_weekdays(
    language: str, which: str, without: Sequence[str]
) -> Iterator[tuple[re.Pattern[str], str]]:
    """Yield patterns of the last or the next weekday (`which`), each with the English phrase.

    The word for "last" or "next" is the one in `{which} week` that the phrases `without` lack.
    """
    names = LISTS[language]
    week = " ".join(names.get(f"{which} week", ()))
    if JOINED.search(week):
        yield from _list_days_of_week(names, f"{which} week")
        return
    others = " ".join(form for name in without for form in names.get(name, ()))
    shared = {stem_in(word, language) for word in TERM.findall(others)}
    # a stem has no accents, so the beginning of the written word is used, with the stem's length
    stems = {
        word[: len(stem)]
        for word in TERM.findall(week)
        if not is_stop_word(word, language)
        and (stem := stem_in(word, language)) not in shared
    }
    marked = f"(?:{_join(stems)})\\w{{0,4}}"
    beside = (rf"{marked}\s+DAY", rf"DAY\s+{marked}") if stems else ()
    for day in DAYS:
        for form in names.get(day, ()):
            for pattern in beside:
                named = pattern.replace("DAY", re.escape(form))
                yield _bound(named), f"{which} {day}"


def _list_days_of_week(
    names: Names, week: str
) -> Iterator[tuple[re.Pattern[str], str]]:
    """Yield the days of the last or the next week in scripts without spaces: 下周 and 周五 are 下周五."""
    for day in DAYS:
        for form in names.get(day, ()):
            for of_week in names.get(week, ()):
                shared = next(
                    (n for n in range(len(form), 0, -1) if of_week.endswith(form[:n])),
                    0,
                )
                # at most one particle is between them: 来週の金曜日
                joined = f"{re.escape(of_week)}.?{re.escape(form)}"
                merged = re.escape(of_week + form[shared:])
                yield re.compile(f"{joined}|{merged}"), f"{week} {day}"


def _bound(pattern: str) -> re.Pattern[str]:
    """Return a pattern that matches whole words only; in scripts without spaces, anywhere."""
    return re.compile(pattern if JOINED.search(pattern) else rf"(?<!\w){pattern}(?!\w)")


def _join(forms: Mapping[str, object] | set[str]) -> str:
    return "|".join(map(re.escape, sorted(forms, key=lambda form: (-len(form), form))))
