"""Grounding checks: a claim's numbers, dates, names and negations must come from its sources.

A claim may say less than its quote, and in other words. The checks cover the errors that summaries make most often
(Kryściński et al., "Evaluating the Factual Consistency of Abstractive Text Summarization", 2020).
"""

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache

from rapidfuzz import fuzz

from slowwave.tasks.dedupe.normalise import TOKEN, ClaimText, normalise_claim
from slowwave.tasks.llm.quotes import DIGITS, EASTERN_DATE, is_unspaced, normalise_text
from slowwave.text.rarity import weigh_word
from slowwave.text.times.dates import MONTH_NAMES, MONTHS, WEEKDAYS
from slowwave.text.words import ENGLISH_STOP, NEGATIONS, is_content_word, stem

REACH = timedelta(days=14), timedelta(days=100)
"""How far a date may lie from its message's day. The second holds if the messages have a word of FAR."""
FAR = frozenset(
    {
        "week",
        "weeks",
        "month",
        "months",
        "year",
        "years",
        "summer",
        "autumn",
        "fall",
        "winter",
        "spring",
    }
)
MONTH = timedelta(days=31)
"""How far a date may lie whose day of the month its sources say: "on the 27th" is the next one or the last."""
DAY_NUMBER = re.compile(r"(?<![\d.,:])\d{1,2}(?![\d:]|[.,]\d)")
NAME = re.compile(r"(?<![\w.@/#-])[^\W\d_a-z](?:[^\W\d_]|['’](?=[^\W\d_]))*(?![\w@/])")
SENTENCE_START = re.compile(r"(?:^|[.!?:;]\s+|\n)[\W_]*$")
JOINT = re.compile(r"[\W_]")
QUALIFIER = re.compile(r"[/.:#]+")
"""Separators between the parts of a qualified name."""
RANGE = re.compile(r"([^\W\d_]+)(\d+)[-–]\1?(\d+)")
INNER_WORD = re.compile(r"(?<=[^\W\d_] )[^\W\d_]{2,}")
FEWEST_INNER = 20
CAPITALS = 0.2
"""A text with a larger share of capitals within sentences capitalises its nouns, as German does."""
ROLES = frozenset(
    {
        "user",
        "assistant",
        "speaker",
        "agent",
        "team",
        "utc",
        "ok",
        "mr",
        "mrs",
        "ms",
        "dr",
    }
)
"""Names of roles, titles, and words that the prompt itself uses."""
RARE = 7.0
"""Rarity in people's talk, in whatever language, from which the first word of a sentence may be a name."""
COMMON_ENDING = re.compile(
    r"(?:ing|tion|sion|ment|ity|ness|ance|ence|ship|ism|ed|ly|able|ive|ous|[^aious]s)$"
)
SENTENCE = re.compile(r"(?<=[.!?])\s+|\n")
NEGATIVE = re.compile(
    r"\b(?:instead|rather|hates?|dislik\w+|lost|los(?:e|ing)|removed?|disabled?|dropped|reject\w*|undo|allerg\w*|wrong|hard|"
    r"difficult|struggl\w*|g(?:a|i)v\w+\s+up|un(?!der|i|til|less)\w{4,}|im(?:possible|patient)|skip\w*|nah|nope)\b|n['’]t\b",
    re.IGNORECASE,
)
"""Words that a claim may render as a negation, although they are not one."""
UNTRUE = re.compile(
    r"\W*(?:it|this|that)\s+(?:is|was)\s+(?:not\s+(?:true|so|correct|the\s+case)|never\s+true|untrue|false)\b",
    re.IGNORECASE,
)
UNTRUE_THERE = re.compile(
    r"\b(?:true|untrue|false|wrong|correct|incorrect|the\s+case)\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class GroundingContext:
    """The sources of a claim."""

    near: str
    """The text of the cited messages and of those around them."""
    chunk: str
    """The text of all messages that the model saw, and the names of the speakers and workspaces."""
    times: tuple[datetime, ...] = ()
    """Times of the cited messages."""
    quote: str = ""
    """The words on which the claim rests."""

    @property
    def days(self) -> tuple[date, ...]:
        """The days of `times`."""
        return tuple(time.date() for time in self.times)


def explain_unfounded(claim: str, ground: GroundingContext) -> str | None:
    """Return the first part of a claim that its sources lack, as a reason, or None if they have all of it.

    A number, name or identifier must occur anywhere in the chunk, since a claim resolves pronouns. A date must occur
    near the cited messages, or lie within reach of their days. A negation must occur in the quote, or near the cited
    messages beside a word of the claim.
    """
    checks = (_check_number, _check_date, _check_name, _check_negation)
    return next((why for check in checks if (why := check(claim, ground))), None)


@lru_cache(maxsize=2_048)
def _parse_cached(text: str) -> ClaimText:
    """Return a source text parsed; the result is cached for the next claims."""
    return normalise_claim(text)


def _check_number(claim: str, ground: GroundingContext) -> str | None:
    """Return a reason if a number of the claim is not in the chunk, else None."""
    figures = _parse_cached(ground.chunk).figures | {
        f"{time:%H:%M}".lstrip("0") for time in ground.times
    }
    numbers = (
        m[0]
        for m in TOKEN.finditer(claim)
        if m.lastgroup in ("figure", "clock", "count")
    )
    for raw in (
        DIGITS.findall(EASTERN_DATE.sub(" ", claim)) if is_unspaced(claim) else numbers
    ):
        number = raw.rstrip(",")
        # The chunk has the number as it is written (perhaps as the start of a version), or the same amount.
        if (
            re.search(rf"(?<!\d){re.escape(number)}(?!\d)", ground.chunk)
            or normalise_claim(raw).figures <= figures
            or normalise_claim(_strip_unit(raw)).figures <= figures
        ):
            continue
        if not (
            number.isdigit()
            and 1900 <= int(number) <= 2100
            and _is_year_plausible(int(number), ground, figures)
        ):
            return f"the number {raw} does not come up in the transcript"
    return None


def _strip_unit(number: str) -> str:
    """Return a number without its unit: who says "a box is 13.2" may have named the unit before."""
    found = DIGITS.search(number)
    return found[0] if found else number


def _is_year_plausible(
    year: int, ground: GroundingContext, figures: frozenset[str]
) -> bool:
    """Return True if a year is within one of a message's own, or off by a number that the sources state."""
    off = {abs(day.year - year) for day in ground.days}
    return any(
        n <= 1 or not {str(n - 1), str(n), str(n + 1)}.isdisjoint(figures) for n in off
    )


def _check_date(claim: str, ground: GroundingContext) -> str | None:
    """Return a reason if a date, weekday or month of the claim is not near the cited messages, else None."""
    near = _parse_cached(ground.near)
    there = set(_tokenize_words(ground.near))
    spoken = {(month, day) for _, month, day in near.dates}
    for year, month, day in normalise_claim(claim).dates:
        if (month, day) in spoken and (
            year is None or _is_year_plausible(year, ground, near.figures)
        ):
            continue
        if not _is_date_plausible(
            year=year, month=month, day=day, ground=ground, there=there
        ):
            return f"the date {f'{year}-' if year else ''}{month:02}-{day:02} is not that of the messages it cites"
    words = _tokenize_words(claim)
    for word in words:
        if word in WEEKDAYS and not _is_weekday_plausible(word, ground, there):
            return f"{word.capitalize()} does not come up near the messages it cites"
        if (
            word in MONTH_NAMES
            and not _is_month_plausible(MONTHS[word], ground, there)
            and word.capitalize() in claim
        ):
            return f"{word.capitalize()} does not come up near the messages it cites"
    return None


def _is_date_plausible(
    year: int | None,
    month: int,
    day: int,
    ground: GroundingContext,
    there: set[str],
) -> bool:
    """Return True if a message of those days may mean the date by "yesterday", "in two weeks" or "the 27th"."""
    reach = REACH[0] if there.isdisjoint(FAR) else REACH[1]
    if day in {int(number) for number in DAY_NUMBER.findall(ground.near)}:
        reach = max(reach, MONTH)
    for other in ground.days:
        for y in (
            (other.year - 1, other.year, other.year + 1) if year is None else (year,)
        ):
            try:
                meant = date(y, month, day)
            except ValueError:
                continue
            if abs(meant - other) <= reach:
                return True
    return False


def _is_weekday_plausible(word: str, ground: GroundingContext, there: set[str]) -> bool:
    """Return True if a weekday occurs in the sources, or lies within a day of a message's own."""
    if any(len(w) >= 3 and word.startswith(w) for w in there):
        return True
    around = {
        (day + timedelta(days=n)).strftime("%A").casefold()
        for day in ground.days
        for n in (-1, 0, 1)
    }
    return word in around


def _is_month_plausible(month: int, ground: GroundingContext, there: set[str]) -> bool:
    """Return True if a month occurs in the sources, or lies within one month of a message's own.

    If the sources have a word of FAR, it may lie within three months.
    """
    if any(MONTHS.get(word) == month for word in there):
        return True
    away = {
        min((day.month - month) % 12, (month - day.month) % 12) for day in ground.days
    }
    return any(n <= (1 if there.isdisjoint(FAR) else 3) for n in away)


def _check_name(claim: str, ground: GroundingContext) -> str | None:
    """Return a reason if a name or identifier of the claim is not in the chunk, else None."""
    words = _tokenize_words(ground.chunk)
    mentioned = frozenset(words)
    initials = "".join(word[0] for word in words)
    for match in NAME.finditer("" if _has_capitalized_nouns(ground.chunk) else claim):
        word = match[0]
        if not word[0].isupper():
            continue
        first = bool(SENTENCE_START.search(claim[: match.start()]))
        is_label = first and claim[match.end() :].startswith(":")
        if (
            is_label
            or (first and _is_common_word(word))
            or _is_mentioned(word, mentioned, initials)
        ):
            continue
        return f"{word} never comes up in the transcript"
    folded = normalise_text(ground.chunk)
    for identifier in normalise_claim(claim).identifiers:
        if not (
            identifier.isalpha()
            or identifier in folded
            or _has_spelling_variant(identifier, folded)
        ):
            return f"{identifier} never comes up in the transcript"
    return None


def _has_capitalized_nouns(text: str) -> bool:
    """Return True if the text's language capitalises its nouns, as German does: a capital is then no sign of a name."""
    inner = INNER_WORD.findall(text)
    return len(inner) >= FEWEST_INNER and sum(
        word[0].isupper() for word in inner
    ) > CAPITALS * len(inner)


def _has_spelling_variant(identifier: str, folded: str) -> bool:
    """Return True if an identifier occurs in another spelling: utf-8 for utf8, a path by its end, a qualified name and
    "read/write" by their parts, "wp15-17" by its ends.
    """
    last = identifier.rstrip("/").rsplit("/", 1)[-1].lstrip("-")
    if last in folded or JOINT.sub("", identifier) in JOINT.sub("", folded):
        return True
    if span := RANGE.fullmatch(identifier):
        return all(f"{span[1]}{end}" in folded for end in span.groups()[1:])
    parts = [part for part in QUALIFIER.split(identifier) if part]
    return len(parts) > 1 and all(
        re.search(rf"(?<![^\W_]){re.escape(part)}(?![^\W_])", folded) for part in parts
    )


def _is_common_word(word: str) -> bool:
    """Return True if the first word of a sentence may be a word other than a name."""
    low = _strip_possessive(word)
    return (
        low in ENGLISH_STOP
        or not is_content_word(low)
        or bool(COMMON_ENDING.search(low))
        or weigh_word(low) < RARE
    )


def _is_mentioned(word: str, words: frozenset[str], initials: str) -> bool:
    """Return True if a name occurs among the words, in some form, or is a role, a month or a weekday."""
    low = _strip_possessive(word)
    if (
        low in words
        or low in ROLES
        or low in MONTH_NAMES
        or low in WEEKDAYS
        or len(low) < 2
    ):
        return True
    if stem(low) in {stem(w) for w in words} or (word.isupper() and low in initials):
        return True
    return any(_is_same_name(low, other) for other in words)


def _is_same_name(a: str, b: str) -> bool:
    """Return True if two words are forms of one name: Sweden and Swedish, Gonzales and Gonzalez, Sam and Samantha."""
    short, long = sorted((a, b), key=len)
    if (
        len(short) >= 3
        and long.startswith(short)
        and (len(short) >= 4 or len(long) - len(short) > 2)
    ):
        return True
    return len(short) >= 4 and (
        fuzz.ratio(a, b) >= 85 or (a[:4] == b[:4] and len(long) - 4 <= 4)
    )


@lru_cache(maxsize=64)
def _tokenize_words(text: str) -> list[str]:
    """Return the words of a text, without possessives."""
    return [
        _strip_possessive(w) for w in re.findall(r"[^\W\d_]+(?:['’][^\W\d_]+)?", text)
    ]


def _strip_possessive(word: str) -> str:
    """Return a word in lower case without its possessive."""
    return re.sub(r"['’]s?$", "", word.casefold())


def _check_negation(claim: str, ground: GroundingContext) -> str | None:
    """Return a reason if a claim negates something that the sources near it do not, else None.

    What rests on a quote that denies something may deny it: "no, one file is plenty" answers who proposed a database.
    Else a negative sentence of the sources must contain a negated word of the claim. If the sources have none of those
    words, any of the claim's words will do: "not known" may stand for "doesn't cover why".
    """
    parsed = normalise_claim(claim)
    if not parsed.negated or _repeats_denials(parsed, ground.near):
        return None
    reason = "it denies what nobody near the messages it cites denies"
    if UNTRUE.match(claim) and not UNTRUE_THERE.search(ground.near):
        return reason
    if _denies(ground.quote):
        return None
    content = set(parsed.content)
    denied = set(parsed.negated) - {stem(name) for name in parsed.names} - {""}
    sentences = [
        (
            set(_parse_cached(s).content),
            _denies(s),
        )
        for s in SENTENCE.split(ground.near)
    ]
    if any(denied & there for there, _ in sentences):
        founded = any(denied & there for there, negative in sentences if negative)
    else:
        founded = any(negative and content & there for there, negative in sentences)
    return None if founded else reason


def _repeats_denials(claim: ClaimText, near: str) -> bool:
    """Return True if the sources near a claim have each of its negations, and all of these are verbs or nouns.

    A bus stop denies nothing, and who says "tests fail" need not deny anything else.
    """
    denials = {word for word in claim.words if word in NEGATIONS}
    there = {stem(word) for word in _parse_cached(near).words}
    return denials.isdisjoint(ENGLISH_STOP) and {*map(stem, denials)} <= there


def _denies(text: str) -> bool:
    """Return True if a text denies something."""
    return bool(NEGATIVE.search(text) or _parse_cached(text).negated)
