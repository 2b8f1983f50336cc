"""Words of a text: splitting, stop words, stems, weights of rare words, and the marks of doubts and questions.

The language of a text (`languages.py`) decides its stop words and stems. For English there are closed lists here, also
of numbers in words and units of measure.
"""

import math
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise

import Stemmer  # type: ignore[import-not-found]

from slowwave.text.languages import ENGLISH, find_language, find_stop_words, stem_in

SENTENCE_ENDS = ".!?…。！？।॥؟۔"
"""Signs that end a sentence, of those with Unicode's property Sentence_Terminal."""
MARKS = (
    r"\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    r"\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0711\u0730-\u074a\u0900-\u0903\u093a-\u094f\u0951-\u0957"
    r"\u0962\u0963\u0981-\u0983\u09bc-\u09d7\u09e2\u09e3\u0a01-\u0a03\u0a3c-\u0a51\u0a70\u0a71\u0a75\u0a81-\u0a83"
    r"\u0abc-\u0acd\u0ae2\u0ae3\u0b01-\u0b03\u0b3c-\u0b57\u0b62\u0b63\u0b82\u0bbe-\u0bd7\u0c00-\u0c04\u0c3c-\u0c56"
    r"\u0c62\u0c63\u0c81-\u0c83\u0cbc-\u0cd6\u0ce2\u0ce3\u0d00-\u0d03\u0d3b-\u0d57\u0d62\u0d63\u0d81-\u0d83"
    r"\u0dca-\u0df3\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece\u0f71-\u0f84\u102b-\u103e\u1056-\u1059"
    r"\u17b4-\u17d3\u1ab0-\u1aff\u1dc0-\u1dff\u3099\u309a\u200c\u200d"
)
"""Combining vowel signs, tones and accents, and the joiners. Python's `\\w` does not match them."""
LETTER = rf"\w[\w{MARKS}]*"
TERM = re.compile(LETTER)
"""A word as in the full-text index: "don't" is two."""
WORD = re.compile(rf"{LETTER}(?:['’]{LETTER})?")
"""A word as people count it: "don't" is one."""
UNSPACED = re.compile(
    r"[\u0e01-\u0eff\u1000-\u109f\u1780-\u17d3\u2e80-\u2fdf\u3005-\u3007\u3031-\u30fa\u30fc-\u312f\u31f0-\u31ff"
    r"\u3400-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]"
)
"""A letter of a script that puts no space between words: Chinese, Japanese, Thai, Lao, Khmer or Burmese."""
JOINED = re.compile(rf"{UNSPACED.pattern}|[\uac00-\ud7a3\u1100-\u11ff]")
"""A letter of such a script, or a Korean one, since Korean words end in particles. Such words are compared by pairs of
letters."""
HIRAGANA = re.compile(r"[\u3041-\u309f\u30fc]+")
"""A word in hiragana alone. Within a run of letters it is an ending or a particle."""
LATIN = re.compile(r"[a-z]+")
"""Runs of lower-case letters, for finding English words."""

_LISTS: dict[str, str] = tomllib.loads(
    files("slowwave.text").joinpath("words.toml").read_text("utf-8")
)


def split_groups(lines: str) -> tuple[frozenset[str], ...]:
    """Return the words of each line that is not blank."""
    return tuple(frozenset(line.split()) for line in lines.splitlines() if line.strip())


STOP = frozenset(
    WORD.findall(
        """
    a about above after again against all also am an and any are aren't as at be because been before being below
    between both but by can can't cannot could couldn't did didn't do does doesn't doing don't down during each few
    for from further get gets got had hadn't has hasn't have haven't having he he'd he'll he's her here here's hers
    herself him himself his how how's i i'd i'll i'm i've if in into is isn't it it's its itself just let's like me
    more most mustn't my myself no nor not of off on once only or other ought our ours ourselves out over own same
    shan't she she'd she'll she's should shouldn't so some such than that that's the their theirs them themselves
    then there there's these they they'd they'll they're they've this those through to too under until up very was
    wasn't we we'd we'll we're we've were weren't what what's when when's where where's which while who who's whom
    why why's will with won't would wouldn't yes you you'd you'll you're you've your yours yourself yourselves
    """
    )
)
"""Words without content in a question or a passage."""
CLAIM_STOP = frozenset(_LISTS["stop"].split())
"""Words without content in a claim. They are fewer than in `STOP`: "all", "only" or "until" change a claim."""
ENGLISH_STOP = frozenset(_LISTS["english"].split())
"""scikit-learn's English stop words."""
NEGATIONS = frozenset(_LISTS["negations"].split())
FIRST_PERSON = frozenset(_LISTS["first_person"].split())

STEMMER = Stemmer.Stemmer("english")
ONE_WORD = {
    word: min(group) for group in split_groups(_LISTS["same_words"]) for word in group
}
ONE_STEM = {STEMMER.stemWord(word): first for word, first in ONE_WORD.items()}
"""The same by stem, for other forms: "teaching" has the stem of "teach", which is in a group with "taught"."""
STEM = 5
"""Letters by which two forms of a word are compared: "deletions" and "delete" are one."""
SHORTEST_PLURAL = 4
"""Least letters of a word whose final "s" counts as a plural's."""


