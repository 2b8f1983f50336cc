"""How likely a word is a secret: a logistic regression on its letters and on the words around it.

What `rules.py` knows by form or by an assignment needs no guess. This judges what is left: a word that mixes
letters and figures near words such as "password" in any of a dozen languages, in a prompt, a table, code or prose, with
the name in one field and the value in the next. It was learnt from lines made of `data/labelled/secrets.tsv`
(`python -m bench.fit.secrets`). Cost: a word that mixes letters and figures takes some 30 µs.
"""

import io
import math
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

MODEL_FILE = "score.npz"
BUCKETS = 8_192
"""Numbers that features are hashed to."""
LEFT = 90
RIGHT = 50
LINES = 160
"""Letters of its line before and after a candidate, and of the lines before it, that are looked at."""
LONGEST = 512
CANDIDATE = re.compile(r"(?:[A-Za-z0-9!#$%*^@+/=_.~-]|[?&](?!\w{1,40}=)){6,}")
"""A run of letters, figures and signs; a query's parameters are runs of their own."""
_VALUE = re.compile(r"(?:[A-Za-z][\w.-]*=|-[pP](?=[A-Z0-9]))(?=[^=])")
_FIGURE = re.compile(r"[0-9]")
_LETTER = re.compile(r"[A-Za-z]")
_MARK = re.compile(r"\[redacted:[a-z-]+\]")
_MARKED = re.compile(r"""\[redacted:[a-z-]+\][^\s"',;]*\Z""")
_WORD = re.compile(r"[^\W\d_]+")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|_")
_NUMBERED = re.compile(r"(?:[A-Z]?+[a-z]{3,}+[0-9]{0,5}+[-_.]?+)++\Z")
_HEX = re.compile(r"[0-9a-fA-F-]+\Z")
_SHAPES = tuple(
    map(
        re.compile,
        (r"[A-Z]", r"[a-z]", r"[!#$%&*?^@]", r"[+/=]", r"\.", r"_", r"-", r"/"),
    )
)
_ENDS_IN_FIGURES = re.compile(r"[^0-9]+[0-9]+\Z")
_RUN = re.compile(r"[b-df-hj-np-tv-xzB-DF-HJ-NP-TV-XZ]{4}")
_VOWEL = re.compile(r"[aeiouyAEIOUY]")
_LENGTHS = (7, 9, 12, 16, 24, 33, 45, 70)


@dataclass(frozen=True)
class SecretModel:
    """The weights that ship."""

    weights: list[float]
    bias: float

    def compute_probability(self, text: str, start: int, end: int) -> float:
        """Return the probability that a part of a text is a secret, 0 to 1."""
        logit = self.bias + float(
            sum(
                self.weights[hash_feature(one)]
                for one in list_features(text, start, end)
            )
        )
        return 1 / (1 + math.exp(-max(-50.0, min(50.0, logit))))


@cache
def load_secret_model() -> SecretModel:
    """Return the model that ships."""
    raw = files("slowwave.text.secrets").joinpath(MODEL_FILE).read_bytes()
    with np.load(io.BytesIO(raw), allow_pickle=False) as kept:
        return SecretModel(
            kept["weights"].astype(np.float64).tolist(), float(kept["bias"])
        )


def find_secrets(text: str, least: float) -> Iterator[tuple[int, int]]:
    """Yield start and end of each word that is a secret with a probability of `least`, in order.

    A name with a number ("Brother42", "libx11") is left to the rules: things are called so more often than secrets are.
    """
    model = load_secret_model()
    for start, end in iter_candidates(text):
        if _MARKED.search(text[max(0, start - LEFT) : start]):
            continue  # what is left of a word of which the secret is masked already
        if is_numbered_name(text[start:end]):
            continue
        if model.compute_probability(text, start, end) >= least:
            yield start, end


