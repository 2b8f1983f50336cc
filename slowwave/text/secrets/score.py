"""How likely a word is a secret: a logistic regression on its letters, the words around it and how it is set off.

`rules.py` decides what is known by its form or by an assignment. This scores the rest: a word that mixes letters and
figures, in a prompt, a command, a table, code or prose, with its name before it, after it or in another field. It is
fitted on lines made of `data/labelled/secrets.tsv` (`python -m bench.fit.secrets`). Words of the context count by
their 4-grams, so that related languages and unseen names share weights; the signs around the candidate count
without any words. Cost: about 100 µs a candidate.
"""

import io
import math
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from itertools import pairwise

import numpy as np

MODEL_FILE = "score.npz"
BUCKETS = 16_384
"""Number of weights that features are hashed to."""
LEFT = 90
RIGHT = 50
LINES = 160
"""Letters of its line before and after a candidate, and of the lines before it, that are looked at."""
LONGEST = 512
CANDIDATE = re.compile(r"(?:[A-Za-z0-9!#$%*^@+/=_.~-]|[?&](?!\w{1,40}=)){6,}")
"""A run of letters, figures and signs; a query's parameters are runs of their own."""
_VALUE = re.compile(r"(?:-{0,2}[A-Za-z][\w.-]*=|-[pP](?=[A-Z0-9]))(?=[^=])")
_FIGURE = re.compile(r"[0-9]")
_LETTER = re.compile(r"[A-Za-z]")
_MARK = re.compile(r"\[redacted:[a-z-]+\]")
_MARKED = re.compile(r"""\[redacted:[a-z-]+\][^\s"',;]*\Z""")
_WORD = re.compile(r"[^\W\d_]+")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|_")
_NUMBERED = re.compile(r"(?:[A-Z]?+[a-z]{3,}+[0-9]{0,5}+[-_.]?+)++\Z")
_RUNS = re.compile(r"[^\W\d_]+|\d+|\s+|.", re.DOTALL)
"""What a line is made of: words, numbers, white space, and each other sign."""
_CASES = re.compile(r"[A-Z]+|[a-z]+|[0-9]+|[^A-Za-z0-9]+")
"""What a candidate is made of: letters of one case, figures, signs."""
_COLOUR = re.compile(r"(?<=\x1b\[)[0-9;]*[A-Za-z]")
"""The rest of a terminal's code, glued to the word that it colours."""
NEAR = 4
"""Words before a candidate whose n-grams count; of those after it one less."""
LONGEST_WORD = 16
UNSPACED = "\u2e00"
"""From here on are the letters of writing without spaces (Chinese, Japanese, Korean)."""
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
PAIRED = 48
"""Letters of a word whose pairs count: those of a long one would outweigh all that stands around it."""
_LENGTHS = (7, 9, 12, 16, 24, 33, 45, 70)


@dataclass(frozen=True)
class SecretModel:
    """The weights that ship."""

    weights: list[float]
    bias: float

    def compute_probability(
        self,
        text: str,
        start: int,
        end: int,
    ) -> float:
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
    """Yield start and end of each word that is a secret with a probability of `least`, in order."""
    model = load_secret_model()
    for start, end in iter_candidates(text):
        if _MARKED.search(text[max(0, start - LEFT) : start]):
            continue  # what is left of a word of which the secret is masked already
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
        if colour := _COLOUR.match(text, start):
            start = min(colour.end(), match.end())
        word = text[start : match.end()].rstrip(".?!-")
        if text[start - 1 : start] == "\\":  # an escape's letter isn't in the word
            if word[:1] in ("u", "x"):
                continue
            start = start + 1
            word = word[1:]
        while value := _VALUE.match(word):
            start = start + value.end()
            word = word[value.end() :]
        if 6 <= len(word) <= LONGEST and _FIGURE.search(word) and _LETTER.search(word):
            yield start, start + len(word)


def list_features(
    text: str,
    start: int,
    end: int,
) -> list[str]:
    """Return the features of a part of a text: its letters, the words around it, and the signs that set it off."""
    line = text.rfind("\n", 0, start) + 1
    left = _MARK.sub("", text[max(line, start - LEFT) : start])
    right = _MARK.sub("", text[end : end + RIGHT].partition("\n")[0])
    above = _MARK.sub("", text[max(0, line - LINES) : max(0, line - 1)])
    word = text[start:end]
    inner, before, after, over = map(_list_words, (word, left, right, above))
    features = (
        *_list_shapes(word),
        *_list_parts(word, inner),
        *_list_letters(word),
        *_list_context(before, after, over),
        *_list_near(before, after, over),
        f"repeated {_is_repeated(inner, (*before, *after))}",
        f"above ends {_describe_end(above)}",
        f"before {left[-2:]}",
        f"before {left[-1:]}",
        f"after {right[:1]}",
        *_list_frames(left, right, begins=line >= start - LEFT),
    )
    return list(dict.fromkeys(features))


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