def split_words(text: str, pattern: re.Pattern[str] = TERM) -> list[str]:
    """Return the lower-cased words of a text in order; runs of scripts without spaces are split by dictionaries."""
    if text.isascii():
        return pattern.findall(text.lower())
    words = pattern.findall(text)
    if not UNSPACED.search(text):
        return [word.lower() for word in words]
    from slowwave.text.full_text import split_run

    return [
        part
        for word in words
        for part in (split_run(word) if UNSPACED.search(word) else (word.lower(),))
    ]


def put_spaces(text: str, *, endings: bool = True) -> str:
    """Return a text with spaces added between the words of scripts that use none.

    Without `endings`, a full stop replaces each ending and particle of Japanese, such as the か and った of 遅かった.
    """
    if text.isascii() or not UNSPACED.search(text):
        return text
    return TERM.sub(lambda run: _divide_run(run[0], endings), text)


def _divide_run(run: str, endings: bool) -> str:
    """Return a run of letters with spaces between its words, with or without the endings of Japanese."""
    if not UNSPACED.search(run):
        return run
    words = split_words(run)
    if not endings:
        words[1:] = ["." if HIRAGANA.fullmatch(word) else word for word in words[1:]]
    return " ".join(words)


def find_text_language(text: str) -> str | None:
    """Return the language of a text, by its first MOST_READ characters; None if it is unknown."""
    return _find_start_language(text[:MOST_READ])


@lru_cache(maxsize=16_384)  # keyed by the text: its words take up to ten times as much
def _find_start_language(start: str) -> str | None:
    return find_language(
        tuple(word.lower() for word in TERM.findall(CLITIC.sub("", start)))
    )


MOST_READ = 1_000
"""Most characters that decide the language of a text."""
CLAUSE = re.compile(r"[^\s,;–—，、；](?:[^,;–—，、；]|[,;](?=\S))*(?<!\s)")
"""A clause of a sentence. A comma within a number divides nothing."""
CLITIC = re.compile(r"(?<=\w)['’]\w\b")
"""English "'s" and "'t", which as single letters would be stop words of French."""


def extract_content_words(text: str) -> list[str]:
    """Return the lower-case words of a text without the stop words of its language, in order, each once."""
    return extract_words_in(text, find_text_language(text))


def extract_words_in(text: str, language: str | None) -> list[str]:
    """Return the content words of a text in a language."""
    words = [word.replace("’", "'") for word in split_words(text, WORD)]
    if language in (None, ENGLISH):
        says = [
            word
            for word in words
            if word not in STOP and (len(word) > 1 or word.isdigit())
        ]
    else:
        stop_words = find_stop_words(words, language)
        says = [
            word
            for word in words
            if word not in stop_words and (len(word) > 1 or not word.isascii())
        ]
    return list(dict.fromkeys(says))


def split_pairs(word: str) -> list[str]:
    """Return each pair of neighbouring letters of a word, with their marks, each once; a word of one letter as
    it is.
    """
    letters = re.findall(rf"\w[{MARKS}]*", word)
    return list(dict.fromkeys(map("".join, pairwise(letters)))) or [word]


def is_follow_up(text: str, max_words: int = 3) -> bool:
    """Return True if a message has at most `max_words` content words, so that it needs the message before it."""
    return len(extract_content_words(text)) <= max_words


def is_content_word(word: str) -> bool:
    """Return True if a lower-case English word is neither a stop word of claims nor a negation."""
    return word not in CLAIM_STOP and word not in NEGATIONS


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Return the stem of a lower-case English word.

    Spellings, short forms and irregular forms of a word share a stem.
    """
    common = ONE_WORD.get(word) or ONE_STEM.get(STEMMER.stemWord(word), word)
    return str(STEMMER.stemWord(common))


def singularise(word: str) -> str:
    """Return a lower-case word without a plural or possessive ending. A stem would make "Withings" equal to "with"."""
    word = word.removesuffix("'s")
    if (
        len(word) < SHORTEST_PLURAL
        or not word.endswith("s")
        or word.endswith(("ss", "us", "is"))
    ):
        return word
    return (
        f"{word[:-3]}y"
        if word.endswith("ies") and len(word) > SHORTEST_PLURAL
        else word[:-1]
    )


def stem_content_words(words: Iterable[str]) -> list[str]:
    """Return the stems of the content words among lower-case words, in order."""
    return [stem(word) for word in words if is_content_word(word)]


def compute_idf(holding: float, total: float) -> float:
    """Return BM25's inverse document frequency of a word that `holding` of `total` texts have. It is always above 0."""
    return math.log1p((total - holding + 0.5) / (holding + 0.5))


def compute_smooth_idf(holding: float, total: float) -> float:
    """Return log(1 + total / holding).

    Unlike BM25's idf, it is not near zero for a word that most of a few rows share.
    """
    return math.log(1 + total / holding)