def is_numbered_name(word: str) -> bool:
    """Return True if each part of a word can be spoken and may end in figures: "Fritz7590", "libx11-common3"."""
    return bool(_NUMBERED.match(word)) and all(
        _VOWEL.search(part) and not _RUN.search(part) for part in _WORD.findall(word)
    )


def iter_candidates(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of the words that mix letters and figures; of `name=value` the value."""
    for match in CANDIDATE.finditer(text):
        start = match.start()
        word = match[0].rstrip(".?!-")
        if text[start - 1 : start] == "\\":  # an escape's letter is no part of the word
            if word[0] in "ux":
                continue
            start = start + 1
            word = word[1:]
        while value := _VALUE.match(word):
            start = start + value.end()
            word = word[value.end() :]
        if 6 <= len(word) <= LONGEST and _FIGURE.search(word) and _LETTER.search(word):
            yield start, start + len(word)


def list_features(text: str, start: int, end: int) -> list[str]:
    """Return what is known of a part of a text, as names of features: its letters, and the words around it by place."""
    line = text.rfind("\n", 0, start) + 1
    left = _MARK.sub("", text[max(line, start - LEFT) : start])
    right = _MARK.sub("", text[end : end + RIGHT].partition("\n")[0])
    above = _MARK.sub("", text[max(0, line - LINES) : max(0, line - 1)])
    word = text[start:end]
    return list(
        dict.fromkeys(
            (
                *_list_shapes(word),
                *_list_parts(word),
                *_list_context(left, right, above),
            )
        )
    )


def _list_shapes(word: str) -> Iterator[str]:
    """Yield features of a word's letters: how many there are, and of what kinds."""
    shape = "".join(str(int(bool(pattern.search(word)))) for pattern in _SHAPES)
    length = sum(len(word) >= edge for edge in _LENGTHS)
    yield from (f"length {length}", f"shape {shape}", f"shape {shape} {length}")
    yield from (
        f"hex {bool(_HEX.match(word))} {length}",
        f"ends {bool(_ENDS_IN_FIGURES.match(word))}",
    )
    yield from (
        f"run {bool(_RUN.search(word))}",
        f"figures {round(4 * len(_FIGURE.findall(word)) / len(word))}",
    )


def _list_parts(word: str) -> Iterator[str]:
    """Yield features of the words within a word: whether they could be spoken, and how they begin."""
    parts = [part for part in _WORD.findall(word) if len(part) > 2]
    spoken = sum(bool(_VOWEL.search(part)) and not _RUN.search(part) for part in parts)
    yield from (
        f"parts {min(3, spoken)} of {min(3, len(parts))}",
        f"slashes {min(3, word.count('/'))}",
    )
    yield from (f"in {part[:6]}" for part in _list_words(word) if len(part) > 3)


def _list_context(left: str, right: str, above: str) -> Iterator[str]:
    """Yield features of what stands before a word, after it, and in the lines above."""
    yield from (f"before {left[-2:]}", f"before {left[-1:]}", f"after {right[:1]}")
    for at, part in enumerate(reversed(_list_words(left))):
        for name in _name(part):
            yield from (f"left {min(2, at // 2)} {name}", f"any {name}")
    for at, part in enumerate(_list_words(right)[:6]):
        yield from (f"right {at // 3} {name}" for name in _name(part))
    for part in _list_words(above)[-12:]:
        yield from (f"above {name}" for name in _name(part))


def hash_feature(name: str) -> int:
    """Return the number that a feature has."""
    return zlib.crc32(name.encode("utf-8", "replace")) % BUCKETS


def _list_words(text: str) -> list[str]:
    return [
        part.casefold()
        for word in _WORD.findall(_CAMEL.sub(" ", text))
        for part in word.split()
    ]


def _name(word: str) -> tuple[str, ...]:
    """Return the names that a word of the context has: its first letters, more and fewer of them."""
    return (word[:7],) if len(word) <= 4 else (word[:7], f"{word[:4]}~")
