"""Find times in texts of other languages, and translate them to English, so that one module parses them.

"letzten Dienstag" is "last tuesday", "5 de marzo de 2026" is "5 March 2026", "3月5日" is "5 March", "vor drei Tagen" is
"3 day ago", "vendredi prochain" is "next friday". The names are those of dateparser and Unicode (`foreign_dates.toml`).
"Last" or "next" beside a weekday is what says so beside "week"; 下周五 is "next week friday". In scripts without
spaces a time begins and ends where the dictionaries split the text: 下下周五 is not 下周五. The language of a short
text in Latin letters is often taken for another one, so there times of several words are looked for in all of them.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from importlib.resources import files
from itertools import product
from unicodedata import numeric

from slowwave.text.foreign import Bounds
from slowwave.text.languages import (
    ENGLISH,
    LANGUAGES_OF,
    LEAST_WORDS,
    is_stop_word,
    stem_in,
)
from slowwave.text.words import JOINED, TERM, UNSPACED, find_text_language

Names = Mapping[str, Sequence[str]]
"""The English name -> the names in a language."""
LISTS: Mapping[str, Names] = tomllib.loads(
    files("slowwave.text.times")
    .joinpath("foreign_dates.toml")
    .read_text(encoding="utf-8")
)
MONTHS = "January February March April May June July August September October November December".split()  # noqa: SIM905
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
UNITS = ("week", "month", "year")
WHICH = ("this", "last", "next")
RELATIVE = {
    *("today", "yesterday", "day before yesterday", "tomorrow", "day after tomorrow"),
    *("3 day ago", "in 3 day", "2 week ago"),
    *(f"{which} {unit}" for which in WHICH for unit in UNITS),
    *(f"{unit} after next" for unit in UNITS),
}
"""Names of times without a number."""
FAR_DAYS = ("day before yesterday", "day after tomorrow")
"""Days whose names mean nothing else in any language in Latin letters, as "morgen" and "hier" do."""
NUMBERED_DAY = re.compile(
    r"(?<!\d)(?P<day>[12]\d|3[01]|0?[1-9])\s?(?:[号號]|[日일](?![间間前后後전후]))"
)
"""A day of the month without its month, and no count of days."""
NUMBERED = re.compile(
    r"(?:(?P<year>(?:19|20)\d\d)\s?[年년]\s?)?(?<!\d)(?P<month>1[0-2]|0?[1-9])\s?[月월]\s?"
    r"(?:(?P<day>[12]\d|3[01]|0?[1-9])\s?[日号號일])?"
)
"""A date of Chinese, Japanese or Korean, whose months have numbers."""
BEHIND = re.compile(
    r",?\s+(?:(?P<between>[^\W\d_]{2,3})\s+)?(?P<number>[0-3]?\d)(?!\d|[.:,]\d)(?P<dot>\.?)\s*"
)
"""A day of the month behind a weekday."""
LEAST_STEM = 5
"""Letters of a stem that few other words begin with."""
NEAR = 64
"""Letters after a word in which the next one is looked for."""
LEAST_MONTH = 4
"""Letters of a month's name that tells the month by itself."""
PARTS = ("start of", "middle of", "end of")
"""English names of the parts of a month."""
SHORT = 200
"""Characters up to which the language of a text is often taken for another one."""
LATIN = tuple(
    language for language, names in LISTS.items() if names["next week"][0][0] < "\u0250"
)
"""The languages in Latin letters."""
DIGIT = re.compile(r"\d")
KANA_LETTER = re.compile(r"[\u3041-\u309f]")
KANA = re.compile(r"(?<=[\u4e00-\u9fff])(?=[\u3041-\u309f])")
"""Where Chinese letters end before a particle or an ending of Japanese."""
SPELT = re.compile(
    r"(?<![〇-龥])(?P<year>)(?P<month>十[一二]?|[一二三四五六七八九])月"
    r"(?P<day>三十一?|二?十[一二三四五六七八九]?|[一二三四五六七八九])[日号號]"
)
"""Such a date in characters: only with its day, since 一月一次 is once a month."""


