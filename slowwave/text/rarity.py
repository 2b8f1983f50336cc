"""How much a word tells by being rare: "celery" much, "change" little; and by it, whether a sentence states a claim.

`common_words.txt` has a line for each stem: in how many of the labelled conversations it stands. The first line is the
number of conversations. `common_words_in.txt` has in how many messages each stem of other languages stands, and, of a
word that often stands before another one, how often that has a capital: in German a noun mostly stands behind an
article, and a name does not. `python -m bench.fit.common --write` counts both.
"""

import math
from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files

from slowwave.text.languages import stem_in
from slowwave.text.sentences import split_sentences
from slowwave.text.words import compute_idf, singular_words, stem

COUNTS_FILE = "text/common_words.txt"
RESTATED = 0.7
"""Least weight of a claim's words, as a share, in a sentence that states it in other words."""
VALUE = 0.5
"""Least weight of a value's words, as a share, in a sentence that has the value."""
ADDS_LITTLE = 0.5
"""A sentence adds little to a claim if the claim has at least this share of the weight of its words."""
SHORT_VALUE = 3
"""An old value of at most so many words must stand whole in a sentence that states the claim; of a longer one its
rarest word is enough."""
LANGUAGES_FILE = "text/common_words_in.txt"
CAPITAL_NOUNS = 0.15
"""Share of words with a capital, among those behind another word, from which a language writes all nouns with one."""
BEFORE_NAMES = 0.2
"""Share of words with a capital, among those behind one word, below which a capital behind it may be a name's."""


def weigh_word(word: str) -> float:
    """Return the inverse document frequency of a lower-case word in conversations: 8 if it stands in none."""
    counts, conversations = load_counts()
    return compute_idf(counts.get(stem(word), 0), conversations)


@cache
def load_counts() -> tuple[dict[str, int], int]:
    """Return in how many conversations each stem stands, and the number of conversations."""
    content = files("slowwave").joinpath(COUNTS_FILE).read_text(encoding="utf-8")
    total, *lines = content.splitlines()
    pairs = (line.split(" ") for line in lines)
    return {word: int(count) for word, count in pairs}, int(total)


def weigh_share(words: Set[str], among: Set[str]) -> float:
    """Return the weight of the words that are in `among`, divided by the weight of all; 0 to 1."""
    # fsum does not depend on the order
    whole = math.fsum(map(weigh_word, words))
    return math.fsum(map(weigh_word, words & among)) / whole if whole else 0.0


@dataclass(frozen=True)
class ChangedClaim:
    """The words of a claim, and those of the claim that changed it: "9443" says more of a port than "port" does."""

    words: frozenset[str]
    later: frozenset[str]

    @classmethod
    def from_texts(
        cls,
        earlier: str,
        later: str,
    ) -> "ChangedClaim":
        """Read a claim and the later one."""
        return cls(singular_words(earlier), singular_words(later))

    @cached_property
    def old_value(self) -> frozenset[str]:
        """The words that the later claim lacks."""
        return self.words - self.later

    @cached_property
    def rarest(self) -> str:
        """The word of the old value that says most; empty if there is none."""
        return max(
            self.old_value,
            key=lambda word: (weigh_word(word), word),
            default="",
        )

    def has_new_value(self, sentence: Set[str]) -> bool:
        """Return True if a sentence (its singular words) has the value that the later claim has instead."""
        return weigh_share(self.later - self.words, sentence) >= VALUE

    def is_stated(self, sentence: Set[str]) -> bool:
        """Return True if a sentence states the claim in other words: it has the old value, most other words, and not
        the new value.
        """
        is_short = len(self.old_value) <= SHORT_VALUE
        value = self.old_value if is_short else {self.rarest}
        return (
            bool(value)
            and value <= sentence
            and weigh_share(self.words, sentence) >= RESTATED
            and not self.has_new_value(sentence)
        )

    def is_repeated(self, sentence: Set[str]) -> bool:
        """Return True if a sentence has no word but the claim's, and one of the old value."""
        return sentence <= self.words and bool(sentence & self.old_value)


def adds_little(text: str, claim: Set[str]) -> bool:
    """Return True if each sentence of a text has few words of weight that a claim (its singular words) lacks.

    Return False for a text without sentences, as that of a message that is a tool call alone.
    """
    sentences = [singular_words(one.text) for one in split_sentences(text)]
    return bool(sentences) and all(
        weigh_share(words, claim) >= ADDS_LITTLE for words in sentences
    )


@dataclass(frozen=True)
class Lexicon:
    """The counts of a language."""

    language: str | None = None
    """None for English, and for a language that was not counted."""
    messages: int = 0
    counts: Mapping[str, int] | None = None
    """Stem -> messages that have it."""
    before: Mapping[str, float] | None = None
    """Word -> the share of the words behind it that have a capital."""
    has_capital_nouns: bool = False

    @property
    def is_counted(self) -> bool:
        """Return True if it is that of a language other than English."""
        return self.language is not None

    def stem(self, word: str) -> str:
        """Return the stem of a lower-case word."""
        return stem_in(word, self.language) if self.is_counted else stem(word)

    def weigh(self, word: str) -> float:
        """Return the weight of a lower-case word by its rarity, as `weigh_word`."""
        if self.counts is None:
            return weigh_word(word)
        return compute_idf(self.counts.get(self.stem(word), 0), self.messages)

    def may_precede_name(self, word: str) -> bool:
        """Return True if few words behind a lower-case word have a capital, so that one that has it may be a name."""
        if not self.has_capital_nouns or self.before is None:
            return True
        return self.before.get(word, 0.0) < BEFORE_NAMES


def get_lexicon(language: str | None) -> Lexicon:
    """Return the counts of a language; those of English if there are none of it."""
    return _load_lexicons().get(language or "", ENGLISH_LEXICON)


ENGLISH_LEXICON = Lexicon()


@cache
def _load_lexicons() -> dict[str, Lexicon]:
    """Return the counts of each language but English."""
    content = files("slowwave").joinpath(LANGUAGES_FILE).read_text(encoding="utf-8")
    sections = content.split("[")[1:]
    return {lexicon.language or "": lexicon for lexicon in map(_read_section, sections)}


def _read_section(section: str) -> Lexicon:
    """Return the counts of a language's section of the file."""
    head, *lines = section.splitlines()
    language, _, messages = head.partition("] ")
    rows = [line.split(" ") for line in lines]
    pairs = [(row[0], int(row[1]), int(row[2])) for row in rows if row[2:]]
    shares = [capitals / places for _, places, capitals in pairs]
    total = sum(places for _, places, _ in pairs)
    return Lexicon(
        language=language,
        messages=int(messages),
        counts={row[0]: int(row[1]) for row in rows if not row[2:]},
        before={pair[0]: share for pair, share in zip(pairs, shares, strict=True)},
        has_capital_nouns=sum(pair[2] for pair in pairs) > CAPITAL_NOUNS * total,
    )