def extract_distinct_words(text: str) -> list[str]:
    """Return the words of a text in order, each once, in lower case."""
    return list(dict.fromkeys(split_words(text)))


def compute_word_shares(words: Sequence[str], texts: Sequence[str]) -> list[float]:
    """Return, for each text, the share of the words that it has, in the singular or plural.

    Words of scripts without spaces, and Korean ones, also count within other words.
    """
    if not words:
        return [0.0] * len(texts)
    singular = list(map(singularise, words))
    # a word's singular is its beginning, but for the y of "ies"
    starts = tuple(word.removesuffix("y") for word in singular)
    joined = {word for word in words if JOINED.search(word)}
    shares = []
    for text in texts:
        likely = (word for word in split_words(text) if word.startswith(starts))
        held = set(map(singularise, likely))
        held |= {word for word in joined if word in text}
        shares.append(sum(word in held for word in singular) / len(singular))
    return shares


def singular_words(text: str) -> frozenset[str]:
    """Return the stems of a text's content words in its language; for English, only without plural endings."""
    language = find_text_language(text)
    words = extract_words_in(text, language)
    if language in (None, ENGLISH):
        return frozenset(map(singularise, words))
    return frozenset(stem_in(word, language) for word in words)


def count_noun(count: int, noun: str) -> str:
    """Return a number of things: "1 message", "1,200 messages"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def count_rows(counts: Mapping[str, int]) -> str:
    """Return numbers of rows by the names of their tables: "1 message, 2 summaries"."""
    return ", ".join(
        f"{count:,} {singularise(name) if count == 1 else name}"
        for name, count in counts.items()
    )


def compile_word_pattern(*alternatives: str) -> re.Pattern[str]:
    """Return a pattern that finds any of the alternatives as whole words, in any case."""
    return re.compile(rf"(?<!\w)(?:{'|'.join(alternatives)})(?!\w)", re.I)


HEDGES = compile_word_pattern(
    r"maybe|might|perhaps|possibly|probably|could|either|options?|alternatively|hypothetical\w*|i guess|i wonder|"
    r"not sure|what if|considering|thinking"
)
"""Words of a statement that is not certain."""
ASKS = re.compile(r"\?[\"'”’)*_]*\s*$")
"""The end of a question."""
QUESTION = re.compile(r"(?<![^.!?\n])[^.!?\n]*\?+")
"""A whole question, to be removed from a text."""


_ONES = (
    "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen "
    "nineteen"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
TENS = {word: 10 * n for n, word in enumerate(_TENS.split(), 2)}
COUNTS = {word: n for n, word in enumerate(_ONES.split(), 2)} | TENS
COUNTS |= {"hundred": 100, "dozen": 12, "twice": 2, "thrice": 3}
"""Numbers in words -> their values. "one" and "zero" are left out: "no one", "the one" and "number one" are not counts.
"""
UNITS: dict[str, tuple[str, float]] = {
    name: (base, factor)
    for base, factor, names in (
        ("s", 1e-6, "microsecond microseconds"),
        ("s", 1e-3, "ms millisecond milliseconds msec"),
        ("s", 1.0, "s sec secs second seconds"),
        ("s", 60.0, "min mins minute minutes"),
        ("s", 3600.0, "h hr hrs hour hours"),
        ("s", 86400.0, "day days"),
        ("s", 604800.0, "week weeks"),
        ("month", 1.0, "month months"),
        ("month", 12.0, "year years yr yrs"),
        ("B", 1.0, "byte bytes"),
        ("B", 1e3, "kb"),
        ("B", 1e6, "mb"),
        ("B", 1e9, "gb"),
        ("B", 1e12, "tb"),
        ("B", 1024.0, "kib"),
        ("B", 1024.0**2, "mib"),
        ("B", 1024.0**3, "gib"),
        ("%", 1.0, "% percent pct"),
        ("m", 1e-3, "mm millimeter millimeters millimetres"),
        ("m", 1e-2, "cm centimeter centimeters centimetres"),
        ("m", 1.0, "m meter meters metre metres"),
        ("m", 1e3, "km kilometer kilometers kilometre kilometres"),
        ("m", 1609.344, "mile miles mi"),
        ("g", 1.0, "g gram grams"),
        ("g", 1e3, "kg kilogram kilograms kilos"),
        ("lb", 1.0, "lb lbs pound pounds"),
    )
    for name in names.split()
}
"""Unit -> (base unit, factor), so that 60 seconds and 1 minute are the same figure."""

SCALES = {
    "k": 1e3,
    "thousand": 1e3,
    "million": 1e6,
    "billion": 1e9,
    "bn": 1e9,
    "trillion": 1e12,
}


def find_phrase(phrases: Iterable[str], text: str) -> str | None:
    """Return the first phrase that a text has as whole words, in any case; None if it has none."""
    said = f" {' '.join(TERM.findall(put_spaces(text.casefold())))} "
    for phrase in phrases:
        plain = " ".join(TERM.findall(put_spaces(phrase.casefold())))
        if plain and f" {plain} " in said:
            return phrase
    return None
