"""Normalise a claim for comparison: canonical words in order, figures, dates, identifiers, names, negations.

One expression passes over the text once, about 50 µs a sentence. "60 seconds" and "1 minute" give the same figure,
"May 4" and "4 May" the same date, "isn't" gives "is not", and "Postgres" and "PostgreSQL" the same word.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import polars as pl
import pyarrow as pa

from slowwave.schemas.tables import CATEGORIES
from slowwave.text.languages import ENGLISH
from slowwave.text.times.dates import MONTHS
from slowwave.text.words import (
    COUNTS,
    FIRST_PERSON,
    LATIN,
    MARKS,
    NEGATIONS,
    SCALES,
    UNITS,
    find_text_language,
    is_content_word,
    put_spaces,
    stem,
    stem_content_words,
)

_LETTERS = rf"(?:[^\W\d_][{MARKS}]*)+"
_MONTH = "|".join(sorted(MONTHS, key=len, reverse=True))
_NUMBER_WORD = "|".join(COUNTS)
_UNIT = "|".join(
    sorted({re.escape(u) for u in (*UNITS, *SCALES) if u != "%"}, key=len, reverse=True)
)
TOKEN = re.compile(
    rf"""
    (?P<iso>\b\d{{4}}-\d{{1,2}}-\d{{1,2}}\b)
    |(?P<month_day>\b(?:{_MONTH})\.?\s\d{{1,2}}(?:st|nd|rd|th)?\b(?!:)(?:,?\s\d{{4}}\b)?)
    |(?P<day_month>\b\d{{1,2}}(?:st|nd|rd|th)?(?:\sof)?\s(?:{_MONTH})\b(?:,?\s\d{{4}}\b)?)
    |(?P<clock>\b\d{{1,2}}:\d{{2}}(?::\d{{2}})?(?:\s?[ap]\.?m\b)?)
    |(?P<name>
        https?://[^\s`'"<>)]+                       # a URL
        |[\w.+-]+@[\w-]+\.[\w.]*\w                  # an address
        |(?<![\w/])~?(?:/|\.{{1,2}}/)?[\w.@-]+(?:/[\w.@*-]*[\w*])+   # a path
        |(?<![\w-])--?[a-z][\w-]*                   # a flag
        |\b[a-z_]\w+(?:(?:::|\.)[a-z_]\w+)+         # a dotted name, a file
        |\b[a-z]*_\w+                               # snake_case, ENV_VAR
        |\#\d+\b|\b[a-z]{{2,}}-\d+\b                # an issue
        |\b(?!v\d)[a-z]+\d\w*\b                     # a name with a number in it: S3, ec2, utf8
        |\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{{7,40}}\b       # a hash
    )
    |(?P<figure>(?<![\w.])(?:[$€£]|v)?\d[\d,]*(?:\.\d+)*(?:\s?%|[\s-]?(?:{_UNIT})\b)?)
    |(?P<count>\b(?:{_NUMBER_WORD})\b(?:[\s-](?:{_UNIT})\b)?)
    |(?P<word>{_LETTERS}(?:'{_LETTERS})?)
    """,
    re.VERBOSE | re.IGNORECASE,
)
CAMEL = re.compile(r"\b[a-z]+[A-Z]\w*\b|\b[A-Z][a-z]+[A-Z]\w*\b")
Change = tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]
PLAIN: tuple[Change, ...] = (
    # "Convention: …" is the category, not the content.
    (re.compile(rf"^\W*(?:{'|'.join(CATEGORIES)}):\s+", re.I), ""),
    (re.compile(r"[’‘´`]"), "'"),
    (re.compile(r"[“”]"), '"'),
    (re.compile(r"[–—]"), "-"),
    (re.compile(r"\bper cent\b", re.I), "percent"),
    (re.compile(r"\bUS\$"), "$"),
    # U.S. -> US.
    (re.compile(r"\b((?:[A-Za-z]\.){2,})"), lambda m: m[1].replace(".", "")),
    (re.compile(r"\b(can)'?t\b|\bcannot\b", re.I), "can not"),
    (re.compile(r"\bwon't\b", re.I), "will not"),
    (re.compile(r"(?<=[a-z])n't\b", re.I), " not"),
    (re.compile(r"\b(?:going|plan(?:s|ned|ning)?|about) to\b|'ll\b", re.I), " will"),
    (re.compile(r"\bno longer\b|\bnot any ?more\b", re.I), "not now"),
    (re.compile(r"'(?:re|ve|d|m)\b", re.I), " "),
    (re.compile(r"(?<=\w)'s?(?=\W|$)", re.I), ""),
    (re.compile(r"\b([a-z])-(?=[a-z]{3})", re.I), r"\1"),  # e-mail -> email
)  # fmt: skip

RARE_WORDS = 4
"""Number of a claim's rarest words that it is looked up by."""
Date = tuple[int | None, int, int]


@dataclass(frozen=True, slots=True)
class ClaimText:
    """A claim normalised for comparison."""

    folded: str
    """The text without case, typography and closing punctuation."""
    words: tuple[str, ...]
    """Every word, figure, date and identifier in its canonical form, in order."""
    content: tuple[str, ...]
    """The stems of the content words, in order."""
    sorted_words: str
    """The words sorted, for token_sort_ratio."""
    figures: frozenset[str]
    dates: frozenset[Date]
    identifiers: frozenset[str]
    names: frozenset[str]
    """Capitalised words; the first word of the text only if it is all capitals."""
    negated: tuple[str, ...]
    """The content word after each negation, sorted; "" if none follows."""
    speaker: str | None
    first_person: bool
    question: bool
    text: str
    """As it was."""

    @property
    def english(self) -> bool:
        """True if it is in English, the guards' language. If the language is unknown, ASCII text counts as English.

        Found when it is asked for: most claims that are compared never need it.
        """
        language = find_text_language(self.text)
        return language == ENGLISH or (language is None and self.text.isascii())


def fold_text(text: str) -> str:
    """Return the text without case, typographic variants, runs of space and closing punctuation."""
    return " ".join(_normalise_text(text, PLAIN[:4]).casefold().split()).strip(
        " .!,;:\"'"
    )


@lru_cache(maxsize=30_000)
def normalise_claim(text: str, speaker: str | None = None) -> ClaimText:
    """Return the claim of a sentence; `speaker` is the person who said it, for "I" and "my"."""
    tokens = [
        _classify_token(m)
        for m in TOKEN.finditer(put_spaces(_normalise_text(text, PLAIN)))
    ]
    words = tuple(word for _, word, _ in tokens)
    return ClaimText(
        folded=fold_text(text),
        words=words,
        content=tuple(stem_content_words(words)),
        sorted_words=" ".join(sorted(words)),
        figures=frozenset(
            w for kind, w, _ in tokens if kind in ("figure", "count", "clock")
        ),
        dates=frozenset(_parse_date(raw) for kind, _, raw in tokens if kind == "date"),
        identifiers=frozenset(w for kind, w, _ in tokens if kind == "name"),
        names=frozenset(
            w
            for at, (kind, w, raw) in enumerate(tokens)
            if kind == "word"
            and is_content_word(w)
            and (raw[0].isupper() if at else raw.isupper() and len(raw) > 1)
        ),
        negated=tuple(sorted(_find_negated(words))),
        speaker=speaker.casefold() if speaker else None,
        first_person=not FIRST_PERSON.isdisjoint(words),
        question=text.rstrip().endswith(("?", "？", "؟")),
        text=text,
    )


class ClaimTexts(Sequence[ClaimText]):
    """The claims of a table's rows (`summary`, `speaker`, `stems`), each normalised on first use."""

    def __init__(self, table: pa.Table) -> None:
        self.texts: list[str] = table["summary"].to_pylist()
        self._speakers: list[str | None] = table["speaker"].to_pylist()
        stems: list[list[str] | None] = table["stems"].to_pylist()
        self.stems = [
            self[row].content if own is None else tuple(own)
            for row, own in enumerate(stems)
        ]
        """Each claim's `content`."""
        self.keys = [
            own or (text.casefold(),)
            for own, text in zip(self.stems, self.texts, strict=True)
        ]
        """The words by which each claim is looked up."""

    @cached_property
    def words(self) -> pl.DataFrame:
        """Each `row` with each `word` of its key, once."""
        words = pl.Series(pa.array(self.keys, pa.list_(pa.string())))
        return (
            pl.DataFrame({"row": range(len(self.keys)), "word": words})
            .explode("word")
            .unique()
        )

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, row: Any) -> Any:
        """Return the claim of a row."""
        return normalise_claim(self.texts[row], self._speakers[row])


def _normalise_text(text: str, changes: tuple[Change, ...]) -> str:
    plain = unicodedata.normalize("NFKC", text)
    for pattern, to in changes:
        plain = pattern.sub(to, plain)
    return plain


def _classify_token(match: re.Match[str]) -> tuple[str, str, str]:
    """Return kind, canonical form and the text itself."""
    kind = str(match.lastgroup)
    raw = match[0]
    if kind in ("iso", "month_day", "day_month"):
        year, month, day = _parse_date(raw)
        return "date", f"{year or 0:04}-{month:02}-{day:02}", raw
    if kind in ("figure", "count"):
        return kind, _normalise_figure(raw), raw
    if kind == "name" or CAMEL.fullmatch(raw):
        return "name", raw.casefold(), raw
    if kind == "clock":
        return kind, "".join(raw.casefold().replace(".", "").split()).lstrip("0"), raw
    return kind, raw.casefold().replace("'", ""), raw


def _parse_date(raw: str) -> Date:
    numbers = [int(n) for n in re.findall(r"\d+", raw)]
    month = next(
        (MONTHS[w] for w in LATIN.findall(raw.casefold()) if w in MONTHS), None
    )
    if month is None:
        return numbers[0], numbers[1], numbers[2]
    return (numbers[1] if len(numbers) > 1 else None), month, numbers[0]


def _normalise_figure(raw: str) -> str:
    """Return an amount in base units; return a version unchanged."""
    parts = re.fullmatch(r"([$€£v]?)([\d,.]*\d|[a-z]+)[\s-]*(.*)", raw.casefold())
    if parts is None:
        return raw.casefold()
    sign = parts[1]
    number = parts[2].replace(",", "")
    unit = parts[3]
    if sign == "v" or number.count(".") > 1:
        return number + (f" {unit}" if unit and unit not in UNITS else "")
    if "." in number and not unit:
        return sign + number  # 3.1 is not 3.10
    return sign + _scale_amount(float(COUNTS.get(number, number)), unit)


def _scale_amount(value: float, unit: str) -> str:
    if unit in SCALES:
        return f"{value * SCALES[unit]:.12g}"
    base, factor = UNITS.get(unit, ("", 1.0))
    return f"{value * factor:.12g}{base}"


def _find_negated(words: tuple[str, ...]) -> list[str]:
    places = [at for at, word in enumerate(words) if word in NEGATIONS]
    return [
        next((stem(w) for w in words[at + 1 :] if is_content_word(w)), "")
        for at in places
    ]
