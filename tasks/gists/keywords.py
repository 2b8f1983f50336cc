"""`extract_keywords`: texts in, the phrases nearest to each text's meaning out, with KeyBERT (Grootendorst 2020).

KeyBERT's maximal marginal relevance picks; the vectors are ours: an n-gram is encoded once across calls, and the
documents' vectors are the claims' own. The keywords are those of KeyBERT called per document with the same candidates
(docs/decisions/007-keywords.md): runs of words between stop words and punctuation.
"""

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from slowwave.engines.encoders.protocol import Encoder, Vectors
from slowwave.text.languages import ENGLISH, is_stop_word
from slowwave.text.words import (
    ENGLISH_STOP,
    LETTER,
    UNSPACED,
    find_text_language,
    put_spaces,
)

BATCH_TEXTS = 256
"""Texts whose n-grams are encoded in one call."""
TOKEN = re.compile(
    rf"(?:(?<![\w.])[.@]|(?<!\S)--)?{LETTER}(?:[-./:@]{LETTER}|['’]{LETTER}|(?<=\d),\d{{3}}(?!\w))*(?:\+\+|#(?!\w))?"
    r"|[^\w\s]"
)
"""`.env`, `--fix`, `src/app/main.py`, `3.11`, `snake_case`, `web-based`, `1,800`, `c++`; or one sign: a border."""
IDLE_WORDS = """
    actually also anyway awesome basically btw can cannot could did do does done e.g etc going gonna got great guess ha
    haha having hello hey hi hmm http https huh i.e just kind kinda let lol lot lots maybe mm mmm nah nope oh ok okay
    please pretty really right say said sort stuff sure thank thanks thing things totally uh um wanna want wanted wants
    way well went wow yea yeah yep yes
"""
"""Stop words of chats that scikit-learn's list lacks."""
JOIN = re.compile(rf"(?<={UNSPACED.pattern}) (?={UNSPACED.pattern})")
STOP_WORDS = ENGLISH_STOP.union(IDLE_WORDS.split())


def extract_keywords(
    texts: Sequence[str],
    vectors: Vectors,
    encoder: Encoder,
    top: int,
    diversity: float = 0.3,
) -> list[list[str]]:
    """Return keywords of each text, the nearest first; none for one without a candidate.

    Args:
        texts: any strings.
        vectors: theirs, shape (len(texts), dim).
        encoder: of n-grams; one that remembers those of earlier calls saves most.
        top: how many, at most.
        diversity: weight of the keywords' difference from each other, 0 to 1.
    """
    keywords: list[list[str]] = []
    for start in range(0, len(texts) if top else 0, BATCH_TEXTS):
        batch = [
            sorted(set(extract_phrases(text)))
            for text in texts[start : start + BATCH_TEXTS]
        ]
        ngrams = list(dict.fromkeys(phrase for phrases in batch for phrase in phrases))
        vectors_of = dict(zip(ngrams, encoder.encode(ngrams), strict=True))
        from sklearn import config_context

        pick = load_mmr()
        with config_context(assume_finite=True, skip_parameter_validation=True):
            # A third of its time.
            for vector, phrases in zip(
                vectors[start : start + BATCH_TEXTS], batch, strict=True
            ):
                near = (
                    [phrase for phrase in phrases if vectors_of[phrase].any()]
                    if vector.any()
                    else []
                )
                stacked = [vectors_of[phrase] for phrase in near]
                picked = (
                    pick(vector[None], np.stack(stacked), near, top, diversity)
                    if near
                    else []
                )
                keywords.append([word for word, _ in picked])
    return keywords or [[] for _ in texts]


@cache
def load_mmr() -> Callable[..., list[tuple[str, float]]]:
    """Return KeyBERT's choice of keywords, imported as where its encoders and models are not installed: they bring
    torch, which takes 3 to 15 s, and the vectors here are made without.
    """
    names = {"sentence_transformers", "transformers", "huggingface_hub"}
    hidden: dict[str, Any] = dict.fromkeys(names - sys.modules.keys())
    sys.modules.update(hidden)  # None is Python's own way to say: not there
    try:
        from keybert._mmr import mmr
    finally:
        for name in hidden:
            del sys.modules[name]
    return mmr  # type: ignore[no-any-return]  # KeyBERT has no types


def count_phrases(text: str, top: int, max_words: int = 3) -> list[str]:
    """Return without a model the runs of at most `max_words` words that take up most of a text; of equals the first."""
    runs = Counter(
        join_words(run) for run in split_word_runs(text) if len(run) <= max_words
    )
    names = [run for run in runs if not run.replace(" ", "").isdecimal()]
    return sorted(names, key=lambda run: -runs[run] * len(run.split()))[:top]


def extract_phrases(text: str, max_words: int = 3) -> list[str]:
    """Return lower-cased candidates, repeats included: each run of words, in windows of `max_words`, and each word of
    it.

    A number alone is none; a version or a number with its noun is.
    """
    phrases: list[str] = []
    for run in split_word_runs(text):
        phrases += [word for word in run if not word.replace(",", "").isdecimal()]
        size = min(len(run), max_words)
        if size > 1:
            phrases += [
                join_words(run[at : at + size]) for at in range(len(run) - size + 1)
            ]
    return phrases


def join_words(words: Sequence[str]) -> str:
    """Return words as a phrase, with a space between them where their script puts one."""
    return JOIN.sub("", " ".join(words))


def split_word_runs(text: str) -> Iterator[list[str]]:
    """Yield lower-cased words that stand together, between punctuation and the stop words of the text's language."""
    run: list[str] = []
    language = find_text_language(text)
    is_english = language in (None, ENGLISH)
    for token in [*TOKEN.findall(put_spaces(text).lower()), "."]:
        word, apostrophe, ending = token.replace("’", "'").partition("'")
        is_idle = word in STOP_WORDS if is_english else is_stop_word(word, language)
        if len(word) > 1 and not is_idle and (not apostrophe or ending == "s"):
            run.append(word)
        elif run:
            yield run
            run = []
