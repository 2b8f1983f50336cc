"""Candidates for keywords: the phrases of a text, without a model. About 6 MB of text a second.

A phrase lies between stop words and punctuation (RAKE, Rose et al. 2010). KeyBERT's own vectorizer drops stop words
first and joins what stood on both sides of them ("advisers tools pick"); on Inspec these borders double its F1.
File names, paths, versions, snake_case and hyphenated words stay whole.
"""

import re
from collections.abc import Iterator

from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

TOKEN = re.compile(r"(?:(?<![\w.])[.@]|(?<!\S)--)?\w+(?:[-./:@]\w+|['’]\w+)*(?:\+\+|#(?!\w))?|[^\w\s]")
"""`.env`, `--fix`, `src/app/main.py`, `3.11`, `snake_case`, `web-based`, `c++`; or one sign, which is a border."""

IDLE_WORDS = """
    actually also anyway awesome basically btw can cannot could did do does done e.g etc going gonna got great guess ha
    haha having hello hey hi hmm http https huh i.e just kind kinda let lol lot lots maybe mm mmm nah nope oh ok okay
    please pretty really right say said sort stuff sure thank thanks thing things totally uh um wanna want wanted wants
    way well went wow yea yeah yep yes
"""
"""Stop words of chats that scikit-learn's list lacks."""

STOP_WORDS = ENGLISH_STOP_WORDS.union(IDLE_WORDS.split())


def phrases(text: str, max_words: int) -> list[str]:
    """Lower-cased candidates, repeats included: each run of words, in windows of `max_words`, and each word of it.

    A number alone is none; a version or a number with its noun is.
    """
    found: list[str] = []
    for run in runs(text):
        found += [word for word in run if not word.isdecimal()]
        size = min(len(run), max_words)
        if size > 1:
            found += [" ".join(run[at : at + size]) for at in range(len(run) - size + 1)]
    return found


def runs(text: str) -> Iterator[list[str]]:
    """Lower-cased words that stand together, between stop words and punctuation."""
    run: list[str] = []
    for token in TOKEN.findall(text.lower()):
        word = bare(token)
        if word:
            run.append(word)
        elif run:
            yield run
            run = []
    if run:
        yield run


def bare(token: str) -> str:
    """The token without a possessive 's; nothing for stop words, single letters, signs and contractions."""
    word, apostrophe, ending = token.replace("’", "'").partition("'")
    if (apostrophe and ending != "s") or len(word) < 2 or word in STOP_WORDS:
        return ""
    return word