def _list_parts(word: str, words: Sequence[str]) -> Iterator[str]:
    """Yield features of the words within a word: whether they could be spoken, and how they begin."""
    parts = [part for part in _WORD.findall(word) if len(part) > 2]
    spoken = 0
    for part in parts:
        if _VOWEL.search(part) and not _RUN.search(part):
            spoken += 1
    slashes = min(3, word.count("/"))
    yield f"parts {min(3, spoken)} of {min(3, len(parts))}"
    yield f"slashes {slashes}"
    for part in words:
        if len(part) > 3:
            yield f"in {part[:6]}"


def _list_context(
    before: Sequence[str],
    after: Sequence[str],
    above: Sequence[str],
) -> Iterator[str]:
    """Yield features of the words before a candidate, after it, and in the lines above."""
    for at, part in enumerate(reversed(before)):
        place = min(2, at // 2)
        for name in _name(part):
            yield f"left {place} {name}"
            yield f"any {name}"
    for at, part in enumerate(after[:6]):
        place = at // 3
        for name in _name(part):
            yield f"right {place} {name}"
    for part in above[-12:]:
        for name in _name(part):
            yield f"above {name}"


def _list_letters(word: str) -> Iterator[str]:
    """Yield features of a word's letters in their order: changes of kind, and pairs of neighbours."""
    length = sum(len(word) >= edge for edge in _LENGTHS)
    cases = _CASES.findall(word)
    start = ""
    for run in cases[:4]:
        start += _name_case(run)
        start += str(min(3, len(run)))
    yield f"runs {min(8, len(cases))} {length}"
    yield f"pattern {start} {len(cases) > 4}"
    yield f"numbered {is_numbered_name(word)}"
    lower = word[:PAIRED].lower()
    for pair in map("".join, pairwise(lower)):
        if pair.isalpha():
            yield f"pair {pair}"


def _name_case(run: str) -> str:
    """Return U, l or d for capitals, small letters and figures; the first sign of others."""
    if run[0].isdigit():
        return "d"
    if run[0].isalpha():
        return "U" if run[0].isupper() else "l"
    return run[0]


def _list_near(
    before: Sequence[str],
    after: Sequence[str],
    above: Sequence[str],
) -> Iterator[str]:
    """Yield features of how many words there are, and of the n-grams of the nearest."""
    yield f"words {min(6, len(before))} {min(3, len(after))}"
    sides = (
        ("left", before[-NEAR:]),
        ("right", after[: NEAR - 1]),
        ("above", above[-2:]),
    )
    for side, words in sides:
        for part in words:
            for gram in _list_grams(part):
                yield f"near {side} {gram}"


def _is_repeated(words: Sequence[str], around: Sequence[str]) -> bool:
    """Return True if a word of four letters or more, of these, stands around a candidate too."""
    return any(len(part) > 3 and part in around for part in words)


def _describe_end(above: str) -> str:
    """Describe the end of the line above: its last sign, and the number of its words."""
    last = above.rstrip().rpartition("\n")[2]
    return f"{_name_run(last[-1:] or ' ')} {min(4, len(last.split()))}"


@lru_cache(maxsize=4096)
def _list_grams(word: str) -> list[str]:
    """Return the 4-grams of a word with its borders; of writing without spaces the pairs of letters."""
    if word > UNSPACED:
        return list(map("".join, pairwise(word)))
    whole = f"<{word[:LONGEST_WORD]}>"
    return [whole[at : at + 4] for at in range(max(1, len(whole) - 3))]


def _list_frames(
    left: str,
    right: str,
    *,
    begins: bool,
) -> Iterator[str]:
    """Yield features of the signs before and after a candidate, whatever the words are: `a: "` and `"$`.

    Args:
        left: what stands before it in its line.
        right: what stands after it.
        begins: whether `left` reaches to the start of the line.
    """
    before = list(map(_name_run, _RUNS.findall(left)[-NEAR:]))
    before.insert(0, "^" if begins else "")
    after = list(map(_name_run, _RUNS.findall(right)[:3]))
    after.append("$" if len(right) < RIGHT else "")
    for count in (2, 3, 4):
        signs = "".join(before[-count:])
        yield f"frame left {signs}"
    for count in (1, 2, 3):
        signs = "".join(after[:count])
        yield f"frame right {signs}"
    two = "".join(before[-2:])
    yield f"frame {two}|{after[0]}"
    three = "".join(before[-3:])
    next_two = "".join(after[:2])
    yield f"frame {three}|{next_two}"


def _name_run(run: str) -> str:
    """Return `a` for a word, 0 for a number, a space for white space, or the sign."""
    if run[0].isalpha():
        return "a"
    if run[0].isdigit():
        return "0"
    return " " if run[0].isspace() else run[0]


def hash_feature(name: str) -> int:
    """Return the number that a feature has."""
    return zlib.crc32(name.encode("utf-8", "replace")) % BUCKETS


def _list_words(text: str) -> list[str]:
    """Return the words of a text in lower case; those of camel case are apart."""
    return [
        part.casefold()
        for word in _WORD.findall(_CAMEL.sub(" ", text))
        for part in word.split()
    ]


def _name(word: str) -> tuple[str, ...]:
    """Return the names that a word of the context has: its first letters, more and fewer of them."""
    return (word[:7],) if len(word) <= 4 else (word[:7], f"{word[:4]}~")