@dataclass(frozen=True)
class CountedTime:
    """A number of days, weeks, months or years ago or from now, as a language says it."""

    before: str
    number: str
    """A pattern of the number in digits, or in its word, which may be any."""
    behind: frozenset[str]
    """What stands behind the number, one of several."""
    english: str
    """The English phrase, with `#` for the number."""

    def may_be_in(self, lowered: str) -> bool:
        """Return False if a text lacks the words beside the number, so that the pattern can't match."""
        return self.before in lowered and any(word in lowered for word in self.behind)

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The whole expression."""
        before = re.escape(self.before)
        return _bound(f"{before}{self.number}(?:{join_forms(self.behind)})")


@dataclass(frozen=True)
class TimeExpressions:
    """The expressions of a language. A pattern is compiled when a text may have it: a question's few texts need few."""

    months: Mapping[str, str]
    """Names of months -> their English names."""
    relative: Mapping[str, str]
    """Phrases -> their English names."""
    counted: tuple[CountedTime, ...]
    numbers: Mapping[str, str]
    """Words for numbers -> their digits."""
    weekdays: tuple[tuple[re.Pattern[str], str], ...]
    """In scripts without spaces: a day of the last or a coming week -> in English."""
    days: Mapping[str, str]
    """Names of today, tomorrow and the weekdays -> in English."""

    @cached_property
    def dates(self) -> re.Pattern[str] | None:
        """A month with its day and year, if it has them; None if months have no names."""
        if not self.months:
            return None
        return re.compile(
            rf"(?<!\w)(?:(?P<day>3[01]|[12]\d|0?[1-9])(?:\.|º|er)?\s+(?:\w{{2}}\s+)?)?(?P<month>{join_forms(self.months)})(?!\w)"
            rf"(?:\s+(?:\w{{2}}\s+)?(?P<year>(?:19|20)\d\d)(?!\w))?"
        )

    @cached_property
    def phrases(self) -> re.Pattern[str]:
        """One of the phrases."""
        return _bound(f"(?:{join_forms(self.relative)})")

    @cached_property
    def day_before(self) -> re.Pattern[str]:
        """One of the names of days at a text's end."""
        return re.compile(rf"(?<!\w)(?P<day>{join_forms(self.days)})\s+$")


@dataclass(frozen=True)
class Directions:
    """The ways of a language to say that a weekday, week, month or year is the last or the next one."""

    named: Mapping[str, str]
    """Names of weekdays and units -> in English."""
    patterns: Mapping[str, re.Pattern[str]]
    """"last" and "next" -> a name with what says so beside it."""


@dataclass(frozen=True)
class BareTimes:
    """The times of a language that a plan may name by themselves."""

    pattern: re.Pattern[str]
    """A part of a month or year, or a month, or a weekday or "tomorrow"."""
    parts: Mapping[str, str]
    """Names of parts -> in English."""
    names: Mapping[str, str]
    """Names of months, units, weekdays and "tomorrow" -> in English."""


@dataclass(frozen=True)
class TimeName:
    """A time that a text names."""

    english: str
    words: str
    """The text's own words, in lower case."""
    start: int
    """Its offset in the lower-case text."""
    is_bare: bool = False
    """Whether only a plan names it so."""
    called_in: str | None = None
    """Its language, if it has a capital inside a sentence: a name, unless all nouns have one there."""


def find_foreign_times(text: str, *, of_plan: bool = False) -> list[TimeName]:
    """Return the times that a text in another language names, in order. A time within a longer one is left out.

    Words and places are those of the lower-cased text, which may be longer than the text (`İ`). Return an empty list
    for English, and for a language without a list of names.

    Args:
        text: what was said.
        of_plan: include weekdays, months and "tomorrow" by themselves, and parts of months. In other
            texts these words may mean no day.
    """
    times = [*_find_times(text), *(_find_bare_times(text) if of_plan else ())]
    names = sorted(times, key=lambda time: (time.start, -len(time.words)))
    found: list[TimeName] = []
    for time in names:
        end = found[-1].start + len(found[-1].words) if found else 0
        is_new = time.start >= end if time.is_bare else True
        if is_new and time.start + len(time.words) > end:
            found.append(time)
    return found


