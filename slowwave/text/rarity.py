"""How much a word tells by being rare: "celery" much, "change" little.

`common_words.txt` has a line for each stem: in how many of the labelled conversations it stands. The first line is the
number of conversations. `python -m bench.fit.common --write` counts them.
"""

from functools import cache
from importlib.resources import files

from slowwave.text.words import compute_idf, stem

COUNTS_FILE = "text/common_words.txt"


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
