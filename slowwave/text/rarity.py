"""How much a word tells by being rare: "celery" much, "change" little; and by it, whether a sentence states a claim.

`common_words.txt` has a line for each stem: in how many of the labelled conversations it stands. The first line is the
number of conversations. `python -m bench.fit.common --write` counts them.
"""

import math
from collections.abc import Set
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files

from slowwave.text.words import compute_idf, singular_words, stem

COUNTS_FILE = "text/common_words.txt"
RESTATED = 0.7
"""Least weight of a claim's words, as a share, in a sentence that states it in other words."""
VALUE = 0.5
"""Least weight of a value's words, as a share, in a sentence that has the value."""
ECHOED = 0.5
"""Least weight of a sentence's words, as a share, that the claim has of which it is an echo."""
SHORT_VALUE = 3
"""Most words of an old value that a sentence which states the claim must have all of."""


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
    def from_texts(cls, earlier: str, later: str = "") -> "ChangedClaim":
        """Read a claim and the later one; without a later one, all words of the claim are its old value."""
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

    def is_echoed(self, sentence: Set[str]) -> bool:
        """Return True if a sentence says hardly more than the claim, or a part of it, and has not the new value."""
        is_part = weigh_share(sentence, self.words) >= ECHOED
        return is_part and not self.has_new_value(sentence)