def find_weekdays(text: str) -> dict[Bounds, str]:
    """Return the English names of the weekdays in a text in other Latin letters, by their place.

    A short name, and one that is a stop word, may be another word.
    """
    days = _list_weekdays()
    lowered = text.lower()
    pattern = _bound(f"(?:{join_forms(days)})")
    return {match.span(): days[match[0]] for match in pattern.finditer(lowered)}


@cache
def _list_weekdays() -> dict[str, str]:
    """Return the names of weekdays in all languages in Latin letters, with their English names."""
    return {
        form: day
        for language in LATIN
        for day in DAYS
        for form in LISTS[language].get(day, ())
        if len(form) >= LEAST_MONTH and form not in LANGUAGES_OF
    }


def _find_times(text: str) -> Iterator[TimeName]:
    language = find_text_language(text)
    lowered = text.lower().replace("’", "'")
    if len(text) <= SHORT and _get_marks().search(lowered):
        for other in LATIN:
            yield from _find_directed(lowered, other)
    if len(text) <= SHORT and _may_be_latin(lowered, language):
        yield from _find_months_of_others(lowered)
        yield from _find_far_days(lowered)
        yield from _find_counted_of_others(lowered)
    if language in (None, ENGLISH) or language not in LISTS:
        return
    if JOINED.search(text):
        yield from _find_numbered(lowered)
    expressions = _get_expressions(language)
    for match in expressions.dates.finditer(lowered) if expressions.dates else ():
        yield _name_date(match, expressions.months[match["month"]])
    yield from _keep_whole(lowered, _find_relative(lowered, expressions))
    yield from _find_directed(lowered, language)
    if language in LATIN and len(text) <= SHORT:
        yield from _find_of_others(lowered, language)


def _find_bare_times(text: str) -> Iterator[TimeName]:
    """Yield the times that a plan names by themselves, in any language of the text's script."""
    language = find_text_language(text)
    lowered = text.lower().replace("’", "'")
    own = (language,) if language and language in LISTS else ()
    for each in LATIN if _may_be_latin(lowered, language) else own:
        bare = _get_bare_times(each)
        for match in bare.pattern.finditer(lowered):
            if not _may_be_time(match=match, text=text, language=each, bare=bare):
                continue
            english = _translate_bare(match, bare)
            english += _find_number_behind(match, each)
            called = each if _is_capital_inside(match, text) else None
            yield TimeName(
                english, match[0], match.start(), is_bare=True, called_in=called
            )
    if JOINED.search(text):
        yield from _find_joined_parts(lowered, language)
        for match in NUMBERED_DAY.finditer(lowered):
            before = _find_month_before(match)
            is_noun = not before and _is_noun_next(lowered[match.end() :])
            if is_noun or before not in ("", "next month", "month after next"):
                continue
            english = f"on the {match['day']}th"
            yield TimeName(english, match[0], match.start(), is_bare=True)


def _find_number_behind(match: re.Match[str], language: str) -> str:
    """Return the day of the month behind a weekday, as English has it: of "Mittwoch, den 28." " 28th". Else empty.

    A number without a dot behind which a word with a meaning follows counts something: "Freitag 16 Uhr".
    """
    found = BEHIND.match(match.string, match.end())
    is_day = found and match["day"] and match["day"] in _get_expressions(language).days
    if not is_day or found is None:
        return ""
    follows = TERM.match(match.string, found.end())
    if found["between"] and not is_stop_word(found["between"], language):
        return ""
    if follows and not found["dot"] and not is_stop_word(follows[0], language):
        return ""
    return f" {found['number']}th"


def _may_be_time(
    match: re.Match[str],
    text: str,
    language: str,
    bare: BareTimes,
) -> bool:
    """Return True unless a word may be a name, a time that has passed, or, as "Morgen" is, no time.

    Directly before a time stands nothing, or a word that carries no meaning and is not "since": "Herr Sonntag",
    "vergangenen Freitag", "Guten Morgen" and "fine gennaio" have another one.
    """
    if JOINED.search(match[0]):
        return True
    before = re.split(r"[^\w\s']", match.string[: match.start()])[-1].split()
    words = TERM.findall(before[-1]) if before else []
    since_words = set(before[-2:])
    since = LISTS[language].get("since", ())
    known = {*LANGUAGES_OF, *LISTS[language].get("from", ())}
    ends = _name_ends(match.string)
    is_behind_time = match.start() in ends or match.start() - 1 in ends
    if words and not is_behind_time and words[-1] not in known:
        return False
    if not since_words.isdisjoint(since):
        return False
    is_tomorrow = bare.names.get(match["day"] or "") == "tomorrow"
    return not (is_tomorrow and _is_capital_inside(match, text))


