"""`extract_keywords`: texts in, the phrases nearest to each text's meaning out, as KeyBERT does (Grootendorst 2020).

An n-gram is encoded once across calls, the documents' vectors are the claims' own, and maximal marginal relevance picks
(Carbonell & Goldstein, 1998). The keywords are those of KeyBERT called per document with the same candidates
(docs/decisions/007-keywords.md): runs of words between stop words and punctuation.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

from slowwave.engines.encoders.protocol import Encoder, Vectors
from slowwave.text.words import ENGLISH_STOP

BATCH_TEXTS = 256
"""Texts whose n-grams are encoded in one call."""
TOKEN = re.compile(
    r"(?:(?<![\w.])[.@]|(?<!\S)--)?\w+(?:[-./:@]\w+|['’]\w+|(?<=\d),\d{3}(?!\w))*(?:\+\+|#(?!\w))?|[^\w\s]"
)
"""`.env`, `--fix`, `src/app/main.py`, `3.11`, `snake_case`, `web-based`, `1,800`, `c++`; or one sign: a border."""
IDLE_WORDS = """
    actually also anyway awesome basically btw can cannot could did do does done e.g etc going gonna got great guess ha
    haha having hello hey hi hmm http https huh i.e just kind kinda let lol lot lots maybe mm mmm nah nope oh ok okay
    please pretty really right say said sort stuff sure thank thanks thing things totally uh um wanna want wanted wants
    way well went wow yea yeah yep yes
"""
"""Stop words of chats that scikit-learn's list lacks."""
STOP_WORDS = ENGLISH_STOP.union(IDLE_WORDS.split())


def extract_keywords(
    texts: Sequence[str], vectors: Vectors, encoder: Encoder, top: int, diversity: float = 0.3
) -> list[list[str]]:
    """Return keywords of each text, the nearest first; none for one without a candidate.

    Args:
        texts: any strings.
        vectors: theirs, shape (len(texts), dim).
        encoder: of n-grams; one that remembers those of earlier calls saves most.
        top: how many, at most.
        diversity: weight of the keywords' difference from each other, 0 to 1.
    """
    found: list[list[str]] = []
    for start in range(0, len(texts) if top else 0, BATCH_TEXTS):
        batch = [sorted(set(extract_phrases(text))) for text in texts[start : start + BATCH_TEXTS]]
        places = {phrase: at for at, phrase in enumerate(dict.fromkeys(chain(*batch)), len(batch))}
        both = np.concatenate([vectors[start : start + BATCH_TEXTS], encoder.encode([*places])])
        both /= np.maximum(np.sqrt(np.einsum("ij,ij->i", both, both)), 1e-6)[:, None]  # kept vectors are rounded
        for vector, phrases in zip(both[: len(batch)], batch, strict=True):
            near = both[[places[phrase] for phrase in phrases]]
            found.append(_pick_phrases(vector, near, phrases, top, diversity) if phrases else [])
    return found or [[] for _ in texts]


def _pick_phrases(vector: Vectors, near: Vectors, phrases: list[str], top: int, diversity: float) -> list[str]:
    """Return the phrases (their vectors are `near`) that are like the text and unlike each other, the nearest first."""
    likeness, between = near @ vector, near @ near.T
    picked = [int(likeness.argmax())]
    while len(picked) < min(top, len(phrases)):
        gain = (1 - diversity) * likeness - diversity * between[picked].max(axis=0)
        gain[picked] = -np.inf
        picked.append(int(gain.argmax()))
    return [phrases[at] for at in sorted(picked, key=lambda at: -round(float(likeness[at]), 4))]


def count_phrases(text: str, top: int, max_words: int = 3) -> list[str]:
    """Return without a model the runs of at most `max_words` words that take up most of a text; of equals the first."""
    runs = Counter(" ".join(run) for run in split_word_runs(text) if len(run) <= max_words)
    names = [run for run in runs if not run.replace(" ", "").isdecimal()]
    return sorted(names, key=lambda run: -runs[run] * len(run.split()))[:top]


def extract_phrases(text: str, max_words: int = 3) -> list[str]:
    """Return lower-cased candidates, repeats included: each run of words, in windows of `max_words`, and each word of
    it.

    A number alone is none; a version or a number with its noun is.
    """
    found: list[str] = []
    for run in split_word_runs(text):
        found += [word for word in run if not word.replace(",", "").isdecimal()]
        size = min(len(run), max_words)
        if size > 1:
            found += [" ".join(run[at : at + size]) for at in range(len(run) - size + 1)]
    return found


def split_word_runs(text: str) -> Iterator[list[str]]:
    """Yield lower-cased words that stand together, between stop words and punctuation."""
    run: list[str] = []
    for token in [*TOKEN.findall(text.lower()), "."]:
        word, apostrophe, ending = token.replace("’", "'").partition("'")
        if len(word) > 1 and word not in STOP_WORDS and (not apostrophe or ending == "s"):
            run.append(word)
        elif run:
            yield run
            run = []
