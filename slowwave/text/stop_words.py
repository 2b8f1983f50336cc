"""Count the stop words of a memory: the words that stand in many of its texts of a language.

The lists of stop words (`stop_words.toml`) lack negations, question words and what people often say. English texts keep
their lists, to which recall is fitted.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from slowwave.text.languages import ENGLISH
from slowwave.text.words import find_text_language, split_words

LEAST_TEXTS = 40
"""Least texts of a language whose words are counted. In fewer texts a common word may be what they are about."""
MOST_SHARE = 0.1
"""Share of a language's texts above which a word is a stop word (`docs/decisions/045-words-counted.md`)."""
COUNTED_CHARS = 2_000
"""Characters at the start of a text whose words are counted."""


@dataclass(frozen=True)
class MemoryWords:
    """The languages of a memory, and the stop words that were counted in each."""

    main: str | None = None
    """The language of most texts that have one; None if none has most."""
    stop_words: Mapping[str, frozenset[str]] = field(default_factory=dict, hash=False)
    """Each language other than English with enough texts -> its counted stop words, in lower case."""

    def find_language(self, text: str) -> str | None:
        """Return the language of a text of the memory.

        If most of the memory is in another language than English, a text in a language with few texts, or in none that
        is known, counts as in that one: "On ne déploie pas" has more stop words of Finnish.
        """
        return self.settle_language(find_text_language(text))

    def settle_language(self, language: str | None) -> str | None:
        """Return the language of a text of the memory, given what `find_text_language` says of it."""
        if self.main in (None, ENGLISH) or language in {ENGLISH, *self.stop_words}:
            return language
        return self.main

    def describe(self) -> str:
        """Return it as a text, equal for equal memories."""
        stop_words = {
            language: sorted(self.stop_words[language])
            for language in sorted(self.stop_words)
        }
        return f"{self.main} {stop_words}"


UNKNOWN_MEMORY = MemoryWords()
"""Stands for a memory whose texts were not counted: each text has its own language, and the lists of stop words."""


def count_stop_words(texts: Iterable[str]) -> MemoryWords:
    """Return the languages of texts, and the words of each that stand in more than MOST_SHARE of its texts."""
    by_language = defaultdict[str, list[str]](list)
    for text in texts:
        if language := find_text_language(text):
            by_language[language].append(text)
    known = sum(map(len, by_language.values()))
    main = max(by_language, key=lambda name: len(by_language[name]), default="")
    return MemoryWords(
        main if 2 * len(by_language[main]) > known else None,
        {
            language: _find_common_words(said)
            for language, said in by_language.items()
            if language != ENGLISH and len(said) >= LEAST_TEXTS
        },
    )


def _find_common_words(texts: list[str]) -> frozenset[str]:
    counts = Counter(
        word for text in texts for word in set(split_words(text[:COUNTED_CHARS]))
    )
    return frozenset(
        word for word, count in counts.items() if count > MOST_SHARE * len(texts)
    )