def _is_capital_inside(match: re.Match[str], text: str) -> bool:
    """Return True if a word has a capital and stands behind another one of its clause."""
    before = re.split(r"[^\w\s']", match.string[: match.start()])[-1].strip()
    is_same = len(text) == len(match.string)
    return bool(before) and is_same and text[match.start()].isupper()


@lru_cache(maxsize=8)
def _name_ends(lowered: str) -> dict[int, str]:
    """Return the English names of times by where they end: "nächste Woche" of "nächste Woche Dienstag"."""
    return {time.start + len(time.words): time.english for time in _find_times(lowered)}


def _find_month_before(match: re.Match[str]) -> str:
    """Return the English name of the month directly before a day: "next month" of 下个月5号; "month" of one by its
    number; empty if there is none.
    """
    if not match.string[: match.start()].endswith(("月", "월")):
        return ""
    return _name_ends(match.string).get(match.start(), "month")


def _find_joined_parts(lowered: str, language: str | None) -> Iterator[TimeName]:
    """Yield the ends of months and of this year in scripts without spaces, in a plan: 月底, 12月末, 来月末."""
    pattern = _get_joined_parts(language) if language in LISTS else None
    bounds: frozenset[int] | None = None
    for match in pattern.finditer(lowered) if pattern else ():
        if match["last"]:
            continue
        if match["number"]:
            english = f"end of {MONTHS[int(match['number']) - 1]}"
        else:
            bounds = _find_bounds(lowered) if bounds is None else bounds
            if match.start() not in bounds:
                continue
            span = "next month" if match["next"] else "the month"
            english = f"end of {'the year' if match['year'] else span}"
        yield TimeName(english, match[0], match.start(), is_bare=True)


@cache
def _get_joined_parts(language: str) -> re.Pattern[str] | None:
    """Return a pattern of the end of a month or year; None for scripts with spaces, and without names of parts."""
    names = LISTS[language]
    ends = names.get("end of", ())
    months = names.get("this month", ())
    if not ends or not JOINED.search("".join(months)):
        return None
    years = {year[-1] for year in names["this year"]} | set(names["this year"])
    last = {*names["last month"], *names["last year"]}
    spans = (
        rf"(?P<last>{join_forms(last)})",
        rf"(?P<next>{join_forms(set(names['next month']))})",
        r"(?<!\d)(?P<number>1[0-2]|0?[1-9])\s?[月월]",
        f"(?:{join_forms({*months, *(month[-1] for month in months)})})",
        f"(?P<year>{join_forms(years)})",
    )
    return re.compile(f"(?:{'|'.join(spans)})(?:{join_forms(set(ends))})")


def _is_noun_next(rest: str) -> bool:
    """Return True if a number may be that of a thing: no particle, mark or end follows (3号机器)."""
    following = rest[:1]
    return following.isalpha() and not KANA_LETTER.match(following)


def _translate_bare(match: re.Match[str], bare: BareTimes) -> str:
    """Return a match of BareTimes in English: a month begins with its first day."""
    if match["day"]:
        return bare.names[match["day"]]
    part = bare.parts.get(match["part"] or "", "start of")
    span = match["span"] or match["month"]
    # a unit may have an ending: "Ende des Monats"
    return f"{part} {bare.names.get(span) or bare.names[span[:-1]]}"


