"""Find the language of a text, and its stop words.

The script of the letters decides, or else the stop words (`stop_words.toml`). A text without either has no language
(None), for example code or a short command.
"""

import re
import tomllib
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any

import Stemmer  # type: ignore[import-not-found]

ENGLISH = "English"
_LISTS: dict[str, str] = tomllib.loads(
    files("slowwave.text").joinpath("stop_words.toml").read_text("utf-8")
)
STOP_WORDS = {language: frozenset(words.split()) for language, words in _LISTS.items()}
"""The stop words of languages in Latin and Cyrillic letters."""
LANGUAGES_OF = {
    word: tuple(language for language, words in STOP_WORDS.items() if word in words)
    for word in frozenset().union(*STOP_WORDS.values())
}
"""Each stop word -> the languages that have it."""
SCRIPTS = {
    "HANGUL": "Korean",
    "HIRAGANA": "Japanese",
    "KATAKANA": "Japanese",
    "CJK": "Chinese",
    "THAI": "Thai",
    "LAO": "Lao",
    "KHMER": "Khmer",
    "MYANMAR": "Burmese",
    "DEVANAGARI": "Hindi",
    "BENGALI": "Bengali",
    "TAMIL": "Tamil",
    "ARABIC": "Arabic",
    "HEBREW": "Hebrew",
    "GREEK": "Greek",
    "CYRILLIC": "Russian",
}
"""First word of a letter's name in Unicode -> the language most written with it. Japanese also has Chinese letters."""
POINTS = re.compile(
    "[\u0300-\u036f\u0591-\u05bd\u05bf-\u05c7\u0640\u064b-\u065f\u0670]"
)
"""Accents, the vowel points of Hebrew and Arabic, and the stroke that lengthens an Arabic word."""
LEAST_WORDS = 2
"""Least stop words for a language other than English in a text without accents."""
LEAST_SHARE = 0.2
"""Share of the letters from which a script decides the language. It is low, since names and code have Latin letters."""
ICU_STOP_WORDS: dict[str, Any] = {
    "base_tokenizer": "icu",
    "stem": False,
    "remove_stop_words": True,
    "max_token_length": None,
}
"""Settings of Lance's tokenizer that leaves out the stop words of ICU's list."""
READ_WORDS = 60
READ_LETTERS = 400
"""Words and letters at the start of a text that decide its language."""


def find_language(words: tuple[str, ...]) -> str | None:
    """Return the language of a text from its words, in lower case and in order; None if it is unknown.

    A stop word of several languages counts as a part of one for each. If English and another language are equal, a
    letter beyond ASCII decides against English, and English wins without one. Without such a letter, another language
    needs LEAST_WORDS stop words: "CI passes" is not Italian.
    """
    letters = "".join(words)[:READ_LETTERS]
    if not letters.isascii() and (of_script := _find_script_language(letters)):
        return of_script
    shares = defaultdict[str, float](float)
    for word in words[:READ_WORDS]:
        for language in (languages := LANGUAGES_OF.get(word, ())):
            shares[language] += 1 / len(languages)
    plain = letters.isascii()
    best = max(
        shares,
        key=lambda name: (shares[name], (name == ENGLISH) is plain),
        default=None,
    )
    if best in (None, ENGLISH) or not plain:
        return best
    return (
        best
        if sum(word in STOP_WORDS[best] for word in words[:READ_WORDS]) >= LEAST_WORDS
        else None
    )


def _find_script_language(letters: str) -> str | None:
    scripts = Counter(name_script(letter) for letter in letters if letter.isalpha())
    counts = Counter[str]()
    for script, count in scripts.items():
        if script in SCRIPTS:
            counts[SCRIPTS[script]] += count
    if counts["Japanese"]:
        counts["Japanese"] += counts.pop("Chinese", 0)
    best = max(counts, key=lambda name: counts[name], default="")
    return (
        best if counts[best] and counts[best] >= LEAST_SHARE * scripts.total() else None
    )


@lru_cache(maxsize=8_192)
def name_script(letter: str) -> str:
    """Return the first word of a letter's name, such as CYRILLIC."""
    return unicodedata.name(letter, "").split(" ")[0].split("-")[0]


@lru_cache(maxsize=65_536)
def is_stop_word(word: str, language: str | None) -> bool:
    """Return True if a lower-case word is a stop word of a language.

    For a language without a list of its own, ICU's list is used for words beyond ASCII. Return False if the language is
    None.
    """
    if language in STOP_WORDS:
        return word in STOP_WORDS[language]
    if language is None or word.isascii():
        return False
    from lance import tokenize

    # ICU's list is of all languages at once, which the other scripts keep apart
    return not tokenize(
        word.encode("utf-8", "replace").decode("utf-8"),  # half a surrogate pair
        **ICU_STOP_WORDS,
    )


def find_stop_words(words: Iterable[str], language: str | None) -> set[str]:
    """Return the lower-case words that are stop words of a language.

    ICU is asked for all words at once, since each call takes a millisecond. A word that it returns isn't one.
    """
    asked = set(words)
    if language not in STOP_WORDS and language is not None:
        from lance import tokenize

        lines = "\n".join(asked).encode("utf-8", "replace").decode("utf-8")
        asked -= {token.text for token in tokenize(lines, **ICU_STOP_WORDS)}
    return {word for word in asked if is_stop_word(word, language)}


def fold_word(word: str) -> str:
    """Return a word without accents, vowel points and case, in plain letters: "résumé" as "resume", "ﬁle" as "file"."""
    if word.isascii():
        return word.lower()
    letters = unicodedata.normalize("NFKD", word.casefold())
    return unicodedata.normalize("NFC", POINTS.sub("", letters))


@lru_cache(maxsize=65_536)
def stem_in(word: str, language: str | None) -> str:
    """Return a lower-case word's stem in a language, folded; the folded word if Snowball lacks the language."""
    stemmer = _get_stemmer(language)
    return fold_word(
        str(stemmer.stemWord(unicodedata.normalize("NFC", word))) if stemmer else word
    )


@lru_cache(maxsize=64)
def _get_stemmer(language: str | None) -> "Stemmer.Stemmer | None":
    known: Sequence[str] = Stemmer.algorithms()
    return (
        Stemmer.Stemmer(language.lower())
        if language and language.lower() in known
        else None
    )