@cache
def _get_bare_times(language: str) -> BareTimes:
    """Return the times that a plan in a language may name by themselves.

    A month whose name is a stop word of some language in Latin letters is none by itself: "mai" is "never" too.
    """
    lists = LISTS[language]
    days = {form: day for day in DAYS for form in lists.get(day, ())}
    for english in ("tomorrow", "weekend"):
        days |= dict.fromkeys(lists.get(english, ()), english)
    months = {
        form: month
        for month in MONTHS
        for form in lists.get(month.lower(), ())
        if len(form) >= LEAST_MONTH and form not in LANGUAGES_OF
    }
    # "fin de semana" is the weekend
    units = {
        word: f"the {unit}"
        for word, unit in name_units(language).items()
        if unit != "week"
    }
    parts = {form: part for part in PARTS for form in lists.get(part, ())}
    of = rf"(?P<span>(?:{join_forms(units)})\w?|{join_forms(months)})"
    span = rf"(?P<part>{join_forms(parts)})[\s-]+(?:\w{{1,3}}\s+)?{of}"
    return BareTimes(
        pattern=_bound(
            f"(?:{span}|(?P<month>{join_forms(months)})|(?P<day>{join_forms(days)}))"
        ),
        parts=parts,
        names={**units, **months, **days},
    )


def list_part_words() -> re.Pattern[str]:
    """Return a pattern of what says the beginning, middle or end of a month in any language."""
    forms = {
        form
        for names in LISTS.values()
        for part in PARTS
        for form in names.get(part, ())
    }
    return re.compile(rf"(?<!\w)(?:{join_forms(forms)})(?!\w)", re.I)


def _may_be_latin(lowered: str, language: str | None) -> bool:
    """Return True if a text may be in a language in Latin letters other than English: "am" is a word of both."""
    if language != ENGLISH:
        return language is None or language in LATIN
    said = sum(is_stop_word(word, ENGLISH) for word in TERM.findall(lowered))
    return said < LEAST_WORDS


def _find_months_of_others(lowered: str) -> Iterator[TimeName]:
    """Yield months with a day or a year in any language in Latin letters: "am 5. Oktober?" has one stop word, and
    "im Mai 2026" too.
    """
    for language in LATIN if DIGIT.search(lowered) else ():
        expressions = _get_expressions(language)
        for match in expressions.dates.finditer(lowered) if expressions.dates else ():
            if match["day"] or match["year"]:
                month = expressions.months[match["month"]]
                yield _name_date(match, month)


def _find_far_days(lowered: str) -> Iterator[TimeName]:
    """Yield the names of FAR_DAYS in any language in Latin letters: they are not other words."""
    for match in _get_far_days().finditer(lowered):
        names = (
            _get_expressions(language).relative.get(match[0]) for language in LATIN
        )
        english = next(name for name in names if name in FAR_DAYS)
        yield TimeName(english, match[0], match.start())


def _find_counted_of_others(lowered: str) -> Iterator[TimeName]:
    """Yield times with a number in any language in Latin letters: "hace dos semanas" has no stop word of Spanish."""
    for language in LATIN:
        yield from _find_counted(lowered, _get_expressions(language))


def _find_of_others(lowered: str, language: str) -> Iterator[TimeName]:
    """Yield times of several words in the other languages that a text has a stop word of."""
    others = {
        other for word in TERM.findall(lowered) for other in LANGUAGES_OF.get(word, ())
    }
    for other in LATIN:
        if other in others and other != language:
            for time in _find_relative(lowered, _get_expressions(other)):
                if not time.words.isalpha():
                    yield time


def _find_numbered(lowered: str) -> Iterator[TimeName]:
    """Yield the dates whose months have numbers."""
    for match in NUMBERED.finditer(lowered):
        yield _name_date(match, MONTHS[int(match["month"]) - 1])
    for match in SPELT.finditer(lowered):
        named = _name_date(match, MONTHS[_read_number(match["month"]) - 1])
        day = str(_read_number(match["day"]))
        english = named.english.replace(match["day"], day, 1)
        yield TimeName(english, named.words, named.start)


def _read_number(characters: str) -> int:
    """Return a number up to 99 in the characters of Chinese: 二十五 is 25."""
    tens, ten, ones = characters.rpartition("十")
    count = int(numeric(ones)) if ones else 0
    if not ten:
        return count
    multiple = int(numeric(tens)) if tens else 1
    return multiple * 10 + count


def _find_relative(lowered: str, expressions: TimeExpressions) -> Iterator[TimeName]:
    """Yield the times that are named by their distance from when they were said."""
    for match in expressions.phrases.finditer(lowered):
        yield TimeName(expressions.relative[match[0]], match[0], match.start())
    yield from _find_counted(lowered, expressions)
    for pattern, english in expressions.weekdays:
        for match in pattern.finditer(lowered):
            yield TimeName(english, match[0], match.start())


def _find_counted(lowered: str, expressions: TimeExpressions) -> Iterator[TimeName]:
    """Yield the times that are a number of days, weeks, months or years ago or from now."""
    for counted in expressions.counted:
        if not counted.may_be_in(lowered):
            continue
        for match in counted.pattern.finditer(lowered):
            number = expressions.numbers.get(match["n"], match["n"])
            if not (number.isascii() and number.isdecimal()):
                continue
            words = counted.english.replace("#", number)
            yield TimeName(words, match[0], match.start())
            day = expressions.day_before.search(lowered[: match.start()])
            if day and words.startswith("in ") and words.endswith("week"):
                words = f"{expressions.days[day['day']]} {words}"
                named = day[0] + match[0]
                yield TimeName(words, named, day.start())


def _find_directed(lowered: str, language: str) -> Iterator[TimeName]:
    """Yield the weekdays, weeks, months and years that a word beside them says to be the last or the next ones."""
    directions = _get_directions(language)
    for which, pattern in directions.patterns.items():
        for match in pattern.finditer(lowered):
            name = directions.named[match["after"] or match["before"]]
            english = f"{name} {which}" if which == "after next" else f"{which} {name}"
            end = match.end()
            if week_end := _find_week_end(match, directions):
                english = f"{which} week {name}"
                end = week_end
            yield TimeName(english, lowered[match.start() : end], match.start())


def _find_week_end(match: re.Match[str], directions: Directions) -> int | None:
    """Return where a weekday's week ends, if its direction is that of a week: "Dienstag nächster Woche"."""
    if directions.named.get(match["after"] or "") not in DAYS:
        return None
    words = match.string[match.end("after") : match.end()]
    start = match.end() - len(words.lstrip())
    week = match.re.match(match.string, start)
    if week is None or directions.named.get(week["before"] or "") != "week":
        return None
    return week.end()


def _keep_whole(lowered: str, times: Iterator[TimeName]) -> Iterator[TimeName]:
    """Yield the times that begin and end where dictionaries split a run without spaces, such as 再来週."""
    bounds: frozenset[int] | None = None
    for time in times:
        if UNSPACED.search(time.words):
            bounds = _find_bounds(lowered) if bounds is None else bounds
            if not {time.start, time.start + len(time.words)} <= bounds:
                continue
        yield time


def _find_bounds(lowered: str) -> frozenset[int]:
    """Return where words begin or end."""
    from slowwave.text.full_text import split_run

    bounds = set[int]()
    for run in TERM.finditer(lowered):
        at = run.start()
        for word in split_run(run[0]) if UNSPACED.search(run[0]) else (run[0],):
            # What splits the run may write a word otherwise; it is then left out.
            start = lowered.find(word, at, at + len(word) + NEAR)
            if start >= 0:
                at = start + len(word)
                bounds |= {start, at}
    return frozenset(bounds | {match.start() for match in KANA.finditer(lowered)})


def _name_date(match: re.Match[str], month: str) -> TimeName:
    parts = (match["day"] or "in", month, match["year"])
    return TimeName(" ".join(filter(None, parts)), match[0], match.start())


@cache
def _get_expressions(language: str) -> TimeExpressions:
    names = LISTS[language]
    months = {form: month for month in MONTHS for form in names.get(month.lower(), ())}
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
    days = {
        form: english
        for english in (*DAYS, "today", "tomorrow")
        for form in names.get(english, ())
    }
    for unit in ("week", "month"):
        relative |= dict.fromkeys(_list_after_next(names, unit), f"{unit} after next")
    return TimeExpressions(
        months=months,
        relative=relative,
        counted=tuple(_list_counted(names)),
        numbers=numbers,
        weekdays=tuple(_list_days_of_weeks(names)),
        days=days,
    )


def _is_doubled(names: Names) -> bool:
    """Return True if a language without a name for the week after the next says "next" twice for it."""
    return not names.get("week after next")


def _list_after_next(names: Names, unit: str) -> list[str]:
    """Return the names of the week or month after the next: what is said twice is one further on (下下周)."""
    joined = [form for form in names.get(f"next {unit}", ()) if JOINED.search(form)]
    doubled = [form[0] + form for form in joined if _is_doubled(names)]
    return [*names.get(f"{unit} after next", ()), *doubled]


@cache
def _get_directions(language: str) -> Directions:
    names = LISTS[language]
    if JOINED.search("".join(names["next week"])):
        return Directions({}, {})
    days = {form: day for day in DAYS for form in names.get(day, ())}
    named = days | name_units(language)
    name = join_forms(named)
    patterns = dict[str, re.Pattern[str]]()
    for which in ("last", "next"):
        marks = _list_marks(language, which)
        one = rf"(?:{join_forms(_list_single_marks(language, which))})\w{{0,3}}"
        several = join_forms({mark for mark in marks if " " in mark})
        after = rf"(?:{one}{f'|{several}' if several else ''})"
        patterns[which] = re.compile(
            rf"(?<!\w)(?:(?P<after>{name})\s+{after}|{one}\s+(?P<before>{name}))(?!\w)"
        )
    if skip := _find_skip(names):
        one = rf"(?:{join_forms(_list_single_marks(language, 'next'))})\w{{0,3}}"
        patterns["after next"] = re.compile(
            rf"(?<!\w)(?:{skip}{one}\s+(?P<before>{name})(?P<after>))(?!\w)"
        )
    return Directions(named, patterns)


def name_units(language: str) -> dict[str, str]:
    """Return the words for a week, month and year, which their last, this and next one share -> in English."""
    names = LISTS[language]
    named = dict[str, str]()
    for unit in UNITS:
        said = [_list_words(names, f"{which} {unit}") for which in WHICH]
        for word in set.intersection(*map(set, said)):
            if len(word) > 1 and not is_stop_word(word, language):
                named[word] = unit
    return named


def _find_skip(names: Names) -> str:
    """Return the part of "the day after tomorrow" before "tomorrow": "über", of which "übernächste" is made."""
    pairs = product(names.get("day after tomorrow", ()), names.get("tomorrow", ()))
    found = (far.removesuffix(near) for far, near in pairs if far.endswith(near))
    return next((re.escape(one) for one in found if one.isalpha()), "")


@cache
def _get_far_days() -> re.Pattern[str]:
    """Return a pattern of the names of FAR_DAYS in all languages in Latin letters."""
    forms = {
        form
        for language in LATIN
        for name in FAR_DAYS
        for form in LISTS[language].get(name, ())
    }
    return _bound(f"(?:{join_forms(forms)})")


@cache
def _get_marks() -> re.Pattern[str]:
    """Return a pattern of the beginnings of all words in Latin letters that say "last" or "next"."""
    marks = [
        _list_marks(language, which) for language in LATIN for which in ("last", "next")
    ]
    skips = {skip for language in LATIN if (skip := _find_skip(LISTS[language]))}
    skip = f"(?:{'|'.join(sorted(skips))})?"
    return re.compile(rf"(?<!\w){skip}(?:{join_forms(set().union(*marks))})")


def _list_words(names: Names, phrase: str) -> list[str]:
    return TERM.findall(" ".join(names.get(phrase, ())))


def _list_marks(language: str, which: str) -> set[str]:
    """Return beginnings of words, and phrases behind a name, that say "last" or "next": what "last week" has and "this
    week" and "next week" lack.
    """
    names = LISTS[language]
    others = [
        word
        for name in WHICH
        if name != which
        for word in _list_words(names, f"{name} week")
    ]
    words = [
        word
        for word in _list_words(names, f"{which} week")
        if not is_stop_word(word, language)
        and not any(_is_form(word, other) for other in others)
    ]
    # Drop the abbreviations of other words.
    full = {
        word
        for word in words
        if not any(other != word and other.startswith(word) for other in words)
    }
    return {*(_cut_ending(word, language) for word in full), *names.get(which, ())}


def _list_single_marks(language: str, which: str) -> set[str]:
    """Return the marks that are the beginning of a single word."""
    return {mark for mark in _list_marks(language, which) if " " not in mark}


def _is_form(word: str, other: str) -> bool:
    """Return True if one word begins with the other."""
    return word.startswith(other) or other.startswith(word)


def _cut_ending(word: str, language: str) -> str:
    """Return a word without its ending: as long a piece as its stem, which has no accents; without a quarter of its
    letters if the stem is so short that other words begin alike.
    """
    length = len(stem_in(word, language))
    return word[: length if length >= LEAST_STEM else -(len(word) // 4) or None]


def _list_han_numbers() -> dict[str, str]:
    """Return the Chinese and Japanese characters for the numbers from 1 to 12, by Unicode, with their digits."""
    return {
        chr(code): str(int(number))
        for code in range(0x4E00, 0xA000)
        if (number := numeric(chr(code), 0)) in range(1, 13)
    }


def _list_counted(names: Names) -> Iterator[CountedTime]:
    """Yield the ways to say a number of days, weeks, months or years ago or from now."""
    for english, forms in names.items():
        way, _, unit = english.partition(" ")
        if not forms or "#" not in forms[0]:
            continue
        counted = f"in # {unit}" if way == "in" else f"# {english}"
        number = (
            r"(?P<n>\d{1,4}|[\u4e00-\u9fff])"
            if JOINED.search(forms[0])
            else r"(?P<n>\d{1,4}|[^\W\d_]{1,20})"
        )
        for before in dict.fromkeys(form.partition("#")[0] for form in forms):
            behind = frozenset(
                form.removeprefix(before + "#")
                for form in forms
                if form.startswith(before + "#")
            )
            yield CountedTime(
                before=before, number=number, behind=behind, english=counted
            )


def _list_days_of_weeks(names: Names) -> Iterator[tuple[re.Pattern[str], str]]:
    """Yield the days of the last or a coming week in scripts without spaces and in Korean: 下周 and 周五 are 下周五."""
    for which in ("last", "next"):
        weeks = names.get(f"{which} week", ())
        # What says "next" before a month does so before a weekday: 下个月, 下个星期五.
        marks = [*_list_month_marks(names, which)]
        yield from _join_days(
            names=names, weeks=weeks, marks=marks, english=f"{which} week #"
        )
        if which == "next":
            doubled = [mark[0] + mark for mark in marks if _is_doubled(names)]
            after = _list_after_next(names, "week")
            yield from _join_days(
                names=names,
                weeks=after,
                marks=doubled,
                english="# of the week after next",
            )


def _join_days(
    names: Names,
    weeks: Sequence[str],
    marks: Sequence[str],
    english: str,
) -> Iterator[tuple[re.Pattern[str], str]]:
    """Yield a pattern of each day of some weeks, with its English name, which stands for `#`."""
    if not JOINED.search("".join(weeks)):
        return
    for day in DAYS:
        for form in names.get(day, ()):
            pieces = [re.escape(mark + form) for mark in marks]
            for of_week in weeks:
                shared = next(
                    (n for n in range(len(form), 0, -1) if of_week.endswith(form[:n])),
                    0,
                )
                # at most one particle is between them: 来週の金曜日
                pieces.append(f"{re.escape(of_week)}.?{re.escape(form)}")
                pieces.append(re.escape(of_week + form[shared:]))
            yield re.compile("|".join(pieces)), english.replace("#", day)


def _list_month_marks(names: Names, which: str) -> Iterator[str]:
    """Yield the marks that the last or next month has and this one lacks: the 下个 of 下个月, beside 本月."""
    for form in names.get(f"{which} month", ()):
        for this in names.get("this month", ()):
            shared = next(
                (at for at in range(1, len(form)) if this.endswith(form[at:])), 0
            )
            if shared:
                yield form[:shared]


def _bound(pattern: str) -> re.Pattern[str]:
    """Return a pattern that matches whole words only; in scripts without spaces and in Korean, anywhere."""
    return re.compile(pattern if JOINED.search(pattern) else rf"(?<!\w){pattern}(?!\w)")


def join_forms(forms: Mapping[str, object] | Set[str]) -> str:
    """Return a pattern of some forms, the longest first; of none one that matches nothing."""
    ranked = sorted(forms, key=lambda form: (-len(form), form))
    return "|".join(map(re.escape, ranked)) or "(?!)"
